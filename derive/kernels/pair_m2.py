"""The softmax of two tokens in the forms that loops and other arithmetics take, proved equal to the derivation.

With u = beta v_m^2 and w = beta v_p v_m a layer of two tokens is [[1 + c, s], [0, c + tau]] in modes (`softmax_pair`).
Compiled loops take one exponential for each of the two entries p = y_11 and r = y_22; arithmetics that are not float64
take their own exponentials of u and w, with any common factor, and leave the rest to `numerators`.
"""

import itertools
from typing import TypeAlias

import sympy as sp

from ..architecture import Architecture
from ..emit.runtime_numba import HIGHEST
from ..nodes import Select
from ..primitives import CopySign, Exp, Expit, Expm1, Guard, Magnitude, Smallest, elementary
from ..proof import prove_equal
from ..readout import invert
from ..softmax_pair import layer_of_scores, pair_layer
from ..symbols import mode_rotation, readout_symbols, vm, vp
from .kernel import Kernel, KernelPackage

__all__ = ["PACKAGE", "prove"]

MODEL = Architecture(layers=2, tokens=2, activation="softmax")

_U, _W, _S, _LOWER = sp.symbols("u w s lower", real=True)
_P, _R = sp.symbols("p r", positive=True)
_ODDS = sp.symbols("a b", real=True)
_PARTS = sp.symbols("rise_u fall_u rise_w fall_w", real=True)

_Body: TypeAlias = tuple[tuple[sp.Symbol, sp.Expr], ...]

_ENTRIES = (("p", "0 < p < 1", "entry (1, 1) of the attention"), ("r", "0 < r < 1", "entry (2, 2) of the attention"))
_SCORES = (("u", ">= 0", "beta vm^2"), ("w", ">= 0", "beta |vp vm|"))


def _exponents() -> tuple[sp.Expr, sp.Expr]:
    """Return x with p = expit(x_1) and r = expit(x_2)."""
    return MODEL.beta * vm * (vm + vp), MODEL.beta * vm * (vm - vp)


def _jacobian(p: sp.Expr, no_p: sp.Expr, r: sp.Expr, no_r: sp.Expr) -> sp.Expr:
    """Return |d(s, tau)/d(vp, vm)| over vm^2, from the entries and one less them."""
    return 8 * MODEL.beta**2 * p * no_p * r * no_r


def _slopes() -> Kernel:
    # Beyond, exp(x) leaves float64, and 1/(1 + exp(x)) = 1.2e-308 is below half an ulp of every output.
    odds = [Exp(Guard(-x, Smallest(-x, HIGHEST))) for x in _exponents()]
    p, r = _P, _R
    excess = sp.Symbol("excess", real=True)
    return Kernel(
        name="slopes",
        arguments=(vp, vm, MODEL.skip, MODEL.beta),
        outputs=(
            ("s", p - r),
            ("lower", p + r + excess),
            ("jacobian", _jacobian(p, odds[0] * p, r, odds[1] * r) * vm**2),
        ),
        body=((excess, MODEL.skip - 1), (p, 1 / (1 + odds[0])), (r, 1 / (1 + odds[1]))),
        summary="Entries (s, c + tau) of one layer [[1 + c, s], [0, c + tau]], in modes, and |d(s, tau)/d(vp, vm)|.",
        notes=(
            "s = p - r, tau = p + r - 1 with p = expit(beta vm (vm + vp)), r = expit(beta vm (vm - vp));",
            "the Jacobian is 8 beta^2 p (1 - p) r (1 - r) vm^2, with full relative accuracy.",
            "One exponential for each entry: s and tau are accurate to rounding of one.",
        ),
        equations=(5, 176, 182),
        domain="any real vp, vm; c > 0, beta > 0; a Jacobian below 1e-290 is zero",
        hot=True,
    )


