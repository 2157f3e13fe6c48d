"""The heads of the last layer in a sequence output y = B_L: what each shows, and the equations that it leaves.

`derive.sequence_inversion` has the formulas.
"""

from dataclasses import dataclass

import sympy as sp

from .architecture import Architecture
from .fibres import Fibre
from .matrix_program import Names
from .sequence_rank import output_entries


@dataclass(frozen=True)
class Head:
    """One head of the last layer: its copy of the fibre, S as names, the block row that shows it, its equations."""

    fibre: Fibre
    attention: sp.Matrix
    seen: int
    equations: tuple[sp.Expr, ...]
    conditions: tuple[sp.Expr, ...]
    in_attention: tuple[sp.Expr, ...]


def read_head(model: Architecture, found: Fibre, names: Names, block: sp.Matrix, weights: sp.Matrix, head: int) -> Head:
    """Read the attention matrix of one head off the block that shows it, with its fibre and its equations."""
    tokens = model.tokens
    # The block on the diagonal unless its readout is zero.
    rows = sorted(range(model.heads), key=lambda a: (a != head, a))
    seen = next(a for a in rows if not weights[a, head].is_zero)
    part = _block(block, seen, head, tokens) / weights[seen, head]
    softmax = model.activation == "softmax"
    where = "" if model.heads == 1 else f"{head + 1}"
    attention = names.matrix(f"S{where}", part, **({"positive": True} if softmax else {"real": True}))
    place: dict[sp.Expr, sp.Expr] = dict(zip(found.output, attention, strict=True))
    if model.heads > 1:
        own = [*(s for s, _ in found.data), *found.variables, *found.signs]
        place |= {s: sp.Symbol(f"{s.name}_head{where}", **s.assumptions0) for s in own}
    values = {s: value.xreplace(place) for s, value in found.data}
    data = tuple((s.xreplace(place), values[s]) for s, _ in found.data)
    for symbol, value in data:
        names.body.append((symbol, value))
    copy = Fibre(
        found.model,
        attention,
        tuple(value.xreplace(place) for value in found.coordinates),
        data,
        tuple((shown.xreplace(place), value.xreplace(place)) for shown, value in found.dependent),
        tuple(s.xreplace(place) for s in found.variables),
        found.ranges,
        tuple(s.xreplace(place) for s in found.signs),
        found.readout.xreplace(place),
        found.log_density.xreplace(place),
    )
    # Differences in terms of the data to be evaluated, in terms of S to be differentiated.
    equations = tuple(shown - value for shown, value in copy.dependent)
    return Head(copy, attention, seen, equations, _conditions(copy), tuple(e.xreplace(dict(data)) for e in equations))


def _block(matrix: sp.Matrix, row: int, column: int, tokens: int) -> sp.Matrix:
    return matrix[row * tokens : (row + 1) * tokens, column * tokens : (column + 1) * tokens]


def _conditions(found: Fibre) -> tuple[sp.Expr, ...]:
    """Return what must be positive: softmax entries, and the Gram matrix of a tied readout by its leading minors."""
    conditions = list(found.output) if found.model.activation == "softmax" else []
    if found.model.tied:
        gram = [symbol for symbol, _ in found.data if symbol.name.startswith("C_")]
        size = int((sp.sqrt(8 * len(gram) + 1) - 1) / 2)
        matrix = sp.zeros(size, size)
        for symbol in gram:
            i, j = (int(part) - 1 for part in symbol.name.split("_")[1:3])
            matrix[i, j] = matrix[j, i] = symbol
        for order in range(1, size + 1):
            conditions.append(matrix[:order, :order].det(method="berkowitz"))
    return tuple(conditions)


def repeated_blocks(model: Architecture, block: sp.Matrix, weights: sp.Matrix, parts: list[Head]) -> list[sp.Expr]:
    """Return the equations of the blocks of Q that show an attention matrix once more."""
    tokens = model.tokens
    places = output_entries(parts[0].fibre.model)
    found = []
    for head, part in enumerate(parts):
        for row in (a for a in range(model.heads) if a != part.seen):
            again = _block(block, row, head, tokens) - weights[row, head] * part.attention
            found += [again[i, j] for i, j in places]
    return found


def log_scores(found: Fibre, attention: sp.Matrix) -> sp.Expr:
    """Return log|d scores / d S| of one head."""
    if found.model.activation == "softmax":
        return -sp.Add(*[sp.log(entry) for entry in attention])
    shown = [*found.coordinates, *(value for value, _ in found.dependent)]
    rates = [sp.diff(value, symbol) for value in shown for symbol in value.free_symbols & set(attention)]
    return sp.Add(*[sp.log(sp.Abs(rate)) for rate in rates])


def differentiate(
    names: Names,
    equations: list[sp.Expr],
    parts: list[Head],
    block: sp.Matrix,
    weights: sp.Matrix,
    rates: list[sp.Matrix],
) -> sp.Matrix:
    """Return E by the chain rule through S and Q, entry by entry as names."""
    tokens = parts[0].fibre.model.tokens
    named = [names.matrix(f"Q_d{n}", rate) for n, rate in enumerate(rates, start=1)]
    slopes: dict[sp.Symbol, list[sp.Expr]] = {symbol: [rate[k] for rate in named] for k, symbol in enumerate(block)}
    for head, part in enumerate(parts):
        scale = weights[part.seen, head]
        rows = [_block(rate, part.seen, head, tokens) / scale for rate in named]
        slopes |= {symbol: [row[k] for row in rows] for k, symbol in enumerate(part.attention)}
    plain = [e for part in parts for e in part.in_attention]
    plain += equations[len(plain) :]
    found = sp.zeros(len(plain), len(rates))
    for i, equation in enumerate(plain):
        inner = sorted(equation.free_symbols & slopes.keys(), key=lambda s: s.name)
        partial = {s: names.put(f"E_{i + 1}_{s.name}", sp.diff(equation, s)) for s in inner}
        for n in range(len(rates)):
            value = sp.Add(*[factor * slopes[s][n] for s, factor in partial.items()])
            found[i, n] = names.put(f"E_{i + 1}_{n + 1}", value)
    return found
