"""Copies of arrays in compiled code, entry by entry.

An assignment to a slice does the same, but numba compiles a check of its shapes each time, with the message of its
failure: a third of a second that a loop does not take.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["copy_matrix", "copy_vector"]

Array = NDArray[np.float64]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def copy_vector(x: Array, out: Array) -> None:
    """Copy a vector into one of the same length."""
    for a in range(len(x)):
        out[a] = x[a]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def copy_matrix(x: Array, out: Array) -> None:
    """Copy a matrix into one of the same shape."""
    for a in range(x.shape[0]):
        for b in range(x.shape[1]):
            out[a, b] = x[a, b]