def _entries() -> Kernel:
    sums, rest = sp.symbols("sums rest", real=True)
    return Kernel(
        name="entries",
        arguments=(_S, _LOWER, MODEL.skip),
        outputs=(("p", (sums + _S) / 2), ("r", (sums - _S) / 2)),
        body=((rest, 1 - MODEL.skip), (sums, _LOWER + rest)),
        summary="Entries p = y_11 and r = y_22 of the attention of the layer [[1 + c, s], [0, lower]].",
        notes=("There is a readout row v with this attention where 0 < p < 1, 0 < r < 1 and p + r > 1.",),
        equations=(5, 177),
        domain="any real s, lower; c > 0",
        meanings=(("s", "real", "upper entry of the layer"), ("lower", "real", "lower entry of the layer, c + tau")),
    )


def _recover() -> Kernel:
    first, second = _ODDS
    square, root = sp.symbols("square root", positive=True)
    return Kernel(
        name="recover",
        arguments=(_P, _R, MODEL.beta),
        outputs=(
            ("vp", (first - second) / (2 * MODEL.beta * root)),
            ("vm", root),
            ("jacobian", _jacobian(_P, 1 - _P, _R, 1 - _R) * square),
        ),
        body=(
            (first, sp.log(_P / (1 - _P))),
            (second, sp.log(_R / (1 - _R))),
            (square, (first + second) / (2 * MODEL.beta)),
            (root, sp.sqrt(square)),
        ),
        summary="Readout row v of the entries p and r of the attention, and |d(s, tau)/d(vp, vm)| there.",
        notes=(
            "With a = log(p/(1 - p)), b = log(r/(1 - r)): vm = sqrt((a + b)/(2 beta)), vp = (a - b)/(2 beta vm).",
            "The branch with vm > 0; the other one is its negative and has the same Jacobian.",
            "Of outputs that are known to more digits than p and r hold near one, `invert` of the family is accurate.",
        ),
        equations=(177, 178, 179, 180, 181, 182),
        domain="0 < p < 1, 0 < r < 1, p + r > 1; beta > 0",
        meanings=_ENTRIES,
        total=False,
    )


# D, and tau D.
_WEIGHT, _TURNED = sp.symbols("weight turned", real=True)
_LOWER_END = MODEL.skip * _WEIGHT + _TURNED


def _weighted(rise_u: sp.Expr, fall_u: sp.Expr, rise_w: sp.Expr, fall_w: sp.Expr) -> tuple[sp.Expr, _Body]:
    """Return s D, and what D and tau D are, from e^u, e^-u, e^w, e^-w with a common factor; (c + tau) D holds both."""
    # The difference on its own: what is left of c D beside it keeps its digits.
    body = ((_WEIGHT, rise_u + fall_u + rise_w + fall_w), (_TURNED, rise_u - fall_u))
    return rise_w - fall_w, body


def _numerators() -> Kernel:
    upper, body = _weighted(*_PARTS)
    return Kernel(
        name="numerators",
        arguments=(*_PARTS, MODEL.skip),
        outputs=(("upper", upper), ("lower", _LOWER_END), ("weight", _WEIGHT)),
        body=body,
        summary="(s D, (c + tau) D, D) of one layer, from exponentials of the scores u and w with any common factor.",
        notes=(
            "s = sinh w/(cosh u + cosh w), tau = sinh u/(cosh u + cosh w), D = 2 (cosh u + cosh w) times the factor.",
            "Sums and products only: for real and complex numbers, balls, pairs, fixed point.",
        ),
        equations=(5,),
        domain="any numbers that are e^u, e^-u, e^w and e^-w times a common factor; c > 0",
        meanings=tuple(
            (name.name, "any kind", f"number {value}, times the common factor")
            for name, value in zip(_PARTS, ("e^u", "e^-u", "e^w", "e^-w"), strict=True)
        ),
        hot=True,
        plain=True,
    )


