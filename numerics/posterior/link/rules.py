"""Rules along one entry of h: panels dense towards their ends, and where a section of a region or level set begins."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ...quadrature.rules import gauss_legendre
from .monotone import bisect_change

__all__ = [
    "BEYOND_CUT",
    "CUT",
    "half_interval_rule",
    "interval_moments",
    "marks_within",
    "normal_density",
    "normal_primitives",
    "scan_grid",
    "section_rule",
    "turning_points",
    "valid_intervals",
]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

# The normal density beyond is below 1e-17 of its maximum.
CUT = 8.8
#: E (h^2 - 1)^2 over the rest: what (15) may lose with each entry of h.
BEYOND_CUT = 2 * math.exp(-0.5 * CUT**2) / math.sqrt(2 * math.pi) * (CUT**3 + CUT) + 4 * float(ndtr(-CUT))


@lru_cache(maxsize=32)
def _graded(order: int, least: float) -> tuple[Array, Array]:
    """Nodes and weights on (0, 1): Gauss panels whose ends double from `least` on."""
    edges = [0.0, least]
    while edges[-1] < 1 / 1.5:
        edges.append(2 * edges[-1])
    edges[-1] = 1.0
    nodes, weights = gauss_legendre(order)
    width = 0.5 * np.diff(edges)[:, None]
    middle = 0.5 * (np.array(edges[1:]) + np.array(edges[:-1]))[:, None]
    return (middle + width * nodes).ravel(), (width * weights).ravel()


def half_interval_rule(start: Array, end: Array, order: int, least: float) -> tuple[Array, Array]:
    """Nodes and weights from `start` to `end` (either may be larger), dense towards `start`; shapes (n, nodes).

    x = start + (end - start) t^2 makes square-root singularities at the start analytic.
    """
    t, w = _graded(order, least)
    length = (end - start)[:, None]
    return start[:, None] + length * t**2, np.abs(length) * (2 * t * w)


def interval_moments(low: float, high: float) -> tuple[float, float, float]:
    """Integrals of 1, x and x^2 against the standard normal density over (low, high)."""
    a, b = normal_primitives(np.array([low])), normal_primitives(np.array([high]))
    # Far tails: the difference of two numbers near one loses its digits, that of their complements does not.
    zero = float(ndtr(-low) - ndtr(-high)) if low > 0 else float(b[0, 0] - a[0, 0])
    first, edge = float(b[1, 0] - a[1, 0]), float(b[2, 0] - b[0, 0] - a[2, 0] + a[0, 0])
    return zero, first, zero + edge


def normal_primitives(x: Array) -> Array:
    """Primitives of phi, x phi and x^2 phi at x, shape (3, n)."""
    finite = np.clip(x, -40.0, 40.0)
    density = np.exp(-0.5 * finite**2) / math.sqrt(2 * math.pi)
    return np.stack([ndtr(x), -density, ndtr(x) - finite * density])


def normal_density(x: Array) -> Array:
    """Standard normal density."""
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def marks_within(low: float, high: float) -> set[float]:
    """The marks among {low, high, 0} that lie in [low, high]."""
    return {low, high} | ({0.0} if low < 0 < high else set())


def scan_grid(marks: Sequence[float], count: int) -> Array:
    """Points between the marks, dense towards each: where domains end, and narrow ones, is looked for there."""
    parts = []
    per = max(9, count // (2 * (len(marks) - 1)))
    t = np.concatenate([np.geomspace(1e-9, 1e-2, per // 4), np.linspace(1e-2, 1.0, per - per // 4)[1:]])
    for a, b in pairwise(marks):
        half = 0.5 * (b - a)
        parts += [a + half * t, b - half * t]
    return np.unique(np.concatenate(parts))


def section_rule(
    form: Callable[[IntArray, Array], IntArray], count: int, marks: list[float], grid: Array, order: int, least: float
) -> tuple[IntArray, Array, Array]:
    """Rule along one entry for each of `count` rows: panels end where the form of the section changes.

    Returns the row, the node and the weight of each point; sections of form 0 are empty and left out.
    """
    index = np.arange(count, dtype=np.int64)
    code = form(np.repeat(index, len(grid)), np.tile(grid, count)).reshape(count, -1)
    row, column = np.nonzero(code[:, 1:] != code[:, :-1])
    a, b, left = grid[column], grid[column + 1], code[row, column]
    a, b = bisect_change(a, b, lambda m: form(row, m) == left, 30)
    rows = np.concatenate([row, np.repeat(index, len(marks))])
    points = np.concatenate([0.5 * (a + b), np.tile(marks, count)])
    arrange = np.lexsort((points, rows))
    rows, points = rows[arrange], points[arrange]
    keep = (rows[1:] == rows[:-1]) & (points[1:] - points[:-1] > 1e-12)
    r, a, b = rows[:-1][keep], points[:-1][keep], points[1:][keep]
    full = form(r, 0.5 * (a + b)) != 0
    r, a, b = r[full], a[full], b[full]
    middle = 0.5 * (a + b)
    x, w = half_interval_rule(np.concatenate([a, b]), np.concatenate([middle, middle]), order, least)
    return np.repeat(np.concatenate([r, r]), x.shape[1]), x.ravel(), w.ravel()


def turning_points(sign: Array, grid: Array, rising: Callable[[IntArray, Array], Array]) -> tuple[IntArray, Array]:
    """Where along each row the slope of the link in the unknown changes sign: near it the Jacobian is singular."""
    row, column = np.nonzero(sign[:, 1:] * sign[:, :-1] < 0)
    a, b, left = grid[column], grid[column + 1], sign[row, column]
    a, b = bisect_change(a, b, lambda m: rising(row, m) == left)
    return row, 0.5 * (a + b)


def valid_intervals(
    ok: NDArray[np.bool_],
    grid: Array,
    marks: Sequence[float],
    valid: Callable[[IntArray, Array], NDArray[np.bool_]],
    more: tuple[IntArray, Array] | None = None,
) -> tuple[IntArray, Array, Array]:
    """Intervals on which each row is valid: (row, start, end), cut at the marks and at more points of single rows."""
    row, column = np.nonzero(ok[:, 1:] != ok[:, :-1])
    a, b = grid[column], grid[column + 1]
    left = ok[row, column]
    a, b = bisect_change(a, b, lambda m: valid(row, m) == left)
    # The end on the valid side.
    found = np.where(left, a, b)
    count = len(ok)
    low, high = min(marks), max(marks)
    fixed = np.array(sorted(set(marks)))
    own = more if more is not None else (np.zeros(0, dtype=np.int64), np.zeros(0))
    rows = np.concatenate([row, np.repeat(np.arange(count), len(fixed)), own[0]])
    points = np.concatenate([found, np.tile(fixed, count), own[1]])
    order = np.lexsort((points, rows))
    rows, points = rows[order], points[order]
    same_row = (rows[1:] == rows[:-1]) & (points[1:] > points[:-1])
    r, a, b = rows[:-1][same_row], points[:-1][same_row], points[1:][same_row]
    if not len(r):
        return r, a, b
    # Two of three points inside decide: one alone may sit on a corner.
    votes = sum(valid(r, a + share * (b - a)).astype(int) for share in (0.2, 0.5, 0.81))
    keep = (votes >= 2) & (a >= low) & (b <= high)
    return r[keep], a[keep], b[keep]
