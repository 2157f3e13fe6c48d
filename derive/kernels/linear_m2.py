"""Kernels of tied linear attention with two tokens and rank 1: stable forms, each proved."""

import sympy as sp

from .. import symbols as sym
from ..architecture import Architecture
from ..mixing import activate, layer_matrix_of_readout
from ..primitives import CopySign, Largest
from ..proof import ProofError, prove_equal
from ..readout import invert
from ..softmax_pair import to_modes
from .kernel import Kernel, KernelPackage
from .softmax_m2 import quadratic_kernel

__all__ = ["PACKAGE"]

MODEL = Architecture(layers=2, tokens=2, activation="linear")


def _layer() -> Kernel:
    plus, minus, beta, skip = sym.vp, sym.vm, MODEL.beta, MODEL.skip
    mixed = beta * plus * minus
    return Kernel(
        name="layer",
        arguments=(plus, minus, skip, beta),
        outputs=(
            ("m_pp", skip + beta * plus**2),
            ("m_pm", mixed),
            ("m_mp", mixed),
            ("m_mm", skip + beta * minus**2),
        ),
        summary="Matrix A = c I + beta v^T v of one layer, in modes.",
        notes=("A = [[c + beta vp^2, beta vp vm], [beta vp vm, c + beta vm^2]].",),
        equations=(5,),
        domain="any real vp, vm; c > 0, beta > 0",
        hot=True,
    )


def _link() -> Kernel:
    half = MODEL.beta / 2
    mixed = half * (sym.vp + sym.vm) * (sym.vp - sym.vm)
    return Kernel(
        name="link",
        arguments=(sym.vp, sym.vm, MODEL.beta),
        outputs=(
            ("y11", half * (sym.vp + sym.vm) ** 2),
            ("y12", mixed),
            ("y21", mixed),
            ("y22", half * (sym.vp - sym.vm) ** 2),
        ),
        summary="Output y = beta v^T v of the last layer.",
        notes=("y11 = beta (vp + vm)^2/2, y12 = y21 = beta (vp + vm)(vp - vm)/2, y22 = beta (vp - vm)^2/2.",),
        equations=(6, 7, 171, 172),
        domain="any real vp, vm; beta > 0",
    )


def _invert() -> Kernel:
    # The larger of the two diagonal entries gives its token by a square root, the other one by division.
    larger = sp.sqrt(Largest(sym.y11, sym.y22) / MODEL.beta)
    smaller = sym.y12 / (MODEL.beta * larger)
    half = 1 / sp.sqrt(2)
    return Kernel(
        name="invert",
        arguments=(sym.y11, sym.y12, sym.y21, sym.y22, MODEL.beta),
        outputs=(
            ("vp", half * (larger + smaller)),
            ("vm", CopySign(sym.y11 - sym.y22) * half * (larger - smaller)),
            ("log_jacobian", sp.log(2 * MODEL.beta * sym.y11)),
        ),
        summary="Readout row v of an output y, and log|d(y11, y12)/d(v_1, v_2)|.",
        notes=(
            "The token with the larger diagonal entry has v_k = sqrt(y_kk/beta), the other y12/(beta v_k).",
            "The branch where that v_k > 0; the other one is its negative; the Jacobian is 2 beta y11.",
            "y21 is not read: it equals y12.",
        ),
        equations=(171, 172, 173, 174),
        domain="y of rank one with y11 > 0, y22 >= 0",
        total=False,
    )


def _undone(scaled: sp.Expr, rest: sp.Expr) -> tuple[tuple[str, sp.Expr], ...]:
    """Outputs of `undo` from beta xm and c + beta xm^2."""
    skip, beta = MODEL.skip, MODEL.beta
    inverse = 1 / (skip * (rest + beta * sym.xp**2))
    # Cofactors: c v plus beta times the part of v across x.
    across = scaled * sym.vp - beta * sym.xp * sym.vm
    return (
        ("a", (skip * sym.vp + sym.xm * across) * inverse),
        ("b", (skip * sym.vm - sym.xp * across) * inverse),
        ("inv_det", inverse),
    )


def _undo_row() -> Kernel:
    return Kernel(
        name="undo_row",
        arguments=(sym.xm, MODEL.skip, MODEL.beta),
        outputs=(("row1", MODEL.beta * sym.xm), ("row2", MODEL.skip + MODEL.beta * sym.xm**2)),
        summary="What `undo` computes of xm alone.",
        notes=("(beta xm, c + beta xm^2).",),
        equations=(5,),
        domain="any real xm; c > 0, beta > 0",
        hot=True,
    )


