"""The link and its exact Jacobian as straight-line programs: derivation that scales with depth, tokens and heads.

Written as one expression tree, the link of L layers repeats the tree of every earlier layer in each of its entries,
and its derivative does so squared.  Here every readout, score, attention entry and entry of B_l is a new symbol,
assigned once, in order; the Jacobian follows by the chain rule on those symbols, column by column, with
structural zeros left out.  The attention's derivative uses the attention itself,

    dS_ij = S_ij (dz_ij - sum_k S_ik dz_ik) = sum_k S_ij S_ik (dz_ij - dz_ik),

in the second form, which does not cancel in a saturated row (S_ij near one).
"""

from dataclasses import dataclass

import sympy as sp

from .activation import SCORE, printed_activation
from .architecture import Architecture
from .primitives import Exp, Expit, Largest, stable

__all__ = ["Stage", "StraightLine", "straight_jacobian", "straight_link"]

Assignment = tuple[sp.Symbol, sp.Expr]
Slope = dict[sp.Symbol, sp.Expr]


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
    """

    layer: int
    before: sp.Matrix
    scores: tuple[sp.Matrix, ...]
    attentions: tuple[sp.Matrix, ...]
    after: sp.Matrix | None


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
    """

    model: Architecture
    variables: tuple[sp.Symbol, ...]
    body: tuple[Assignment, ...]
    outputs: sp.Matrix
    stages: tuple[Stage, ...]

    def expanded(self) -> sp.Matrix:
        """Return the outputs as expressions of the variables alone; the trees grow exponentially with depth."""
        known: dict[sp.Symbol, sp.Expr] = {}
        for name, value in self.body:
            known[name] = value.xreplace(known)
        return self.outputs.xreplace(known)


class _Tape:
    """Records assignments, each value once, and the non-zero derivatives of all of them."""

    def __init__(self, variables: tuple[sp.Symbol, ...], differentiate: bool) -> None:
        self.numbers = {variable: number for number, variable in enumerate(variables, start=1)}
        self.differentiate = differentiate
        self.body: list[Assignment] = []
        self._known: dict[sp.Expr, sp.Symbol] = {}
        self._slopes: dict[sp.Symbol, Slope] = {v: {v: sp.S.One} for v in variables} if differentiate else {}

    def put(self, name: str, value: sp.Expr) -> sp.Expr:
        """Assign a value to a new symbol, unless it has one already, and differentiate it."""
        made = self.assign(name, value)
        if self.differentiate and made not in self._slopes:
            self.give_slope(made, self.slope(value))
        return made

    def assign(self, name: str, value: sp.Expr) -> sp.Expr:
        """Assign a value whose derivative `give_slope` is told."""
        if value.is_Atom:
            return value
        if value not in self._known:
            self._known[value] = sp.Symbol(name, real=True)
            self.body.append((self._known[value], value))
        return self._known[value]

    def give_slope(self, symbol: sp.Expr, slope: Slope) -> None:
        """Record the derivatives of an assigned symbol, which become assignments themselves."""
        if self.differentiate and isinstance(symbol, sp.Symbol) and symbol not in self._slopes:
            self._slopes[symbol] = {
                variable: self.assign(f"{symbol.name}_d{self.numbers[variable]}", value)
                for variable, value in slope.items()
            }

    def slope(self, value: sp.Expr) -> Slope:
        """Return the derivatives of an expression of recorded symbols, without those that are zero."""
        total: Slope = {}
        for symbol in sorted(value.free_symbols & self._slopes.keys(), key=lambda s: s.name):
            factor = sp.S.One if value == symbol else sp.diff(value, symbol)
            for variable, inner in self._slopes[symbol].items():
                total[variable] = total.get(variable, sp.S.Zero) + factor * inner
        return self.compact(total)

    def compact(self, slope: Slope) -> Slope:
        """Return the derivatives that are not zero, in the order of the variables."""
        return {v: slope[v] for v in self.numbers if slope.get(v, sp.S.Zero) != 0}


def _pair(tape: _Tape, where: str, gap: sp.Expr) -> list[sp.Expr]:
    """Return a softmax row of two entries from the difference of its scores."""
    row = [tape.assign(f"s{where}_1", stable(Expit(gap))), tape.assign(f"s{where}_2", stable(Expit(-gap)))]
    if tape.differentiate:
        weight = tape.assign(f"p{where}", row[0] * row[1])
        rising = tape.slope(gap)
        tape.give_slope(row[0], {v: weight * d for v, d in rising.items()})
        tape.give_slope(row[1], {v: -weight * d for v, d in rising.items()})
    return row


