"""Sums over the nodes of a fibre for all omega on a grid at once: Gaussians factorise, so they are matrix products."""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["squares"]

Array = NDArray[np.float64]


def squares(points: Array, weights: Array, omega: tuple[Array, Array], probability: Array, V: Array) -> Array:
    """Sum over omega of Z g_k^2, for Z the sum over the nodes of weight times N(point; omega, diag V).

    Parameters
    ----------
    points : ndarray, shape (2, n)
        Of the fibre, with their weights, shape (n,).
    omega : tuple of two ndarray
        Nodes of either mean, whose products have this probability, shape (i, j).
    V : ndarray, shape (2,)
    """
    offs = [x - a[:, None] for x, a in zip(points, omega, strict=True)]
    A, B = (np.exp(-d * d / (2 * v)) / math.sqrt(2 * math.pi * v) for d, v in zip(offs, V, strict=True))
    A = A * weights
    Z = np.maximum(A @ B.T, 1e-300)
    scores = (A * offs[0] / V[0]) @ B.T, A @ (B * offs[1] / V[1]).T
    return np.array([(probability * s * s / Z).sum() for s in scores])
