"""y = h_1 h_2: a hyperbola in u = (h_1 + h_2)/sqrt(2), v = (h_1 - h_2)/sqrt(2), of overlaps q_u and q_v."""

import math

import numpy as np
from numpy.typing import NDArray

from .fibre import squares
from .iteration import normal

__all__ = ["averages"]

Array = NDArray[np.float64]


def averages(q: Array, n: int) -> Array:
    """E g_u^2 and E g_v^2 over y = r^2 / 2, r = e^t, and the two branches of u = r cosh s, v = r sinh s; -y swaps them.

    Outputs are even in u and in v, so one quadrant of omega is enough.
    """
    x, w = normal(n)
    x, w = x[x > 0], 2 * w[x > 0]
    G, dt = np.zeros(2), 9.0 / n
    for r in np.exp(np.arange(-18.0, 2.3, dt)):
        s, ds = np.linspace(-(top := math.asinh(9.0 / r)), top, 2 * n, retstep=True)
        branch = r * np.array([np.cosh(s), np.sinh(s)])
        points = np.concatenate([branch, -branch], axis=1)
        weights = np.full(4 * n, ds)
        for order in ([0, 1], [1, 0]):
            omega = math.sqrt(q[order[0]]) * x, math.sqrt(q[order[1]]) * x
            G[order] += r * r * dt * squares(points, weights, omega, np.outer(w, w), 1 - q[order])
    return G