def _row(tape: _Tape, where: str, scores: list[sp.Expr]) -> list[sp.Expr]:
    """Return a softmax row of three or more entries."""
    largest = tape.assign(f"m{where}", Largest(*scores))
    powers = [tape.assign(f"e{where}_{j}", Exp(z - largest)) for j, z in enumerate(scores, start=1)]
    inverse = tape.assign(f"n{where}", 1 / sp.Add(*powers))
    row = [tape.assign(f"s{where}_{j}", power * inverse) for j, power in enumerate(powers, start=1)]
    if tape.differentiate:
        slopes: list[Slope] = [{} for _ in row]
        rising = [tape.slope(z) for z in scores]
        for j in range(len(row)):
            for k in range(j):
                weight = tape.assign(f"p{where}_{k + 1}_{j + 1}", row[k] * row[j])
                for variable, number in tape.numbers.items():
                    gap = rising[k].get(variable, sp.S.Zero) - rising[j].get(variable, sp.S.Zero)
                    if gap != 0:
                        flow = tape.assign(f"f{where}_{k + 1}_{j + 1}_d{number}", weight * gap)
                        slopes[k][variable] = slopes[k].get(variable, sp.S.Zero) + flow
                        slopes[j][variable] = slopes[j].get(variable, sp.S.Zero) - flow
        for entry, slope in zip(row, slopes, strict=True):
            tape.give_slope(entry, tape.compact(slope))
    return row


def _entry(model: Architecture, tape: _Tape, name: str, score: sp.Expr) -> sp.Expr:
    """Return one entry of an activation that acts entry by entry, in own nodes."""
    if model.activation == "linear":
        return score
    _, plain, rate = printed_activation(model)
    value, rate = tape.assign(name, plain.xreplace({SCORE: score})), rate.xreplace({SCORE: score})
    tape.give_slope(value, tape.compact({v: rate * d for v, d in tape.slope(score).items()}))
    return value


def _attention(
    model: Architecture, tape: _Tape, where: str, keys: sp.Matrix, queries: sp.Matrix
) -> tuple[sp.Matrix, sp.Matrix]:
    """Return the scores and the attention matrix of one head from its keys and queries, r x M each."""
    tokens, rank = model.tokens, keys.rows
    if model.activation == "softmax" and tokens == 2:
        gaps = [tape.put(f"g{where}_{r + 1}", queries[r, 0] - queries[r, 1]) for r in range(rank)]
        sums = [sp.Add(*[keys[r, i] * gaps[r] for r in range(rank)]) for i in range(2)]
        scores = [tape.put(f"z{where}_{i + 1}", model.beta * sums[i]) for i in range(2)]
        rows = [_pair(tape, f"{where}_{i + 1}", scores[i]) for i in range(2)]
        return sp.Matrix([[score, 0] for score in scores]), sp.Matrix(rows)
    table = sp.Matrix(
        tokens,
        tokens,
        lambda i, j: tape.put(
            f"z{where}_{i + 1}_{j + 1}", model.beta * sp.Add(*[keys[r, i] * queries[r, j] for r in range(rank)])
        ),
    )
    if model.activation == "softmax":
        return table, sp.Matrix([_row(tape, f"{where}_{i + 1}", list(table[i, :])) for i in range(tokens)])
    made = [_entry(model, tape, f"s{where}_{i + 1}_{j + 1}", table[i, j]) for i in range(tokens) for j in range(tokens)]
    return table, sp.Matrix(tokens, tokens, made)


def _seen(model: Architecture, tape: _Tape, layer: int, head: int, mixing: sp.Matrix) -> dict[str, sp.Matrix]:
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
    model: Architecture, tape: _Tape, layer: int, mixing: sp.Matrix, attentions: tuple[sp.Matrix, ...]
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


def _record(model: Architecture, differentiate: bool) -> StraightLine:
    variables = tuple(entry for matrix in model.index_matrices() for entry in matrix)
    tape = _Tape(variables, differentiate)
    mixing = sp.eye(model.heads * model.tokens)
    stages: list[Stage] = []
    for layer in range(1, model.layers + 1):
        scores, attentions = [], []
        for head in range(1, model.heads + 1):
            seen = _seen(model, tape, layer, head, mixing)
            keys, queries = (seen["h"], seen["h"]) if model.tied else (seen["k"], seen["q"])
            score, attention = _attention(model, tape, _where(model, layer, head), keys, queries)
            scores.append(score)
            attentions.append(attention)
        ends = layer == model.layers and model.output == "last"
        after = None if ends else _mixed(model, tape, layer, mixing, tuple(attentions))
        stages.append(Stage(layer, mixing, tuple(scores), tuple(attentions), after))
        mixing = mixing if after is None else after
    outputs = mixing if model.output == "sequence" else sp.Matrix.vstack(*stages[-1].attentions)
    if differentiate:
        slopes = [tape.slope(value) for value in outputs]
        outputs = sp.Matrix([[slope.get(variable, sp.S.Zero) for variable in variables] for slope in slopes])
    return StraightLine(model, variables, tuple(tape.body), outputs, tuple(stages))


def straight_link(model: Architecture) -> StraightLine:
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
    return _record(model, differentiate=False)


def straight_jacobian(model: Architecture) -> StraightLine:
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
    return _record(model, differentiate=True)
