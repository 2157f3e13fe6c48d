"""y = max(h_1, 0) + max(h_2, 0): an atom, two half-lines and a segment, all of them error functions."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .iteration import legendre, normal
from .signs import fisher, quadrant

__all__ = ["averages"]

Array = NDArray[np.float64]


def _normal(x: Array) -> Array:
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def averages(q: Array, n: int) -> Array:
    """E g_+^2 and E g_-^2 of h_+- = (h_1 +- h_2)/sqrt(2)."""
    v, c = 1 - q.mean(), (q[1] - q[0]) / 2
    rho, (P, M) = c / v, np.sqrt(1 - q)
    s = math.sqrt(v * (1 - rho * rho))
    node, w = normal(n)
    plus, minus = np.meshgrid(math.sqrt(q[0]) * node, math.sqrt(q[1]) * node, indexing="ij")
    weights = np.outer(w, w)
    one, two = (plus + minus) / math.sqrt(2), (plus - minus) / math.sqrt(2)
    atom = quadrant(-one / math.sqrt(v), -two / math.sqrt(v), rho)
    G = fisher([atom], weights) / v
    for y, weight in zip(*legendre(2 * n, 0.0, 13.0), strict=True):
        # One index is y and the other negative.
        Z, g1, g2 = np.zeros((3, *one.shape))
        for a, b, way in ((one, two, 1), (two, one, -1)):
            near, below = _normal((y - a) / math.sqrt(v)) / math.sqrt(v), -(b + rho * (y - a)) / s
            here = near * ((y - a) / v * ndtr(below) + rho / s * _normal(below))
            other = -near * _normal(below) / s
            Z += near * ndtr(below)
            g1 += (here + other) / math.sqrt(2)
            g2 += way * (here - other) / math.sqrt(2)
        # Both are positive: u = y / sqrt(2), and the difference is between its ends.
        u = y / math.sqrt(2)
        line = _normal((u - plus) / P) / (P * math.sqrt(2))
        ends = (u - minus) / M, (-u - minus) / M
        segment = line * (ndtr(ends[0]) - ndtr(ends[1]))
        Z = np.maximum(Z + segment, 1e-300)
        g1 += segment * (u - plus) / (P * P)
        g2 += line * (_normal(ends[1]) - _normal(ends[0])) / M
        G += weight * np.array([(weights * g1 * g1 / Z).sum(), (weights * g2 * g2 / Z).sum()])
    return G