def _ratios() -> Kernel:
    # Over e^max(u, w), by two exponentials that are at most one.
    apart, both = Exp(-Magnitude(_U - _W)), sp.Symbol("both", positive=True)
    rise_u, rise_w = _PARTS[0], _PARTS[2]
    upper, body = _weighted(rise_u, both * rise_w, rise_w, both * rise_u)
    return Kernel(
        name="ratios",
        arguments=(_U, _W, MODEL.skip),
        outputs=(("lean", upper / _LOWER_END), ("inverse", _WEIGHT / _LOWER_END)),
        body=(
            (both, Exp(-_U - _W)),
            (rise_u, Select(_U - _W, sp.S.One, apart)),
            (rise_w, Select(_U - _W, apart, sp.S.One)),
            *body,
        ),
        summary="s/(c + tau) and 1/(c + tau) of one layer, from its scores u and w.",
        notes=(
            "s = sinh w/(cosh u + cosh w), tau = sinh u/(cosh u + cosh w); both monotone in u and in w:",
            "tau grows with u and falls with w, s/(c + tau) falls with u and grows with w.",
            "Accurate to rounding of 1/c; s is zero at w = 0.",
        ),
        equations=(5,),
        domain="u >= 0, w >= 0; c > 0",
        meanings=_SCORES,
        hot=True,
    )


def _turns() -> Kernel:
    tau = sp.Symbol("tau", real=True)
    return Kernel(
        name="turns",
        arguments=(_S, tau),
        outputs=(("own", (1 - _S**2 - tau**2) / 2), ("mixed", -_S * tau)),
        summary="Slopes of s and tau by the scores: ds/dw = dtau/du = own, ds/du = dtau/dw = mixed.",
        notes=("Of s = sinh w/(cosh u + cosh w) and tau = sinh u/(cosh u + cosh w), from their values.",),
        equations=(5,),
        domain="|s| + |tau| <= 1",
        meanings=(("s", "|s| < 1", "upper entry of the layer"), ("tau", "|tau| < 1", "lower entry less c")),
        hot=True,
    )


def _digits() -> dict[str, sp.Expr]:
    """Return y11, y12, y21, y22, s and tau without any difference of nearly equal numbers."""
    values = []
    for x in _exponents():
        small = Exp(-Magnitude(x))
        large = 1 / (1 + small)
        values.append((Select(x, large, small * large), Select(x, small * large, large)))
    (p, no_p), (r, no_r) = values
    u, w = MODEL.beta * vm**2, MODEL.beta * vp * vm
    return {
        "y11": p,
        "y12": no_p,
        "y21": no_r,
        "y22": r,
        "s": -CopySign(w) * Expm1(-2 * Magnitude(w)) * Select(w, p * no_r, r * no_p),
        "tau": -Expm1(-2 * u) * p * r,
    }


def _attention() -> Kernel:
    return Kernel(
        name="attention",
        arguments=(vp, vm, MODEL.beta),
        outputs=tuple(_digits().items()),
        summary="Entries y of softmax(beta v^T v), s = y11 - y22 and tau = y11 + y22 - 1, all with full accuracy.",
        notes=(
            "y11 = expit(beta vm (vm + vp)), y22 = expit(beta vm (vm - vp)), y12 = 1 - y11, y21 = 1 - y22;",
            "tau = y11 y22 (1 - e^-2u), s = y11 y21 (1 - e^-2w) with u = beta vm^2, w = beta vp vm.",
        ),
        equations=(5, 176),
        domain="any real vp, vm; beta > 0; entries below the smallest double are zero",
    )


def _with_sign(expression: sp.Expr, number: sp.Expr, sign: int) -> sp.Expr:
    """Return the expression where this number has this sign: without the choices that depend on it."""
    size = {Magnitude(number): sign * number, CopySign(number): sp.Integer(sign)}
    return expression.replace(
        lambda e: isinstance(e, Select) and e.args[0] == number, lambda e: e.args[1 if sign > 0 else 2]
    ).xreplace(size)


def _prove_slopes(slopes: Kernel) -> None:
    values = {name: elementary(value) for name, value in slopes.written_out().items()}
    layer = pair_layer(MODEL, vp, vm)
    wanted = sp.Matrix([layer.s, layer.skip + layer.tau])
    prove_equal(sp.Matrix([values["s"], values["lower"]]), wanted, "entries of slopes")
    # Of the logistic forms, which the entries above were proved to be.
    p, r = (elementary(Expit(x)) for x in _exponents())
    prove_equal(values["jacobian"], sp.Matrix([p - r, p + r]).jacobian([vp, vm]).det(), "Jacobian of slopes")


