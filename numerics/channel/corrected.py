"""Averages of many points by those of few: exact where they were taken, and changing from there as the few do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.standard_error import standard_error
from .averages import Averages, Channel, ChannelBase

__all__ = ["Anchor", "Corrected"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Anchor(NamedTuple):
    """Averages of many and of few points at one overlap.

    Attributes
    ----------
    at : ndarray, shape (P, P)
    many, few : Averages
        Of as many randomisations.
    points : float
        How many the many are; of a former anchor, how many they are worth at a later one.
    """

    at: Array
    many: Averages
    few: Averages
    points: float


class Corrected(ChannelBase):
    """G(q) = G_few(q) + mean of G_many(a) - G_few(a) over anchors a, which count by their points.

    Over the errors of a fixed point the few points know well how averages change, and badly what they are. G(q) has the
    scatter of the mean over the anchors; the standard error of the change from there counts as a bias.

    Parameters
    ----------
    few : Channel
    anchors : sequence of Anchor
        The many points of different anchors are independent.
    """

    def __init__(self, few: Channel, anchors: Sequence[Anchor]) -> None:
        self.model, self.layers, self.sampled = few.model, few.layers, few.sampled
        self.smooth, self.share = few.smooth, few.share
        self._few, self.anchors = few, tuple(anchors)

    def anchored(self, anchor: Anchor) -> "Corrected":
        """The same with one more anchor; those before are worth less if the change from them scatters, too."""
        before = []
        for one in self.anchors:
            added = _ratio(anchor.few.g - one.few.g, one.many.g)[_known(one, anchor.at)]
            points = one.points / (1 + float(added.max(initial=0.0)) ** 2)
            before.append(Anchor(one.at, one.many, one.few, points))
        return Corrected(self._few, (*before, anchor))

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
        shares = _shares(self.anchors, [_known(one, q) for one in self.anchors])
        silent = _shares(self.anchors, [_growing(one, there) for one in self.anchors])
        change, many, bias = there.g.copy(), np.zeros_like(there.g), np.zeros_like(there.bias)
        moved, growing, growth_bias = there.growth.mean(axis=0), np.zeros_like(there.growth), np.zeros(len(q))
        for one, share, part in zip(self.anchors, shares, silent, strict=True):
            change -= share * one.few.g
            many += share * one.many.g
            bias += share * one.many.bias
            rates = np.where(part > 0, one.many.growth - one.few.growth.mean(axis=0), 0.0)
            growing += part * rates
            growth_bias += part * one.many.growth_bias
        known, quiet = np.sum(shares, axis=0) > 0, np.sum(silent, axis=0) > 0
        return Averages(
            np.where(known, many + change.mean(axis=0), there.g),
            np.where(quiet, moved + growing, there.growth),
            np.where(known, bias + standard_error(change), there.bias),
            there.how,
            there.note,
            np.where(quiet, growth_bias, there.growth_bias),
        )

    def derivative(self, q: Array) -> Array | None:
        """That of the few."""
        return self._few.derivative(q)


def _known(anchor: Anchor, q: Array) -> Mask:
    """Entries of G whose layers are known both here and there."""
    known = (anchor.at.diagonal() > 0) & (q.diagonal() > 0)
    return np.asarray(np.outer(known, known), np.bool_)


def _growing(anchor: Anchor, there: Averages) -> Mask:
    """Growth rates that are computed both here and there."""
    return np.asarray(np.isfinite(anchor.many.growth + anchor.few.growth + there.growth).all(axis=0), np.bool_)


def _shares(anchors: Sequence[Anchor], counts: Sequence[Mask]) -> Array:
    """Shares of the points of anchors where they count; zero where none does."""
    points = np.array([one.points * where for one, where in zip(anchors, counts, strict=True)])
    total = points.sum(axis=0)
    return np.asarray(points / np.where(total > 0, total, 1.0), np.float64)


def _ratio(change: Array, many: Array) -> Array:
    """Standard error of a mean change in units of that of many points; zero where these do not scatter."""
    own = many.std(axis=0)
    return np.asarray(np.where(own > 0, change.std(axis=0) / np.where(own > 0, own, 1.0), 0.0))
