"""Averages of many points by those of few: exact where they were taken, and changing from there as the few do."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.standard_error import standard_error, student
from .averages import Averages, Channel, ChannelBase

__all__ = ["Anchor", "Corrected", "joined"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Anchor(NamedTuple):
    """Averages of many and of few points at one overlap.

    Attributes
    ----------
    at : ndarray, shape (P, P)
    many, few : Averages
        The many may have more randomisations than the few.
    points : float
        How many the many are.
    """

    at: Array
    many: Averages
    few: Averages
    points: float

    def worth(self, last: "Anchor") -> float:
        """Points of mean square as large at a later anchor: with the scatter of the change from here, and the bias."""
        known = _known(self, last.at)
        added = _ratio(standard_error(last.few.g - self.few.g), self.many.g)[known].max(initial=0.0)
        off = _ratio(self.many.bias, self.many.g)[known].max(initial=0.0)
        return float(self.points / (1 + added**2 + off**2))


class Corrected(ChannelBase):
    """G(q) = G_few(q) + mean of G_many(a) - G_few(a) over anchors a, which count by what their points are worth.

    Over the errors of a fixed point the few points know well how averages change, and badly what they are. G(q) has the
    scatter of the mean over the anchors and of the change from there, which are independent. Growth rates are corrected
    alike.

    Parameters
    ----------
    few : Channel
    anchors : sequence of Anchor
        The many points of different anchors are independent.
    """

    def __init__(self, few: Channel, anchors: Sequence[Anchor]) -> None:
        self.model, self.layers, self.sampled = few.model, few.layers, few.sampled
        self.smooth, self.share, self.rounding = few.smooth, few.share, few.rounding
        self._few, self.anchors = few, tuple(anchors)
        self._worth = [one.worth(self.anchors[-1]) for one in self.anchors]

    def by(self, few: Channel) -> "Corrected":
        """The same with other points that the changes are known by."""
        return Corrected(few, [Anchor(one.at, one.many, few(one.at), one.points) for one in self.anchors])

    def anchored(self, at: Array, many: Averages, points: float) -> "Corrected":
        """The same with one more anchor."""
        return Corrected(self._few, (*self.anchors, Anchor(at, many, self._few(at), points)))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Those of the few."""
        return self._few.groups

    @property
    def shared(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Those of the few."""
        return self._few.shared

    @property
    def solved(self) -> float | None:
        """As by the few."""
        return self._few.solved

    def __call__(self, q: Array) -> Averages:
        """Averages; of layers of zero overlap either here or at all anchors, those of the few."""
        there = self._few(q)
        if not self.anchors:
            return there
        shares, change = self._changed(q, there)
        silent = _shares(self._worth, [_growing(one, there) for one in self.anchors])
        bias = np.asarray(sum(share * one.many.bias for one, share in zip(self.anchors, shares, strict=True)))
        moved, growth_bias = there.growth.copy(), np.zeros(len(q))
        rates = []
        for one, part in zip(self.anchors, silent, strict=True):
            moved -= np.where(part > 0, part * one.few.growth, 0.0)
            rates.append(np.where(part > 0, one.many.growth, 0.0))
            growth_bias += part * one.many.growth_bias
        known, quiet = np.sum(shares, axis=0) > 0, np.sum(silent, axis=0) > 0
        g = joined([*(one.many.g for one in self.anchors), change], np.array([*shares, known]))
        growth = joined([*rates, np.where(quiet, moved, 0.0)], np.array([*silent, quiet]))
        return Averages(
            np.where(known, g, _as_many(there.g, len(g))),
            np.where(quiet, growth, _as_many(there.growth, len(g))),
            np.where(known, bias, there.bias),
            there.how,
            there.note,
            np.where(quiet, growth_bias, there.growth_bias),
        )

    def _changed(self, q: Array, there: Averages) -> tuple[Array, Array]:
        """Shares of the anchors, and what the few, which are `there` at q, change by from them."""
        shares, change = _shares(self._worth, [_known(one, q) for one in self.anchors]), there.g.copy()
        for one, share in zip(self.anchors, shares, strict=True):
            change -= share * one.few.g
        return shares, change

    def derivative(self, q: Array) -> Array | None:
        """That of the few."""
        return self._few.derivative(q)


def joined(values: Sequence[Array], shares: Array) -> Array:
    """Values that scatter as independent sets of randomisations do together.

    Parameters
    ----------
    values : sequence of ndarray, shape (replicas, ...)
    shares : ndarray, shape (sets, ...)
        Weights of the means of the sets in their sum.

    Returns
    -------
    ndarray, shape (all replicas, ...)
        Their mean is the sum; their standard error has Student's factor of the degrees of freedom that it is known by
        (Welch and Satterthwaite).
    """
    counts = [len(value) for value in values]
    total, means = sum(counts), [value.mean(axis=0) for value in values]
    variances = [
        share**2 * value.var(axis=0, ddof=1) / count for value, share, count in zip(values, shares, counts, strict=True)
    ]
    whole = np.asarray(sum(variances))
    inverse = np.asarray(sum(one**2 / (count - 1) for one, count in zip(variances, counts, strict=True)))
    # The least degrees of freedom of any entry that scatters.
    most = float(np.max(inverse / np.where(whole > 0, whole, 1.0) ** 2))
    degrees = 1 / most if most > 0 else total - 1.0
    factor = student(1 + math.floor(degrees)) / student(total)
    mean = sum(share * one for share, one in zip(shares, means, strict=True))
    return np.concatenate(
        [
            mean + factor * share * math.sqrt(total * (total - 1) / (count * (count - 1))) * (value - one)
            for value, share, count, one in zip(values, shares, counts, means, strict=True)
        ]
    )


def _as_many(values: Array, count: int) -> Array:
    """So many values with the mean and the standard error of fewer, of which they are a multiple."""
    few = len(values)
    if few == count:
        return values
    mean = values.mean(axis=0)
    scale = student(few) / student(count) * math.sqrt(count * (count - 1) / (few * (few - 1)) * few / count)
    return np.asarray(mean + scale * np.tile(values - mean, (count // few,) + (1,) * mean.ndim))


def _known(anchor: Anchor, q: Array) -> Mask:
    """Entries of G whose layers are known both here and there."""
    known = (anchor.at.diagonal() > 0) & (q.diagonal() > 0)
    return np.asarray(np.outer(known, known), np.bool_)


def _growing(anchor: Anchor, there: Averages) -> Mask:
    """Growth rates that are computed both here and there."""
    rates = (anchor.many.growth, anchor.few.growth, there.growth)
    return np.asarray(np.all([np.isfinite(one).all(axis=0) for one in rates], axis=0), np.bool_)


def _shares(worth: Sequence[float], counts: Sequence[Mask]) -> Array:
    """Shares of anchors of this worth where they count; zero where none does."""
    points = np.array([one * where for one, where in zip(worth, counts, strict=True)])
    total = points.sum(axis=0)
    return np.asarray(points / np.where(total > 0, total, 1.0), np.float64)


def _ratio(error: Array, many: Array) -> Array:
    """An error in units of the standard error of many points; zero where these do not scatter."""
    own = standard_error(many)
    return np.asarray(np.where(own > 0, error / np.where(own > 0, own, 1.0), 0.0))
