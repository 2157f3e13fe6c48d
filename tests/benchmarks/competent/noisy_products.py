"""y = h_1 h_2 + noise, of given variance or of that which is left of a third index: given h_1, all is Gaussian.

Both factors have one overlap: iterations from two different ones of (h_1 + h_2)/sqrt(2) and (h_1 - h_2)/sqrt(2) come
back to it, as the script without noise shows.
"""

import math

import numpy as np
from numpy.typing import NDArray

from .iteration import normal

__all__ = ["averages", "with_a_third_index"]

Array = NDArray[np.float64]


def _averages(q: float, noise: float, n: int) -> tuple[float, float]:
    """E g_1^2 = E g_2^2 and E (d log Z/dy)^2 over y = sqrt(noise) sinh(t); one quadrant of y and omega_2 is enough."""
    x, w = normal(n)
    V, a, b = 1 - q, math.sqrt(q) * x, math.sqrt(q) * x[x > 0]
    end = 7.5 * math.sqrt(V) + a.max()
    h, dh = np.linspace(-end, end, 3 * n, retstep=True)
    off = h - a[:, None]
    A = np.exp(-off * off / (2 * V)) * dh / (2 * math.pi * math.sqrt(V))
    spread, probability = noise + h * h * V, np.outer(w, w[x > 0])
    slope, score, dt = 0.0, 0.0, 6.0 / n
    for t in (np.arange(n) + 0.5) * dt:
        y = math.sqrt(noise) * math.sinh(t)
        left = (y - b[:, None] * h) / spread
        B = np.exp(-0.5 * left * left * spread) / np.sqrt(spread)
        Z = np.maximum(A @ B.T, 1e-300)
        first, second, both = (A * off / V) @ B.T, A @ (B * left * h).T, A @ (B * left).T
        # Twice for -y, twice for -omega_2.
        weights = 4 * math.sqrt(noise) * math.cosh(t) * dt * probability / Z
        slope += 0.5 * (weights * (first * first + second * second)).sum()
        score += (weights * both * both).sum()
    return slope, score


def averages(q: Array, n: int) -> Array:
    """E g_1^2 = E g_2^2 at noise of variance 0.1."""
    return np.array(_averages(q[0], 0.1, n)[:1])


def with_a_third_index(q: Array, n: int) -> Array:
    """E g_1^2 = E g_2^2 and E g_3^2 of y = h_3 + h_1 h_2: what is known of h_3 only shifts y."""
    return np.array(_averages(q[0], 1 - q[1], n))
