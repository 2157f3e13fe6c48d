"""Posteriors of three layers of softmax attention with two tokens: those of `SampledPosterior`, by cheaper nodes."""

import math

import numpy as np
from numpy.typing import NDArray

from ...quadrature.rules import normal_qmc
from .mixture import Nodes, mixture_sums
from .sampled import PAIRS, Halves, SampledPosterior

__all__ = ["MixturePosterior"]

Array = NDArray[np.float64]

_MODES = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)
# Sets of nodes of each randomisation, and share of the nodes that are solved for the last layer.
_SETS, _FOR_LAST = 64, 0.5


class MixturePosterior(SampledPosterior):
    """Posteriors under priors of independent layers."""

    chunk = 256

    def _draw(self, nodes: int, per: int, replicas: int, rng: np.random.Generator) -> None:
        # The generators of `SampledPosterior`'s nodes, unused: those that are spawned next stay the same.
        rng.spawn(2 * min(PAIRS, per) * replicas)
        half = int(math.log2(nodes)) - 1
        sets = min(_SETS, per)
        streams = rng.spawn(2 * sets * replicas)
        draws = np.array([normal_qmc(4, half, stream) for stream in streams]).swapaxes(1, 2)
        densities = np.exp(0.5 * (draws[:, 2] ** 2 + draws[:, 3] ** 2))
        laid = np.concatenate([draws, densities[:, None]], axis=1).reshape(-1, 2, 5, 1 << half)
        self._draws = np.ascontiguousarray(laid)
        self._set = np.arange(per * replicas) * sets // per

    def __call__(self, h: Array, omega: Array, v: Array) -> Halves:
        """Posteriors given the outputs of indices h, under N(omega, v), v diagonal."""
        model = self.model
        readout = (h[:, 2:] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0] @ _MODES
        modes = omega @ _MODES
        variance = np.ascontiguousarray(v.diagonal())
        sums = np.empty((len(h), 2, 16))
        for_last = round(_FOR_LAST * self._draws.shape[3])

        def work(part: slice) -> None:
            nodes = Nodes(self._draws, self._set[part], for_last)
            mixture_sums(readout[part], modes[part], variance, (model.skip, model.beta), nodes, sums[part])

        moments = self._moments(work, sums).reshape(len(h), 3, 3, 5)
        means = [moments[:, k, :, :2] @ _MODES for k in range(3)]
        seconds = [_MODES @ moments[:, k][..., [2, 3, 3, 4]].reshape(-1, 3, 2, 2) @ _MODES for k in range(3)]
        return Halves(means, seconds)
