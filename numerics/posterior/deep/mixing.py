"""Mixing matrices of a deep attention network of rank 1, and the linear algebra of its link, compiled."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Constants", "apply_matrix", "apply_to_layer", "attend", "mix", "readout", "solve"]

Array = NDArray[np.float64]


class Constants(NamedTuple):
    """Strength of the skip connection, inverse temperature, and whether the activation is the identity."""

    skip: float
    beta: float
    linear: bool


@njit(cache=True, nogil=True, error_model="numpy")
def solve(matrix: Array, rhs: Array) -> float:
    """Gaussian elimination in place: rhs becomes the solution; returns |det|, 0 if singular."""
    size = len(rhs)
    det = 1.0
    for i in range(size):
        best = i
        for k in range(i + 1, size):
            if abs(matrix[k, i]) > abs(matrix[best, i]):
                best = k
        if not abs(matrix[best, i]) > 0.0:
            return 0.0
        if best != i:
            for k in range(size):
                matrix[i, k], matrix[best, k] = matrix[best, k], matrix[i, k]
            rhs[i], rhs[best] = rhs[best], rhs[i]
        det *= abs(matrix[i, i])
        for k in range(i + 1, size):
            factor = matrix[k, i] / matrix[i, i]
            for j in range(i + 1, size):
                matrix[k, j] -= factor * matrix[i, j]
            rhs[k] -= factor * rhs[i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            rhs[i] -= matrix[i, k] * rhs[k]
        rhs[i] /= matrix[i, i]
    return det


@njit(cache=True, nogil=True, error_model="numpy")
def attend(w: Array, network: Constants, out: Array) -> None:
    """sigma(beta w w^T)."""
    beta, linear, size = network.beta, network.linear, len(w)
    for a in range(size):
        if linear:
            for b in range(size):
                out[a, b] = beta * w[a] * w[b]
            continue
        top = -np.inf
        for b in range(size):
            top = max(top, w[a] * w[b])
        total = 0.0
        for b in range(size):
            below = beta * (w[a] * w[b] - top)
            out[a, b] = math.exp(below) if below < 0.0 else 1.0
            total += out[a, b]
        for b in range(size):
            out[a, b] /= total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def apply_matrix(matrix: Array, x: Array, out: Array) -> None:
    """Matrix times x."""
    size = len(x)
    for a in range(size):
        total = 0.0
        for b in range(size):
            total += matrix[a, b] * x[b]
        out[a] = total


@njit(cache=True, nogil=True, error_model="numpy")
def apply_to_layer(matrix: Array, h: Array, layer: int, out: Array) -> None:
    """Matrix times h_l."""
    size = len(matrix)
    for a in range(size):
        total = 0.0
        for b in range(size):
            total += matrix[a, b] * h[layer, b]
        out[a] = total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_identity(out: Array) -> None:
    """Unit matrix."""
    for a in range(len(out)):
        for b in range(len(out)):
            out[a, b] = 1.0 if a == b else 0.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_layer(base: Array, sigma: Array, skip: float, column: Array) -> None:
    """(c I + sigma) B in place of B, column by column."""
    size = len(base)
    for b in range(size):
        for a in range(size):
            total = skip * base[a, b]
            for k in range(size):
                total += sigma[a, k] * base[k, b]
            column[a] = total
        for a in range(size):
            base[a, b] = column[a]


@njit(cache=True, nogil=True, error_model="numpy")
def mix(h: Array, layers: int, network: Constants, base: Array, sigma: Array, w: Array) -> None:
    """Set `base` to B after so many layers of indices h; sigma and w are lost."""
    _set_identity(base)
    for layer in range(layers):
        apply_to_layer(base, h, layer, w)
        attend(w, network, sigma)
        _add_layer(base, sigma, network.skip, w)


@njit(cache=True, nogil=True, error_model="numpy")
def readout(h: Array, network: Constants, base: Array, sigma: Array, out: Array) -> None:
    """B_{L-1} h_L; base and sigma are lost."""
    last = len(h) - 1
    mix(h, last, network, base, sigma, out)
    apply_to_layer(base, h, last, out)