def _undo_node() -> Kernel:
    return Kernel(
        name="undo_node",
        arguments=(sym.xp, sym.xm, sym.row1, sym.row2, sym.vp, sym.vm, MODEL.skip, MODEL.beta),
        outputs=_undone(sym.row1, sym.row2),
        summary="`undo` with (row1, row2) = `undo_row`(xm) given: one division.",
        notes=("The same outputs as `undo`.",),
        equations=(5, 164, 165, 166, 167, 168),
        domain="any real xp, xm, vp, vm; c > 0, beta > 0; the others from the functions named",
        hot=True,
    )


def _undo() -> Kernel:
    skip, beta = MODEL.skip, MODEL.beta
    return Kernel(
        name="undo",
        arguments=(sym.xp, sym.xm, sym.vp, sym.vm, skip, beta),
        outputs=_undone(beta * sym.xm, skip + beta * sym.xm**2),
        summary="Indices h_2 = v B_1^{-T} of the second of two layers, and 1/|det B_1|, where h_1 = x.",
        notes=(
            "(a, b) are the modes of h_2 = v/c - beta x (x.v)/(c (c + beta |x|^2)).",
            "det B_1 = c (c + beta |x|^2).",
            "a and b are accurate to rounding relative to |v|/c, which rounding v alone can cost.",
        ),
        equations=(5, 164, 165, 166, 167, 168),
        domain="any real xp, xm, vp, vm; c > 0, beta > 0",
        hot=True,
    )


def _prove(kernels: tuple[Kernel, ...]) -> None:
    values = {kernel.name: dict(kernel.outputs) for kernel in kernels}
    v = sym.token_pair(sym.vp, sym.vm)

    made = sp.Matrix(2, 2, [values["layer"][name] for name in ("m_pp", "m_pm", "m_mp", "m_mm")])
    prove_equal(made, to_modes(layer_matrix_of_readout(MODEL, v)), "layer")

    made = sp.Matrix(2, 2, [values["link"][name] for name in ("y11", "y12", "y21", "y22")])
    prove_equal(made, activate(MODEL, v.T * v), "link")

    inversion = invert(MODEL)
    prove_equal(sp.exp(values["invert"]["log_jacobian"]), inversion.jacobian, "Jacobian of invert")
    made = sp.Matrix([[values["invert"]["vp"], values["invert"]["vm"]]])
    first = {Largest(sym.y11, sym.y22): sym.y11, CopySign(sym.y11 - sym.y22): 1}
    wanted = inversion.branches[0] * sym.mode_rotation()
    prove_equal(made.xreplace(first), wanted, "invert where y11 >= y22")
    # Swapping the tokens turns the other case into the first one and flips the minus mode.
    second = {Largest(sym.y11, sym.y22): sym.y22, CopySign(sym.y11 - sym.y22): -1}
    swapped = wanted.subs({sym.y11: sym.y22}, simultaneous=True)
    prove_equal(made.xreplace(second), sp.Matrix([[swapped[0], -swapped[1]]]), "invert where y22 > y11")

    matrix = to_modes(layer_matrix_of_readout(MODEL, sym.token_pair(sym.xp, sym.xm)))
    undone = matrix.inv() * sp.Matrix([sym.vp, sym.vm])
    made = sp.Matrix([values["undo"][name] for name in ("a", "b", "inv_det")])
    prove_equal(made, sp.Matrix([undone[0], undone[1], 1 / matrix.det()]), "undo")
    row = {sym.row1: values["undo_row"]["row1"], sym.row2: values["undo_row"]["row2"]}
    for name, printed in values["undo"].items():
        if values["undo_node"][name].xreplace(row) != printed:
            raise ProofError(f"undo_node: {name} at the outputs of undo_row is not that of undo")


_KERNELS = (_layer(), _link(), _invert(), _undo(), _undo_row(), _undo_node(), quadratic_kernel())

PACKAGE = KernelPackage(
    name=MODEL.name,
    title="Tied linear attention, two tokens, rank 1",
    activation="linear",
    tokens=2,
    source="attnlimits.derive.kernels.linear_m2",
    kernels=_KERNELS,
    prove=lambda: _prove(_KERNELS),
)
