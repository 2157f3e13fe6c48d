"""Linear outputs with Gaussian noise, y = B h + sqrt(Delta) z: everything in closed form."""

import math

import numpy as np
from numpy.typing import NDArray

from ..model.links import LinkKernel
from .averages import Averages, ChannelBase

__all__ = ["LinearChannel", "linear_map"]

Array = NDArray[np.float64]

# Points at which a link must be linear, and the rounding that is allowed.
_POINTS, _ROUNDING = 64, 1e-13


def linear_map(kernel: LinkKernel) -> Array | None:
    """Matrix B of a link y = B h, shape (K, M, P); None where the link is not linear."""
    regions = [region for part in kernel.parts for region in part.regions]
    if len(regions) != len(kernel.parts) or any(region.bounds or region.conditions for region in regions):
        return None
    tokens, indices = kernel.tokens, kernel.indices
    basis = np.eye(tokens * indices).reshape(-1, tokens, indices).transpose(0, 2, 1)
    with np.errstate(all="ignore"):
        rows = kernel.link(basis)
        h = np.random.default_rng(0).standard_normal((_POINTS, indices, tokens)) * 3
        y = kernel.link(h)
    b = rows.T.reshape(-1, tokens, indices)
    expected = np.einsum("kmp,npm->nk", b, h)
    # The link is analytic on its one region: linear at generic points, linear everywhere.
    return b if np.abs(y - expected).max() <= _ROUNDING * (1 + np.abs(y).max()) * h[0].size else None


class LinearChannel(ChannelBase):
    """Averages at any overlap of y = B h + sqrt(Delta) z.

    With S = B (V x I_M) B^T + Delta, E log Z_out = -log det(2 pi e S)/2 and G = sum_m B_m^T S^{-1} B_m.

    Parameters
    ----------
    kernel : LinkKernel
        With noise > 0.
    matrix : ndarray, shape (K, M, P)
        B, as `linear_map` gives it.

    References
    ----------
    troiani2025, (9), (14), (15).
    """

    model: LinkKernel
    sampled = False
    solved = 0.0

    def __init__(self, kernel: LinkKernel, matrix: Array) -> None:
        if not kernel.noise > 0:
            raise ValueError(f"a linear channel needs noise > 0 (9), got {kernel.noise:g}: without it use LinkChannel")
        self.model, self.matrix = kernel, matrix
        self.layers = tuple(range(kernel.indices))

    def _inverse(self, q: Array) -> tuple[Array, float]:
        """S^{-1} and log det S."""
        v = np.eye(len(q)) - q
        s = np.einsum("kmp,pr,lmr->kl", self.matrix, v, self.matrix) + self.model.noise * np.eye(len(self.matrix))
        return np.linalg.inv(s), float(np.linalg.slogdet(s)[1])

    def __call__(self, q: Array) -> Averages:
        """Averages at the overlap q, twice: there is no error but rounding."""
        inverse, _ = self._inverse(q)
        g = np.einsum("kmp,kl,lmr->pr", self.matrix, inverse, self.matrix)
        return Averages.unbiased(np.array([g, g]), np.full((2, len(q)), np.nan), "estimated")

    def operator(self, q: Array) -> tuple[Averages, Array]:
        """Averages, and the operator (15) at q, [i, j, k, l] from M[k, l] to its image at i, j."""
        inverse, _ = self._inverse(q)
        change = np.einsum("kmp,kl,lnr->mnpr", self.matrix, inverse, self.matrix)
        found = np.einsum("mnik,mnjl->ijkl", change, change)
        return self(q), np.array([found, found])

    def log_density(self, q: Array) -> Array:
        """E log Z_out, twice."""
        _, log_det = self._inverse(q)
        value = -0.5 * (len(self.matrix) * (math.log(2 * math.pi) + 1) + log_det)
        return np.array([value, value])
