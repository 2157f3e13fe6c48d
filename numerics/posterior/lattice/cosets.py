"""Sums of the posterior's moments over the nodes of a lattice that lie in the boxes kept, coset by coset."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import INNER
from .integrand import N_MOMENTS, Compiled

__all__ = ["BUFFER_SHAPES", "Buffer", "Coset", "Region", "coset_sums", "difference"]

# Pieces of rows that wait for evaluation: a few tens of kB, which stay in cache.
_PIECES = 128
# Pieces are evaluated so many at once.
_LANES = 8
# Longest piece (`LONGEST` of the kernels), and the largest change of the kernel's exponents from node to node, in units
# of its own length far out, for which a piece may have more than one node: see `undo_ratios`.
_LONGEST = 24
# What of a piece is listed, and what its evaluation wants.
_LISTED = 5
_ROWS = 11
# Of `listed`, `ordered`, `sums` and `places`.
BUFFER_SHAPES = (3, _LISTED, _PIECES), (_ROWS, _PIECES), (2 * N_MOMENTS, _LANES), (2, _PIECES)


class Buffer(NamedTuple):
    """Pieces of rows that wait for evaluation, and the functions from `bind` that evaluate them.

    `listed` of each kind (0: both branches, 1: plus, 2: minus): xm, first xp, number of nodes, and how often they count
    in the first and in the second coset; `filled`: pieces of each kind; `ordered` by falling numbers of nodes, as
    `pair` and `branch` take them, with `sums` for both cosets; `places`: scratch of the sorting.
    """

    listed: NDArray[np.float64]
    filled: NDArray[np.int64]
    ordered: NDArray[np.float64]
    sums: NDArray[np.float64]
    places: NDArray[np.int64]
    pair: Compiled
    branch: Compiled
    undo_rows: Compiled


class Region(NamedTuple):
    """Boxes merged along rows, within a circle around the prior mean, of squared radius `radius2`.

    Of `rows` the first `n_rows` are there: ends in xm, first and last span; `spans`: ends in xp, branches (`Boxes`).
    The exponents of the kernel change by `slope` |xm| per unit of xp at most.
    """

    rows: NDArray[np.float64]
    n_rows: int
    spans: NDArray[np.float64]
    radius2: float
    slope: float


class Coset(NamedTuple):
    """The lattice of steps (p, m), sheared and shifted by half_m steps in xm and half_p steps along the rows."""

    p: float
    m: float
    shear: float
    half_p: float
    half_m: float


@njit(**INNER)
def coset_sums(f, region, coset, buffer, out):  # type: ignore[no-untyped-def]
    """Sum the moments over one coset, or two that share their rows; return the number of nodes.

    For `out` of two rows the second coset is shifted by half a step along the rows, and `half_p` is 0.
    """
    rows, spans, p = region.rows, region.spans, f.p
    listed, filled = buffer.listed, buffer.filled
    step_p, step_m, shear, half_p, half_m = coset
    halves = len(out)
    for k in range(2 * N_MOMENTS):
        for lane in range(_LANES):
            buffer.sums[k, lane] = 0.0
    per_step = 1.0 / step_p
    total = 0
    steepest = 10.0
    for r in range(region.n_rows):
        i = math.ceil(rows[r, 0] / step_m - half_m)
        if f.even:
            i = max(i, 0.0)
        while True:
            xm = (i + half_m) * step_m
            if xm >= rows[r, 1]:
                break
            i += 1.0
            reach = region.radius2 - (xm - p[5]) * (xm - p[5])
            if reach <= 0.0:
                continue
            reach = math.sqrt(reach)
            offset = shear * xm + half_p * step_p
            longest = _LONGEST if region.slope * abs(xm) * step_p <= steepest else 1
            # The integrand may be even in x: then the half plane xm > 0 counts twice, and the row xm = 0 once.
            times = 2.0 if f.even and xm > 0.0 else 1.0
            for t in range(int(rows[r, 2]), int(rows[r, 3])):
                low = (max(spans[t, 0], p[4] - reach) - offset) * per_step
                high = (min(spans[t, 1], p[4] + reach) - offset) * per_step
                kind = 0 if spans[t, 2] == 3.0 else int(spans[t, 2])
                for half in range(halves):
                    j = math.ceil(low - 0.5 * half)
                    m = int(math.ceil(high - 0.5 * half) - j)
                    if m <= 0:
                        continue
                    total += m
                    first = (j + 0.5 * half) * step_p + offset
                    # Equal parts of at most the longest length.
                    parts = math.ceil(m / longest)
                    start = 0
                    for part in range(1, int(parts) + 1):
                        n = filled[kind]
                        end = int(m * part / parts)
                        listed[kind, 0, n] = xm
                        listed[kind, 1, n] = first + start * step_p
                        listed[kind, 2, n] = end - start
                        listed[kind, 3, n] = 0.0 if half else times
                        listed[kind, 4, n] = times if half else 0.0
                        start = end
                        filled[kind] = n + 1
                        if n + 1 == _PIECES:
                            _flush(p, step_p, buffer, kind)
    for kind in range(3):
        _flush(p, step_p, buffer, kind)
    _collect(buffer, f.even, out)
    return total


@njit(**INNER)
def _collect(buffer, even, out):  # type: ignore[no-untyped-def]
    """Add up the lanes of the sums, for one coset or two."""
    for half in range(len(out)):
        for k in range(N_MOMENTS):
            x = buffer.sums[half * N_MOMENTS + k]
            out[half, k] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]))
    if even:
        for half in range(len(out)):
            for k in (1, 2, 7, 8, 10, 11):  # odd in x: z_1, z_2 and their products with z_3, z_4
                out[half, k] = 0.0


@njit(**INNER)
def _flush(p, step, buffer, kind):  # type: ignore[no-untyped-def]
    """Evaluate the listed pieces of one kind, the longest ones first, and empty the list."""
    n = buffer.filled[kind]
    if n == 0:
        return
    listed, ordered = buffer.listed[kind], buffer.ordered
    # Where the pieces of each length start: those of one node last.
    place, order = buffer.places[0], buffer.places[1]
    for m in range(_LONGEST + 1):
        place[m] = 0
    for t in range(n):
        place[int(listed[2, t])] += 1
    start = 0
    for m in range(_LONGEST, 0, -1):
        count = place[m]
        place[m] = start
        start += count
    for t in range(n):
        m = int(listed[2, t])
        order[t] = place[m]
        place[m] += 1
    whole = (n + _LANES - 1) // _LANES * _LANES
    for row in range(_LISTED):
        for t in range(n):
            ordered[row, order[t]] = listed[row, t]
        for t in range(n, whole):  # no nodes
            ordered[row, t] = 0.0
    buffer.undo_rows(p, ordered, whole, step)
    if kind == 0:
        buffer.pair(p, ordered, whole, step, buffer.sums)
    else:
        buffer.branch(p, ordered, whole, step, 1.0 if kind == 1 else -1.0, buffer.sums)
    buffer.filled[kind] = 0


@njit(**INNER)
def difference(a, b, c, d):  # type: ignore[no-untyped-def]
    """Largest difference between the moments of a + b and of c + d, relative to the mass or themselves."""
    mass = a[0] + b[0] + c[0] + d[0]
    worst = 0.0
    for k in range(N_MOMENTS):
        x = a[k] + b[k]
        y = c[k] + d[k]
        worst = max(worst, abs(x - y) / (mass + abs(x + y)))
    return worst
