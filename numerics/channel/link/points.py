"""Compiled averages over omega of a posterior of one number that is a sum over a few points with the same outputs."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Points", "log_sums", "moments"]

Array = NDArray[np.float64]


class Points(NamedTuple):
    """True values, and the points with the same outputs as each.

    Attributes
    ----------
    truth : ndarray, shape (n,)
    others : ndarray, shape (n, k)
        Points with the same outputs, the truth among them.
    relative : ndarray, shape (n, k)
        Logarithms of 1/|dy/du| there over that at the truth; -inf where there is no point.
    """

    truth: Array
    others: Array
    relative: Array


@njit(cache=True, error_model="numpy")
def moments(points: Points, q: float, shift: Array, density: Array, out: Array) -> None:
    """Averages over omega = q u + shift of E[u - omega]^2, Var u and (Var u/(1 - q) - 1)^2, for each true u.

    Parameters
    ----------
    points : Points
    q : float
    shift, density : ndarray, shape (z,)
        Nodes of omega - q u, and their weights.
    out : ndarray, shape (3, n)
        Result.
    """
    truth, others, relative = points
    v = 1 - q
    count = others.shape[1]
    score, point = np.empty(count), np.empty(count)
    for row in range(len(truth)):
        moved = spread = change = 0.0
        for node in range(len(shift)):
            omega = q * truth[row] + shift[node]
            top = -math.inf
            for j in range(count):
                point[j] = others[row, j] - omega
                score[j] = relative[row, j] - 0.5 * point[j] ** 2 / v
                top = max(top, score[j])
            mass = first = second = 0.0
            for j in range(count):
                score[j] = math.exp(score[j] - top)
                mass += score[j]
                first += score[j] * point[j]
            first /= mass
            for j in range(count):
                second += score[j] * (point[j] - first) ** 2
            second /= mass
            moved += density[node] * first**2
            spread += density[node] * second
            change += density[node] * (second / v - 1) ** 2
        out[0, row], out[1, row], out[2, row] = moved, spread, change


@njit(cache=True, error_model="numpy")
def log_sums(points: Points, q: float, shift: Array, density: Array, out: Array) -> None:
    """Average over omega = q u + shift of the log of the sum over the points by what the true u contributes to it.

    Parameters are those of `moments`, but for `out` of shape (n,).
    """
    truth, others, relative = points
    v = 1 - q
    count = others.shape[1]
    score = np.empty(count)
    for row in range(len(truth)):
        total = 0.0
        for node in range(len(shift)):
            top = -math.inf
            for j in range(count):
                gap = others[row, j] - truth[row]
                score[j] = relative[row, j] - 0.5 * gap * (gap + 2 * (v * truth[row] - shift[node])) / v
                top = max(top, score[j])
            mass = 0.0
            for j in range(count):
                mass += math.exp(score[j] - top)
            total += density[node] * (top + math.log(mass))
        out[row] = total
