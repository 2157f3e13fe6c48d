"""Contribution of a hidden layer of the committee (51)-(54) to the output: two numbers and their correlations.

In the modes a = (h_1 + h_2)/sqrt(2), b = (h_1 - h_2)/sqrt(2) of two tokens sigma(beta h^T h) = [[1, s], [0, t]]:
s is odd in a and in b, t is even in both. Hence E s = 0, E s t = 0 at any overlap, and the sign of h is not seen.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.pair_softmax_m2.numpy64 import slopes

from ..core.validation import positive
from ..quadrature.rules import gauss_legendre_panels

__all__ = ["Stability", "features", "quadrant", "stability"]

Array = NDArray[np.float64]

# Standard normal variables are cut here, where even their root has no mass that counts.
_CUT = 11.0
# Degrees of Hermite polynomials, and nodes of each mode.
_DEGREE, _NODES = 160, 320


def features(a: Array, b: Array, beta: float) -> tuple[Array, Array]:
    """Return s and t of modes a and b."""
    s, lower, _ = slopes(a, b, 1.0, beta)
    return s, lower - 1.0


def quadrant(nodes: int, cut: float = _CUT) -> tuple[Array, Array]:
    """Nodes in a > 0 and weights of the standard normal law there, which sum to 1/2."""
    rule = gauss_legendre_panels(np.linspace(0.0, cut, math.ceil(nodes / 16) + 1), 16)
    return rule.nodes, rule.weights * np.exp(-0.5 * rule.nodes**2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Stability:
    """N_i(q) = E[E[x_i | omega]^2] of x = (s, t), omega of covariance q: mean square of the features given omega.

    With the Hermite coefficients of x, N_i(q) = sum_n c_in q^n; only even n occur. The variance that is left given
    omega is S_i(q) = N_i(1) - N_i(q), and the mean square of the gradient of E[x_i | omega] is N_i'(q).

    Attributes
    ----------
    coefficients : ndarray, shape (2, n)
        c_in.
    total : ndarray, shape (2,)
        N_i(1) = E x_i^2.
    left_out : float
        Largest share of N_i(1) beyond the last coefficient.
    """

    coefficients: Array
    total: Array
    left_out: float

    def known(self, q: float) -> Array:
        """N_i(q), shape (2,)."""
        return np.asarray(np.polynomial.polynomial.polyval(q, self.coefficients.T))

    def rest(self, q: float) -> Array:
        """S_i(q), shape (2,)."""
        return self.total - self.known(q)

    def slope(self, q: float) -> Array:
        """N_i'(q), shape (2,)."""
        order = np.arange(1, self.coefficients.shape[1])
        return np.asarray(np.polynomial.polynomial.polyval(q, (self.coefficients[:, 1:] * order).T))

    @property
    def furthest(self) -> float:
        """Overlap up to which the omitted terms are below a hundredth of the variance S_i that is left."""
        # Least distance of an overlap from one.
        nearest = 1e-6
        return 1 - max(nearest, 100 * self.left_out * float((self.total / self.slope(1.0)).max()))

    @property
    def curvature(self) -> Array:
        """N_i''(0), shape (2,)."""
        return 2 * self.coefficients[:, 2]

    @property
    def mean(self) -> float:
        """E t; E s = 0."""
        return math.sqrt(float(self.coefficients[1, 0]))


@lru_cache(maxsize=16)
def stability(beta: float = 1.0, nodes: int = _NODES) -> Stability:
    """Hermite coefficients of the features of one hidden layer.

    Parameters
    ----------
    beta : float, optional
        Inverse temperature > 0.
    nodes : int, optional
        Of the quadrature in each mode.

    Returns
    -------
    Stability

    References
    ----------
    troiani2025, (51), (54); two tokens, rank 1.
    """
    beta = positive("beta", beta, "(3)")
    x, weights = quadrant(nodes)
    # Normalised polynomials times the root of the weight stay of order one.
    root = np.exp(-0.25 * x**2)
    basis = np.empty((_DEGREE + 1, len(x)))
    basis[0], basis[1] = root, x * root
    for n in range(1, _DEGREE):
        basis[n + 1] = (x * basis[n] - math.sqrt(n) * basis[n - 1]) / math.sqrt(n + 1)
    rows = basis * (weights / root)
    coefficients = np.zeros((2, _DEGREE + 1))
    total = np.zeros(2)
    for i, values in enumerate(features(x[:, None], x[None, :], beta)):
        # One quadrant of four, for polynomials of the parity of the feature; the others vanish.
        part = rows[(1 - i) :: 2]
        square = (4 * part @ values @ part.T) ** 2
        degrees = np.arange(1 - i, _DEGREE + 1, 2)
        order = degrees[:, None] + degrees
        keep = order <= _DEGREE
        coefficients[i] = np.bincount(order[keep], square[keep], minlength=_DEGREE + 1)
        total[i] = 4 * weights @ values**2 @ weights
    left = float(((total - coefficients.sum(axis=1)) / total).max())
    return Stability(coefficients, total, left)
