"""A row of weights that is a mixture of Gaussians, seen through y = qhat^{1/2} w + z: free entropy and posterior.

Given the component k, w ~ N(m_k, C_k) and y ~ N(qhat^{1/2} m_k, I + qhat^{1/2} C_k qhat^{1/2}); points are components
of no variance. With N_k the density of y, psi = E log sum_k p_k N_k(y)/N(y; 0, I).
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import matrix_root

__all__ = ["Mixture", "Summary"]

Array = NDArray[np.float64]

# Standard deviations that a component reaches, and steps of the rule in one, two and three dimensions.
_REACH = 9.0
_STEPS = {1: 0.01, 2: 0.11, 3: 0.22}


@dataclass(frozen=True)
class Summary:
    """Averages of the row channel.

    Attributes
    ----------
    psi : float
    mmse : ndarray, shape (P, P)
        E Cov(w | y).
    square : float
        E |Cov(w | y)|_F^2.
    """

    psi: float
    mmse: Array
    square: float


@dataclass(frozen=True)
class Mixture:
    """Law of a row: weights, means (K, P) and variances (K, P) of components with independent entries."""

    weights: Array
    means: Array
    variances: Array

    @classmethod
    def of_entries(cls, weights: list[float], means: list[float], variances: list[float], size: int) -> "Mixture":
        """Law of `size` independent entries, each the same mixture."""
        choices = list(product(range(len(weights)), repeat=size))
        pick = [np.array([[values[k] for k in choice] for choice in choices]) for values in (weights, means, variances)]
        return cls(pick[0].prod(axis=1), pick[1], pick[2])

    def summary(self, qhat: Array) -> Summary:
        """Averages at qhat, by a trapezoidal rule around every component."""
        size = len(qhat)
        root = matrix_root(qhat)
        spreads = [np.eye(size) + (root * variance) @ root for variance in self.variances]
        centres = self.means @ root
        psi, mmse, square = 0.0, np.zeros((size, size)), 0.0
        for share, centre, spread in zip(self.weights, centres, spreads, strict=True):
            x, mass = _rule(size, math.sqrt(float(np.linalg.eigvalsh(spread)[-1])))
            log_ratio, own = self._posterior(centre + x @ matrix_root(spread), root, centres, spreads)
            psi += share * float(mass @ log_ratio)
            mmse += share * np.tensordot(mass, own, axes=1)
            square += share * float(mass @ (own**2).sum(axis=(1, 2)))
        return Summary(psi, mmse, square)

    def _posterior(self, y: Array, root: Array, centres: Array, spreads: list[Array]) -> tuple[Array, Array]:
        """Log of the density of y over that of N(0, I), and the posterior covariance."""
        scores, means, covariances = [], [], []
        for share, centre, spread, mean, variance in zip(
            self.weights, centres, spreads, self.means, self.variances, strict=True
        ):
            inverse = np.linalg.inv(spread)
            gap = y - centre
            scores.append(
                math.log(share)
                - 0.5 * np.linalg.slogdet(spread)[1]
                - 0.5 * ((gap @ inverse) * gap).sum(axis=1)
                + 0.5 * (y**2).sum(axis=1)
            )
            gain = variance[:, None] * (root @ inverse)
            means.append(mean + gap @ gain.T)
            covariances.append(np.diag(variance) - gain @ root * variance)
        score = np.array(scores)
        top = score.max(axis=0)
        weight = np.exp(score - top)
        total = weight.sum(axis=0)
        weight /= total
        at = np.array(means)
        middle = np.einsum("kn,knp->np", weight, at)
        moved = at - middle
        within = np.einsum("kn,kpq->npq", weight, np.array(covariances))
        return top + np.log(total), within + np.einsum("kn,knp,knq->npq", weight, moved, moved)


def _rule(size: int, widest: float) -> tuple[Array, Array]:
    """Nodes x = a sinh(t) of a standard normal vector: close at zero, where a wide component meets a narrow one."""
    scale = min(1.0, 2.0 / widest)
    step = _STEPS[size]
    t = step * np.arange(
        -math.ceil(math.asinh(_REACH / scale) / step), math.ceil(math.asinh(_REACH / scale) / step) + 1
    )
    x = scale * np.sinh(t)
    mass = scale * np.cosh(t) * step * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    nodes = np.stack([grid.ravel() for grid in np.meshgrid(*[x] * size, indexing="ij")], axis=1)
    weights = mass
    for _ in range(size - 1):
        weights = np.multiply.outer(weights, mass).ravel()
    keep = weights > 1e-18 * float(weights.max())
    return nodes[keep], weights[keep]
