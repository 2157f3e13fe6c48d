"""y = h_1^2 + h_2^2: a circle, on which the posterior is a ratio of Bessel functions."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import i0e, i1e

from .iteration import legendre

__all__ = ["averages"]

Array = NDArray[np.float64]


def averages(q: Array, n: int) -> Array:
    """E |g|^2 / 2 of either index, over the lengths of omega and of h."""
    (x,), V = q, 1 - q[0]
    R, wR = legendre(n, 0.0, 9 * math.sqrt(x))
    r, wr = legendre(2 * n, 0.0, 9.0)
    R, r = R[:, None], r[None, :]
    z = r * R / V
    density = R * r / (x * V) * np.exp(-R * R / (2 * x) - (r - R) ** 2 / (2 * V)) * i0e(z)
    g = (r * i1e(z) / i0e(z) - R) / V
    return np.array([0.5 * wR @ (density * g * g) @ wr])
