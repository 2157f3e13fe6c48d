"""y = h_1^2 + sign(h_1 h_2 h_3): four values of h_1, on each quadrants of (h_2, h_3)."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from .iteration import legendre, normal

__all__ = ["averages"]

Array = NDArray[np.float64]


def averages(q: Array, n: int) -> Array:
    """E g_1^2 and E g_2^2 = E g_3^2 of a diagonal overlap."""
    V, W = 1 - q
    x, w = normal(n)
    few, wf = normal(max(n // 6, 4) if q[1] > 1e-9 else 2)
    omega, a, b = np.meshgrid(math.sqrt(q[0]) * x, math.sqrt(q[1]) * few, math.sqrt(q[1]) * few, indexing="ij")
    probability = w[:, None, None] * np.outer(wf, wf)
    both = erf(a / math.sqrt(2 * W)) * erf(b / math.sqrt(2 * W))
    slope = 2 * np.exp(-a * a / (2 * W)) / math.sqrt(2 * math.pi * W) * erf(b / math.sqrt(2 * W))
    G = np.zeros(2)
    # y = -1 + t^2 up to 1, where h_1 = +-t, and y = 1 + t^2 beyond, where it is +-t or +-sqrt(2 + t^2).
    for first, end, nodes in ((True, math.sqrt(2), n // 2), (False, 9.0, n)):
        for t, weight in zip(*legendre(nodes, 0.0, end), strict=True):
            Z, g1, g2 = np.zeros((3, *omega.shape))
            for size, sign in ((t, -1),) if first else ((t, 1), (math.sqrt(t * t + 2), -1)):
                for h, way in ((size, sign), (-size, -sign)):
                    p = np.exp(-((h - omega) ** 2) / (2 * V)) / math.sqrt(2 * math.pi * V) * t / size / 2
                    Z += p * (1 + way * both)
                    g1 += p * (1 + way * both) * (h - omega) / V
                    g2 += p * way * slope
            G += weight * np.array([(probability * g * g / np.maximum(Z, 1e-300)).sum() for g in (g1, g2)])
    return G
