"""Norms of the operator (15) of links with a parameter: products of powers, sums of two squares, cosines.

Of y = prod_i |h_i|^p_i, times a sign or not, log |y| is a sum of independent variables, so that the averages of h_i^2
and of |h_i h_j| given |y| are convolutions. No part of it is shared with the numerics.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ive

__all__ = ["ellipse", "of_cosine", "of_product", "power_link"]

Array = np.ndarray
# Of log y.
STEPS = (0.02, 0.03)
# Logarithms of |h| that are kept; the density in them falls as |h|.
_LEAST, _MOST = -34.0, 2.3


def of_product(powers: Sequence[float], signed: bool) -> tuple[float, float]:
    """Norm of (15) of prod |h_i|^p_i, times sign(h_1 h_2) or not, and its error."""
    fine, coarse = (_of_product(tuple(powers), signed, step) for step in STEPS)
    return fine, abs(fine - coarse) + 1e-12


@cache
def _of_product(powers: tuple[float, ...], signed: bool, step: float) -> float:
    laws = []
    for p in powers:
        # u = p log |h| is exact on the grid: the derivative of log |h| is 1/p.
        u = step * np.arange(np.floor(_LEAST * p / step), np.ceil(_MOST * p / step) + 1)
        h = np.exp(u / p)
        laws.append((h, step * 2 * np.exp(-0.5 * h * h) * h / (p * np.sqrt(2 * np.pi))))
    size = next_fast_len(sum(len(h) for h, _ in laws))

    def joint(factors: Sequence[Array]) -> Array:
        waves = [np.fft.rfft(w * f, size) for (_, w), f in zip(laws, factors, strict=True)]
        return np.fft.irfft(np.prod(waves, axis=0), size)

    ones = [np.ones_like(h) for h, _ in laws]
    z = joint(ones)
    seen = z > 1e-13 * z.max()

    def average(left: Array, right: Array) -> float:
        return float((left[seen] * right[seen] / z[seen]).sum())

    count = len(laws)
    squares = [joint([h * h - 1 if i == k else ones[i] for i, (h, _) in enumerate(laws)]) for k in range(count)]
    matrix = np.diag([average(n, n) for n in squares])
    if signed:
        # sign(y) is that of h_1 h_2, whose mean then mixes both; what is left of (15) is no larger, by Cauchy-Schwarz.
        cross = joint([h if i < 2 else ones[i] for i, (h, _) in enumerate(laws)])
        matrix[0, 1] = matrix[1, 0] = average(cross, cross)
    return float(np.linalg.eigvalsh(matrix)[-1])


def ellipse(a: float) -> tuple[float, float]:
    """Norm of (15) of a h_1^2 + h_2^2, a > 1, which is that of index 1, and its error.

    Given y, h_1^2 = y cos^2/a and h_2^2 = y sin^2 with log-density -y (cos^2/a + sin^2)/2 of the angle:
    E[cos 2 angle | y] = I_1/I_0 at x = y (1 - 1/a)/4.
    """
    values = []
    for order in (60, 80):
        nodes, weights = np.polynomial.legendre.leggauss(order)
        edges = np.concatenate([[0.0], np.geomspace(1e-3, 80.0 * a, 40)])
        y = np.concatenate([0.5 * (hi - lo) * (nodes + 1) + lo for lo, hi in pairwise(edges)])
        w = np.concatenate([0.5 * (hi - lo) * weights for lo, hi in pairwise(edges)])
        x = 0.25 * y * (1 - 1 / a)
        # Density of y: exp(-y (1 + 1/a)/4) I_0(x)/(2 sqrt(a)).
        density = np.exp(x - 0.25 * y * (1 + 1 / a)) * ive(0, x) / (2 * np.sqrt(a))
        square = 0.5 * y / a * (1 + ive(1, x) / ive(0, x))
        values.append(float(w @ (density * (square - 1) ** 2)))
    return values[1], abs(values[1] - values[0]) + 1e-13


def of_cosine(a: float) -> tuple[float, float]:
    """Norm of (15) of cos(a h), and its error: a h = +-t + 2 pi k."""
    values = []
    for order in (300, 400):
        nodes, weights = np.polynomial.legendre.leggauss(order)
        t = 0.5 * np.pi * (nodes + 1)
        k = 2 * np.pi * np.arange(-int(12 * a / 6) - 3, int(12 * a / 6) + 4)
        h = np.concatenate([t[:, None] + k, -t[:, None] + k], axis=1) / a
        p = np.exp(-0.5 * h * h) / (a * np.sqrt(2 * np.pi))
        z = p.sum(axis=1)
        n = ((h * h - 1) * p).sum(axis=1)
        values.append(float(0.5 * np.pi * weights @ np.where(z > 0, n * n / np.where(z > 0, z, 1.0), 0.0)))
    return values[1], abs(values[1] - values[0]) + 1e-13


def power_link(powers: Sequence[float], signed: bool) -> str:
    """Text of that product; of a sign, the first two powers are odd."""
    factors = [
        (f"h[{i}]" + (f"**{p:g}" if p != 1 else "")) if signed and i <= 2 else f"abs(h[{i}])**{p:g}"
        for i, p in enumerate(powers, 1)
    ]
    return "*".join(factors)
