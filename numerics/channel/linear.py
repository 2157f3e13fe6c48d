"""Linear outputs with Gaussian noise, y = B h + sqrt(Delta) z: everything in closed form."""

import math

import numpy as np
from numpy.typing import NDArray

from ..model.links import LinkKernel
from .averages import Averages, ChannelBase

__all__ = ["LinearChannel", "linear_map"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)


def linear_map(kernel: LinkKernel) -> Array | None:
    """Matrix B of a link y = B h, shape (K, M, P); None where the link is not linear."""
    regions = [region for part in kernel.parts for region in part.regions]
    if len(regions) != len(kernel.parts) or any(region.bounds or region.conditions for region in regions):
        return None
    tokens, indices = kernel.tokens, kernel.indices
    basis = np.eye(tokens * indices).reshape(-1, tokens, indices).transpose(0, 2, 1)
    # Points at which a link must be linear, and the rounding that is allowed.
    points, rounding = 64, 1e-13
    with np.errstate(all="ignore"):
        rows = kernel.link(basis)
        h = np.random.default_rng(0).standard_normal((points, indices, tokens)) * 3
        y = kernel.link(h)
    b = rows.T.reshape(-1, tokens, indices)
    expected = np.einsum("kmp,npm->nk", b, h)
    # The link is analytic on its one region: linear at generic points, linear everywhere.
    return b if np.abs(y - expected).max() <= rounding * (1 + np.abs(y).max()) * h[0].size else None


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

    def _covariance(self, q: Array) -> Array:
        """Covariance S of y given omega."""
        v = np.eye(len(q)) - q
        found: Array = np.einsum("kmp,pr,lmr->kl", self.matrix, v, self.matrix)
        return found + self.model.noise * np.eye(len(self.matrix))

    def _rounding(self, s: Array) -> float:
        """Relative rounding of S^{-1}: S is a sum of M P^2 products and the noise, an elimination rounds 3 K times.

        Each is half an eps of a matrix of the size of S, which is a change by the condition number of S, relative.
        """
        values = np.linalg.eigvalsh(s)
        outputs, tokens, indices = self.matrix.shape
        roundings = 3 * outputs + tokens * indices**2 + 4
        return 0.5 * roundings * _EPS * float(values[-1] / values[0]) if values[0] > 0 else math.inf

    def __call__(self, q: Array) -> Averages:
        """Averages at the overlap q, twice: there is no error but rounding."""
        s = self._covariance(q)
        g = np.einsum("kmp,kl,lmr->pr", self.matrix, np.linalg.inv(s), self.matrix)
        sizes = np.sqrt(g.diagonal())
        bias = self._rounding(s) * np.outer(sizes, sizes)
        return Averages(np.array([g, g]), np.full((2, len(q)), np.nan), bias, "estimated")

    def operator(self, q: Array) -> tuple[Averages, Array]:
        """Averages, and the operator (15) at q, [i, j, k, l] from M[k, l] to its image at i, j."""
        inverse = np.linalg.inv(self._covariance(q))
        change = np.einsum("kmp,kl,lnr->mnpr", self.matrix, inverse, self.matrix)
        found = np.einsum("mnik,mnjl->ijkl", change, change)
        return self(q), np.array([found, found])

    def log_density(self, q: Array) -> Array:
        """E log Z_out, twice."""
        log_det = float(np.linalg.slogdet(self._covariance(q))[1])
        value = -0.5 * (len(self.matrix) * (math.log(2 * math.pi) + 1) + log_det)
        return np.array([value, value])

    def log_density_bias(self, q: Array) -> float:
        """Half the rounding of log det S: its derivative by S is S^{-1}, whose trace with S is K."""
        return 0.5 * len(self.matrix) * self._rounding(self._covariance(q))
