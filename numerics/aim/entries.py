"""Independent entries a <= b of a symmetric matrix: their places, and the variances 1 + delta_ab."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["pairs", "variances", "variances_of_rows"]


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
