"""Averages of two layers with two tokens at any overlap, as accurate as asked."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from ...core.cluster_pool import Workers
from ...core.errors import ConvergenceError
from ...core.typing import Array
from ...model.network import Network
from ..averages import Averages, Channel, ChannelBase, Refinable
from .choice import quadrature
from .diagonal import CLOSEST, DiagonalQuadrature, is_diagonal
from .near_recovery import NearRecovery

__all__ = ["TwoLayerAverages"]

# Where averages are sampled: least accuracy, and factor for the number of points.
_SAMPLED = ((1e-2, 1), (2e-3, 4), (4e-4, 16))
# What averages near recovery state of how they were found.
_SERIES = "series near recovery"


class TwoLayerAverages(Refinable, ChannelBase):
    """Averages by quadrature, by a series near recovery, and by sampling where neither goes or q is not diagonal.

    Parameters
    ----------
    model : Network
    accuracy : float
        Of the averages that a call gives, see `DiagonalQuadrature`.
    sampled : callable
        Makes averages of the same model by sampling, of so many times the usual points.
    workers : int, ClusterPool or None
        Threads, or the workers of a cluster.
    """

    model: Network
    layers = (0, 1)
    #: Near recovery, beside the path of fixed points.
    sampled = True
    finest = (1e-9, _SAMPLED[-1][0])
    absolute = False

    def __init__(
        self, model: Network, accuracy: float, sampled: Callable[[int], Channel], workers: Workers = None
    ) -> None:
        """Keep both."""
        self.model = model
        self.accuracy = accuracy
        self._workers = workers
        self._quadratures: dict[float, DiagonalQuadrature] = {}
        self._sampled = cache(sampled)
        self._near = NearRecovery(model, self._by_quadrature)

    def __call__(self, q: Array) -> Averages:
        """Averages at q."""
        return self.with_error(q, self.accuracy)

    def with_error(self, q: Array, accuracy: float) -> Averages:
        """Averages at q of this accuracy, with their error."""
        return self._near_recovery(q, accuracy) or self._chosen(q, accuracy)(q)

    def rough(self, q: Array, accuracy: float) -> Averages:
        """Averages at q by one rule of this accuracy, without its error: the same value twice."""
        return self.alike(q, accuracy, None)

    def alike(self, q: Array, accuracy: float, neighbour: Averages | None) -> Averages:
        """The same, by the series near recovery if the neighbour's are, by rules if not, in a range where both go."""
        kept = None if neighbour is None else neighbour.method == _SERIES
        if (near := self._near_recovery(q, accuracy, kept)) is not None:
            return near
        chosen = self._chosen(q, accuracy)
        return chosen.rough(q) if isinstance(chosen, DiagonalQuadrature) else chosen(q)

    def _chosen(self, q: Array, accuracy: float) -> Channel:
        rule = self._quadrature(accuracy)
        if rule.serves(q):
            return rule
        return self._sampled(next((times for least, times in _SAMPLED if accuracy >= least), _SAMPLED[-1][1]))

    def _quadrature(self, accuracy: float) -> DiagonalQuadrature:
        if accuracy not in self._quadratures:
            self._quadratures[accuracy] = quadrature(self.model, accuracy, self._workers)
        return self._quadratures[accuracy]

    def _by_quadrature(self, v1: float, v2: float, accuracy: float) -> Array | None:
        """G_11 and G_22 by one rule; None where that does not go."""
        if not CLOSEST <= min(v1, v2) <= max(v1, v2) <= 1:
            return None
        try:
            g: Array = self._quadrature(accuracy).rough(np.diag([1 - v1, 1 - v2])).g[0].diagonal()
        except ConvergenceError:
            return None
        return g

    def _near_recovery(self, q: Array, accuracy: float, kept: bool | None = None) -> Averages | None:
        """Averages by the series, whose error is a bias; None where it does not serve. `kept` as of `NearRecovery`."""
        v1, v2 = (1 - q).diagonal()
        found = self._near(float(v1), float(v2), accuracy, kept) if is_diagonal(q) and min(v1, v2) > 0 else None
        if found is None:
            return None
        g, growth = np.array([np.diag(found.g)] * 2), np.full((2, 2), math.nan)
        return Averages(g, growth, np.diag(found.g * found.error), "estimated", method=_SERIES)
