"""Deep attention whose posterior has no rule: importance sampling on the fibre of each output."""

import numpy as np
from numpy.typing import NDArray

from ...channel.sampled import DeepChannel
from ...model.network import Network
from ...posterior.readout import invert_readout
from .channel import named_rows

__all__ = ["DeepOutput"]

Array = NDArray[np.float64]

# Sets of nodes; outputs that share one share its error.
_SETS = 16


class DeepOutput(DeepChannel):
    """Depth >= 2, rank 1, beyond two layers of two tokens.

    Parameters
    ----------
    model : Network
    y : ndarray, shape (n, M, M)
    nodes : int
        Of the posterior of each output; a power of two from 64.
    rng : numpy.random.Generator
    """

    def __init__(self, model: Network, y: Array, nodes: int, rng: np.random.Generator) -> None:
        points = [np.zeros((_SETS, 2 * model.indices * model.tokens))]
        super().__init__(model, points, nodes=nodes, rng=rng, workers=1)
        self.rows = len(y)
        self._pair = np.arange(max(self.rows, 1)) % _SETS
        self._v: Array = named_rows(lambda part: invert_readout(model, part)[0], y)

    # The averages of `DeepChannel` are called by an overlap, these by data.
    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:  # type: ignore[override]
        """Score the outputs of some rows."""
        precision = np.asarray(np.linalg.inv(V), np.float64)
        means, _ = self._posterior(self._points(omega, part), omega, V, precision)
        return precision @ (means[2] - omega), None

    def prior_moments(self) -> Array:
        """E[h_l h_l^T | y] of every layer and output at omega = 0, V = I, shape (n, L, M, M)."""
        depth, tokens = self.model.layers, self.model.tokens
        omega, identity = np.zeros((self.rows, depth, tokens)), np.eye(depth)
        _, seconds = self._posterior(self._points(omega, slice(0, self.rows)), omega, identity, identity)
        return seconds[2]

    def _points(self, omega: Array, part: slice) -> Array:
        # Any point of the fibre carries the output; one near the prior mean is where peaks are looked for.
        h = omega.copy()
        mixing = self.model.mixing(h)
        h[:, -1] = np.linalg.solve(mixing, self._v[part][..., None])[..., 0]
        h[:, -1] *= np.where((h[:, -1] * omega[:, -1]).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        return h
