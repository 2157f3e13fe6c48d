"""y = sign(h_1) + sign(h_2): probabilities of quadrants."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .iteration import legendre, normal

__all__ = ["averages", "fisher", "quadrant"]

Array = NDArray[np.float64]


def quadrant(x: Array, z: Array, rho: float) -> Array:
    """P(h_1 < x, h_2 < z) of two standard normals of correlation rho, and its slopes, shape (3, ..)."""
    theta, w = legendre(20, 0.0, math.asin(rho))
    x, z = np.asarray(x)[..., None], np.asarray(z)[..., None]
    density = np.exp(-(x * x + z * z - 2 * x * z * np.sin(theta)) / (2 * np.cos(theta) ** 2)) / (2 * math.pi)
    P = ndtr(x) * ndtr(z) + (density @ w)[..., None]
    s = math.sqrt(1 - rho * rho)
    slopes = [np.exp(-a * a / 2) / math.sqrt(2 * math.pi) * ndtr((b - rho * a) / s) for a, b in ((x, z), (z, x))]
    return np.array([P, *slopes])[..., 0]


def fisher(outputs: Sequence[Array], weights: Array) -> Array:
    """E g_+^2 and E g_-^2 of discrete outputs, each a probability with its two slopes, but for rounding."""
    G = np.zeros(2)
    for P, one, two in outputs:
        over = weights / np.maximum(P, 1e-14) * (P > 1e-14) / 2
        G += (over * (one + two) ** 2).sum(), (over * (one - two) ** 2).sum()
    return G


def averages(q: Array, n: int) -> Array:
    """E g_+^2 and E g_-^2 of h_+- = (h_1 +- h_2)/sqrt(2)."""
    v, c = 1 - q.mean(), (q[1] - q[0]) / 2
    node, w = normal(n)
    plus, minus = np.meshgrid(math.sqrt(q[0]) * node, math.sqrt(q[1]) * node, indexing="ij")
    x, z = (plus + minus) / math.sqrt(2 * v), (plus - minus) / math.sqrt(2 * v)
    both, none = quadrant(x, z, c / v), quadrant(-x, -z, c / v)
    one, other = quadrant(x, -z, -c / v), quadrant(-x, z, -c / v)
    signs = np.array([1.0, 1.0, -1.0])[:, None, None]
    none[1:] *= -1
    outputs = [both, none, one * signs[[0, 1, 2]] + other * signs[[0, 2, 1]]]
    return fisher(outputs, np.outer(w, w)) / v
