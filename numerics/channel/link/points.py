"""Compiled averages over omega of a posterior of one number that is a sum over a few points with the same outputs.

What a point x adds to the density at omega = q u + s, over what the true u adds, is exp(a + b s) with
    b = (x - u)/(1 - q),    a = log r - (x - u) (b/2 + u),
r the ratio of 1/|dy/du| at the points: many omega at once.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.fastmath import exp_fast

__all__ = ["Points", "log_sums", "moments"]

Array = NDArray[np.float64]

# In any order, so that several nodes are added at once.
_LOOPS: dict[str, object] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
# Odds have a density below their inverse: none that enters comes near exp of that, and sums of such are finite.
_MOST = 300.0


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


@njit(cache=True, **_LOOPS)
def _set_odds(points: Points, row: int, v: float, shift: Array, odds: Array, gaps: Array) -> int:
    """Set what each point of a true value adds over what that adds itself, and x - u; returns how many there are."""
    truth, there = points.truth[row], 0
    for j in range(points.others.shape[1]):
        if points.relative[row, j] > -math.inf:
            gap = points.others[row, j] - truth
            slope = gap / v
            start = points.relative[row, j] - gap * (0.5 * slope + truth)
            for node in range(len(shift)):
                odds[there, node] = exp_fast(min(start + slope * shift[node], _MOST))
            gaps[there] = gap
            there += 1
    return there


@njit(cache=True, **_LOOPS)
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
    v, nodes = 1 - q, len(shift)
    odds, gaps = np.empty((points.others.shape[1], nodes)), np.empty(points.others.shape[1])
    mass, mean, spread = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    for row in range(len(points.truth)):
        there = _set_odds(points, row, v, shift, odds, gaps)
        mass[:], mean[:], spread[:] = 0.0, 0.0, 0.0
        for j in range(there):
            for node in range(nodes):
                mass[node] += odds[j, node]
                mean[node] += odds[j, node] * gaps[j]
        for node in range(nodes):
            mean[node] /= mass[node]
        for j in range(there):
            for node in range(nodes):
                spread[node] += odds[j, node] * (gaps[j] - mean[node]) ** 2
        moved = scatter = change = 0.0
        start = v * points.truth[row]
        for node in range(nodes):
            variance = spread[node] / mass[node]
            moved += density[node] * (start - shift[node] + mean[node]) ** 2
            scatter += density[node] * variance
            change += density[node] * (variance / v - 1) ** 2
        out[0, row], out[1, row], out[2, row] = moved, scatter, change


@njit(cache=True, **_LOOPS)
def log_sums(points: Points, q: float, shift: Array, density: Array, out: Array) -> None:
    """Average over omega = q u + shift of the log of the sum over the points by what the true u contributes to it.

    Parameters are those of `moments`, but for `out` of shape (n,).
    """
    nodes = len(shift)
    odds, gaps = np.empty((points.others.shape[1], nodes)), np.empty(points.others.shape[1])
    mass = np.empty(nodes)
    for row in range(len(points.truth)):
        there = _set_odds(points, row, 1 - q, shift, odds, gaps)
        mass[:] = 0.0
        for j in range(there):
            for node in range(nodes):
                mass[node] += odds[j, node]
        total = 0.0
        for node in range(nodes):
            total += density[node] * math.log(mass[node])
        out[row] = total
