"""Orthogonal matrices under the density exp(tr F^T R): normaliser and mean, for sizes 1, 2 and 3.

With F = U S W^T both follow from the singular values alone: E[R] = U diag(d log c/ds) W^T. On the two halves of O(2)
c is a Bessel function, on those of O(3) an integral of a product of two.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import i0e, i1e

from .rules import gauss_legendre

__all__ = ["mean_rotation"]

Array = NDArray[np.float64]


def mean_rotation(field: Array) -> tuple[Array, Array]:
    """Mean of R in O(r) under the density exp(tr F^T R) against the Haar measure.

    Parameters
    ----------
    field : ndarray, shape (..., r, r)
        F, r = 1, 2 or 3.

    Returns
    -------
    log_c : ndarray, shape (...)
        log of the integral of the density.
    mean : ndarray, shape (..., r, r)
        E[R].

    Notes
    -----
    O(3): with S = diag(s_i, s_j, s_k), the integral over SO(3) is that of
    I_0((s_i - s_j)(1 - u)/2) I_0((s_i + s_j)(1 + u)/2) exp(s_k u)/2 over u in [-1, 1]; the other half has -s_k.
    """
    if field.shape[-1] == 1:
        size = np.abs(field[..., 0, 0])
        return size + np.log(0.5 * (1 + np.exp(-2 * size))), np.tanh(field)
    if field.shape[-1] == 2:
        return _two(field)
    left, values, right = np.linalg.svd(field)
    log_c, slopes = _three(values)
    return log_c, (left * slopes[..., None, :]) @ right


def _two(field: Array) -> tuple[Array, Array]:
    """Rotations see the part of F that commutes with them, reflections the rest."""
    a, b, c, d = field[..., 0, 0], field[..., 0, 1], field[..., 1, 0], field[..., 1, 1]
    turn, flip = np.stack([a + d, c - b]), np.stack([a - d, b + c])
    sizes = np.hypot(*turn), np.hypot(*flip)
    top = np.maximum(*sizes)
    weights = [np.exp(size - top) for size in sizes]
    total = weights[0] * i0e(sizes[0]) + weights[1] * i0e(sizes[1])
    # I_1(s)/s is smooth at 0.
    turn, flip = (
        part * (weight * i1e(size) / total / np.where(size > 0, size, 1.0))
        for part, weight, size in zip((turn, flip), weights, sizes, strict=True)
    )
    mean = np.stack([turn[0] + flip[0], flip[1] - turn[1], turn[1] + flip[1], turn[0] - flip[0]], axis=-1)
    return top + np.log(0.5 * total), mean.reshape(field.shape)


def _three(values: Array) -> tuple[Array, Array]:
    proper, slopes = _special(values[..., 0], values[..., 1], values[..., 2])
    improper, flipped = _special(values[..., 0], values[..., 1], -values[..., 2])
    # s_3 >= 0: rotations weigh more.
    decay = np.exp(improper - proper)[..., None]
    flipped = flipped * np.array([1.0, 1.0, -1.0])
    return proper + np.log1p(decay[..., 0]) - np.log(2.0), (slopes + decay * flipped) / (1 + decay)


def _special(first: Array, second: Array, third: Array) -> tuple[Array, Array]:
    """Log of the integral over SO(3), and its slopes; first >= second >= |third|."""
    # Nodes on each panel of the integral over [-1, 1].
    order = 12
    nodes, weights = gauss_legendre(order)
    # u = tanh(k z)/tanh(k): geometric towards both ends, where the integrand varies on a scale of 1/s_i.
    stretch = 0.5 * np.log(3.0 + 4 * first)[..., None]
    # More panels the wider the scales, for slopes to 1e-6.
    panels = math.ceil(1.0 + 0.4 * float(stretch.max(initial=0.0)))
    z = (np.linspace(-1.0, 1.0, panels + 1)[:-1, None] + (nodes + 1) / panels).ravel()
    bend = np.sinh(stretch) * np.cosh(stretch * z)
    x, rest = np.sinh(stretch * (1 - z)) / bend, np.sinh(stretch * (1 + z)) / bend
    measure = np.tile(weights / panels, panels) * stretch / np.tanh(stretch) / np.cosh(stretch * z) ** 2
    near, far = 0.5 * (first - second)[..., None] * x, 0.5 * (first + second)[..., None] * rest
    near_0, far_0 = i0e(near), i0e(far)
    common = 0.5 * measure * np.exp(-(second + third)[..., None] * x)
    mass = common * near_0 * far_0
    total = mass.sum(axis=-1)
    by_near = (0.5 * x * common * i1e(near) * far_0).sum(axis=-1) / total
    by_far = (0.5 * rest * common * near_0 * i1e(far)).sum(axis=-1) / total
    along = 1 - (mass * x).sum(axis=-1) / total
    log_c = first + second + third + np.log(total)
    return log_c, np.stack([by_near + by_far, by_far - by_near, along], axis=-1)
