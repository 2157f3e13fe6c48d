"""Compiled blur of nodes: sums of products of a Gaussian on each of three grids, for many sets of nodes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .axes import Axis

__all__ = ["AXES", "Grids", "blur"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Grids of a node; those of fewer entries begin with axes of one point.
AXES = 3
# Places that are added to the sums at once.
_PLACES = 4


class Grids(NamedTuple):
    """Three grids: their points, what nodes are blurred by in units of the steps, and tables of their densities.

    `half` is the number of points to each side of the nearest one that a node reaches, `table` the normal density at
    so many steps but for its factor, which is the `scale`; of axes along which nothing is blurred `root` is zero.
    """

    start: Array
    step: Array
    size: IntArray
    root: Array
    scale: Array
    blurred: Array
    half: IntArray
    table: Array

    @classmethod
    def of(cls, axes: Sequence[Axis], window: float) -> "Grids":
        """Grids of at most three axes on which nodes reach so many standard deviations, after those that are missing.

        Without a variance of omega a grid is one point, at which all nodes are.
        """
        axes = [Axis.of(0.0, 1.0)] * (AXES - len(axes)) + list(axes)
        start, step, known, left = np.array([[axis.start, axis.step, axis.known, axis.left] for axis in axes]).T.copy()
        scale = 1 / np.sqrt(left)
        blurred = step * scale
        half = np.where(known > 0, np.ceil(window / blurred), 0).astype(np.int64)
        table = np.exp(-0.5 * (blurred[:, None] * np.arange(half.max() + 1)) ** 2)
        root = np.sqrt(np.maximum(known, 0.0))
        return cls(start, step, np.array([axis.size for axis in axes]), root, scale, blurred, half, table)


class _Sets(NamedTuple):
    """Sets of nodes, of which `ends` says where each begins."""

    ends: IntArray
    weight: Array
    points: Array


class _Places(NamedTuple):
    """Nodes, or all of one place, that are yet to be added: their parts of the grids, densities there, and moments.

    The other arrays are work: rows of four places and two more, densities and powers, and powers of the entries.
    """

    low: IntArray
    high: IntArray
    density: Array
    factor: Array
    rows: Array
    work: Array
    power: Array

    @classmethod
    def of(cls, grid: Grids, moments: int) -> "_Places":
        """None yet."""
        wide = 2 * grid.table.shape[1]
        # Powers of an entry of h in its moments, up to the second.
        powers = 3
        return cls(
            np.zeros((_PLACES, AXES), np.int64),
            np.zeros((_PLACES, AXES), np.int64),
            np.ones((_PLACES, AXES, wide)),
            np.zeros((_PLACES, moments)),
            np.zeros((_PLACES + 2, max(int(grid.size[-1]), _PLACES))),
            np.zeros((3, wide)),
            np.ones((AXES, powers)),
        )


@njit(error_model="numpy", nogil=True, cache=True, inline="always")
def _set_powers(out: Array, base: float, count: int) -> None:
    """Powers 0, 1, .. of a number, at least so many: each doubling has its rounding, as a product has."""
    out[0], done = 1.0, 1
    while done < count:
        known, further = out[:done], out[done : 2 * done]
        for i in range(done):
            further[i] = known[i] * base
        base *= base
        done *= 2


@njit(error_model="numpy", nogil=True, cache=True, inline="always")
def _set_density(work: Array, table: Array, half: int, offset: float, step: float) -> None:
    """First row: the normal density but for its scale at offset + m step, |m| <= half, for an offset of half a step.

    exp(-(d + m s)^2/2) = exp(-d^2/2) exp(-s d)^m exp(-(m s)^2/2), whose powers are of the order of 1.
    """
    peak, base = math.exp(-0.5 * offset * offset), math.exp(-step * offset)
    out, up, down = work[0], work[1], work[2]
    _set_powers(up, base, half + 1)
    _set_powers(down, 1 / base, half + 1)
    above, below = out[half : 2 * half + 1], out[: half + 1]
    for m in range(half + 1):
        below[half - m] = peak * table[m] * down[m]
    for m in range(half + 1):
        above[m] = peak * table[m] * up[m]


@njit(error_model="numpy", nogil=True, cache=True, inline="always")
def _place(places: _Places, number: int, point: Array, grid: Grids) -> None:
    """Enter where a node is on the grids, and its densities there."""
    for a in range(AXES):
        low, high = 0, 1
        if grid.root[a] > 0:
            half = grid.half[a]
            at = (grid.root[a] * point[a] - grid.start[a]) / grid.step[a]
            nearest = np.int64(round(at))
            offset = (nearest - at) * grid.blurred[a]
            _set_density(places.work, grid.table[a], half, offset, grid.blurred[a])
            low = min(max(nearest - half, 0), grid.size[a])
            high = max(min(nearest + half + 1, grid.size[a]), low)
            out, first = places.density[number, a], nearest - half
            whole = places.work[0]
            there = whole[low - first : high - first]
            for n in range(len(there)):
                out[n] = there[n]
        places.low[number, a], places.high[number, a] = low, high


@njit(error_model="numpy", nogil=True, cache=True, inline="always")
def _hull(low: IntArray, high: IntArray, a: int) -> tuple[int, int]:
    """Smallest range with those of all four places."""
    first = min(low[0, a], low[1, a], low[2, a], low[3, a])
    return first, max(high[0, a], high[1, a], high[2, a], high[3, a], first)


@njit(error_model="numpy", nogil=True, cache=True, inline="always")
def _add_four(out: Array, rows: Array, times: Array) -> None:
    """Add multiples of four rows to one."""
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    s, t, u, v = times[0], times[1], times[2], times[3]
    for n in range(len(out)):
        out[n] += s * a[n] + t * b[n] + u * c[n] + v * d[n]


@njit(error_model="numpy", nogil=True, cache=True, inline="always")
def _add(out: Array, places: _Places, count: int) -> None:
    """Add so many places, at most four, to sums of shape (moments, ..)."""
    low, high, density, rows = places.low, places.high, places.density, places.rows
    for p in range(count, _PLACES):
        for a in range(AXES):
            low[p, a] = high[p, a] = low[0, a]
        for k in range(len(out)):
            places.factor[p, k] = 0.0
    first, last = _hull(low, high, 2)
    # Along the last axis all of them begin at one point.
    for p in range(_PLACES):
        row, there = rows[p], density[p, 2]
        for n in range(last - first):
            row[n] = 0.0
        part = row[low[p, 2] - first : high[p, 2] - first]
        for n in range(len(part)):
            part[n] = there[n]
    both, times = rows[_PLACES], rows[_PLACES + 1]
    begin, end = _hull(low, high, 0)
    second, third = _hull(low, high, 1)
    for i in range(begin, end):
        for j in range(second, third):
            for p in range(_PLACES):
                inside = low[p, 0] <= i < high[p, 0] and low[p, 1] <= j < high[p, 1]
                both[p] = density[p, 0, i - low[p, 0]] * density[p, 1, j - low[p, 1]] if inside else 0.0
            for k in range(len(out)):
                for p in range(_PLACES):
                    times[p] = places.factor[p, k] * both[p]
                row = out[k, i, j]
                _add_four(row[first:last], rows, times)


@njit(error_model="numpy", nogil=True, cache=True)
def _blur(out: Array, sets: _Sets, grid: Grids, places: _Places, exponents: IntArray) -> None:
    """Add the nodes of all sets to their sums."""
    moments, points, power, size = len(exponents), sets.points, places.power, 1.0
    for a in range(AXES):
        size *= grid.scale[a] / math.sqrt(2 * math.pi) if grid.root[a] > 0 else 1.0
    for own in range(len(sets.ends) - 1):
        count, end = 0, sets.ends[own + 1]
        # Once more, for those that are yet to be added.
        for node in range(sets.ends[own], end + 1):
            same = count > 0 and node < end
            for a in range(AXES):
                same = same and (grid.root[a] == 0 or points[node, a] == points[node - 1, a])
            if count > 0 and (node == end or (count == _PLACES and not same)):
                _add(out[own], places, count)
                count = 0
            if node == end:
                break
            if not same:
                _place(places, count, points[node], grid)
                for k in range(moments):
                    places.factor[count, k] = 0.0
                count += 1
            for a in range(AXES):
                power[a, 1] = points[node, a]
                power[a, 2] = points[node, a] * points[node, a]
            for k in range(moments):
                moment = power[0, exponents[k, 0]] * power[1, exponents[k, 1]] * power[2, exponents[k, 2]]
                places.factor[count - 1, k] += size * sets.weight[node] * moment


def blur(ends: IntArray, weight: Array, points: Array, grid: Grids, exponents: IntArray) -> Array:
    """Moments of the nodes of each set with the density of xi along three axes.

    Nodes that follow each other are cheap where they are in one place along the axes with a grid, and cheaper where
    their places are near each other.

    Parameters
    ----------
    ends : ndarray of int, shape (sets + 1,)
        Where the nodes of each set begin.
    weight : ndarray, shape (n,)
    points : ndarray, shape (n, 3)
        Entries of h.
    grid : Grids
    exponents : ndarray of int, shape (moments, 3)
        At most 2 each.

    Returns
    -------
    ndarray, shape (sets, moments, points, points, points)
    """
    out = np.zeros((len(ends) - 1, len(exponents), *grid.size))
    _blur(out, _Sets(ends, weight, points), grid, _Places.of(grid, len(exponents)), exponents)
    return out
