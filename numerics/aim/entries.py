"""Independent entries a <= b of a symmetric matrix: their places, their variances 1 + delta_ab, and draws of them."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["pairs", "symmetric_normals", "variances", "variances_of_rows"]


@lru_cache
def pairs(tokens: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of the independent entries of h."""
    rows, columns = np.triu_indices(tokens)
    return rows, columns


@lru_cache
def variances(tokens: int) -> NDArray[np.float64]:
    """1 + delta_ab of the independent entries."""
    rows, columns = pairs(tokens)
    return np.asarray(1.0 + (rows == columns))


@lru_cache
def variances_of_rows(tokens: int) -> NDArray[np.float64]:
    """1 + delta_ab of all entries, shape (T, T)."""
    return np.ones((tokens, tokens)) + np.eye(tokens)


def symmetric_normals(rng: np.random.Generator, shape: tuple[int, ...], variance: float) -> NDArray[np.float64]:
    """Symmetric matrices of Gaussian entries of variance (1 + delta_ab) times that given, shape (n, T, T)."""
    half = rng.standard_normal(shape)
    return np.asarray(math.sqrt(variance / 2) * (half + half.swapaxes(1, 2)))
