"""Kernels of tied softmax attention with two tokens and rank 1: stable forms, proved equal to the derivation.

All exponentials are written in ``E = exp(-u)`` and ``F = exp(-|w|)`` with u = beta x_m^2 and w = beta x_p
x_m, so that

    s = Ns/D,  tau = Nt/D,  D = (E + F)(1 + E F),  Ns = sign(w) (1 - F^2) E,  Nt = (1 - E^2) F.

Numerators and denominator have degree one in (E, F) up to terms in E F, E^2, F^2: a common factor e^m
cancels, which keeps float64 exponents in range for any magnitude.
"""

from dataclasses import dataclass

import sympy as sp

from .. import symbols as sym
from ..architecture import Architecture
from ..mixing import activate
from ..primitives import CopySign, Exp, Expit, Expm1, Guard, Largest, Log1p, Magnitude, Smallest, elementary, stable
from ..proof import prove_equal
from ..readout import invert, log_odds
from ..softmax_pair import pair_layer
from .kernel import Kernel, KernelPackage

__all__ = ["PACKAGE"]

# With u <= m + 600 the scaled exponential exp(m - u) stays above 1e-261, and products of two above zero
# where needed.
_ROOM = 600
# Where m - |w| > 350 the ratio E/F is below exp(-950): the clamp changes nothing in float64.
_CEILING = 350
# So much can the exponents change in a step of a geometric sequence: 24 of them add 288 to the ceiling.
_STEEPEST = 12

MODEL = Architecture(layers=2, tokens=2, activation="softmax")


@dataclass(frozen=True)
class _Scaled:
    """Numerators and denominator of s and tau, times the common factor e^m.

    ``E``, ``F`` carry the factor e^m, ``correction`` is e^{-2m}: ``E F`` of the formulas is ``E F
    correction``.
    """

    E: sp.Expr
    F: sp.Expr
    correction: sp.Expr
    one_minus_e2: sp.Expr
    one_minus_f2: sp.Expr
    sign: sp.Expr

    @property
    def denominator(self) -> sp.Expr:
        return (self.E + self.F) * (1 + self.E * self.F * self.correction)

    @property
    def tau(self) -> sp.Expr:
        return self.one_minus_e2 * self.F

    @property
    def s(self) -> sp.Expr:
        return self.sign * self.one_minus_f2 * self.E


def _scaled(plus: sp.Expr, minus: sp.Expr, *, one_exponential: bool) -> _Scaled:
    """Return the scaled pieces for one readout row.

    ``one_exponential`` writes 1 - F^2 as it stands, which saves an exponential and costs the relative (not
    the absolute) accuracy of s near w = 0; otherwise it is -expm1(-2|w|).
    """
    u, w = MODEL.beta * minus**2, MODEL.beta * plus * minus
    shift = Guard(sp.S.Zero, Largest(0, u - _ROOM))
    f = Exp(Guard(-Magnitude(w), Smallest(_CEILING, shift - Magnitude(w))))
    # exp(-2 shift), bounded by a ramp: with shift > 0, E = exp(-600) and every term the factor enters is below
    # exp(-250) of its sum, whatever the factor in [0, 1]; an exponential would be paid for nothing.
    correction = Guard(sp.S.One, Largest(0, 1 - shift))
    exact = -Expm1(-2 * Magnitude(w))
    return _Scaled(
        E=Exp(shift - u),
        F=f,
        correction=correction,
        # Of xm alone, so an inner loop over xp does not pay for it.
        one_minus_e2=-Expm1(-2 * u),
        one_minus_f2=Guard(exact, 1 - f**2 * correction) if one_exponential else exact,
        sign=CopySign(w),
    )


def _layer() -> Kernel:
    pieces = _scaled(sym.vp, sym.vm, one_exponential=False)
    inverse = 1 / pieces.denominator
    return Kernel(
        name="layer",
        arguments=(sym.vp, sym.vm, MODEL.skip, MODEL.beta),
        outputs=(
            ("m_pp", 1 + MODEL.skip),
            ("m_pm", pieces.s * inverse),
            ("m_mp", sp.S.Zero),
            ("m_mm", MODEL.skip + pieces.tau * inverse),
        ),
        summary="Matrix A = c I + softmax(beta v^T v) of one layer, in modes.",
        notes=(
            "A = [[1 + c, s], [0, c + tau]] with u = beta vm^2, w = beta vp vm,",
            "s = sinh w/(cosh u + cosh w), tau = sinh u/(cosh u + cosh w).",
        ),
        equations=(5,),
        domain="any real vp, vm; c > 0, beta > 0",
        hot=True,
    )


