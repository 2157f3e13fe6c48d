"""Deep attention whose posterior has no rule: importance sampling on the fibre of each output."""

import numpy as np

from ...core.results import How
from ...core.typing import Array
from ...model.network import Network
from ..deep.sampled import SampledPosterior
from ..protocol import Settings
from ..readout import invert_readout
from .outputs import named_rows

__all__ = ["DeepPosterior"]


class DeepPosterior:
    """Depth >= 2, rank 1, beyond two layers of two tokens.

    Parameters
    ----------
    model : Network
    y : ndarray, shape (n, M, M)
    settings : Settings
    """

    how: How = "monte-carlo"

    def __init__(self, model: Network, y: Array, settings: Settings) -> None:
        self.rows, self.model = len(y), model
        # Nodes of each output.
        nodes = 1024
        # Sets of nodes; outputs that share one share its error.
        sets = 16
        self._posterior = SampledPosterior(model, settings.nodes or nodes, sets, 1, settings.rng, 1)
        self._v: Array = named_rows(lambda part: invert_readout(model, part)[0], y)

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        precision = np.asarray(np.linalg.inv(V), np.float64)
        means = self._posterior(self._points(omega, part), omega, V).means
        return precision @ (means[2] - omega), None

    def prior_moments(self) -> Array:
        """E[h_l h_l^T | y] of every layer and output at omega = 0, V = I, shape (n, L, M, M)."""
        depth, tokens = self.model.layers, self.model.tokens
        omega, identity = np.zeros((self.rows, depth, tokens)), np.eye(depth)
        return self._posterior(self._points(omega, slice(0, self.rows)), omega, identity).seconds[2]

    def _points(self, omega: Array, part: slice) -> Array:
        # Any point of the fibre carries the output; one near the prior mean is where peaks are looked for.
        h = omega.copy()
        mixing = self.model.mixing(h)
        h[:, -1] = np.linalg.solve(mixing, self._v[part][..., None])[..., 0]
        h[:, -1] *= np.where((h[:, -1] * omega[:, -1]).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        return h
