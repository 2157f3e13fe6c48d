"""Averages over many outputs by few nodes, and over few outputs of what few nodes are off by.

The scatter of an average is that of the outputs, its bias that of the nodes: many outputs take few nodes each, and few
outputs tell what sixteen times as many nodes change.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.cluster_pool import Workers
from ..model.network import Network
from ..posterior.deep.levels import BLOCKS, BlockedPosterior, FewNodesPosterior
from .averages import Averages, ChannelBase
from .sampled import DeepChannel, Weights

__all__ = ["LEFT", "OUTPUTS", "TwoLevels"]

Array = NDArray[np.float64]

#: Outputs that take few nodes, for each of those that take more.
OUTPUTS = 32
# Few nodes over those that are asked for, and the least there are.
_FEW, _LEAST = 4, 64
#: What is left of the bias beside that of as many nodes as are asked for.
LEFT = _FEW / BLOCKS
# What the nodes change, with half of what is left.
_EXTRAPOLATED = 1 + 0.5 / (BLOCKS - 1)


class _FewNodes(DeepChannel):
    """Averages by few nodes."""

    posterior = FewNodesPosterior

    def fitted(self, q: Array, weights: Weights) -> Averages:
        """Averages, and the weights of their control variates, which are added."""
        outputs = self.outputs(q)
        return self.averages(outputs, self._posterior(outputs.h, outputs.omega, outputs.v), weights)


class _Blocked(DeepChannel):
    """Averages by all nodes, and by blocks of them."""

    posterior = BlockedPosterior
    _posterior: BlockedPosterior

    def levels(self, q: Array, weights: Weights) -> tuple[Averages, list[Averages]]:
        """Averages by all nodes, and by each block of them, with these weights of the control variates."""
        outputs = self.outputs(q)
        found = self._posterior.levels(outputs.h, outputs.omega, outputs.v)
        fine = self.averages(outputs, found.all, weights)
        return fine, [self.averages(outputs, block, weights) for block in found.blocks]


class TwoLevels(ChannelBase):
    """Averages of `DeepChannel` by a quarter of the nodes, less what these are off by beside four times the nodes.

    Randomisations of both are paired, so that their scatter is that of the sum. The bias that is left is inverse to the
    number of nodes: what the nodes change, over one less than the times they are more. Half of it is taken off, and
    half is what may be left (`Averages.bias`); its scatter is part of that of the averages.

    Parameters
    ----------
    model : Network
        Depth >= 2, rank 1.
    points, fewer : sequence of ndarray, shape (n, 2 L M)
        Standard normal, one array per randomisation: of the outputs with few nodes, and of those with many.
    nodes : int
        A power of two from 64.
    rng : numpy.random.Generator
        Randomises the nodes.
    workers : int, ClusterPool or None
    """

    sampled = True

    def __init__(
        self,
        model: Network,
        points: Sequence[Array],
        fewer: Sequence[Array],
        *,
        nodes: int,
        rng: np.random.Generator,
        workers: Workers = None,
    ) -> None:
        few = max(_LEAST, nodes // _FEW)
        self.model, self.layers = model, tuple(range(model.layers))
        self._few = _FewNodes(model, points, nodes=few, rng=rng, workers=workers)
        self._blocked = _Blocked(model, fewer, nodes=BLOCKS * few, rng=rng, workers=workers)

    def __call__(self, q: Array) -> Averages:
        """Averages, and what they are off by."""
        # Few nodes have a bias in the control variates, too: with the same weights it is that of a block.
        weights = Weights()
        few, (fine, blocks) = self._few.fitted(q, weights), self._blocked.levels(q, weights)
        change = fine.g - np.mean([block.g for block in blocks], axis=0)
        growing = fine.growth - np.mean([block.growth for block in blocks], axis=0)
        return Averages(
            few.g + _EXTRAPOLATED * change,
            few.growth + _EXTRAPOLATED * growing,
            _left(change),
            "monte-carlo",
            growth_bias=np.nan_to_num(_left(growing)),
        )


def _left(change: Array) -> Array:
    """What is left of a bias inverse to the number of nodes once these are `BLOCKS` times as many, and half is off."""
    return np.asarray(0.5 * np.abs(change.mean(axis=0)) / (BLOCKS - 1))
