"""Averages of networks whose outputs finitely many indices give: the outputs are sampled, posteriors are sums.

The outputs are those of the same h at all overlaps, omega = q h + (q - q^2)^{1/2} xi: their branches are found once.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..model.network import Network
from ..posterior.branches.posterior import BranchPosterior
from .averages import Averages, matrix_root
from .charts import ChartChannel
from .operator import Operator

__all__ = ["BranchChannel", "sampled_channel"]

Array = NDArray[np.float64]


class BranchChannel(ChartChannel):
    """Averages as `ChartChannel`'s, by exact posteriors up to branches that the search misses.

    How often it misses the h of an output is the share of the posterior that is missed. Where something is, an average
    is off by what it is where all is known, at most.
    """

    posterior = BranchPosterior
    _posterior: BranchPosterior

    def _indices(self, q: Array, v: Array) -> tuple[Array, Array]:
        return self._zeta, q @ self._zeta + matrix_root(q @ v) @ self._xi

    def __call__(self, q: Array) -> Averages:
        """Averages with control variates, which Nishimori's identities say vanish in the mean."""
        found = super().__call__(q)
        tokens, precision = self.model.tokens, np.abs(np.linalg.inv(np.eye(len(q)) - q))
        growth_bias = found.growth_bias + self._missed * tokens * (tokens + 1)
        return replace(found, bias=found.bias + self._missed * tokens * precision, growth_bias=growth_bias)

    def operators_at_rest(self, groups: Sequence[tuple[int, ...]]) -> list[Operator]:
        """Operator (15) from zero overlap of each of some groups."""
        off = self.model.tokens * (self.model.tokens + 1)
        return [replace(one, bias=one.bias + self._missed * off) for one in super().operators_at_rest(groups)]

    def log_density_bias(self, q: Array) -> float:
        """The share of the posteriors that is missed."""
        return super().log_density_bias(q) + self._missed

    @property
    def _missed(self) -> float:
        return self._posterior.missed


def sampled_channel(model: Network) -> type[ChartChannel]:
    """Averages of a model on the route of charts."""
    return BranchChannel if model.branched else ChartChannel
