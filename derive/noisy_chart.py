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

from .attention import Mask
from .chart_parts import Chart
from .matrix_program import Names
from .straightline import Described, StraightLine, straight_link

__all__ = ["noisy_chart"]

_DEVIATION = sp.Symbol("deviation", positive=True)


def noisy_chart(model: Described) -> Chart:
    """Derive the chart of a model whose outputs have noise of variance Delta > 0.

    Parameters
    ----------
    model : Architecture, or a list of blocks

    Returns
    -------
    Chart
        `h` and `entries` have the rows of the noise after those of the indices; `deviation` is Delta^{1/2}. Noise that
        no output shows, of which there is some where rows differ in length, is known to be what it is.
    """
    line = straight_link(model)
    names = Names(line.body)
    output = sp.Matrix(*line.outputs.shape, lambda i, j: sp.Symbol(f"y_{i + 1}_{j + 1}", real=True))
    seen, shown = _padded(_seen(line), model.tokens), _padded(_shown(line, output), model.tokens)
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
        given=tuple(shown),
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
        free=model.free_means,
        deviation=_DEVIATION,
    )


def _padded(values: list[sp.Expr], tokens: int) -> list[sp.Expr]:
    """Return them with zeros up to a multiple of the number of tokens."""
    return values + [sp.S.Zero] * (-len(values) % tokens)


def _seen(line: StraightLine) -> list[sp.Expr]:
    """Return what the noise is added to."""
    return _contrasts(line.rows) if line.rows else list(line.outputs)


def _shown(line: StraightLine, output: sp.Matrix) -> list[sp.Expr]:
    """Return what an output shows of that."""
    if not line.rows:
        return list(output)
    found, start = [], 0
    for table, mask in line.rows:
        found.append((output[start : start + table.rows, :].applyfunc(sp.log), mask))
        start += table.rows
    return _contrasts(found)


def _contrasts(tables: Sequence[tuple[sp.Matrix, Mask | None]]) -> list[sp.Expr]:
    """Return the contrasts of the rows of scores of every head: row k of the noise holds contrast k of all rows.

    Rows of fewer entries have fewer; zeros stand for the others.
    """
    found: list[sp.Expr] = []
    for table, mask in tables:
        kept = [[j for j in range(table.cols) if mask is None or mask[i][j]] for i in range(table.rows)]
        for k in range(1, table.cols):
            for i, columns in enumerate(kept):
                row = [table[i, j] for j in columns]
                found.append(_contrast(row, k) if k < len(row) else sp.S.Zero)
    return found


def _contrast(row: Sequence[sp.Expr], k: int) -> sp.Expr:
    """Return the product of a row with a unit vector: its first k entries against the next one."""
    below = [sp.S.One] * k + [sp.Integer(-k)] + [sp.S.Zero] * (len(row) - k - 1)
    return (sp.Matrix([row]) * (sp.Matrix(below) / sp.sqrt(k * (k + 1))))[0]
