"""y = erf(h_1) h_2: given h_1 = +- e^s the second index is y / erf(h_1)."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from .fibre import squares
from .iteration import normal

__all__ = ["averages"]

Array = NDArray[np.float64]


def averages(q: Array, n: int) -> Array:
    """E g_1^2 and E g_2^2 over y = e^t and the fibre; -y is y with -h_1, and omega and -omega are equal."""
    x, w = normal(n)
    omega = math.sqrt(q[0]) * x[x > 0], math.sqrt(q[1]) * x
    G, dt = np.zeros(2), 7.0 / n
    for t in np.arange(-36.0, 2.4, dt):
        s, ds = np.linspace(t - 2.5, 2.4, 2 * n, retstep=True)
        h, e = np.exp(s), erf(np.exp(s))
        branch = np.array([h, math.exp(t) / e])
        points, weights = np.concatenate([branch, -branch], axis=1), np.tile(h / e, 2) * ds
        # Twice for -y, twice for -omega.
        G += 4 * math.exp(t) * dt * squares(points, weights, omega, np.outer(w[x > 0], w), 1 - q)
    return G
