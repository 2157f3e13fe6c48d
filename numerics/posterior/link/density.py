"""Density of the coordinates that one output of a link leaves open, where it lies, and where it jumps."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from ...core.typing import Array
from .by_rows import Intervals
from .cells import Cell, Nodes
from .moments import Group
from .monotone import bisect_change
from .sections import Contribution, Prior, section_moments

__all__ = ["Range", "Seen", "contributions", "dimension_of", "range_of", "sections"]

IntArray = NDArray[np.int64]

# Nodes along the first and the second coordinate between which pieces that begin or end are looked for.
_GRID, _LINE = 385, 65


class Seen(NamedTuple):
    """One output, and the entries of h that it couples.

    Attributes
    ----------
    group : Group
    kind : int
        Of the output.
    y : ndarray, shape (outputs of the group,)
    prior : Prior
    """

    group: Group
    kind: int
    y: Array
    prior: Prior


class Range(NamedTuple):
    """Where the density of the coordinates is.

    Attributes
    ----------
    edges : ndarray, shape (n,)
        Of the first coordinate: the ends of its range, and in between where pieces of the density begin or end.
    limits : tuple of float
        Ends of the range of the second coordinate, if there is one.
    top : float
        Largest logarithm of the density.
    peak : float
        First coordinate of where that is.
    """

    edges: Array
    limits: tuple[float, float]
    top: float
    peak: float


def dimension_of(group: Group, kind: int) -> int:
    """Coordinates that are integrated over; the last one over a cell of discrete outputs is a closed form."""
    return len(group.entries) - 1 if group.discrete(kind) else group.dimension(kind)


def contributions(seen: Seen, x: Array) -> Iterator[Contribution]:
    """What each piece of the level set or of the cells adds at nodes x, shape (n, d), with the normal density of x."""
    for cell, share in seen.group.cells_of(seen.kind):
        for _, contribution in _of_cell(seen, cell, share, x):
            yield contribution


def _of_cell(seen: Seen, cell: Cell, share: float, x: Array) -> Iterator[tuple[int, Contribution]]:
    """What one of the cells adds, where the output is seen as it is with the probability `share`, by its choices."""
    group, _, y, prior = seen
    log_density = math.log(share) - 0.5 * (x * x).sum(axis=1) - 0.5 * x.shape[1] * math.log(2 * math.pi)
    if not cell.moving:
        # Nodes may have coordinates of noise, too, on which nothing depends here.
        made = section_moments(cell, prior, x[:, : len(group.entries) - 1])
        yield 0, replace(made, log_weight=made.log_weight + log_density + _log_noise(group.sigma, cell, y))
        return
    # The weights of a group are without this factor of every output with a density.
    log_density -= 0.5 * (group.outputs if group.sigma > 0 else len(cell.moving)) * math.log(2 * math.pi)
    nodes = Nodes(x, np.ones(len(x)))
    for number, choice in enumerate(cell.choices):
        with np.errstate(all="ignore"):
            found = group.level(cell, choice, y[None], prior.omega[None], prior.V, nodes)
        for weight, shift in found:
            first = np.stack([np.broadcast_to(part, weight.shape)[0] for part in shift], axis=1)
            with np.errstate(divide="ignore"):
                log_weight = np.log(weight[0]) + log_density
            yield number, Contribution(log_weight, first, None)


def _log_noise(sigma: float, cell: Cell, y: Array) -> float:
    """Logarithm of the density of the noise by which an output differs from the discrete one of a cell."""
    if sigma == 0:
        return 0.0
    square = sum(((own - value) / sigma) ** 2 for own, value in zip(y, cell.label, strict=True) if value is not None)
    return -0.5 * float(square) - 0.5 * len(y) * math.log(2 * math.pi * sigma**2)


def range_of(seen: Seen) -> Range:
    """Scan the density of one or two coordinates, or of none.

    Raises
    ------
    ConvergenceError
        It vanishes at all nodes of the scan.
    """
    dimension = dimension_of(seen.group, seen.kind)
    # Nodes of the scan along each of the coordinates, and standard deviations that it covers.
    scan = {1: (1521, 38.0), 2: (81, 16.0)}
    if dimension == 0:
        axis, x = np.zeros(1), np.zeros((1, 0))
    else:
        count, reach = scan[dimension]
        # Not about zero: what is singular there is finite at the nodes.
        axis = np.linspace(-reach, reach, count) + 0.37 * 2 * reach / (count - 1)
        x = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    log_weight = np.logaddexp.reduce([part.log_weight for part in contributions(seen, x)])
    top = float(log_weight.max())
    if not math.isfinite(top):
        raise ConvergenceError(
            f"the posterior (12) of the output {seen.y.tolist()} meets no node: no h within {scan[1][1]:g} standard "
            f"deviations of omega = {seen.prior.omega.tolist()} gives it in float64; check y, omega and V"
        )
    if dimension == 0:
        return Range(np.zeros(0), (0.0, 0.0), top, 0.0)
    # Logarithm of the density, below its largest value of the scan, where it counts as nothing.
    depth = 80.0
    where = x[log_weight > top - depth]
    step = axis[1] - axis[0]
    low, high = where.min(axis=0) - step, where.max(axis=0) + step
    limits = float(low[-1]), float(high[-1])
    return Range(_edges(seen, float(low[0]), float(high[0]), limits), limits, top, float(x[log_weight.argmax(), 0]))


def sections(seen: Seen, first: Array, limits: tuple[float, float]) -> Intervals:
    """Intervals of the second coordinate for each value of the first, between which pieces begin or end."""
    marks, count = np.linspace(*limits, _LINE), len(first)
    index = np.arange(count, dtype=np.int64)

    def form(row: IntArray, x: Array) -> IntArray:
        return _form(seen, np.stack([first[row], x], axis=1))

    code = form(np.repeat(index, _LINE), np.tile(marks, count)).reshape(count, _LINE)
    row, changes = _changes(form, marks, code)
    # Panels along the second one at first.
    panels = 8
    coarse = np.linspace(*limits, panels + 1)
    rows = np.concatenate([row, np.repeat(index, len(coarse))])
    points = np.concatenate([changes, np.tile(coarse, count)])
    order = np.lexsort((points, rows))
    rows, points = rows[order], points[order]
    found = Intervals(rows[:-1], points[:-1], points[1:])
    return found.chosen((rows[1:] == rows[:-1]) & (points[1:] > points[:-1]))


def _edges(seen: Seen, low: float, high: float, limits: tuple[float, float]) -> Array:
    """Ends of the range of the first coordinate, and where the pieces on the line above it change between them."""
    lines = np.linspace(*limits, _LINE)

    def form(_: IntArray, x: Array) -> IntArray:
        if dimension_of(seen.group, seen.kind) == 1:
            return _form(seen, x[:, None])
        nodes = np.stack([np.repeat(x, _LINE), np.tile(lines, len(x))], axis=1)
        code = _form(seen, nodes).reshape(len(x), _LINE)
        return np.asarray(code[:, 0] + 1009 * (code[:, 1:] != code[:, :-1]).sum(axis=1))

    grid = np.linspace(low, high, _GRID)
    code = form(np.zeros(len(grid), dtype=np.int64), grid)
    return np.unique(np.concatenate([[low, high], _changes(form, grid, code[None])[1]]))


def _changes(form: Callable[[IntArray, Array], IntArray], grid: Array, code: IntArray) -> tuple[IntArray, Array]:
    """Rows and places at which the numbers of `form` change, all of those between two points of a grid that differ.

    Parameters
    ----------
    form : callable
        Of rows and places.
    grid : ndarray, shape (n,)
    code : ndarray of int, shape (rows, n)
        Its numbers on the grid.
    """
    row, column = np.nonzero(code[:, 1:] != code[:, :-1])
    start, end, left, right = grid[column], grid[column + 1], code[row, column], code[row, column + 1]
    rows, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    # Changes between two of them, at most.
    together = 6
    for _ in range(together if len(row) else 0):
        a, b = bisect_change(start, end, _is_still(form, row, left))
        rows.append(row)
        places.append(0.5 * (a + b))
        after = form(row, b)
        more = (after != right) & (b < end)
        if not more.any():
            break
        row, start, end, left, right = row[more], b[more], end[more], after[more], right[more]
    return np.concatenate(rows), np.concatenate(places)


def _is_still(
    form: Callable[[IntArray, Array], IntArray], row: IntArray, code: IntArray
) -> Callable[[Array], NDArray[np.bool_]]:
    """Whether places have these numbers still."""
    return lambda places: form(row, places) == code


def _form(seen: Seen, x: Array) -> IntArray:
    """Number that identifies how many pieces of each cell there are at nodes, shape (n, d); 0 where there are none."""
    code = np.zeros(len(x), dtype=np.int64)
    for cell, share in seen.group.cells_of(seen.kind):
        code *= 3
        for number, part in _of_cell(seen, cell, share, x):
            code += 7919**number * np.isfinite(part.log_weight)
    return code
