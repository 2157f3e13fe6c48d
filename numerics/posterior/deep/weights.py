"""Weights of nodes on a fibre: the prior over the intensity of all draws, for both signs of the layer solved for."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.fastmath import exp_fast

from ..student import freedom
from .fibre import Nodes
from .mixing import LOOPS
from .peaks import Peaks, Prior, drawn_layer

__all__ = ["Weights", "new_weights", "weigh"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_LOG_TWO_PI = math.log(2 * math.pi)
# Beyond, exponentials are infinite.
_HIGHEST = 709.0


class Weights(NamedTuple):
    """Weights of a block of nodes, and arrays for them.

    Attributes
    ----------
    even, odd : ndarray, shape (nodes,)
        Sum and difference of the weights with the sign that the layer solved for has, and with the other one.
    away, shared : ndarray, shape (L, M, nodes)
        h - omega, and V^{-1} (h - omega) without what the layer solved for adds to it.
    z : ndarray, shape ((L - 1) M, nodes)
        Distances from a peak.
    rows : ndarray, shape (6, nodes)
        Numbers in passing.
    """

    even: Array
    odd: Array
    away: Array
    shared: Array
    z: Array
    rows: Array


def new_weights(depth: int, size: int, nodes: int) -> Weights:
    """Arrays for so many nodes."""
    layers = (depth, size, nodes)
    free = ((depth - 1) * size, nodes)
    return Weights(
        np.empty(nodes), np.empty(nodes), np.empty(layers), np.empty(layers), np.empty(free), np.empty((6, nodes))
    )


@njit(cache=True, **LOOPS)
def _set_shared(h: Array, prior: Prior, solved: int, n: int, weights: Weights) -> None:
    """Set h - omega, and V^{-1} (h - omega), of all layers but the one solved for."""
    depth, size = h.shape[0], h.shape[1]
    away, shared = weights.away, weights.shared
    for k in range(depth):
        for m in range(size):
            centre = prior.omega[k, m]
            for j in range(n):
                away[k, m, j] = h[k, m, j] - centre
                shared[k, m, j] = 0.0
    for k in range(depth):
        for i in range(depth):
            factor = prior.precision[k, i]
            if i != solved and factor != 0.0:
                for m in range(size):
                    for j in range(n):
                        shared[k, m, j] += factor * away[i, m, j]


@njit(cache=True, **LOOPS)
def _set_energies(h: Array, prior: Prior, solved: tuple[int, float], n: int, weights: Weights) -> None:
    """Energies, and |V^{-1} (h - omega)|^2 of the last layer and of the one before, into the first three rows.

    `solved`: layer that is solved for, and the sign it takes.
    """
    depth, size = h.shape[0], h.shape[1]
    layer, sign = solved
    away, shared = weights.away, weights.shared
    height, last, before = weights.rows[0], weights.rows[1], weights.rows[2]
    for j in range(n):
        height[j] = last[j] = before[j] = 0.0
    for m in range(size):
        centre = prior.omega[layer, m]
        for j in range(n):
            away[layer, m, j] = sign * h[layer, m, j] - centre
    for k in range(depth):
        factor = prior.precision[k, layer]
        square = last if k == depth - 1 else before
        for m in range(size):
            if k < depth - 2:
                for j in range(n):
                    height[j] += 0.5 * (shared[k, m, j] + factor * away[layer, m, j]) * away[k, m, j]
            else:
                for j in range(n):
                    moved = shared[k, m, j] + factor * away[layer, m, j]
                    height[j] += 0.5 * moved * away[k, m, j]
                    square[j] += moved * moved


@njit(cache=True, **LOOPS)
def _set_density(h: Array, peaks: Peaks, solved: tuple[int, float, bool], n: int, weights: Weights) -> None:
    """Intensity of the draw from the peaks in the layers that are drawn, into the fourth row.

    `solved`: layer that the nodes are solved for, with this sign; whether the peaks are for the layer before the last.
    """
    depth, size = h.shape[0], h.shape[1]
    z, density, square, tail = weights.z, weights.rows[3], weights.rows[4], weights.rows[5]
    free = len(z)
    nu = freedom(free)
    power, inverse = (nu + free) // 2, 1.0 / nu
    for j in range(n):
        density[j] = 0.0
    for image in range(len(peaks.norm)):
        for j in range(n):
            square[j] = 0.0
        for i in range(free):
            layer, m = drawn_layer(i // size, depth, solved[2]), i % size
            flip, centre = peaks.flips[image, i], peaks.centre[image, i]
            if layer == solved[0]:
                flip *= solved[1]
            for j in range(n):
                z[i, j] = flip * h[layer, m, j] - centre
            for k in range(i):
                factor = peaks.factor[image, i, k]
                for j in range(n):
                    z[i, j] -= factor * z[k, j]
            scale = 1.0 / peaks.factor[image, i, i]
            for j in range(n):
                z[i, j] *= scale
                square[j] += z[i, j] * z[i, j]
        norm = peaks.norm[image]
        for j in range(n):
            tail[j] = 1.0 / (1.0 + square[j] * inverse)
            square[j] = norm
        for _ in range(power):
            for j in range(n):
                square[j] *= tail[j]
        for j in range(n):
            density[j] += square[j]


@njit(cache=True, **LOOPS)
def _add_prior(square: Array, det: Array, law: tuple[float, float], n: int, inverse: Array) -> None:
    """Add the intensity over the prior of a draw that is solved for one layer: what it has not drawn.

    `law` is the precision of that layer given the others, and the number of nodes times the inverse of its norm.
    """
    scale, factor = 0.5 / law[0], law[1]
    for j in range(n):
        value = scale * square[j]
        inverse[j] += factor * det[j] * (exp_fast(value) if value < _HIGHEST else np.inf)


@njit(cache=True, **LOOPS)
def weigh(
    nodes: Nodes, draw: tuple[int, int], prior: Prior, intensity: tuple[Integers, Integers, Peaks], weights: Weights
) -> None:
    """Set the weights of nodes of any draw, and take indices to zero that have no weight.

    Parameters
    ----------
    nodes : Nodes
    draw : tuple of int
        Layer that these are solved for, and how many there are.
    prior : Prior
    intensity : tuple
        Nodes of each draw, layers that they are solved for, and the peaks.
    weights : Weights
        Filled.
    """
    h, dets, (solved, n), (counts, layers, peaks) = nodes.h, nodes.dets, draw, intensity
    depth, size = h.shape[0], h.shape[1]
    even, odd, rows, of_peak = weights.even, weights.odd, weights.rows, dets[depth - 1 - layers[2]]
    log_norm = 0.5 * depth * size * _LOG_TWO_PI - prior.log_det
    _set_shared(h, prior, solved, n, weights)
    for first in (True, False):
        sign = 1.0 if first else -1.0
        _set_energies(h, prior, (solved, sign), n, weights)
        inverse = even if first else odd
        for j in range(n):
            inverse[j] = 0.0
        for which in range(2):
            if counts[which] > 0:
                single = prior.precision[layers[which], layers[which]]
                factor = counts[which] * math.exp(-0.5 * size * (math.log(single) - _LOG_TWO_PI))
                _add_prior(rows[1 + which], dets[which], (single, factor), n, inverse)
        if first or solved != layers[2]:
            _set_density(h, peaks, (solved, sign, layers[2] < depth - 1), n, weights)
        for j in range(n):
            value = rows[0, j] + log_norm
            above = exp_fast(value) if value < _HIGHEST else np.inf
            total = inverse[j] + rows[3, j] * of_peak[j] * above
            inverse[j] = 1.0 / total if total > 0.0 and dets[0, j] > 0.0 else 0.0
    for j in range(n):
        right, wrong = even[j], odd[j]
        even[j], odd[j] = right + wrong, right - wrong
    for k in range(depth):
        for m in range(size):
            for j in range(n):
                h[k, m, j] = h[k, m, j] if even[j] > 0.0 else 0.0
