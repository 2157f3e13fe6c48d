"""Compiled blur of nodes in the plane: sums of products of two Gaussians on two grids, for many layers of nodes."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["blurred_layers"]

Array = NDArray[np.float64]


@njit(error_model="numpy", nogil=True, cache=True)
def blurred_layers(
    ends: NDArray[np.int64], weight: Array, points: Array, axes: Array, reach: float, order: int
) -> Array:
    """Moments of the nodes of each layer with the density of xi along two axes.

    Parameters
    ----------
    ends : ndarray of int, shape (layers + 1,)
        Where the nodes of each layer begin.
    weight : ndarray, shape (n,)
    points : ndarray, shape (n, 2)
        Entries of h.
    axes : ndarray, shape (2, 5)
        First point, step and number of points of a grid; variances of omega and of h given it.
    reach : float
        Standard deviations beyond which a Gaussian counts as zero.
    order : int
        Of the highest moments, 1 or 2.

    Returns
    -------
    ndarray, shape (layers, moments, points, points)
        Moments by exponents (0, 0), (0, 1), .., (1, 0), .., in lexical order.
    """
    sizes = axes[:, 2].astype(np.int64)
    moments = (order + 1) * (order + 2) // 2
    out = np.zeros((len(ends) - 1, moments, sizes[0], sizes[1]))
    density = np.empty((2, max(sizes[0], sizes[1])))
    low, high = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    factor = np.empty(moments)
    for layer in range(len(ends) - 1):
        for node in range(ends[layer], ends[layer + 1]):
            for a in range(2):
                start, step, known, left = axes[a, 0], axes[a, 1], axes[a, 3], axes[a, 4]
                if known <= 0:
                    low[a], high[a] = 0, 1
                    density[a, 0] = 1.0
                    continue
                centre = math.sqrt(known) * points[node, a]
                far = reach * math.sqrt(left)
                low[a] = min(max(math.floor((centre - far - start) / step), 0), sizes[a])
                high[a] = min(max(math.ceil((centre + far - start) / step) + 1, 0), sizes[a])
                scale = 1 / math.sqrt(left)
                for i in range(low[a], high[a]):
                    z = scale * (start + step * i - centre)
                    density[a, i] = math.exp(-0.5 * z * z) * scale / math.sqrt(2 * math.pi)
            x, y, w = points[node, 0], points[node, 1], weight[node]
            if order == 1:
                factor[0], factor[1], factor[2] = w, w * y, w * x
            else:
                factor[0], factor[1], factor[2] = w, w * y, w * y * y
                factor[3], factor[4], factor[5] = w * x, w * x * y, w * x * x
            for i in range(low[0], high[0]):
                for k in range(moments):
                    size = factor[k] * density[0, i]
                    row = out[layer, k, i]
                    for j in range(low[1], high[1]):
                        row[j] += size * density[1, j]
    return out
