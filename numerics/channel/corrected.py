"""Averages of many points by those of few: exact at one overlap, and changing from there as the few do."""

import numpy as np
from numpy.typing import NDArray

from .averages import Averages, Channel, ChannelBase

__all__ = ["Corrected"]

Array = NDArray[np.float64]


class Corrected(ChannelBase):
    """G(q) = G_many(a) + G_few(q) - G_few(a), with the scatter of the many.

    Over the errors of a fixed point the few points know well how averages change, and badly what they are.

    Parameters
    ----------
    few : Channel
    many : Averages
        At the overlap `at`, of as many randomisations.
    at : ndarray, shape (P, P)
    """

    def __init__(self, few: Channel, many: Averages, at: Array) -> None:
        self.model, self.layers, self.sampled = few.model, few.layers, few.sampled
        self.smooth, self.share = few.smooth, few.share
        self._few, self._many, self._at = few, many, at
        self._here = few(at)

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
        """Averages; of layers of zero overlap at one of both places only, those of the few."""
        there = self._few(q)
        known = (self._at.diagonal() > 0) & (q.diagonal() > 0)
        both = np.outer(known, known)
        moved = self._many.g + (there.g - self._here.g).mean(axis=0)
        growing = self._many.growth + (there.growth - self._here.growth).mean(axis=0)
        silent = np.isfinite(growing).all(axis=0)
        return Averages(
            np.where(both, moved, there.g),
            np.where(silent, growing, there.growth),
            np.where(both, self._many.bias, there.bias),
            there.how,
            there.note,
            np.where(silent, self._many.growth_bias, there.growth_bias),
        )

    def derivative(self, q: Array) -> Array | None:
        """That of the few."""
        return self._few.derivative(q)
