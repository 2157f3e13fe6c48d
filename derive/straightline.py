"""The link and its exact Jacobian as straight-line programs: derivation that scales with depth, tokens and heads.

Written as one expression tree, the link of L layers repeats the tree of every earlier layer in each of its entries,
and its derivative does so squared.  Here every readout, score, attention entry and entry of B_l is a new symbol,
assigned once, in order; the Jacobian follows by the chain rule on those symbols, column by column, with
structural zeros left out.  The attention's derivative uses the attention itself,

    dS_ij = S_ij (dz_ij - sum_k S_ik dz_ik) = sum_k S_ij S_ik (dz_ij - dz_ik),

in the second form, which does not cancel in a saturated row (S_ij near one).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import NamedTuple, Protocol

import sympy as sp

from .architecture import Architecture
from .attention import Mask, attention
from .tape import Assignment, Tape

__all__ = [
    "Assignment",
    "Described",
    "Recorded",
    "Stage",
    "StraightLine",
    "record",
    "straight_jacobian",
    "straight_link",
]


class Described(Protocol):
    """A model whose link `record` writes: an `Architecture`, or a list of blocks (`derive.blocks`)."""

    @property
    def tokens(self) -> int:
        """M, the columns of the indices."""

    @property
    def indices(self) -> int:
        """P, their rows."""

    @property
    def name(self) -> str:
        """What files and messages call it."""

    @property
    def title(self) -> str:
        """The same with its sizes, for readers."""

    @property
    def constants(self) -> tuple[sp.Symbol, ...]:
        """Symbols of its numbers, in the order in which printed functions take them."""

    @property
    def free_means(self) -> tuple[int, ...]:
        """Rows of h, from 0, whose mean over the tokens its output is known not to depend on."""

    def index_matrices(self) -> tuple[sp.Matrix, ...]:
        """Symbols of its indices, matrices of M columns whose rows are those of h."""


@dataclass(frozen=True)
class Stage:
    """The symbols of one layer, for proofs.

    Attributes
    ----------
    layer : int
    before : sympy.Matrix
        B_{l-1}, HM x HM, as far as the layer knows it: symbols, 0, 1 or c.
    scores : tuple of sympy.Matrix
        beta K^T Q of every head, M x M; for the softmax at M = 2 the difference of the two scores of a row and zero,
        which is the same row to a softmax.
    attentions : tuple of sympy.Matrix
        S of every head.
    after : sympy.Matrix or None
        B_l; None where the attention matrices are the output.
    model : Architecture
        Whose activation it has.
    mask : sequence of sequences of bool, optional
        Which tokens each row sees; all by default.
    """

    layer: int
    before: sp.Matrix
    scores: tuple[sp.Matrix, ...]
    attentions: tuple[sp.Matrix, ...]
    after: sp.Matrix | None
    model: Architecture
    mask: Mask | None = None


@dataclass(frozen=True)
class StraightLine:
    """Ordered assignments and what they are for.

    Attributes
    ----------
    model : Architecture
    variables : tuple of sympy.Symbol
        Entries of h, row by row, in the order of `Architecture.index_blocks`.
    body : tuple of (sympy.Symbol, sympy.Expr)
        Each value uses variables, constants of the model and earlier names.
    outputs : sympy.Matrix
        The output y, or its Jacobian: one row per entry of y (row by row), one column per variable.
    stages : tuple of Stage
        One per layer.
    rows : tuple of (sympy.Matrix, Mask or None)
        Scores whose row-wise softmax the outputs are, one below the other, and which of them a row has; none for
        outputs of another kind.
    scores : sympy.Matrix or None
        What an activation of one's own acts on, in the shape of the outputs, where they are its values.
    rates : dict
        Derivatives of values of such activations by what these act on.
    """

    model: Described
    variables: tuple[sp.Symbol, ...]
    body: tuple[Assignment, ...]
    outputs: sp.Matrix
    stages: tuple[Stage, ...]
    rows: tuple[tuple[sp.Matrix, Mask | None], ...] = ()
    scores: sp.Matrix | None = None
    rates: Mapping[sp.Expr, Mapping[sp.Expr, sp.Expr]] = field(default_factory=dict)

    def expanded(self) -> sp.Matrix:
        """Return the outputs as expressions of the variables alone; the trees grow exponentially with depth."""
        known: dict[sp.Symbol, sp.Expr] = {}
        for name, value in self.body:
            known[name] = value.xreplace(known)
        return self.outputs.xreplace(known)


class Recorded(NamedTuple):
    """What a link that is written on a tape leaves beside it; the attributes are those of `StraightLine`."""

    outputs: sp.Matrix
    stages: tuple[Stage, ...]
    rows: tuple[tuple[sp.Matrix, Mask | None], ...] = ()
    scores: sp.Matrix | None = None


def _seen(model: Architecture, tape: Tape, layer: int, head: int, mixing: sp.Matrix) -> dict[str, sp.Matrix]:
    """Return the indices of one head as its layer sees them, by role: k B^T, q B^T or h B^T, r x M each."""
    tokens = model.tokens
    terms: dict[str, list[list[list[sp.Expr]]]] = {}
    for block in model.index_blocks:
        if (block.layer, block.head) != (layer, head):
            continue
        h = block.symbols(tokens, model.heads)
        grid = terms.setdefault(block.role, [[[] for _ in range(tokens)] for _ in range(block.rank)])
        for r in range(block.rank):
            for m in range(tokens):
                row = (head - 1) * tokens + m
                grid[r][m] += [h[r, n] * mixing[row, (block.block - 1) * tokens + n] for n in range(tokens)]
    where = _where(model, layer, head)
    return {
        role: sp.Matrix(
            len(grid),
            tokens,
            lambda r, m, grid=grid, role=role: tape.put(f"{role}b{where}_{r + 1}_{m + 1}", sp.Add(*grid[r][m])),
        )
        for role, grid in terms.items()
    }


def _where(model: Architecture, layer: int, head: int) -> str:
    return f"{layer}" if model.heads == 1 else f"{layer}_{head}"


def _mixed(
    model: Architecture, tape: Tape, layer: int, mixing: sp.Matrix, attentions: tuple[sp.Matrix, ...]
) -> sp.Matrix:
    """Return B_l entry by entry."""
    tokens, heads = model.tokens, model.heads
    moved = [
        [
            sp.Add(*[attention[i, e] * mixing[b * tokens + e, column] for e in range(tokens)])
            for i in range(tokens)
            for column in range(heads * tokens)
        ]
        for b, attention in enumerate(attentions)
    ]
    width = heads * tokens
    if heads > 1:
        # S B is shared by all blocks that read it out.
        moved = [
            [tape.put(f"a{layer}_{b + 1}_{n // width + 1}_{n % width + 1}", value) for n, value in enumerate(values)]
            for b, values in enumerate(moved)
        ]

    def entry(row: int, column: int) -> sp.Expr:
        head, token = divmod(row, tokens)
        weights = [sp.S.One] if heads == 1 else list(model.readouts[layer - 1][head, :])
        change = sp.Add(*[o * values[token * width + column] for o, values in zip(weights, moved, strict=True)])
        return tape.put(f"b{layer}_{row + 1}_{column + 1}", model.skip * mixing[row, column] + change)

    return sp.Matrix(width, width, entry)


@singledispatch
def record(model: Described, tape: Tape) -> Recorded:
    """Write the link of a model on a tape, whose variables are the entries of its indices."""
    raise NotImplementedError(f"no link is known of {type(model).__name__}")


@record.register
def _(model: Architecture, tape: Tape) -> Recorded:
    mixing = sp.eye(model.heads * model.tokens)
    stages: list[Stage] = []
    for layer in range(1, model.layers + 1):
        scores, attentions = [], []
        for head in range(1, model.heads + 1):
            seen = _seen(model, tape, layer, head, mixing)
            keys, queries = (seen["h"], seen["h"]) if model.tied else (seen["k"], seen["q"])
            score, weights = attention(model, tape, _where(model, layer, head), keys, queries)
            scores.append(score)
            attentions.append(weights)
        ends = layer == model.layers and model.output == "last"
        after = None if ends else _mixed(model, tape, layer, mixing, tuple(attentions))
        stages.append(Stage(layer, mixing, tuple(scores), tuple(attentions), after, model))
        mixing = mixing if after is None else after
    if model.output == "sequence":
        return Recorded(mixing, tuple(stages))
    tables = stages[-1].scores
    rows = tuple((table, None) for table in tables) if model.activation == "softmax" else ()
    return Recorded(sp.Matrix.vstack(*stages[-1].attentions), tuple(stages), rows, sp.Matrix.vstack(*tables))


def _written(model: Described, differentiate: bool) -> StraightLine:
    variables = tuple(entry for matrix in model.index_matrices() for entry in matrix)
    tape = Tape(variables, differentiate)
    outputs, stages, rows, scores = record(model, tape)
    if differentiate:
        slopes = [tape.slope(value) for value in outputs]
        outputs = sp.Matrix([[slope.get(variable, sp.S.Zero) for variable in variables] for slope in slopes])
    return StraightLine(model, variables, tuple(tape.body), outputs, stages, rows, scores, tape.rates)


def straight_link(model: Described) -> StraightLine:
    """Return the link as a straight-line program, for any architecture.

    Returns
    -------
    StraightLine
        Its outputs have the shape of `derive.mixing.link`.

    Raises
    ------
    ValueError
        If the model's own activation is no expression.

    References
    ----------
    troiani2025, (5)-(7), (19)-(26), (31)-(32), (43)-(45).
    """
    return _written(model, differentiate=False)


def straight_jacobian(model: Described) -> StraightLine:
    """Return the exact Jacobian dy/dh as a straight-line program, for any architecture.

    Returns
    -------
    StraightLine
        Its outputs have one row per entry of the link (row by row) and one column per entry of h (row by row).

    Raises
    ------
    ValueError
        As `straight_link`.

    References
    ----------
    troiani2025, (5)-(7), (19)-(26), (31)-(32), (43)-(45); the derivative is derived here.
    """
    return _written(model, differentiate=True)
