"""Values W_i of heads whose attention is known: linear least squares."""

import warnings

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgWarning, cho_factor, cho_solve

from ..learning.blocks import Array
from .batch import Batch

__all__ = ["best_w", "factor", "solve_values"]


def best_w(X: ArrayLike, Y: ArrayLike, theta: ArrayLike) -> Array:
    """The W_i that minimise |sum_i softmax(X Theta_i X^T) X W_i - Y|.

    Parameters
    ----------
    X, Y : array_like, shape (n, k, d)
    theta : array_like, shape (m, d, d)

    Returns
    -------
    ndarray, shape (m, d, d)
        Where heads have the same attention, only the sum of theirs is determined, and shared out about evenly.

    References
    ----------
    chen2024, the last step of the algorithm.
    """
    batch, parts = Batch(X, Y), np.asarray(theta, dtype=np.float64)
    mixed = batch.mixed(batch.attention(parts))
    return solve_values(mixed, batch.y, factor(mixed @ mixed.T)).reshape(parts.shape)


def factor(gram: Array) -> tuple[Array, bool]:
    """Cholesky factor of a Gram matrix, with the least ridge that makes it positive definite."""
    # Of the largest eigenvalue of the Gram matrix, at least.
    share = 1e-14
    ridge = share * max(float(np.trace(gram)), np.finfo(float).tiny)
    while True:
        try:
            return cho_factor(gram + ridge * np.eye(len(gram)), lower=True)
        except np.linalg.LinAlgError:
            ridge *= 10.0


def solve_values(mixed: Array, y: Array, factored: tuple[Array, bool]) -> Array:
    """Least squares of y, shape (d, N), on mixed, shape (m d, N), by its normal equations, refined: shape (m d, d)."""
    # Steps of refinement take the effect of the ridge back where X decides.
    refinements = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        w: Array = cho_solve(factored, mixed @ y.T)
        for _ in range(refinements):
            w += cho_solve(factored, mixed @ (y - w.T @ mixed).T)
    return w
