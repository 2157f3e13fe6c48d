"""Nodes of the hidden layers, and their weights moved onto a grid of the two scalars that the output sees.

In token modes h_l = (x_l, z_l) and B_{L-1} = (1 + c)^{L-1} [[1, S], [0, T]]; the last indices are h_+ = u - A v,
h_- = tau v with A = S/T, tau = 1/T. All else of the hidden layers enters as functions of them, of which the posterior
needs the means on the grid only.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.attention_tied_softmax_m2.numba64 import layer

__all__ = ["deposit", "push"]

Array = NDArray[np.float64]


@njit(cache=True, nogil=True, error_model="numpy")
def push(h: Array, skip: float, beta: float) -> Array:
    """A and tau of hidden indices.

    Parameters
    ----------
    h : ndarray, shape (L - 1, 2, n)
        Token modes (x, z) of each hidden layer.
    skip, beta : float

    Returns
    -------
    ndarray, shape (2, n)

    References
    ----------
    troiani2025, (5): S' = S + s T/(1 + c), T' = (c + eta) T/(1 + c), with s, eta of attention at w = B h.
    """
    depth, _, count = h.shape
    out = np.empty((2, count))
    for n in range(count):
        s, t, k = 0.0, 1.0, 1.0
        for at in range(depth):
            x = k * (h[at, 0, n] + s * h[at, 1, n])
            gain, upper, _, lower = layer(x, k * t * h[at, 1, n], skip, beta)
            s += upper * t / gain
            t *= lower / gain
            k *= gain
        out[0, n], out[1, n] = s / t, 1 / t
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def deposit(where: Array, values: Array, step: float) -> tuple[Array, Array]:
    """Move weighted values onto a square grid, exactly for cubic polynomials of the place.

    Parameters
    ----------
    where : ndarray, shape (2, n)
    values : ndarray, shape (k, n)
    step : float
        Of the grid.

    Returns
    -------
    where : ndarray, shape (2, m)
        Grid points with neighbours.
    values : ndarray, shape (k, m)
    """
    low = np.array([where[0].min(), where[1].min()]) - 2 * step
    sizes = (int((where[0].max() - low[0]) / step) + 4, int((where[1].max() - low[1]) / step) + 4)
    kinds, count = values.shape
    grid = np.zeros((sizes[0], sizes[1], kinds))
    used = np.zeros(sizes, np.bool_)
    weight = np.empty((2, 4))
    first = np.empty(2, np.int64)
    mine = np.empty(kinds)
    for n in range(count):
        for axis in range(2):
            at = (where[axis, n] - low[axis]) / step
            first[axis] = int(at) - 1
            r = at - int(at)
            weight[axis, 0] = -r * (r - 1) * (r - 2) / 6
            weight[axis, 1] = (r + 1) * (r - 1) * (r - 2) / 2
            weight[axis, 2] = -(r + 1) * r * (r - 2) / 2
            weight[axis, 3] = (r + 1) * r * (r - 1) / 6
        for k in range(kinds):
            mine[k] = values[k, n]
        for i in range(4):
            used[first[0] + i, first[1] : first[1] + 4] = True
            for j in range(4):
                share = weight[0, i] * weight[1, j]
                entry = grid[first[0] + i, first[1] + j]
                for k in range(kinds):
                    entry[k] += share * mine[k]
    total = int(used.sum())
    place, out = np.empty((2, total)), np.empty((kinds, total))
    m = 0
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            if used[i, j]:
                place[0, m], place[1, m] = low[0] + i * step, low[1] + j * step
                for k in range(kinds):
                    out[k, m] = grid[i, j, k]
                m += 1
    return place, out
