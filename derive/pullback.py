"""The square loss of an output and its slopes in the indices, backwards along the straight-line program of the link.

Every assigned value has an adjoint, the slope of the loss in it: the sum over its uses of their adjoints times their
derivatives. Entries of a softmax row hand theirs on by S_ij S_ik (as in `straightline`), not through exponentials.
"""

from collections import defaultdict

import sympy as sp

from .straightline import Assignment, Described, StraightLine, straight_link

__all__ = ["straight_loss"]

_Partials = dict[sp.Expr, dict[sp.Expr, sp.Expr]]


def straight_loss(model: Described) -> StraightLine:
    """Return ||y - g(h)||^2 / 2 and its slopes in h as a straight-line program, for any architecture.

    Returns
    -------
    StraightLine
        Its variables are the entries of h, then those of y (row by row); its outputs, one column, the loss, then its
        slope in every entry of h.

    Raises
    ------
    ValueError
        As `derive.straightline.straight_link`.

    References
    ----------
    troiani2025, (5)-(7), (19)-(26), (31)-(32), (43)-(45), section 3.3; the slopes are derived here.
    """
    line = straight_link(model)
    rows, columns = line.outputs.shape
    told = [sp.Symbol(f"y_{i + 1}_{j + 1}", real=True) for i in range(rows) for j in range(columns)]
    residuals = [sp.Symbol(f"r_{i + 1}_{j + 1}", real=True) for i in range(rows) for j in range(columns)]
    known = {*line.variables, *(name for name, _ in line.body)}
    adjoint: dict[sp.Expr, list[sp.Expr]] = defaultdict(list)
    for value, residual in zip(line.outputs, residuals, strict=True):
        if value in known:
            adjoint[value].append(residual)
    special = _activation_slopes(line)
    back: list[Assignment] = [(r, g - y) for r, g, y in zip(residuals, line.outputs, told, strict=True)]
    for name, value in reversed(line.body):
        if name not in adjoint:
            continue
        bar = sp.Symbol(f"bar_{name.name}", real=True)
        back.append((bar, sp.Add(*adjoint[name])))
        slopes = special.get(name) or {s: sp.diff(value, s) for s in _inner(value, known)}
        for symbol, slope in slopes.items():
            adjoint[symbol].append(bar * slope)
    loss = sp.Rational(1, 2) * sp.Add(*(r**2 for r in residuals))
    outputs = sp.Matrix([loss, *(sp.Add(*adjoint[h]) for h in line.variables)])
    return StraightLine(model, (*line.variables, *told), (*line.body, *back), outputs, line.stages)


def _inner(value: sp.Expr, known: set[sp.Expr]) -> list[sp.Expr]:
    """Return what a value is built on, constants of the model aside, in an order of its own."""
    return sorted(value.free_symbols & known, key=lambda symbol: symbol.name)


def _activation_slopes(line: StraightLine) -> _Partials:
    """Return the derivatives of values of activations by what these act on: scores, or those of their row."""
    found = _Partials({value: dict(rates) for value, rates in line.rates.items()})
    for stage in line.stages:
        for scores, attention in zip(stage.scores, stage.attentions, strict=True):
            for i in range(attention.rows):
                kept = [j for j in range(attention.cols) if stage.mask is None or stage.mask[i][j]]
                row, told = [attention[i, j] for j in kept], [scores[i, j] for j in kept]
                if stage.model.activation != "softmax" or len(row) == 1:
                    continue  # the entries are the scores, or values of an activation, or one
                if told[1] == 0:
                    # The score is the difference of both.
                    weight = row[0] * row[1]
                    found |= {row[0]: {told[0]: weight}, row[1]: {told[0]: -weight}}
                else:
                    for j, s in enumerate(row):
                        others = [k for k in range(len(row)) if k != j]
                        found[s] = {told[k]: -s * row[k] for k in others}
                        found[s][told[j]] = s * sp.Add(*(row[k] for k in others))
    return found
