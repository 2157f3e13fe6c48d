"""Boxes of x that hold the posterior, found by halving them and dropping those where rigorous ranges keep Q large."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import INNER
from .peak import improve

__all__ = ["MAX_BOXES", "Boxes", "Cover", "Cut", "cover", "lobe_steps", "merge"]

MAX_BOXES = 1 << 15
# A side lobe of amplitude A and unit width in z, crossed in coarse steps of d, leaves the error A exp(-8 pi^2/d^2) in
# the union of the cosets. Their differences cannot show it if A is small: they see A exp(-2 pi^2/d^2) beneath what the
# main lobe leaves there. So d is set beforehand, from the range of z over each box and its largest possible A, to
# sqrt(8 pi^2/k): k = ln(A/tolerance) and a margin. Nor need k pass _LOBE_SHARE ln(1/tolerance): beyond it the
# differences, about tolerance^(1/SQUARING), do show the lobe.
_LOBE_MARGIN = 4.0
_LOBE_SHARE = 0.55
_LOBE_FLOOR = 1e-3


class Boxes(NamedTuple):
    """Square boxes in the order of their rows: (row, column), branches (bits 1: plus, 2: minus), bounds of both Q."""

    cells: NDArray[np.int32]
    branches: NDArray[np.int8]
    least: NDArray[np.float64]


class Grid(NamedTuple):
    """Lower left corner of the cell (0, 0), the size of all cells, and the number of boxes."""

    left: float
    bottom: float
    size: float
    n: int


class Cut(NamedTuple):
    """What may be dropped: Q above best + width, at ln(1/tolerance) digits; masses are in units of exp(-first/2)."""

    best: float
    first: float
    width: float
    digits: float


class Cover(NamedTuple):
    """Boxes that hold the posterior, the least Q, mass left out, step that resolves all lobes, boxes looked at.

    The mass is per unit of 1/|det B_1|, weighted by 1 + Q for the sake of the second moments.
    """

    boxes: Boxes
    grid: Grid
    best: float
    lost: float
    narrowest: float
    visited: int


class _Pruned(NamedTuple):
    """What one look at each box leaves.

    Widest range of z over a box; largest range squared times what a side lobe there asks for (see `_LOBE_SHARE`).
    """

    kept: int
    widest: float
    steepest: float
    best: float
    lost: float


@njit(**INNER)
def cover(f, boxes, spare, cut, steps, where):  # type: ignore[no-untyped-def]
    """Halve boxes until their ranges of z are narrow, or they are small beside the steps of the lattice.

    `where` is set to the point and branch of the least Q where that improves.
    """
    sd = 1.0 / f.p[8]
    best = cut.best
    radius = sd * math.sqrt(best + cut.width)
    # Both branches outside the circle: their mass, weighted by 1 + Q.
    lost = 4.0 * math.pi * sd * sd * (3.0 + best + cut.width) * math.exp(-0.5 * (cut.width + best - cut.first))
    n = 0
    cells, branches = boxes.cells, boxes.branches
    for i in range(4):
        for j in range(4):
            cells[n, 0] = i
            cells[n, 1] = j
            branches[n] = 3
            n += 1
    grid = Grid(f.p[4] - radius, f.p[5] - radius, 0.5 * radius, n)
    visited = 0
    # Boxes are halved while z varies by more than this over one, unless they are small beside the lattice already.
    box_range = 8.0
    box_nodes = 24.0
    # Nor then, while a lattice that resolves every lobe would have more coarse nodes than this.
    many_nodes = 4e5
    while True:
        visited += grid.n
        left = _prune(f, boxes, grid, Cut(best, cut.first, cut.width, cut.digits), where)
        n, best = left.kept, left.best
        lost += left.lost * (2.0 if f.even else 1.0)
        size = grid.size
        fine = left.widest < box_range
        # No lobe narrower than this may hide between the nodes.
        narrowest = math.pi * math.sqrt(8.0 / left.steepest) * size
        cell = min(steps.p, narrowest) * min(steps.m, narrowest)
        small = size * size < box_nodes * steps.p * steps.m and n * size * size < many_nodes * cell
        if fine or small or 4 * n > MAX_BOXES:
            return Cover(boxes, Grid(grid.left, grid.bottom, size, n), best, lost, narrowest, visited)
        n = _halve(boxes, n, spare)
        boxes, spare = spare, boxes
        grid = Grid(grid.left, grid.bottom, size * 0.5, n)


@njit(**INNER)
def _halve(boxes, n, finer):  # type: ignore[no-untyped-def]
    """Quarter every box, keeping the order by rows; return the number of new boxes."""
    cells, branches, new_cells, new_branches = boxes.cells, boxes.branches, finer.cells, finer.branches
    k = 0
    t = 0
    while t < n:
        end = t
        while end < n and cells[end, 0] == cells[t, 0]:
            end += 1
        for sy in range(2):
            for q in range(t, end):
                for sx in range(2):
                    new_cells[k, 0] = 2 * cells[q, 0] + sy
                    new_cells[k, 1] = 2 * cells[q, 1] + sx
                    new_branches[k] = branches[q]
                    k += 1
        t = end
    return k


@njit(**INNER)
def _prune(f, boxes, grid, cut, where):  # type: ignore[no-untyped-def]
    """Drop boxes and branches with Q > best + width on all of the box, and keep `best` and `where` up to date."""
    p, best, size = f.p, cut.best, grid.size
    cells, branches, bounds = boxes.cells, boxes.branches, boxes.least
    kept = 0
    widest = 0.0
    steepest = 0.0
    lost = 0.0
    for t in range(grid.n):
        bottom = grid.bottom + cells[t, 0] * size
        left = grid.left + cells[t, 1] * size
        top = bottom + size
        right = left + size
        if f.even and top <= 0.0:
            continue
        dx = _gap(left - p[4], right - p[4])
        dy = _gap(bottom - p[5], top - p[5])
        outer = (dx * dx + dy * dy) * p[8] * p[8]
        if outer > best + cut.width:  # outside the circle, which is accounted for as a whole
            continue
        a0, a1, b0, b1 = f.ranges(p, left, right, bottom, top)
        kx0, kx1 = _conditional_mean(p[6], p[9], left - p[4], right - p[4])
        ky0, ky1 = _conditional_mean(p[7], p[9], bottom - p[5], top - p[5])
        bits = 0
        promising = False
        for s in range(2):
            if not (branches[t] >> s) & 1:
                continue
            if s == 0:
                low_p, high_p, low_m, high_m = a0 - kx1, a1 - kx0, b0 - ky1, b1 - ky0
            else:
                low_p, high_p, low_m, high_m = -a1 - kx1, -a0 - kx0, -b1 - ky1, -b0 - ky0
            gap_p = _gap(low_p, high_p)
            gap_m = _gap(low_m, high_m)
            least = outer + (gap_p * gap_p + gap_m * gap_m) * p[10] * p[10]
            if least > best + cut.width:
                if least < cut.first + cut.width + 60.0:
                    lost += size * size * (1.0 + least) * math.exp(-0.5 * (least - cut.first))
                continue
            bits |= 1 << s
            width = max(high_p - low_p, high_m - low_m) * p[10]
            widest = max(widest, width)
            steepest = max(steepest, width * width * _lobe(least - best, cut.digits))
            bounds[kept, s] = least
            promising = promising or least < best
        if promising:  # the centre may improve the bound
            best = improve(f, left + 0.5 * size, bottom + 0.5 * size, best, where)
        if bits:
            cells[kept, 0] = cells[t, 0]
            cells[kept, 1] = cells[t, 1]
            branches[kept] = bits
            kept += 1
    return _Pruned(kept, widest, steepest, best, lost)


@njit(**INNER)
def _gap(low, high):  # type: ignore[no-untyped-def]
    """Distance of zero from an interval."""
    if low > 0.0:
        return low
    if high < 0.0:
        return -high
    return 0.0


@njit(**INNER)
def _conditional_mean(mean, slope, low, high):  # type: ignore[no-untyped-def]
    """Ends of the prior mean of a mode of h_2 where that of h_1 - omega_1 varies from low to high."""
    at_low = slope * low
    at_high = slope * high
    return mean + min(at_low, at_high), mean + max(at_low, at_high)


@njit(**INNER)
def _lobe(excess, digits):  # type: ignore[no-untyped-def]
    """The number k of `_LOBE_SHARE` for a lobe whose least Q exceeds that of the main one by `excess`."""
    return max(_LOBE_FLOOR, min(digits + _LOBE_MARGIN - 0.5 * excess, _LOBE_SHARE * digits))


@njit(**INNER)
def lobe_steps(f, boxes, grid, cut, shear):  # type: ignore[no-untyped-def]
    """Longest steps along the rows and from row to row that resolve every lobe, from the slopes of z over each box."""
    p, best, digits = f.p, cut.best, cut.digits
    cells, branches, least = boxes.cells, boxes.branches, boxes.least
    steepest_p = 1e-300
    steepest_m = 1e-300
    left, bottom, size, n = grid.left, grid.bottom, grid.size, grid.n
    half = 0.5 * size
    for t in range(n):
        plus = _lobe(least[t, 0] - best, digits) if branches[t] & 1 else 0.0
        minus = _lobe(least[t, 1] - best, digits) if branches[t] & 2 else 0.0
        if max(plus, minus) <= _LOBE_FLOOR:
            continue
        xp = left + cells[t, 1] * size + half
        xm = bottom + cells[t, 0] * size + half
        a, b, _ = f.undo(xp, xm, p[0], p[1], p[2], p[3])
        for side in (-half, half):
            a1, b1, _ = f.undo(xp + side, xm, p[0], p[1], p[2], p[3])
            a2, b2, _ = f.undo(xp + side * shear, xm + side, p[0], p[1], p[2], p[3])
            if plus > _LOBE_FLOOR:
                steepest_p = max(steepest_p, plus * _rise(p, side, 0.0, a1 - a, b1 - b))
                steepest_m = max(steepest_m, plus * _rise(p, side * shear, side, a2 - a, b2 - b))
            if minus > _LOBE_FLOOR:
                steepest_p = max(steepest_p, minus * _rise(p, side, 0.0, a - a1, b - b1))
                steepest_m = max(steepest_m, minus * _rise(p, side * shear, side, a - a2, b - b2))
    return math.pi * math.sqrt(8.0 / steepest_p) * half, math.pi * math.sqrt(8.0 / steepest_m) * half


@njit(**INNER)
def _rise(p, step_p, step_m, a, b):  # type: ignore[no-untyped-def]
    """|z' - z|^2 of one branch where h_1 changes by a step and the modes of h_2 by a and b."""
    outer = (step_p * step_p + step_m * step_m) * p[8] * p[8]
    da = a - p[9] * step_p
    db = b - p[9] * step_m
    return outer + (da * da + db * db) * p[10] * p[10]


@njit(**INNER)
def merge(boxes, grid, rows, spans):  # type: ignore[no-untyped-def]
    """Merge neighbouring boxes of a row with the same branches into rows and spans (`Region`); number of rows."""
    cells, branches = boxes.cells, boxes.branches
    left, bottom, size, n = grid.left, grid.bottom, grid.size, grid.n
    n_rows = 0
    m = 0
    t = 0
    while t < n:
        row = cells[t, 0]
        rows[n_rows, 0] = bottom + row * size
        rows[n_rows, 1] = bottom + (row + 1) * size
        rows[n_rows, 2] = m
        while t < n and cells[t, 0] == row:
            start = cells[t, 1]
            end = start
            bits = branches[t]
            t += 1
            while t < n and cells[t, 0] == row and cells[t, 1] == end + 1 and branches[t] == bits:
                end += 1
                t += 1
            spans[m, 0] = left + start * size
            spans[m, 1] = left + (end + 1) * size
            spans[m, 2] = bits
            m += 1
        rows[n_rows, 3] = m
        n_rows += 1
    return n_rows
