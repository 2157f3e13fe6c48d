"""y = tanh(h_1) + tanh(h_2) = 2 sinh(2c) / (cosh(2c) + cosh(2d)), c, d = (h_1 +- h_2)/2: a quadratic in exp(2c)."""

import math

import numpy as np
from numpy.typing import NDArray

from .fibre import squares
from .iteration import normal

__all__ = ["averages"]

Array = NDArray[np.float64]


def averages(q: Array, n: int) -> Array:
    """E g_+^2 and E g_-^2 of h_+- = (h_1 +- h_2)/sqrt(2), over y = 2 tanh(t) > 0, t = log(1 + e^x), and d.

    -y is y with -h; h_- and -h_- are equal.
    """
    node, w = normal(n)
    omega = math.sqrt(q[0]) * node, math.sqrt(q[1]) * node[node > 0]
    d, dd = np.linspace(-6.5, 6.5, 2 * n + 1, retstep=True)
    D, G, dx = np.cosh(2 * d), np.zeros(2), 16.0 / n
    for x in np.arange(-36.0, 7.0, dx):
        t = math.log1p(math.exp(x))
        y, rest = 2 * math.tanh(t), 4 / (math.exp(2 * t) + 1)
        E = (y * D + np.sqrt(y * y * D * D + rest * (2 + y))) / rest
        C = (E + 1 / E) / 2
        points = np.array([math.sqrt(0.5) * np.log(E), math.sqrt(2) * d])
        weights = (C + D) ** 2 / (1 + C * D) / 2 * dd
        # Twice for -y, twice for -h_-; dy = rest (2 + y)/2 dt.
        measure = 4 * rest * (2 + y) / 2 * dx / (1 + math.exp(-x))
        G += measure * squares(points, weights, omega, np.outer(w, w[node > 0]), 1 - q)
    return G
