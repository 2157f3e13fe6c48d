"""Where the outputs of a link lie, and rules over them: values at which their densities are singular are ends."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...quadrature.rules import half_line
from .monotone import bisect_change
from .quadrature import Piece
from .rules import between_ends

__all__ = ["output_edges", "output_rule"]

Array = NDArray[np.float64]


def output_edges(moving: Sequence[Piece]) -> Array:
    """Values between which the density of the output that varies is smooth, with the ends of its range."""
    low, high = math.inf, -math.inf
    marks = {0.0}
    for piece in moving:
        values, special = _range(piece)
        # The grid misses the ends themselves, where the density may be largest.
        low, high = min(low, float(values.min()), *special), max(high, float(values.max()), *special)
        marks |= special
    edges = np.array(sorted({low, high, *(m for m in marks if low < m < high)}))
    # Neighbours that differ by rounding alone are one.
    keep = np.concatenate([[True], np.diff(edges) > 1e-12 * (1 + np.abs(edges[1:]))])
    return edges[keep]


def output_rule(edges: Array, drawn: Array, step: float, widest: float = math.inf) -> tuple[Array, Array]:
    """Nodes and weights over the outputs, blind to what is singular at an edge.

    Parameters
    ----------
    edges : ndarray, shape (m,)
        Of `output_edges`.
    drawn : ndarray, shape (n,)
        Random outputs, sorted.
    step : float
        Of a trapezoidal rule in the logarithm of the distance from the last edge before a tail; half as much of the
        double-exponential rule between two edges.
    widest : float
        Distance of neighbouring nodes that must not be exceeded.

    Returns
    -------
    y, weight : ndarray, shape (nodes,)
    """
    found = []
    # A range that is so many times as long as where 99 of 100 outputs lie is a tail; least number of these to judge by.
    tail, few = 4.0, 50
    for low, high in pairwise(edges):
        inside = drawn[(drawn > low) & (drawn < high)]
        length = high - low
        least, middle, most = np.quantile(inside, [0.01, 0.5, 0.99]) if len(inside) >= few else (low, low, high)
        if high == edges[-1] and length > tail * (most - low):
            rule = half_line(float(middle) - low, length, step, widest)
            y, weight = low + rule.nodes, rule.weights
        elif low == edges[0] and length > tail * (high - least):
            rule = half_line(high - float(middle), length, step, widest)
            y, weight = high - rule.nodes, rule.weights
        else:
            # In the middle of an interval nodes are pi/4 of their step times its length apart.
            x, w = between_ends(np.array([low]), np.array([high]), min(0.5 * step, 4 / math.pi * widest / length))
            y, weight = x[0], w[0]
        within = (y > low) & (y < high)
        found.append((y[within], weight[within]))
    if not found:
        return np.zeros(0), np.zeros(0)
    y, weight = (np.concatenate(column) for column in zip(*found, strict=True))
    return y, weight


def _range(piece: Piece) -> tuple[Array, set[float]]:
    """Values of the output on a grid over the piece, and values at critical points and corners."""
    active = piece.active
    count = {1: 4001, 2: 401}.get(len(active), 61)
    lines = [_line(*piece.limits(i), count) for i in active]
    grids = np.meshgrid(*lines, indexing="ij")
    entries = piece.entries({i: g[1:-1] if len(active) == 1 else g for i, g in zip(active, grids, strict=True)})
    # Share of a grid on which an output of several entries may be infinite.
    overflow = 0.05
    with np.errstate(all="ignore"):
        values = np.broadcast_to(piece.value(entries), entries[active[0]].shape)
        ok = np.isfinite(values) & np.broadcast_to(piece.inside(entries), values.shape)
        inside = values[ok]
        # Poles are thin; what overflows has a volume.
        if len(active) > 1 and np.isinf(values).mean() > overflow:
            raise NotServedError("it grows beyond the range of float64")
        marks = set(piece.region.critical[piece.output]) if not piece.known else set()
        origin = piece.entries({i: np.array(float(np.clip(0.0, *piece.limits(i)))) for i in active})
        marks.add(float(piece.value(origin)))
        ends = [[b for b in piece.region.interval(i) if math.isfinite(b)] for i in active]
        if len(active) == 1:
            marks |= {float(piece.value(piece.entries({active[0]: np.array(b)}))) for b in ends[0]}
            marks |= _turning_values(piece, lines[0])
        elif all(ends):
            corners = np.meshgrid(*ends, indexing="ij")
            corner = piece.entries({i: c.ravel() for i, c in zip(active, corners, strict=True)})
            marks |= {float(v) for v in np.ravel(piece.value(corner))}
    if not inside.size:
        return np.zeros(1), set()
    return inside, {m for m in marks if math.isfinite(m)}


def _line(low: float, high: float, count: int) -> Array:
    """Points of an interval, even and also dense towards its ends and towards zero, where outputs may grow large."""
    even = np.linspace(low, high, count)
    near = np.geomspace(1e-10, 0.1, max(9, count // 20))
    marks = np.array([low, high, *([0.0] if low < 0 < high else [])])
    points = np.unique(np.concatenate([even, *(m + near for m in marks), *(m - near for m in marks)]))
    return np.asarray(points[(points >= low) & (points <= high)])


def _turning_values(piece: Piece, grid: Array) -> set[float]:
    """Outputs where the slope in the only active entry changes sign."""
    entry = piece.active[0]

    def slope(x: Array) -> Array:
        return np.broadcast_to(piece.slope(piece.entries({entry: x})), x.shape)

    sign = np.sign(slope(grid))
    at = np.flatnonzero(sign[1:] * sign[:-1] < 0)
    a, b, left = grid[at], grid[at + 1], sign[at]
    a, b = bisect_change(a, b, lambda m: np.sign(slope(m)) == left)
    x = np.concatenate([0.5 * (a + b), grid[sign == 0]])
    return {float(v) for v in np.ravel(np.broadcast_to(piece.value(piece.entries({entry: x})), x.shape))}