def _prove_inverse(entries: Kernel, recover: Kernel) -> None:
    p, r = (entries.written_out()[name] for name in ("p", "r"))
    prove_equal(sp.Matrix([p - r, p + r - 1 + MODEL.skip]), sp.Matrix([_S, _LOWER]), "entries")
    made, inversion = recover.written_out(), invert(MODEL)
    branch, y = inversion.branches[0] * mode_rotation(), readout_symbols(2)[1]
    at = {y[0, 0]: _P, y[0, 1]: 1 - _P, y[1, 0]: 1 - _R, y[1, 1]: _R}
    # Squares and the product fix a pair up to a common sign.
    squares = sp.Matrix([made["vp"] ** 2, made["vp"] * made["vm"], made["vm"] ** 2])
    wanted = sp.Matrix([branch[0] ** 2, branch[0] * branch[1], branch[1] ** 2])
    prove_equal(squares, wanted.subs(at), "recover")
    # Of (y_12, y_21) = (1 - p, 1 - r), and |d(p - r, p + r)/d(p, r)| = 2.
    prove_equal(made["jacobian"], 2 * inversion.jacobian.subs(at), "Jacobian of recover")


def _prove_ratios(numerators: Kernel, ratios: Kernel) -> None:
    factor = sp.Symbol("k", positive=True)
    layer = layer_of_scores(MODEL.skip, _U, _W)
    s, lower = layer.s, layer.skip + layer.tau
    plain = dict(zip(_PARTS, (factor * sp.exp(x) for x in (_U, -_U, _W, -_W)), strict=True))
    made = {name: value.xreplace(plain) for name, value in numerators.written_out().items()}
    both = sp.Matrix([made["upper"], made["lower"]]) / made["weight"]
    prove_equal(both, sp.Matrix([s, lower]), "numerators")
    values = sp.Matrix(list(ratios.written_out().values()))
    for sign in (1, -1):
        chosen = values.applyfunc(lambda value, sign=sign: _with_sign(value, _U - _W, sign))
        prove_equal(chosen, sp.Matrix([s / lower, 1 / lower]), "ratios")


def _prove_attention(attention: Kernel) -> None:
    p, r = (elementary(Expit(x)) for x in _exponents())
    wanted = sp.Matrix([p, 1 - p, 1 - r, r, p - r, p + r - 1])
    numbers = (*_exponents(), MODEL.beta * vp * vm)
    for signs in itertools.product((1, -1), repeat=len(numbers)):
        values = sp.Matrix(list(attention.written_out().values()))
        for number, sign in zip(numbers, signs, strict=True):
            values = values.applyfunc(lambda value, number=number, sign=sign: _with_sign(value, number, sign))
        prove_equal(values, wanted, "attention")


def _prove_turns(turns: Kernel) -> None:
    layer = layer_of_scores(MODEL.skip, _U, _W)
    own, mixed = (
        value.xreplace(dict(zip(turns.arguments, (layer.s, layer.tau), strict=True))) for _, value in turns.outputs
    )
    slopes = sp.Matrix([layer.s, layer.tau]).jacobian([_U, _W])
    prove_equal(slopes, sp.Matrix([[mixed, own], [own, mixed]]), "turns")


def prove(kernels: tuple[Kernel, ...]) -> None:
    """Prove every printed form.

    Raises
    ------
    ProofError
        If one of them is not equal to what is derived.
    """
    slopes, entries, recover, numerators, ratios, turns, attention = kernels
    _prove_slopes(slopes)
    _prove_inverse(entries, recover)
    _prove_ratios(numerators, ratios)
    _prove_turns(turns)
    _prove_attention(attention)


_KERNELS = (_slopes(), _entries(), _recover(), _numerators(), _ratios(), _turns(), _attention())

PACKAGE = KernelPackage(
    name="pair_softmax_m2",
    precise=False,
    title="Softmax of two tokens for loops and for any arithmetic",
    activation="softmax",
    tokens=2,
    source="attnlimits.derive.kernels.pair_m2",
    kernels=_KERNELS,
    prove=lambda: prove(_KERNELS),
)
