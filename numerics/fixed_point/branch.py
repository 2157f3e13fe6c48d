"""A branch of fixed points along the size of a part of the overlap, where alpha may turn back along it.

The unknowns are the entries x of the overlap along some axes, and t = log alpha; the equations are F(alpha G(x)) = x
and that a part of the trace of x is given. They have a solution where alpha(size) has an extremum, too: the derivative
of t by the size comes with each solution, and where it vanishes two fixed points meet (a spinodal).
"""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..channel.link.channel import LinkChannel
from ..channel.link.rotated import RotatedLink
from ..core.results import Estimate
from ..core.ties import canonical_axes
from ..priors import GAUSSIAN, OverlapMap, Prior, along
from .balance import RECOVERED, FreeEntries, filled
from .fastest import NOTHING

__all__ = ["Branch", "BranchPoint"]

Array = NDArray[np.float64]


class BranchPoint(NamedTuple):
    """A fixed point.

    Attributes
    ----------
    size : float
        Trace of the part.
    x : ndarray, shape (n,)
        Entries.
    t, error : float
        Logarithm of alpha, and what the averages leave open of it.
    rise : ndarray, shape (n + 1,)
        Derivatives of x and t by the size.
    """

    size: float
    x: Array
    t: float
    error: float
    rise: Array

    @property
    def slope(self) -> float:
        """Derivative of t by the size."""
        return float(self.rise[-1])


@dataclass(frozen=True)
class Branch:
    """Fixed points with an overlap along some axes.

    Attributes
    ----------
    channel : RotatedLink
        Averages along the axes, with their derivative.
    rank : int
        The first axes have an overlap.
    part : tuple of int
        Those whose overlaps add up to the size.
    prior : OverlapMap
        F along the axes.
    """

    channel: RotatedLink
    rank: int
    part: tuple[int, ...]
    prior: OverlapMap = GAUSSIAN

    @classmethod
    def beside(cls, channel: LinkChannel, q: Array, new: Array, prior: Prior = GAUSSIAN) -> "Branch":
        """Branch along the axes of an overlap and new ones, whose overlaps add up to its size.

        Parameters
        ----------
        channel : LinkChannel
        q : ndarray, shape (P, P)
        new : ndarray, shape (P, n)
            Orthonormal columns, orthogonal to the range of q. Where there is none, the size is the trace of q.
        prior : Prior, optional
            Of the weights, Gaussian by default.
        """
        values, vectors = np.linalg.eigh(q)
        known = np.hstack([canonical_axes(values, vectors)[:, values > NOTHING][:, ::-1], new])
        rank = known.shape[1]
        axes = np.hstack([known, np.linalg.svd(known.T)[2][rank:].T])
        part = tuple(range(rank - new.shape[1] if new.size else 0, rank))
        return cls(RotatedLink(channel, axes), rank, part, along(prior, axes))

    def unknowns(self, q: Array) -> Array:
        """Entries of an overlap along the axes."""
        turned = self.channel.axes.T @ q @ self.channel.axes
        return np.array([turned[entry] for entry in self.entries])

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the unknown entries: the diagonal first."""
        axes = range(self.rank)
        return (*((i, i) for i in axes), *combinations(axes, 2))

    def at(self, size: float, x: Array, t: float) -> BranchPoint | None:
        """Point of this size, from entries and a log alpha near it; None where Newton's method does not come to one."""
        row = np.array([float(i == j and i in self.part) for i, j in self.entries])
        x = x + row * (size - row @ x) / row.sum()
        # Steps of Newton's method, and the largest last one, of entries and of log alpha, or as a share of their error.
        most, close, share = 12, 1e-9, 0.3
        for _ in range(most):
            values = np.linalg.eigvalsh(filled(self.channel, self.entries, x))
            if values[0] < -close or values[-1] >= RECOVERED:
                return None
            try:
                inverse, missed, wrong = self._linearised(x, t, row)
            except np.linalg.LinAlgError:
                return None
            step = -inverse @ np.append(missed, row @ x - size)
            x, t = x + step[:-1], t + float(np.clip(step[-1], -1.0, 1.0))
            error = np.abs(inverse[:, :-1]) @ wrong
            if (np.abs(step) <= np.maximum(close, share * error)).all():
                return BranchPoint(size, x, t, float(error[-1] + abs(step[-1])), inverse[:, -1])
        return None

    def _linearised(self, x: Array, t: float, row: Array) -> tuple[Array, Array, Array]:
        """The inverse of the derivatives of the equations by x and t, F - x, and what the averages leave open of F."""
        entries, n, alpha = self.entries, len(x), math.exp(t)
        q = filled(self.channel, entries, x)
        derivative = self.channel.derivative(q)
        averages = self.channel(q)
        assert derivative is not None
        g = averages.g.mean(axis=0)
        balance = FreeEntries(self.channel, alpha, entries, lambda z: filled(self.channel, entries, z), self.prior)
        rows, columns = np.array(entries).T
        qhat = alpha * g
        jacobian = np.zeros((n + 1, n + 1))
        jacobian[:n, :n] = balance.pull(x) @ balance.slopes_from(derivative, x, g)
        # What F changes by as log alpha does.
        jacobian[:n, n] = self.prior.slope(qhat, qhat)[rows, columns]
        jacobian[n, :n] = row
        off = 0.5 * np.ptp(averages.g, axis=0) + averages.bias
        wrong = self._moved(qhat, alpha * off) + self.prior.overlap_error(qhat)
        missed = self.prior.overlap(qhat)[rows, columns] - x
        return np.asarray(np.linalg.inv(jacobian)), missed, np.asarray(wrong[rows, columns])

    def _moved(self, qhat: Array, off: Array) -> Array:
        """What F is off by where entries of qhat are off by so much, in any direction."""
        units = np.eye(off.size).reshape(-1, *off.shape)
        parts = [np.abs(self.prior.slope(qhat, unit)) * size for unit, size in zip(units, off.ravel(), strict=True)]
        return np.asarray(np.sum(parts, axis=0))

    def turning(self, point: BranchPoint) -> Estimate | None:
        """Alpha of the next extremum of alpha towards larger sizes; None where there is none below recovery."""
        before = point
        # Growth of the size from point to point where an extremum is looked for, and how many there are at most.
        further, points = 2.0, 16
        for _ in range(points):
            after = self.moved(before, before.size * further) or self.moved(before, before.size * further**0.25)
            if after is None:
                return None
            if after.slope * point.slope <= 0:
                return self._between(before, after)
            before = after
        return None

    def moved(self, point: BranchPoint, size: float) -> BranchPoint | None:
        """Point of another size, from one near it."""
        way = (size - point.size) * point.rise
        return self.at(size, point.x + way[:-1], point.t + float(way[-1]))

    def _between(self, before: BranchPoint, after: BranchPoint) -> Estimate | None:
        """The extremum between two points."""
        known = [before, after]

        def slope(size: float) -> float:
            near = min(known, key=lambda one: abs(one.size - size))
            found = near if near.size == size else self.moved(near, size)
            if found is None:
                raise ArithmeticError
            known.append(found)
            return found.slope

        # Relative accuracy of the size there.
        extremum = 1e-3
        try:
            # Alpha is off by the square of what the size is off by.
            brentq(slope, before.size, after.size, rtol=extremum)
        except ArithmeticError:
            return None
        best = min(known, key=lambda one: abs(one.slope))
        around = min((one for one in known if one.slope * best.slope <= 0), key=lambda one: abs(one.size - best.size))
        left = abs(best.slope * (around.size - best.size))
        return Estimate(math.exp(best.t), math.exp(best.t) * (best.error + left), "estimated")
