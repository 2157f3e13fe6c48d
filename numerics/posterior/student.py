"""Student densities, by which the peaks of a posterior are covered: their tails, and the factors of their scales."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arithmetic.references import INNER

__all__ = ["freedom", "set_inverse", "set_lower_factor", "set_lower_inverse"]

Array = NDArray[np.float64]


@njit(cache=True, nogil=True)
def freedom(dimension: int) -> int:
    """Degrees of freedom of the peaks: few, for fat tails, and such that the density is a whole power."""
    return 4 + dimension % 2


@njit(cache=True, **INNER)
def set_inverse(matrix: Array, out: Array) -> None:
    """Set the inverse of a positive definite matrix, which is lost; one that is singular has an infinite inverse."""
    size = len(matrix)
    for i in range(size):
        for j in range(size):
            out[i, j] = 1.0 if i == j else 0.0
    for i in range(size):
        pivot = matrix[i, i]
        for j in range(size):
            matrix[i, j] /= pivot
            out[i, j] /= pivot
        for k in range(size):
            if k != i:
                factor = matrix[k, i]
                for j in range(size):
                    matrix[k, j] -= factor * matrix[i, j]
                    out[k, j] -= factor * out[i, j]


@njit(cache=True, **INNER)
def set_lower_factor(matrix: Array, least: float, out: Array) -> None:
    """Set the lower factor of a PSD matrix, or put it in its place.

    Directions that rounding has made flat get this share of a diagonal entry.
    """
    size = len(matrix)
    for i in range(size):
        for j in range(size):
            if j > i:
                out[i, j] = 0.0
                continue
            total = matrix[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            if i == j:
                out[i, i] = math.sqrt(max(total, least * matrix[i, i]))
            else:
                out[i, j] = total / out[j, j]


@njit(cache=True, **INNER)
def set_lower_inverse(factor: Array, out: Array) -> None:
    """Set the inverse of a lower factor; what is above its diagonal is left as it is."""
    for j in range(len(factor)):
        out[j, j] = 1.0 / factor[j, j]
        for k in range(j):
            total = 0.0
            for i in range(k, j):
                total -= factor[j, i] * out[i, k]
            out[j, k] = total * out[j, j]
