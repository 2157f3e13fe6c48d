"""The surface v = +-B_{L-1} h_L in the indices: the layer that the others and the output leave open."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.pair_softmax_m2.numba64 import entries, recover

from ..copies import copy_matrix, copy_vector
from .mixing import Constants, apply_to_layer, attend, mix, solve

__all__ = ["Fibre", "Nodes", "complete", "new_nodes", "new_scratch"]

Array = NDArray[np.float64]


class Scratch(NamedTuple):
    """Arrays that every node uses anew: three matrices and three vectors."""

    base: Array
    sigma: Array
    work: Array
    w: Array
    u: Array
    spare: Array


class Fibre(NamedTuple):
    """The surface of one output v of a network."""

    v: Array
    network: Constants
    scratch: Scratch


class Nodes(NamedTuple):
    """Indices h, shape (n, L, M), whether h_{L-1} is solved for instead of h_L, and |dv/dh_L|, |dv/dh_{L-1}|.

    Functions take many of them at once: to count references of arrays takes as long as the arithmetic of a node.
    """

    h: Array
    before: bool
    dets: Array


@njit(cache=True, nogil=True, error_model="numpy")
def new_scratch(size: int) -> Scratch:
    """Arrays for networks of so many tokens."""
    square = (size, size)
    return Scratch(np.empty(square), np.empty(square), np.empty(square), np.empty(size), np.empty(size), np.empty(size))


@njit(cache=True, nogil=True, error_model="numpy")
def new_nodes(count: int, depth: int, size: int, before: bool) -> Nodes:
    """Arrays for so many nodes."""
    return Nodes(np.empty((count, depth, size)), before, np.empty((count, 2)))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _unmix(u: Array, v: Array, network: Constants, w: Array) -> bool:
    """Solve (c I + sigma(beta w w^T)) u = +-v for w, up to its sign; False where there is no solution."""
    skip, beta, linear = network
    if linear:
        for sign in (1.0, -1.0):
            dot = 0.0
            for a in range(len(u)):
                w[a] = sign * v[a] - skip * u[a]
                dot += w[a] * u[a]
            if dot > 0.0:
                scale = 1.0 / math.sqrt(beta * dot)
                for a in range(len(u)):
                    w[a] *= scale
                return True
        return False
    # Two tokens, in their sum and difference: v_+ = (1 + c) u_+ + s u_-, v_- = t u_-, |t| the lower entry.
    difference = u[0] - u[1]
    t = (v[0] - v[1]) / difference
    sign = 1.0 if t > 0.0 else -1.0
    s = (sign * (v[0] + v[1]) - (1.0 + skip) * (u[0] + u[1])) / difference
    p, r = entries(s, sign * t, skip)
    if not (0.0 < p < 1.0 and 0.0 < r < 1.0 and p + r > 1.0):
        return False
    plus, minus, _ = recover(p, r, beta)
    w[0], w[1] = (plus + minus) * math.sqrt(0.5), (plus - minus) * math.sqrt(0.5)
    return minus > 0.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_mixing(sigma: Array, skip: float, out: Array) -> None:
    """Mixing matrix c I + sigma of one layer."""
    for a in range(len(sigma)):
        for b in range(len(sigma)):
            out[a, b] = sigma[a, b] + (skip if a == b else 0.0)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_slope(sigma: Array, w: Array, u: Array, network: Constants, out: Array) -> None:
    """Derivative of sigma(beta w w^T) u with respect to w."""
    beta, linear, size = network.beta, network.linear, len(w)
    for a in range(size):
        mean, slope = 0.0, 0.0
        for b in range(size):
            mean += sigma[a, b] * u[b]
        for b in range(size):
            if linear:
                slope += beta * w[b] * u[b]
                out[a, b] = beta * w[a] * u[b]
            else:
                slope += beta * sigma[a, b] * w[b] * (u[b] - mean)
                out[a, b] = beta * w[a] * sigma[a, b] * (u[b] - mean)
        out[a, a] += slope


@njit(cache=True, nogil=True, error_model="numpy")
def complete(nodes: Nodes, fibre: Fibre) -> None:
    """Solve for h_L, or for the layer before, and find the determinants: zero where there is no solution."""
    h, before, dets = nodes
    v, network, scratch = fibre
    base, sigma, work, w, u, spare = scratch
    n, depth, size = h.shape
    dets[:] = 0.0
    last, solved = depth - 1, depth - 2 if before else depth - 1
    for node in range(n):
        x = h[node]
        mix(x, depth - 2, network, base, sigma, w)
        if before:
            apply_to_layer(base, x, last, u)
            if not _unmix(u, v, network, w):
                continue
        else:
            apply_to_layer(base, x, last - 1, w)
            copy_vector(v, u)
        attend(w, network, sigma)
        _set_mixing(sigma, network.skip, work)
        if before:
            # Only the determinant is wanted.
            copy_vector(v, spare)
            det_mixing = solve(work, spare)
            copy_vector(w, spare)
        else:
            det_mixing = solve(work, u)
            copy_vector(u, spare)
        copy_matrix(base, work)
        det_base = solve(work, spare)
        for m in range(size):
            x[solved, m] = spare[m]
        _set_slope(sigma, w, u, network, work)
        det_attention = solve(work, w)
        det_last = det_mixing * det_base
        if 0.0 < det_last < np.inf:
            dets[node, 0], dets[node, 1] = det_last, det_attention * det_base
