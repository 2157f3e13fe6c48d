"""Averages of three layers of softmax attention with two tokens, where the hidden layers are learned."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from ...quadrature.rules import normal_qmc
from ..sampled import PAIRS, DeepChannel
from .mixture import mixture_sums

__all__ = ["ThreeLayers"]

Array = NDArray[np.float64]

_MODES = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)
# Sets of nodes of each randomisation, share of the nodes that are solved for the last layer, outputs per task.
_SETS, _FOR_LAST, _CHUNK = 64, 0.5, 256


class ThreeLayers(DeepChannel):
    """Averages as `DeepChannel`'s, of more and cheaper nodes.

    Parameters
    ----------
    model : Network
        Three layers, two tokens, softmax, rank 1.
    points : sequence of ndarray, shape (n, 12)
        Standard normal, one array per randomisation.
    nodes : int
        Nodes of each output; a power of two from 64.
    rng : numpy.random.Generator
    workers : int, optional
        Threads; all cores by default.
    """

    def _draw(self, nodes: int, per: int, rng: np.random.Generator) -> None:
        # The generators of `DeepChannel`'s nodes, unused: those that are spawned next stay the same.
        rng.spawn(2 * min(PAIRS, per) * self._replicas)
        half = int(math.log2(nodes)) - 1
        sets = min(_SETS, per)
        streams = rng.spawn(2 * sets * self._replicas)
        draws = np.array([normal_qmc(4, half, stream) for stream in streams]).swapaxes(1, 2)
        densities = np.exp(0.5 * (draws[:, 2] ** 2 + draws[:, 3] ** 2))
        laid = np.concatenate([draws, densities[:, None]], axis=1).reshape(-1, 2, 5, 1 << half)
        self._draws = np.ascontiguousarray(laid)
        self._set = np.arange(per * self._replicas) * sets // per

    def _posterior(self, h: Array, omega: Array, v: Array, precision: Array) -> tuple[list[Array], list[Array]]:
        model = self.model
        readout = (h[:, 2:] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0] @ _MODES
        modes = omega @ _MODES
        variance = np.ascontiguousarray(v.diagonal())
        sums = np.empty((len(h), 2, 16))
        for_last = round(_FOR_LAST * self._draws.shape[3])

        def work(start: int) -> None:
            part = slice(start, start + _CHUNK)
            mixture_sums(
                readout[part], modes[part], variance, model.skip, model.beta,
                self._draws, self._set[part], for_last, sums[part],
            )  # fmt: skip

        with ThreadPoolExecutor(self._workers) as pool:
            list(pool.map(work, range(0, len(h), _CHUNK)))
        lost = int((~(sums[..., 0] > 0)).any(axis=1).sum())
        if lost:
            raise ConvergenceError(
                f"the sampled posterior (12) of {model.describe()} met {lost} of {len(h)} outputs with no node at all; "
                "raise nodes, or take another seed"
            )
        sums = np.concatenate([sums, sums.sum(axis=1, keepdims=True)], axis=1)
        moments = sums[..., 1:].reshape(len(h), 3, 3, 5) / sums[..., :1, None]
        means = [moments[:, k, :, :2] @ _MODES for k in range(3)]
        seconds = [_MODES @ moments[:, k][..., [2, 3, 3, 4]].reshape(-1, 3, 2, 2) @ _MODES for k in range(3)]
        return means, seconds