def _link() -> Kernel:
    first = MODEL.beta * sym.vm * (sym.vm + sym.vp)
    second = MODEL.beta * sym.vm * (sym.vm - sym.vp)
    values = (("y11", first), ("y12", -first), ("y21", -second), ("y22", second))
    return Kernel(
        name="link",
        arguments=(sym.vp, sym.vm, MODEL.beta),
        outputs=tuple((name, stable(Expit(value))) for name, value in values),
        summary="Output y = softmax(beta v^T v) of the last layer, row by row.",
        notes=(
            "y11 = expit(beta vm (vm + vp)), y22 = expit(beta vm (vm - vp)), y12 = 1 - y11, y21 = 1 - y22,",
            "every entry with full relative accuracy (no 1 - y is formed).",
        ),
        equations=(6, 7, 175, 176),
        domain="any real vp, vm; beta > 0; entries below the smallest double are zero",
    )


def _log_ratio(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """Return log(a/b) for a, b > 0 with full relative accuracy, near a = b too: float64 subtracts those exactly."""
    return CopySign(a - b) * Log1p(Magnitude(a - b) / Smallest(a, b))


def _invert() -> Kernel:
    y = sp.Matrix([[sym.y11, sym.y12], [sym.y21, sym.y22]])
    exact_1, exact_2 = log_odds(y)
    # The sum of two nearly opposite logarithms: each must keep its relative accuracy near y = 1/2.
    l_1 = Guard(exact_1, _log_ratio(sym.y11, sym.y12))
    l_2 = Guard(exact_2, _log_ratio(sym.y22, sym.y21))
    minus = sp.sqrt((l_1 + l_2) / (2 * MODEL.beta))
    plus = (l_1 - l_2) / (2 * MODEL.beta * minus)
    logs = sum(sp.log(entry) for entry in y)
    return Kernel(
        name="invert",
        arguments=(sym.y11, sym.y12, sym.y21, sym.y22, MODEL.beta),
        outputs=(
            ("vp", plus),
            ("vm", minus),
            ("log_jacobian", logs + sp.log(2 * MODEL.beta * (l_1 + l_2))),
        ),
        summary="Readout row v of an output y, and log|d(y12, y21)/d(v_1, v_2)|.",
        notes=(
            "With l_1 = log(y11/y12), l_2 = log(y22/y21):",
            "vm = sqrt((l_1 + l_2)/(2 beta)), vp = (l_1 - l_2)/(2 beta vm).",
            "The branch with vm > 0; the other one is its negative and has the same Jacobian",
            "2 beta (l_1 + l_2) y11 y12 y21 y22.",
        ),
        equations=(177, 178, 179, 180, 181, 182),
        domain="all entries > 0, rows sum to one, y12 + y21 < 1",
        total=False,
    )


def _undone(pieces: _Scaled) -> tuple[tuple[str, sp.Expr], ...]:
    skip = MODEL.skip
    r = 1 / (skip * pieces.denominator + pieces.tau)
    inverse = 1 / (1 + skip)
    return (
        ("a", (sym.vp - sym.vm * pieces.s * r) * inverse),
        ("b", sym.vm * pieces.denominator * r),
        ("inv_det", pieces.denominator * r * inverse),
    )


def _undo() -> Kernel:
    return Kernel(
        name="undo",
        arguments=(sym.xp, sym.xm, sym.vp, sym.vm, MODEL.skip, MODEL.beta),
        outputs=_undone(_scaled(sym.xp, sym.xm, one_exponential=True)),
        summary="Indices h_2 = v B_1^{-T} of the second of two layers, and 1/|det B_1|, where h_1 = x.",
        notes=(
            "(a, b) are the modes of h_2: b = vm/(c + tau), a = (vp - s b)/(1 + c);",
            "|det B_1| = (1 + c)(c + tau), with s and tau of `layer` at v = x.",
            "One exponential and one division depend on xp; everything of xm alone leaves a loop over xp.",
            "b and inv_det are accurate to rounding; a to rounding relative to (|vp| + |b|)/(1 + c).",
        ),
        equations=(5, 164, 165, 166, 167, 168, 169, 170),
        domain="any real xp, xm, vp, vm; c > 0, beta > 0",
        hot=True,
    )


def _undo_row() -> Kernel:
    u = MODEL.beta * sym.xm**2
    return Kernel(
        name="undo_row",
        arguments=(sym.xm, MODEL.skip, MODEL.beta),
        outputs=(("row1", 1 + Exp(-2 * u)), ("row2", -Expm1(-2 * u))),
        summary="What `undo_node` wants of xm alone.",
        notes=("(1 + E^2, 1 - E^2) with E = exp(-beta xm^2).",),
        equations=(5,),
        domain="any real xm; beta > 0",
        hot=True,
    )


def _undo_exponents() -> Kernel:
    u, w = MODEL.beta * sym.xm**2, MODEL.beta * sym.xp * sym.xm
    return Kernel(
        name="undo_exponents",
        arguments=(sym.xp, sym.xm, MODEL.beta),
        outputs=tuple(
            (name, Guard(exact, Smallest(_CEILING, exact))) for name, exact in (("rising", w - u), ("falling", -w - u))
        ),
        summary="Exponents of the two exponentials of `undo_node`, both linear in xp.",
        notes=(
            "(w - u, -w - u) with w = beta xp xm and u = beta xm^2, bounded above.",
            "Beyond the bound the exponential is so much larger than all else that it cancels.",
        ),
        equations=(5,),
        domain="any real xp, xm; beta > 0",
        hot=True,
    )


def _undo_ratios() -> Kernel:
    change = MODEL.beta * sym.step * sym.xm
    return Kernel(
        name="undo_ratios",
        arguments=(sym.step, sym.xm, MODEL.beta),
        outputs=tuple(
            (name, Guard(exact, Smallest(_STEEPEST, exact)))
            for name, exact in (("rising", change), ("falling", -change))
        ),
        summary="By what both of `undo_exponents` change in a step along xp.",
        notes=(f"(beta xm step, -beta xm step), at most {_STEEPEST}: powers of their exponentials stay finite.",),
        equations=(5,),
        domain="any real step, xm; beta > 0",
        hot=True,
    )


def _undo_node() -> Kernel:
    skip, vm = MODEL.skip, sym.vm
    # D/F and so on, with E and F of the head of this module: E/F and E F are the two exponentials.
    denominator = sym.row1 + (sym.rising + sym.falling)
    r = 1 / (skip * denominator + sym.row2)
    inverse = 1 / (1 + skip)
    return Kernel(
        name="undo_node",
        arguments=(sym.row1, sym.row2, sym.rising, sym.falling, sym.vp, vm, skip, MODEL.beta),
        outputs=(
            ("a", (sym.vp - vm * (sym.rising - sym.falling) * r) * inverse),
            ("b", vm * denominator * r),
            ("inv_det", denominator * r * inverse),
        ),
        summary="`undo` where (row1, row2) = `undo_row`(xm) and (f1, f2) = exp(`undo_exponents`(xp, xm)) are given.",
        notes=("The same outputs as `undo`, without an exponential.",),
        equations=(5, 164, 165, 166, 167, 168, 169, 170),
        domain="any real xp, xm, vp, vm; c > 0, beta > 0; the others from the functions named",
        hot=True,
    )


def quadratic_kernel() -> Kernel:
    """Return the entries of h_L h_L^T - I in modes, the integrand of the operator (185)."""
    return Kernel(
        name="quadratic",
        arguments=(sym.a, sym.b),
        outputs=(("q_pp", sym.a**2 - 1), ("q_pm", sym.a * sym.b), ("q_mm", sym.b**2 - 1)),
        summary="Entries of h^T h - I of one index row in modes: (a^2 - 1, a b, b^2 - 1).",
        notes=(
            "Their posterior means are the entries of d g_out at omega = 0, V = I;",
            "the operator sums their squares.",
        ),
        equations=(15, 184, 185),
        domain="any real a, b",
        hot=True,
    )


def _prove(kernels: tuple[Kernel, ...]) -> None:
    values = {kernel.name: dict(kernel.outputs) for kernel in kernels}
    v = sym.token_pair(sym.vp, sym.vm)

    layer = pair_layer(MODEL, sym.vp, sym.vm).matrix
    made = sp.Matrix(2, 2, [values["layer"][name] for name in ("m_pp", "m_pm", "m_mp", "m_mm")])
    _prove_signed(made, layer, sym.vp * sym.vm, "layer")

    output = activate(MODEL, v.T * v)
    signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    made = sp.Matrix(2, 2, [values["link"][name] for name in ("y11", "y12", "y21", "y22")])
    for first, second in signs:
        cases = {sym.vm * (sym.vm + sym.vp): first, sym.vm * (sym.vm - sym.vp): second}
        prove_equal(_resolve_signs(made, cases), output, "link")

    inversion = invert(MODEL)
    for larger, smaller in ((sym.y11, sym.y12), (sym.y12, sym.y11)):  # sign (a - b) log1p(|a - b|/min) on either side
        prove_equal(sp.Matrix([1 + (larger - smaller) / smaller]), sp.Matrix([larger / smaller]), "log ratio")
    y = (sym.y11, sym.y12, sym.y21, sym.y22)
    branch = inversion.branches[0] * sym.mode_rotation()
    # Squares and the product fix a pair up to a common sign.
    plus, minus = values["invert"]["vp"], values["invert"]["vm"]
    made = sp.Matrix([plus**2, plus * minus, minus**2])
    wanted = sp.Matrix([branch[0] ** 2, branch[0] * branch[1], branch[1] ** 2])
    prove_equal(made, wanted, "invert")
    rest = values["invert"]["log_jacobian"] - sum(sp.log(entry) for entry in y)
    prove_equal(sp.exp(rest) * sp.prod(y), inversion.jacobian, "Jacobian of invert")

    first_layer = pair_layer(MODEL, sym.xp, sym.xm).matrix
    undone = first_layer.inv() * sp.Matrix([sym.vp, sym.vm])
    wanted = sp.Matrix([undone[0], undone[1], 1 / first_layer.det()])
    made = sp.Matrix([values["undo"][name] for name in ("a", "b", "inv_det")])
    _prove_signed(made, wanted, sym.xp * sym.xm, "undo")
    _prove_node(values, wanted)
    _prove_scale_free()


def _prove_node(values: dict[str, dict[str, sp.Expr]], wanted: sp.Matrix) -> None:
    """Prove that `undo_node` at the exponentials of `undo_exponents` undoes the layer, and that these are geometric."""
    exponents = [_exact(values["undo_exponents"][name]) for name in ("rising", "falling")]
    given = {
        sym.row1: values["undo_row"]["row1"],
        sym.row2: values["undo_row"]["row2"],
        sym.rising: Exp(exponents[0]),
        sym.falling: Exp(exponents[1]),
    }
    made = sp.Matrix([values["undo_node"][name].xreplace(given) for name in ("a", "b", "inv_det")])
    prove_equal(elementary(made), wanted, "undo_node")
    changes = [exponent.xreplace({sym.xp: sym.xp + sym.step}) - exponent for exponent in exponents]
    ratios = sp.Matrix([_exact(values["undo_ratios"][name]) for name in ("rising", "falling")])
    prove_equal(ratios, sp.Matrix(changes), "undo_ratios")


def _exact(value: sp.Expr) -> sp.Expr:
    return value.replace(lambda e: isinstance(e, Guard), lambda e: e.args[0])


def _resolve_signs(made: sp.Matrix, cases: dict[sp.Expr, int]) -> sp.Matrix:
    """Replace |x|, min(x, 0) and the sign of x by what they are where x has the given sign."""
    rules: dict[sp.Expr, sp.Expr] = {}
    for node in made.atoms(Magnitude, Smallest, CopySign):
        argument = next(arg for arg in node.args if arg.free_symbols)
        for product, sign in cases.items():
            ratio = sp.cancel(argument / product)
            if ratio.has(sym.vp, sym.vm, sym.xp, sym.xm):
                continue
            positive = bool(ratio.subs(MODEL.beta, 1) > 0) == (sign > 0)
            if isinstance(node, Magnitude):
                rules[node] = argument if positive else -argument
            elif isinstance(node, Smallest):
                rules[node] = sp.S.Zero if positive else argument
            else:
                rules[node] = sp.S.One if positive else -sp.S.One
    return elementary(made.xreplace(rules))


def _prove_signed(made: sp.Matrix, wanted: sp.Matrix, product: sp.Expr, what: str) -> None:
    exact = _exact(made)
    for sign in (1, -1):
        prove_equal(_resolve_signs(exact, {product: sign}), wanted, what)


def _prove_scale_free() -> None:
    """Prove that the factor e^m of the bounded forms cancels in s and tau, for any m (clamp aside)."""
    e, f, scale = sp.symbols("E F lambda", positive=True)
    plain = _Scaled(e, f, sp.S.One, 1 - e**2, 1 - f**2, sp.S.One)
    scaled = _Scaled(e * scale, f * scale, scale**-2, 1 - e**2, 1 - (f * scale) ** 2 * scale**-2, sp.S.One)
    for name in ("s", "tau"):
        left = getattr(plain, name) / plain.denominator
        prove_equal(getattr(scaled, name) / scaled.denominator, left, f"common factor in {name}")


_KERNELS = (
    *(_layer(), _link(), _invert(), _undo()),
    *(_undo_row(), _undo_exponents(), _undo_ratios(), _undo_node(), quadratic_kernel()),
)

PACKAGE = KernelPackage(
    name=MODEL.name,
    title="Tied softmax attention, two tokens, rank 1",
    activation="softmax",
    tokens=2,
    source="attnlimits.derive.kernels.softmax_m2",
    kernels=_KERNELS,
    prove=lambda: _prove(_KERNELS),
)
