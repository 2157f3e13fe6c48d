"""Averages at the points of a rule for the hidden layers' omega: their mean, and what it may be off by."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

__all__ = ["PointValues"]

Array = NDArray[np.float64]


class PointValues(NamedTuple):
    """Averages at the points of the rule, and at some of them again, with other nodes and by other sums.

    Attributes
    ----------
    xi : ndarray, shape (n, L - 1, 2)
    weights : ndarray, shape (n,)
    values : ndarray, shape (n, L)
    repeated : ndarray of int
        Which points are taken again with other nodes.
    resolved : ndarray of int
        Which are taken by halves of their nodes, and by finer sums.
    again : ndarray, shape (k, len(repeated), L)
    halves : ndarray, shape (2, len(resolved), L)
    fine : ndarray, shape (len(resolved), L)
    """

    xi: Array
    weights: Array
    values: Array
    repeated: NDArray[np.int64]
    resolved: NDArray[np.int64]
    again: Array
    halves: Array
    fine: Array

    def mean(self) -> Array:
        """Over the points, and what all nodes at each give."""
        values = self.values.copy()
        values[self.repeated] = self._copies().mean(axis=0)
        return np.asarray(self.weights @ values)

    def missed(self) -> Array:
        """What the sums miss."""
        return self._share() @ self._changes()

    def left_by_sums(self) -> Array:
        """What the averages, put right by what the sums miss, may still be off by.

        The points that are summed by finer sums stand for the others, whose weight is small: these are taken to change
        as the former do, less or more the largest deviation that one of the former has from their mean.
        """
        changes, missed = self._changes(), self.missed()
        others = 1 - self.weights[self.resolved].sum() / self.weights.sum()
        # What is left of the change: shares of its mean modulus, of the averages of hidden layers and of the last one;
        # a share of the averages, where the usual sums are right by chance; and what the points may change that are not
        # summed by finer sums (`left_by_sums`). `tests/calibration/test_deep_sums.py` compares it with far finer sums
        # of the same nodes: a share .05 of the mean change alone, from one point in eight, was up to 200 times too
        # small for hidden layers.
        left_hidden, left_last, rough = 0.15, 0.05, 2e-5
        share = np.append(np.full(len(missed) - 1, left_hidden), left_last)
        left = share * (self._share() @ np.abs(changes)) + others * np.abs(changes - missed).max(axis=0)
        return np.asarray(left + rough * np.abs(self.mean()))

    def biased(self) -> Array:
        """What ratios of sums over random nodes are off by in the mean: half the nodes are off by twice as much."""
        return self._share() @ (self.halves.mean(axis=0) - self.values[self.resolved])

    def scatter(self) -> Array:
        """What random nodes leave of the mean, with a probability of 0.95."""
        copies = self._copies()
        square, k = self.weights**2, len(copies) - 1
        of_each = square[self.repeated]
        pooled = of_each @ copies.var(axis=0, ddof=1) / of_each.sum()
        variance = (square.sum() - of_each.sum() * k / (k + 1)) * pooled
        freedom = k * of_each.sum() ** 2 / (of_each**2).sum()
        # What random nodes leave is less than stated with this probability.
        inside = 0.95
        return np.asarray(stdtrit(freedom, 0.5 + 0.5 * inside) * np.sqrt(variance))

    def _changes(self) -> Array:
        return self.fine - self.values[self.resolved]

    def _copies(self) -> Array:
        return np.concatenate([self.values[None, self.repeated], self.again])

    def _share(self) -> Array:
        return np.asarray(self.weights[self.resolved] / self.weights[self.resolved].sum())
