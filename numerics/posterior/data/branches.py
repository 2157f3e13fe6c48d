"""Networks whose outputs finitely many indices give: posteriors of data as sums over the branches of each output."""

import numpy as np

from ...core.results import How
from ...core.typing import Array
from ...model.network import Network
from ..branches.posterior import Preimages
from ..protocol import Settings
from .outputs import named_rows

__all__ = ["BranchedPosterior"]


class BranchedPosterior:
    """Posteriors of the outputs of a network that finitely many indices give.

    Parameters
    ----------
    model : Network
        `Network.branched`.
    y : ndarray, shape (n, M, M)
    settings : Settings
        Its generator draws the starts of the search.

    Raises
    ------
    UnreachableOutputError
        No indices were found that give an output.
    """

    how: How = "estimated"

    def __init__(self, model: Network, y: Array, settings: Settings) -> None:
        self.model, self.rows = model, len(y)
        self._preimages = Preimages(model, settings.rng)
        named_rows(self._find, y)

    def _find(self, y: Array) -> Array:
        self._branches = self._preimages.of_outputs(y)
        return self._branches.log_weight

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        found = self._preimages.summed(self._branches.rows(part), omega, V)
        n, indices, tokens = found.mean.shape
        precision = np.asarray(np.linalg.inv(V), np.float64)
        flat = found.mean.reshape(n, -1)
        spread = (found.second - flat[:, :, None] * flat[:, None, :]).reshape(n, indices, tokens, indices, tokens)
        covariance = np.einsum("npmqm->pq", spread)
        curvature = n * tokens * precision - precision @ covariance @ precision
        return precision @ (found.mean - omega), curvature

    def prior_moments(self) -> Array:
        """E[h h^T | y] of every output at omega = 0, V = I, shape (n, P, M, P, M)."""
        indices, tokens = self.model.indices, self.model.tokens
        found = self._preimages.summed(self._branches, np.zeros((self.rows, indices, tokens)), np.eye(indices))
        return found.second.reshape(self.rows, indices, tokens, indices, tokens)
