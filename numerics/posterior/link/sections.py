"""Moments over a cell of discrete outputs, in closed form along the last of its entries: h ~ N(omega, V) before.

The other entries are drawn one after the other within their bounds, each given those before it. Where conditions hold
several entries together, the section of the cell along the last one is a union of intervals, which ends where a
condition changes sign; two ends between neighbouring nodes of the scan are found at the extremum between them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize.elementwise import find_root
from scipy.special import ndtr, ndtri

from ...channel.link.scalar import interval_posterior
from ...core.typing import Array
from .cells import Cell

__all__ = ["Contribution", "Prior", "section_moments", "within"]

IntArray = NDArray[np.int64]
Condition = Callable[[IntArray, Array], Array]

# Standard deviations within which ends are looked for, and the nodes of the scan: beyond 9 is 1e-19 of the law.
_REACH = 38.0
_SCAN = np.concatenate([np.linspace(-_REACH, -9.0, 12), np.linspace(-9.0, 9.0, 73)[1:-1], np.linspace(9.0, _REACH, 12)])
_CENTRE = np.zeros(())
# Steps of a golden section to an extremum: 0.3 times 0.618^40 is 1e-9, whose square is rounding.
_GOLDEN, _STEPS = 0.5 * (math.sqrt(5) - 1), 40


class Prior(NamedTuple):
    """Law N(omega, V) of the entries of a group.

    Attributes
    ----------
    omega : ndarray, shape (k,)
    V : ndarray, shape (k, k)
    """

    omega: Array
    V: Array


@dataclass(frozen=True)
class Contribution:
    """Integrals of 1, h - omega and its products over what is not drawn, given what is.

    Attributes
    ----------
    log_weight : ndarray, shape (n,)
        With the density of the nodes; -inf where nothing is.
    first : ndarray, shape (n, k)
        Mean of h - omega.
    spread : ndarray, shape (n,), or None
        Variance of the last entry, where that is not drawn.
    """

    log_weight: Array
    first: Array
    spread: Array | None

    @property
    def second(self) -> Array:
        """Mean of the products of h - omega, shape (n, k, k)."""
        found = self.first[:, :, None] * self.first[:, None, :]
        if self.spread is not None:
            found[:, -1, -1] += self.spread
        return found


def section_moments(cell: Cell, prior: Prior, x: Array) -> Contribution:
    """Moments of a cell at nodes x of a standard normal law, shape (n, k - 1), without the density of the nodes."""
    k, (n, _) = len(cell.entries), x.shape
    root = np.asarray(np.linalg.cholesky(prior.V), np.float64)
    weight, drawn = np.ones(n), np.zeros((n, k))
    ends = [cell.bounds.get(entry, (-math.inf, math.inf)) for entry in cell.entries]
    for i in range(k - 1):
        mean = drawn[:, :i] @ root[i, :i]
        low, high = ((end - prior.omega[i] - mean) / root[i, i] for end in ends[i])
        share, drawn[:, i] = within(low, high, x[:, i])
        weight *= share
    mean = drawn[:, :-1] @ root[-1, :-1]
    low, high = ((end - prior.omega[-1] - mean) / root[-1, -1] for end in ends[-1])
    zero, one, two = _along(cell, prior, root, drawn, (low, high))
    with np.errstate(all="ignore"):
        log_weight = np.log(weight * zero)
    safe = np.maximum(zero, 1e-300)
    centre, spread = one / safe, two / safe - (one / safe) ** 2
    drawn[:, -1] = centre
    return Contribution(log_weight, drawn @ root.T, root[-1, -1] ** 2 * spread)


def within(low: Array, high: Array, x: Array) -> tuple[Array, Array]:
    """Probability of an interval, and what has the law of a normal variable in it, from normal x."""
    # In the half where the probabilities are small numbers.
    flip = np.where(low > 0, -1.0, 1.0)
    left, right = np.where(low > 0, ndtr(-high), ndtr(low)), np.where(low > 0, ndtr(-low), ndtr(high))
    share = right - left
    inside = flip * ndtri(np.clip(left + ndtr(flip * x) * share, 1e-300, 1 - 1e-16))
    return share, np.where(np.isinf(low) & np.isinf(high), x, inside)


def _along(
    cell: Cell, prior: Prior, root: Array, drawn: Array, limits: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Integrals of (1, u, u^2) of the last coordinate, a standard normal one, over the section of the cell."""
    n = len(drawn)
    low, high = (np.broadcast_to(end, (n,)) for end in limits)
    if cell.plain:
        zero, one, two = (np.where(low < high, part, 0.0) for part in interval_posterior(low, high, _CENTRE, 1.0))
        return zero, one, two

    def least(row: IntArray, u: Array) -> Array:
        """Smallest of the conditions, all of which are positive in the cell."""
        whole = drawn[row]
        whole[:, -1] = u
        h = prior.omega + whole @ root.T
        values = cell.fill({entry: h[:, i] for i, entry in enumerate(cell.entries)})
        found = [
            np.broadcast_to(np.asarray(condition, np.float64), u.shape)
            for region in cell.regions
            if region.conditions is not None
            for condition in region.conditions(values)
        ]
        return np.asarray(np.min(found, axis=0))

    row, a, b = _sections(least, n, np.maximum(low, -_REACH), np.minimum(high, _REACH))
    zero, one, two = (
        np.asarray(np.bincount(row, part, minlength=n), np.float64) for part in interval_posterior(a, b, _CENTRE, 1.0)
    )
    return zero, one, two


