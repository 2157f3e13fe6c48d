"""Sums of the posterior's moments over the nodes of a lattice that lie in the boxes kept, coset by coset."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .integrand import INNER, N_MOMENTS, Compiled

__all__ = ["BUFFER_SHAPES", "Buffer", "Coset", "Region", "coset_sums", "difference"]

# Nodes that wait for evaluation, and pieces of rows that wait for theirs: a few tens of kB, which stay in cache.
_BUFFER = 256
_BUFFER_ROWS = 9
_PIECES = 256
_VECTOR_LENGTH = 8
# Of `pieces` and `nodes`.
BUFFER_SHAPES = (8, _PIECES), (3, _BUFFER_ROWS, _BUFFER + _VECTOR_LENGTH)


class Buffer(NamedTuple):
    """What waits for evaluation, and the functions from `bind` that evaluate it.

    `pieces` of rows: xm, two numbers of `undo_row`, kind, first xp of both halves, nodes of both halves; `nodes` of
    each kind (0: both branches, 1: plus, 2: minus): xp, xm, the two numbers; `filled`: nodes of each kind, and pieces.
    """

    pieces: NDArray[np.float64]
    nodes: NDArray[np.float64]
    filled: NDArray[np.int64]
    pair: Compiled
    branch: Compiled
    undo_rows: Compiled


class Region(NamedTuple):
    """Boxes merged along rows, within a circle around the prior mean, of squared radius `radius2`.

    Of `rows` the first `n_rows` are there: ends in xm, first and last span; `spans`: ends in xp, branches (`Boxes`).
    """

    rows: NDArray[np.float64]
    n_rows: int
    spans: NDArray[np.float64]
    radius2: float


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
    pieces, count = buffer.pieces, buffer.filled
    step_p, step_m, shear, half_p, half_m = coset
    halves = len(out)
    for half in range(halves):
        for k in range(N_MOMENTS):
            out[half, k] = 0.0
    per_step = 1.0 / step_p
    second = 0.5 * step_p
    total = 0
    # The integrand may be even in x: then the half plane xm > 0 counts twice, and the row xm = 0 once.
    for centre in range(1 if f.even and half_m == 0.0 else 0, -1, -1):
        for r in range(region.n_rows):
            i = math.ceil(rows[r, 0] / step_m - half_m)
            if f.even:
                i = max(i, 0.0 if centre else 1.0 - 2.0 * half_m)
            while True:
                xm = (i + half_m) * step_m
                if xm >= rows[r, 1] or (centre and i > 0.0):
                    break
                i += 1.0
                reach = region.radius2 - (xm - p[5]) * (xm - p[5])
                if reach <= 0.0:
                    continue
                reach = math.sqrt(reach)
                offset = shear * xm + half_p * step_p
                for t in range(int(rows[r, 2]), int(rows[r, 3])):
                    low = (max(spans[t, 0], p[4] - reach) - offset) * per_step
                    high = (min(spans[t, 1], p[4] + reach) - offset) * per_step
                    j = math.ceil(low)
                    m = math.ceil(high) - j
                    j2 = math.ceil(low - 0.5)
                    m2 = math.ceil(high - 0.5) - j2
                    if m <= 0.0 and m2 <= 0.0:
                        continue
                    n = count[3]
                    kind = 0.0 if spans[t, 2] == 3.0 else spans[t, 2]
                    pieces[0, n], pieces[3, n], pieces[6, n], pieces[7, n] = xm, kind, m, m2
                    pieces[4, n], pieces[5, n] = j * step_p + offset, j2 * step_p + offset + second
                    count[3] = n + 1
                    total += int(max(m, 0.0))
                    if halves == 2:
                        total += int(max(m2, 0.0))
                    if n + 1 == _PIECES:
                        _fill(p, step_p, buffer, out)
        _fill(p, step_p, buffer, out)
        for half in range(halves if f.even else 0):
            for k in range(N_MOMENTS):
                out[half, k] *= 0.5 if centre else 2.0
    if f.even:
        for half in range(halves):
            for k in (1, 2, 7, 8, 10, 11):  # odd in x: z_1, z_2 and their products with z_3, z_4
                out[half, k] = 0.0
    return total


@njit(**INNER)
def _fill(p, step, buffer, out):  # type: ignore[no-untyped-def]
    """Turn the listed pieces of rows into nodes, evaluate them and empty the list."""
    pieces, nodes, count = buffer.pieces, buffer.nodes, buffer.filled
    buffer.undo_rows(p, pieces, count[3])
    for half in range(len(out)):
        for t in range(count[3]):
            values = pieces[0, t], pieces[1, t], pieces[2, t]
            kind = int(pieces[3, t])
            first = pieces[4 + half, t]
            m = int(pieces[6 + half, t])
            while m > 0:
                n = count[kind]
                taken = min(m, _BUFFER - n)
                # Whole vectors: what is written past the end is overwritten by the next piece.
                whole = (taken + _VECTOR_LENGTH - 1) // _VECTOR_LENGTH * _VECTOR_LENGTH
                # Views and plain loops over them vectorise; indices with an offset would be checked for their sign.
                xp = nodes[kind, 0, n : n + whole]
                xm = nodes[kind, 1, n : n + whole]
                row1 = nodes[kind, 2, n : n + whole]
                row2 = nodes[kind, 3, n : n + whole]
                for k in range(whole):
                    xp[k] = first + k * step
                for k in range(whole):
                    xm[k] = values[0]
                for k in range(whole):
                    row1[k] = values[1]
                for k in range(whole):
                    row2[k] = values[2]
                count[kind] = n + taken
                m -= taken
                first += taken * step
                if n + taken == _BUFFER:
                    _flush(p, buffer, kind, out[half])
        for kind in range(3):
            _flush(p, buffer, kind, out[half])
    count[3] = 0


@njit(**INNER)
def _flush(p, buffer, kind, out):  # type: ignore[no-untyped-def]
    """Evaluate the buffered nodes of one kind."""
    nodes, count = buffer.nodes, buffer.filled
    n = count[kind]
    if n == 0:
        return
    far = p[4] + 60.0 / p[8]
    while n % _VECTOR_LENGTH:  # the padding has weight exp(-1800)
        nodes[kind, 0, n] = far
        for k in range(1, 4):
            nodes[kind, k, n] = nodes[kind, k, n - 1]
        n += 1
    if kind == 0:
        buffer.pair(p, nodes[0], n, out)
    elif kind == 1:
        buffer.branch(p, nodes[1], n, 1.0, out)
    else:
        buffer.branch(p, nodes[2], n, -1.0, out)
    count[kind] = 0


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
