"""Posteriors by few nodes, and by sixteen times as many: what few nodes are off by, at little scatter."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .sampled import PAIRS, Halves, SampledPosterior, halves_of, moments_of

__all__ = ["BLOCKS", "BlockedPosterior", "FewNodesPosterior", "Levels"]

Array = NDArray[np.float64]

#: Times as many nodes as few.
BLOCKS = 16
# Outputs that share a pair of sets of nodes at most: what few nodes are off by at random they have in common.
_SHARING = 32


class Levels(NamedTuple):
    """Moments by all nodes, and by each block of them."""

    all: Halves
    blocks: list[Halves]


class FewNodesPosterior(SampledPosterior):
    """Posteriors by few nodes, of which few outputs take the same."""

    @staticmethod
    def pairs_of(per: int) -> int:
        """As many as it takes for few outputs to share one."""
        return min(per, max(PAIRS, per // _SHARING))


class BlockedPosterior(FewNodesPosterior):
    """Posteriors by blocks of nodes, each of which has the law of few nodes, and by all of them.

    An average over the blocks has nearly the scatter of one by all nodes, and is off by as much as few nodes are.
    """

    blocks = BLOCKS

    def levels(self, h: Array, omega: Array, v: Array) -> Levels:
        """Posteriors given the outputs of indices h under N(omega, v), see `SampledPosterior`."""
        moments = self._moments(h, omega, v)
        return Levels(
            halves_of(moments[:, 0], h.shape),
            [halves_of(moments[:, 1 + block], h.shape) for block in range(self.blocks)],
        )

    def part(self, h: Array, omega: Array, v: Array, start: int = 0) -> tuple[Array, int]:
        """Moments by all nodes and by each block, shape (n, 1 + blocks, 3, L M + L M M), and how many have no node."""
        sums = self._sums(h, omega, v, start)
        sums = np.concatenate([sums.sum(axis=1, keepdims=True), sums], axis=1)
        moments, lost = moments_of(sums.reshape(-1, *sums.shape[2:]))
        return moments.reshape(len(h), 1 + self.blocks, *moments.shape[1:]), lost
