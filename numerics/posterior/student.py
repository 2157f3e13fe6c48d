"""Student densities, by which the peaks of a posterior are covered: their tails, and the factors of their scales."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["freedom", "lower_factor"]

Array = NDArray[np.float64]


@njit(cache=True, nogil=True)
def freedom(dimension: int) -> int:
    """Degrees of freedom of the peaks: few, for fat tails, and such that the density is a whole power."""
    return 4 + dimension % 2


@njit(cache=True, nogil=True, error_model="numpy")
def lower_factor(matrix: Array, least: float) -> Array:
    """Lower factor of a PSD matrix; directions that rounding has made flat get this share of a diagonal entry."""
    size = len(matrix)
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            if i == j:
                out[i, i] = math.sqrt(max(total, least * matrix[i, i]))
            else:
                out[i, j] = total / out[j, j]
    return out
