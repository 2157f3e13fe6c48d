"""Charts of outputs with Gaussian noise: all indices are coordinates, and the noise is what y is solved for.

The noise stands beside the indices as further rows e, standard normal and of zero overlap,

    d(y) = d(g(h)) + Delta^{1/2} e,

so that every y is reached by every h, exactly once: no fibre is needed, and any architecture has this chart. What the
noise is added to is, for softmax, the scores: an output stays a stochastic matrix, and it shows the differences of the
noisy scores of a row and nothing else, d = the M - 1 orthonormal contrasts of each row. For every other activation, and
for a sequence output, d = y.
"""

import sympy as sp

from .architecture import Architecture
from .charts import Chart, free_means
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
    model = line.model
    if model.activation != "softmax" or model.output == "sequence":
        return list(line.outputs)
    # Row k of the noise holds contrast k of the rows of scores, one after the other.
    return [
        contrast
        for scores in line.stages[-1].scores
        for k in range(1, model.tokens)
        for contrast in scores * _contrast(k, model.tokens)
    ]


def _contrast(k: int, tokens: int) -> sp.Matrix:
    """Return a unit vector: the first k tokens against the next one."""
    below = [sp.S.One] * k + [sp.Integer(-k)] + [sp.S.Zero] * (tokens - k - 1)
    return sp.Matrix(below) / sp.sqrt(k * (k + 1))
