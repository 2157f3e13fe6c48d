"""Proof of the kernels of a link and its Jacobian.

What is proved before anything is printed (`prove`): layer by layer and exactly, that the scores, the attention
matrices and B_l of the straight-line program are those of `derive.mixing`, as functions of B_{l-1} and of the
indices of the layer; with B_0 = I that is the whole link by induction, at any size, and no tree is ever expanded.
Besides, the printed functions are run: the link against `derive.mixing` with the numbers put in, and the Jacobian
against central differences of the link.  That second check evaluates exponentials of rationals, which no exact
arithmetic holds, so it is a comparison at 60 digits.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import sympy as sp
from mpmath import mpf
from mpmath.ctx_mp import MPContext

from ..activation import SCORE, printed_activation
from ..architecture import Architecture
from ..emit.ir import lower
from ..emit.render import run_mp
from ..mixing import activate_score, attention_matrices, mix, score_matrices
from ..nodes import printable
from ..primitives import Expit, Largest, LogExpit, Magnitude, Smallest, elementary, softmax_rows, stable
from ..proof import ProofError, prove_equal
from ..straightline import Stage, StraightLine, straight_link
from .kernel import Kernel
from .link_names import package_name

__all__ = ["prove"]

# Rows of a softmax that are proved already.
_Rows: TypeAlias = set[tuple[sp.Expr, ...]]

_DIGITS = 60
# Sizes of h, and whether some are negative, at which printed functions are compared; the first is for those activations
# that are defined everywhere, the others for those that need positive, small or large scores.
_PLACES = ((1, True), (1, False), (sp.Rational(1, 8), False), (12, False))


def _expander(line: StraightLine, stop: set[sp.Expr]) -> Callable[[sp.Expr], sp.Expr]:
    """Return a function that writes out the names of a body, down to those in ``stop``."""
    body = {name: value for name, value in line.body if name not in stop}
    known: dict[sp.Symbol, sp.Expr] = {}

    def expand(value: sp.Expr) -> sp.Expr:
        for name in value.free_symbols & body.keys():
            if name not in known:
                known[name] = expand(body[name])
        return value.xreplace(known)

    return expand


def _prove_polynomial(left: sp.Matrix, right: sp.Matrix, what: str) -> None:
    for number, (lhs, rhs) in enumerate(zip(left, right, strict=True)):
        rest = sp.expand(lhs - rhs)
        if rest != 0:
            raise ProofError(f"{what}: entry {number} leaves {rest}")


def _prove_row(row: list[sp.Expr], scores: list[sp.Expr], proved: _Rows, what: str) -> None:
    """Prove a stable softmax row in the symbols of its scores and of the largest of them."""
    names = [sp.Symbol(f"score{n}", real=True) if z.free_symbols else z for n, z in enumerate(scores, start=1)]
    rename = {z: name for z, name in zip(scores, names, strict=True) if z.free_symbols}
    made = [entry.xreplace(rename) for entry in row]
    if tuple(made) in proved:
        return
    wanted = softmax_rows(sp.Matrix([names]))
    if len(scores) == 2:
        # The difference of the two scores; the other name is zero.
        _prove_by_sign(sp.Matrix([made]), wanted, names[0], what)
    else:
        # Whatever is subtracted from all scores cancels, the largest of them included.
        shift = sp.Symbol("shift", real=True)
        prove_equal(sp.Matrix([made]).xreplace({Largest(*names): shift}), wanted, what)
    proved.add(tuple(made))


def _prove_by_sign(made: sp.Matrix, wanted: sp.Matrix, x: sp.Symbol, what: str) -> None:
    """Prove an identity with |x|, min(x, 0) and min(-x, 0) on its left for x >= 0, then for x <= 0."""
    zero = sp.S.Zero
    for cases in (
        {Magnitude(x): x, Smallest(x, 0): zero, Smallest(-x, 0): -x},
        {Magnitude(x): -x, Smallest(x, 0): x, Smallest(-x, 0): zero},
    ):
        prove_equal(made.xreplace(cases), wanted, what)


def _prove_entries(model: Architecture, row: list[sp.Expr], scores: list[sp.Expr], what: str) -> None:
    """Prove an activation that acts entry by entry: its logistic form, the stable nodes, and that these are printed."""
    if model.activation == "linear":
        prove_equal(sp.Matrix(row), sp.Matrix(scores), what)
        return
    form, value, _ = printed_activation(model)
    prove_equal(form, activate_score(model, SCORE), what)
    x = sp.Symbol("x", real=True)
    # Logarithms through their exponentials, which reduce to rational functions of exp(x).
    nodes, logs = sp.Matrix([Expit(x), Expit(-x)]), sp.Matrix([LogExpit(x), LogExpit(-x)])
    made = sp.Matrix([*stable(nodes), *stable(logs).applyfunc(sp.exp)])
    _prove_by_sign(made, elementary(sp.Matrix([*nodes, *nodes])), x, what)
    if value != stable(printable(form)) or row != [value.xreplace({SCORE: score}) for score in scores]:
        raise ProofError(f"{what}: the program holds another expression than its stable form")


def _prove_stage(model: Architecture, line: StraightLine, stage: Stage, indices: sp.Matrix, proved: _Rows) -> None:
    before = {entry for entry in stage.before if isinstance(entry, sp.Symbol)}
    what = f"{package_name(model)}, layer {stage.layer}"
    scores = [model.beta * z for z in score_matrices(model, stage.layer, stage.before, indices)]
    made = [z.applyfunc(_expander(line, before)) for z in stage.scores]
    for value, wanted in zip(made, scores, strict=True):
        if model.activation == "softmax" and model.tokens == 2:
            wanted = sp.Matrix([[row[0] - row[1], 0] for row in wanted.tolist()])
        _prove_polynomial(value, wanted, f"{what}: scores")

    known = {z for matrix in stage.scores for z in matrix if isinstance(z, sp.Symbol)}
    rows = _expander(line, known)
    for number, (matrix, z) in enumerate(zip(stage.attentions, stage.scores, strict=True), start=1):
        for i in range(model.tokens):
            row, score = [rows(entry) for entry in matrix[i, :]], list(z[i, :])
            if model.activation == "softmax":
                # Tied scores z_ij = z_ji are one symbol, but those of one row are distinct.
                _prove_row(row, score, proved, f"{what}: attention of head {number}, row {i + 1}")
            else:
                _prove_entries(model, row, score, f"{what}: activation")

    if stage.after is not None:
        stop = before | {s for matrix in stage.attentions for s in matrix if isinstance(s, sp.Symbol)}
        readout = model.readouts[stage.layer - 1] if model.heads > 1 else None
        wanted = mix(model, stage.before, stage.attentions, readout)
        _prove_polynomial(stage.after.applyfunc(_expander(line, stop)), wanted, f"{what}: mixing")


def prove(model: Architecture, kernels: tuple[Kernel, ...]) -> None:
    """Prove the link kernel exactly, layer by layer, and check both printed kernels at 60 digits.

    Parameters
    ----------
    model : Architecture
    kernels : tuple of Kernel
        ``link`` and ``jacobian`` as `link_package` makes them.

    Raises
    ------
    ProofError
        If a layer of the straight-line program is not that of `derive.mixing`, a kernel holds another program, or
        a printed number differs.

    References
    ----------
    troiani2025, (5)-(7), (19)-(26), (31)-(32), (43)-(45).
    """
    line = straight_link(model)
    if (line.body, tuple(line.outputs)) != (kernels[0].body, tuple(value for _, value in kernels[0].outputs)):
        raise ProofError(f"{package_name(model)}: the kernel `link` is not the straight-line program of the model")
    proved: _Rows = set()
    for stage, indices in zip(line.stages, model.index_matrices(), strict=True):
        _prove_stage(model, line, stage, indices, proved)
    _compare(model, kernels)


def _at(model: Architecture, values: dict[sp.Symbol, sp.Expr]) -> sp.Matrix:
    """Evaluate the link of `derive.mixing` with numbers put in, layer by layer, so that no tree grows."""

    def number(matrix: sp.Matrix) -> sp.Matrix:
        return elementary(matrix).xreplace(values).evalf(_DIGITS + 10)

    mixing = sp.eye(model.heads * model.tokens)
    attentions: tuple[sp.Matrix, ...] = ()
    for layer, indices in enumerate(model.index_matrices(), start=1):
        attentions = tuple(number(s) for s in attention_matrices(model, layer, mixing, indices.subs(values)))
        if layer < model.layers or model.output == "sequence":
            mixing = number(mix(model, mixing, attentions, model.readouts[layer - 1] if model.heads > 1 else None))
    return mixing if model.output == "sequence" else sp.Matrix.vstack(*attentions)


def _compare(model: Architecture, kernels: tuple[Kernel, ...]) -> None:
    printed = run_mp([lower(kernel) for kernel in kernels])
    ctx = MPContext()
    ctx.dps = _DIGITS
    arguments = kernels[0].arguments
    inputs = model.indices * model.tokens
    for scale, signed in _PLACES:
        # Any generic point: multiples of 1/97 that repeat in no row.
        values = [sp.Rational((37 * n * n + 11 * n + 5) % 97 + 8, 97) for n in range(len(arguments))]
        values = [scale * v if n < inputs else v for n, v in enumerate(values)]
        values = [-v if signed and n % 3 == 1 and n < inputs else v for n, v in enumerate(values)]
        point = [ctx.mpf(int(v.p)) / int(v.q) for v in values]
        try:
            made = printed["link"](ctx, *point)
            break
        except ValueError:
            # Outside the domain of the activation: the next place, or the error of the last.
            if (scale, signed) == _PLACES[-1]:
                raise
    wanted = [ctx.mpf(str(value)) for value in _at(model, dict(zip(arguments, values, strict=True)))]
    _agree(ctx, made, wanted, _DIGITS - 8, f"{package_name(model)}: link")

    # Central differences: the step squared, 1e-36, times third derivatives of order one to a thousand.
    step = ctx.mpf(10) ** -18
    columns = []
    for n in range(inputs):
        up, down = ([*point[:n], point[n] + sign * step, *point[n + 1 :]] for sign in (1, -1))
        pairs = zip(printed["link"](ctx, *up), printed["link"](ctx, *down), strict=True)
        columns.append([(a - b) / (2 * step) for a, b in pairs])
    wanted = [columns[n][k] for k in range(len(made)) for n in range(inputs)]
    _agree(ctx, printed["jacobian"](ctx, *point), wanted, 28, f"{package_name(model)}: jacobian")


def _agree(ctx: MPContext, made: Sequence[mpf], wanted: Sequence[mpf], digits: int, what: str) -> None:
    size = max([ctx.mpf(1), *(abs(value) for value in wanted)])
    for number, (value, reference) in enumerate(zip(made, wanted, strict=True)):
        if not abs(value - reference) < ctx.mpf(10) ** -digits * size:
            raise ProofError(f"{what}: entry {number} is {ctx.nstr(value, 30)}, expected {ctx.nstr(reference, 30)}")
