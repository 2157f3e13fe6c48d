"""Charts of outputs with Gaussian noise: all indices are coordinates, and the noise is what y is solved for.

The noise stands beside the indices as further rows e, standard normal and of zero overlap,

    d(y) = d(g(h)) + Delta^{1/2} e,

so that every y is reached by every h, exactly once: no fibre is needed, and any architecture has this chart. What the
noise is added to is, for softmax, the scores: an output stays a stochastic matrix, and it shows the differences of the
noisy scores of a row and nothing else, d = the M - 1 orthonormal contrasts of each row. For every other activation, and
for a sequence output, d = y.
"""

from collections.abc import Sequence

import sympy as sp

from .architecture import Architecture
from .chart_parts import Chart, free_means
from .matrix_program import Names
from .straightline import StraightLine, straight_link

__all__ = ["noisy_chart"]

_DEVIATION = sp.Symbol("deviation", positive=True)


def noisy_chart(model: Architecture) -> Chart:
    """Derive the chart of a model whose outputs have noise of variance Delta > 0.

    Parameters
    ----------
    model : Architecture

    Returns
    -------
    Chart
        `h` and `entries` have the rows of the noise after those of the indices; `deviation` is Delta^{1/2}.
    """
    line = straight_link(model)
    names = Names(line.body)
    output = sp.Matrix(*line.outputs.shape, lambda i, j: sp.Symbol(f"y_{i + 1}_{j + 1}", real=True))
    seen = _seen(line)
    rows = len(seen) // model.tokens
    noise = sp.Matrix(rows, model.tokens, lambda k, m: sp.Symbol(f"e_{k + 1}_{m + 1}", real=True))
    data = [sp.Symbol(f"d_{n + 1}", real=True) for n in range(len(seen))]
    exact = [names.put(f"exact_{n + 1}", value) for n, value in enumerate(seen)]
    solved = [(d - value) / _DEVIATION for d, value in zip(data, exact, strict=True)]
    entries = sp.Matrix.vstack(*model.index_matrices())
    return Chart(
        model=model,
        data=tuple(data),
        output=output,
        given=tuple(_shown(line, output)),
        hidden=tuple(entries),
        variables=(),
        ranges=(),
        signs=(),
        h=sp.Matrix.vstack(entries, sp.Matrix(rows, model.tokens, solved)),
        log_weight=-len(data) * sp.log(_DEVIATION),
        conditions=(),
        body=tuple(names.body),
        shown=tuple(value + _DEVIATION * e for value, e in zip(exact, noise, strict=True)),
        coordinates=(),
        reading=tuple(names.body),
        entries=sp.Matrix.vstack(entries, noise),
        free=free_means(model),
        deviation=_DEVIATION,
    )


def _seen(line: StraightLine) -> list[sp.Expr]:
    """Return what the noise is added to."""
    if line.model.activation != "softmax" or line.model.output == "sequence":
        return list(line.outputs)
    return _contrasts(line.stages[-1].scores)


def _shown(line: StraightLine, output: sp.Matrix) -> list[sp.Expr]:
    """Return what an output shows of that."""
    model = line.model
    if model.activation != "softmax" or model.output == "sequence":
        return list(output)
    size = model.tokens
    heads = [output[head * size : (head + 1) * size, :] for head in range(model.heads)]
    return _contrasts([matrix.applyfunc(sp.log) for matrix in heads])


def _contrasts(tables: Sequence[sp.Matrix]) -> list[sp.Expr]:
    """Return the contrasts of the rows of scores of every head: row k of the noise holds contrast k of all rows."""
    size = tables[0].cols
    return [value for table in tables for k in range(1, size) for value in table * _contrast(k, size)]


def _contrast(k: int, tokens: int) -> sp.Matrix:
    """Return a unit vector: the first k tokens against the next one."""
    below = [sp.S.One] * k + [sp.Integer(-k)] + [sp.S.Zero] * (tokens - k - 1)
    return sp.Matrix(below) / sp.sqrt(k * (k + 1))