def _sections(least: Condition, count: int, low: Array, high: Array) -> tuple[IntArray, Array, Array]:
    """Intervals (row, start, end) within the limits on which a condition is positive."""
    rows = np.repeat(np.arange(count, dtype=np.int64), len(_SCAN))
    # Nodes beyond a limit are at it.
    u = np.clip(_SCAN, low[:, None], np.maximum(low, high)[:, None]).ravel()
    value = least(rows, u)
    rows, u, value = _with_extrema(least, rows, u, value)
    same = rows[1:] == rows[:-1]
    inside = value > 0
    change = np.flatnonzero(same & (inside[1:] != inside[:-1]))
    at, left = rows[change], inside[change]
    ends = _roots(least, at, u[change], u[change + 1])
    # Starts and ends in pairs: of the sections themselves, or of the limits where a row begins or ends inside.
    first, last = np.flatnonzero(np.diff(rows, prepend=-1)), np.flatnonzero(np.diff(rows, append=count))
    starts = np.concatenate([ends[~left], u[first[inside[first]]]])
    start_rows = np.concatenate([at[~left], rows[first[inside[first]]]])
    stops = np.concatenate([ends[left], u[last[inside[last]]]])
    end_rows = np.concatenate([at[left], rows[last[inside[last]]]])
    begin, end = np.lexsort((starts, start_rows)), np.lexsort((stops, end_rows))
    return start_rows[begin], starts[begin], stops[end]


def _roots(least: Condition, rows: IntArray, low: Array, high: Array) -> Array:
    """Where a condition changes its sign, between places at which it has both."""
    if not len(rows):
        return low
    found = find_root(lambda u, row: least(row, u), (low, high), args=(rows,))
    return np.clip(np.where(found.success, found.x, 0.5 * (low + high)), low, high)


def _with_extrema(least: Condition, rows: IntArray, u: Array, value: Array) -> tuple[IntArray, Array, Array]:
    """The scan with those extrema at which the condition changes sign between its nodes."""
    inner = (rows[2:] == rows[1:-1]) & (rows[1:-1] == rows[:-2])
    sign = np.where(value > 0, -1.0, 1.0)  # maxima of what is not positive, minima of what is
    turned = sign[1:-1] * value[1:-1]
    top = inner & (turned >= sign[1:-1] * value[:-2]) & (turned >= sign[1:-1] * value[2:])
    # So many times the larger difference of two neighbours is as far as an extremum between them is looked for.
    beyond = 2.0
    # Between nodes an extremum is beyond the largest of them by no more than the neighbours are below it, or so.
    reach = beyond * np.maximum(np.abs(value[1:-1] - value[:-2]), np.abs(value[1:-1] - value[2:]))
    near = np.abs(value[1:-1]) <= reach
    at = np.flatnonzero(top & near & (sign[2:] == sign[1:-1]) & (sign[:-2] == sign[1:-1])) + 1
    row, a, b, own = rows[at], u[at - 1], u[at + 1], sign[at]
    for _ in range(_STEPS if len(at) else 0):
        left, right = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
        higher = own * least(row, left) > own * least(row, right)
        a, b = np.where(higher, a, left), np.where(higher, right, b)
    middle = 0.5 * (a + b)
    found = least(row, middle) if len(at) else np.zeros(0)
    new = (found > 0) != (own < 0)
    rows, u = np.concatenate([rows, row[new]]), np.concatenate([u, middle[new]])
    value = np.concatenate([value, found[new]])
    order = np.lexsort((u, rows))
    return rows[order], u[order], value[order]
