"""The surface v = +-B_{L-1} h_L in the indices: the layer that the others and the output leave open, of many nodes."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.pair_softmax_m2.numba64 import entries, recover

from .mixing import LOOPS, Constants, Mixed, attend, mix, multiply, new_mixed, set_mixing, solve

__all__ = ["Fibre", "Nodes", "complete", "copy_rows", "new_fibre", "new_nodes"]

Array = NDArray[np.float64]


class Fibre(NamedTuple):
    """The surfaces of the outputs of a block of nodes, and arrays that every block uses anew.

    Attributes
    ----------
    v : ndarray, shape (M, nodes)
        Output of each node.
    mixed : Mixed
        Of the layers before the last two, and the attention of the layer before the last.
    u : ndarray, shape (M, nodes)
        What the attention is applied to.
    work : ndarray, shape (M, M, nodes)
    rhs : ndarray, shape (1, M, nodes)
    """

    v: Array
    mixed: Mixed
    u: Array
    work: Array
    rhs: Array


class Nodes(NamedTuple):
    """A block of nodes.

    Attributes
    ----------
    h : ndarray, shape (L, M, nodes)
        Indices.
    dets : ndarray, shape (2, nodes)
        |dv/dh_L| and |dv/dh_{L-1}|; the first one is zero where there is no node.
    """

    h: Array
    dets: Array


def new_fibre(size: int, nodes: int) -> Fibre:
    """Arrays for the outputs of a network of so many tokens."""
    vector, square = (size, nodes), (size, size, nodes)
    return Fibre(
        np.empty(vector), new_mixed(size, nodes), np.empty(vector), np.empty(square), np.empty((1, size, nodes))
    )


def new_nodes(depth: int, size: int, nodes: int) -> Nodes:
    """Arrays for so many nodes."""
    return Nodes(np.empty((depth, size, nodes)), np.empty((2, nodes)))


@njit(cache=True, **LOOPS)
def _unmix_linear(fibre: Fibre, network: Constants, n: int, found: Array) -> None:
    """Solve (c I + beta w w^T) u = +-v for w, up to its sign; `found` is zero where there is no solution."""
    v, u, w, skip, beta = fibre.v, fibre.u, fibre.mixed.w, network.skip, network.beta
    size = len(u)
    for j in range(n):
        found[j] = 0.0
    for a in range(size):
        for j in range(n):
            found[j] += v[a, j] * u[a, j]
    for a in range(size):
        for j in range(n):
            w[a, j] = (v[a, j] if found[j] > 0.0 else -v[a, j]) - skip * u[a, j]
    for j in range(n):
        found[j] = 0.0
    for a in range(size):
        for j in range(n):
            found[j] += w[a, j] * u[a, j]
    for j in range(n):
        found[j] = 1.0 / math.sqrt(beta * found[j]) if found[j] > 0.0 else 0.0
    for a in range(size):
        for j in range(n):
            w[a, j] *= found[j]


@njit(cache=True, **LOOPS)
def _unmix_pair(fibre: Fibre, network: Constants, n: int, found: Array) -> None:
    """Solve (c I + sigma(beta w w^T)) u = +-v of two tokens, as `_unmix_linear`."""
    v, u, w, skip, beta = fibre.v, fibre.u, fibre.mixed.w, network.skip, network.beta
    for j in range(n):
        # In their sum and difference: v_+ = (1 + c) u_+ + s u_-, v_- = t u_-, |t| the lower entry.
        difference = u[0, j] - u[1, j]
        t = (v[0, j] - v[1, j]) / difference
        sign = 1.0 if t > 0.0 else -1.0
        s = (sign * (v[0, j] + v[1, j]) - (1.0 + skip) * (u[0, j] + u[1, j])) / difference
        p, r = entries(s, sign * t, skip)
        w[0, j], w[1, j], found[j] = 0.0, 0.0, 0.0
        if 0.0 < p < 1.0 and 0.0 < r < 1.0 and p + r > 1.0:
            plus, minus, _ = recover(p, r, beta)
            w[0, j], w[1, j] = (plus + minus) * math.sqrt(0.5), (plus - minus) * math.sqrt(0.5)
            found[j] = minus


@njit(cache=True, **LOOPS)
def _set_slope(mixed: Mixed, u: Array, network: Constants, n: int, out: Array) -> None:
    """Derivative of sigma(beta w w^T) u with respect to w."""
    sigma, w, rows = mixed.sigma, mixed.w, mixed.rows
    beta, linear, size = network.beta, network.linear, len(w)
    mean, slope = rows[0], rows[1]
    for a in range(size):
        for j in range(n):
            mean[j] = slope[j] = 0.0
        if linear:
            for b in range(size):
                for j in range(n):
                    slope[j] += beta * w[b, j] * u[b, j]
                    out[a, b, j] = beta * w[a, j] * u[b, j]
        else:
            for b in range(size):
                for j in range(n):
                    mean[j] += sigma[a, b, j] * u[b, j]
            for b in range(size):
                for j in range(n):
                    factor = beta * sigma[a, b, j] * (u[b, j] - mean[j])
                    slope[j] += factor * w[b, j]
                    out[a, b, j] = factor * w[a, j]
        for j in range(n):
            out[a, a, j] += slope[j]


@njit(cache=True, **LOOPS)
def copy_rows(x: Array, n: int, out: Array) -> None:
    """Copy a vector."""
    for m in range(len(x)):
        for j in range(n):
            out[m, j] = x[m, j]


@njit(cache=True, **LOOPS)
def complete(nodes: Nodes, before: bool, n: int, network: Constants, fibre: Fibre) -> None:
    """Solve n nodes for h_L, or for the layer before, and find the determinants.

    |dv/dh_L| is zero where there is no solution; numbers of other nodes are without meaning.
    """
    h, of_last, of_before, det = nodes.h, nodes.dets[0], nodes.dets[1], fibre.mixed.rows[0]
    mixed, work, u, rhs = fibre.mixed, fibre.work, fibre.u, fibre.rhs
    w, sigma, base, depth = mixed.w, mixed.sigma, mixed.base, len(h)
    known, out = (h[depth - 1], u) if before else (h[depth - 2], w)
    if depth > 2:
        mix(h, depth - 2, network, n, mixed)
        multiply(base, known, n, out)
    else:
        copy_rows(known, n, out)
    for j in range(n):
        of_last[j] = of_before[j] = 1.0
    if before:
        if network.linear:
            _unmix_linear(fibre, network, n, det)
        else:
            _unmix_pair(fibre, network, n, det)
        for j in range(n):
            of_last[j] = 1.0 if det[j] > 0.0 else 0.0
    attend(w, network, n, sigma, mixed.rows)
    set_mixing(sigma, network.skip, n, work)
    copy_rows(w if before else fibre.v, n, rhs[0])
    # Before, only the determinant is wanted.
    solve(work, rhs[: 0 if before else 1], n, of_last)
    if not before:
        copy_rows(rhs[0], n, u)
    _set_slope(mixed, u, network, n, work)
    solve(work, rhs[:0], n, of_before)
    for j in range(n):
        det[j] = 1.0
    if depth > 2:
        set_mixing(base, 0.0, n, work)
        solve(work, rhs, n, det)
    copy_rows(rhs[0], n, h[depth - 2 if before else depth - 1])
    for j in range(n):
        of_before[j] *= det[j]
        product = of_last[j] * det[j]
        of_last[j] = product if 0.0 < product < np.inf else 0.0
