"""The attention of one head as assignments of a straight-line program: scores, and what the activation makes of them.

The derivative of a softmax row uses the row itself, in a form that does not cancel where it is saturated
(`straightline`).
"""

from collections.abc import Sequence

import sympy as sp

from .activation import SCORE, printed_activation
from .architecture import Architecture
from .primitives import Exp, Expit, Largest, stable
from .tape import Slope, Tape

__all__ = ["Mask", "attention", "entry", "softmax_row"]

Mask = Sequence[Sequence[bool]]


def _pair(tape: Tape, where: str, gap: sp.Expr) -> list[sp.Expr]:
    """Return a softmax row of two entries from the difference of its scores."""
    row = [tape.assign(f"s{where}_1", stable(Expit(gap))), tape.assign(f"s{where}_2", stable(Expit(-gap)))]
    if tape.differentiate:
        weight = tape.assign(f"p{where}", row[0] * row[1])
        rising = tape.slope(gap)
        tape.give_slope(row[0], {v: weight * d for v, d in rising.items()})
        tape.give_slope(row[1], {v: -weight * d for v, d in rising.items()})
    return row


def softmax_row(tape: Tape, where: str, scores: list[sp.Expr]) -> list[sp.Expr]:
    """Return a softmax row."""
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


def entry(model: Architecture, tape: Tape, name: str, score: sp.Expr) -> sp.Expr:
    """Return one entry of an activation that acts entry by entry, in own nodes."""
    if model.activation == "linear":
        return score
    _, plain, rate = printed_activation(model)
    value, rate = tape.assign(name, plain.xreplace({SCORE: score})), rate.xreplace({SCORE: score})
    tape.rates[value] = {score: rate}
    tape.give_slope(value, tape.compact({v: rate * d for v, d in tape.slope(score).items()}))
    return value


def attention(
    model: Architecture, tape: Tape, where: str, keys: sp.Matrix, queries: sp.Matrix, mask: Mask | None = None
) -> tuple[sp.Matrix, sp.Matrix]:
    """Return the scores and the attention matrix of one head, M x M, from its keys and queries.

    Parameters
    ----------
    model : Architecture
        Has the activation, the inverse temperature and the number of tokens.
    tape : Tape
        Gets the assignments.
    where : str
        What their names end with.
    keys, queries : sympy.Matrix
        As the layer sees them, r x M each.
    mask : sequence of sequences of bool, optional
        Which tokens the row of each token sees, M x M; all by default. What it does not see has weight zero and the
        score zero; a softmax is over what it sees.
    """
    tokens, rank = model.tokens, keys.rows
    if model.activation == "softmax" and tokens == 2 and mask is None:
        gaps = [tape.put(f"g{where}_{r + 1}", queries[r, 0] - queries[r, 1]) for r in range(rank)]
        sums = [sp.Add(*[keys[r, i] * gaps[r] for r in range(rank)]) for i in range(2)]
        scores = [tape.put(f"z{where}_{i + 1}", model.beta * sums[i]) for i in range(2)]
        rows = [_pair(tape, f"{where}_{i + 1}", scores[i]) for i in range(2)]
        return sp.Matrix([[score, 0] for score in scores]), sp.Matrix(rows)
    seen = [[j for j in range(tokens) if mask is None or mask[i][j]] for i in range(tokens)]
    table, out = sp.zeros(tokens, tokens), sp.zeros(tokens, tokens)
    for i in range(tokens):
        for j in seen[i]:
            score = model.beta * sp.Add(*[keys[r, i] * queries[r, j] for r in range(rank)])
            table[i, j] = tape.put(f"z{where}_{i + 1}_{j + 1}", score)
    for i in range(tokens):
        told = [table[i, j] for j in seen[i]]
        if model.activation != "softmax":
            row = [entry(model, tape, f"s{where}_{i + 1}_{j + 1}", z) for j, z in zip(seen[i], told, strict=True)]
        else:
            row = [sp.S.One] if len(told) == 1 else softmax_row(tape, f"{where}_{i + 1}", told)
        for j, value in zip(seen[i], row, strict=True):
            out[i, j] = value
    return table, out
