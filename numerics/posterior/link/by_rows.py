"""Adaptive integrals of one vector-valued function for many rows at once."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.typing import Array
from ...quadrature.rules import gauss_legendre

__all__ = ["Intervals", "by_rows"]

IntArray = NDArray[np.int64]


class Intervals(NamedTuple):
    """Intervals, and the row that each counts in.

    Attributes
    ----------
    row : ndarray of int, shape (m,)
    low, high : ndarray, shape (m,)
    """

    row: IntArray
    low: Array
    high: Array

    def halves(self) -> "Intervals":
        """The lower halves, and after them the upper ones."""
        middle = 0.5 * (self.low + self.high)
        low, high = np.concatenate([self.low, middle]), np.concatenate([middle, self.high])
        return Intervals(np.concatenate([self.row, self.row]), low, high)

    def chosen(self, which: NDArray[np.bool_]) -> "Intervals":
        """Some of them."""
        return Intervals(self.row[which], self.low[which], self.high[which])


def by_rows(
    function: Callable[[IntArray, Array], Array], intervals: Intervals, count: int, tolerance: float
) -> tuple[Array, Array]:
    """Integrals of each row over its intervals, which are halved until their halves agree with them.

    Parameters
    ----------
    function : callable
        Of rows and nodes, both of shape (n,), with values of shape (n, k).
    intervals : Intervals
    count : int
        Number of rows.
    tolerance : float
        Largest difference of an interval from its halves, per length of the interval; absolute.

    Returns
    -------
    value, error : ndarray, shape (count, k)
        The error is the sum of the last differences, which is that of the coarser rule.
    """
    # Nodes of a panel, and halvings of it at most: the first panels times 2^-40 are rounding.
    order, deepest = 10, 40
    nodes, weights = gauss_legendre(order)

    def panels(some: Intervals) -> Array:
        half = 0.5 * (some.high - some.low)
        x = 0.5 * (some.low + some.high)[:, None] + half[:, None] * nodes
        values = function(np.repeat(some.row, order), x.ravel())
        return np.asarray(np.einsum("n,q,nqk->nk", half, weights, values.reshape(*x.shape, -1), optimize=True))

    whole = panels(intervals)
    value, error = np.zeros((2, count, whole.shape[1]))
    for depth in range(deepest):
        halves = intervals.halves()
        parts = panels(halves)
        n = len(intervals.row)
        sums = parts[:n] + parts[n:]
        difference = np.abs(whole - sums)
        again = difference.max(axis=1, initial=0.0) > tolerance * (intervals.high - intervals.low)
        again &= depth < deepest - 1
        np.add.at(value, intervals.row[~again], sums[~again])
        np.add.at(error, intervals.row[~again], difference[~again])
        if not again.any():
            break
        twice = np.concatenate([again, again])
        intervals, whole = halves.chosen(twice), parts[twice]
    return value, error
