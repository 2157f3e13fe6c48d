"""Mixing matrices of deep attention networks of rank 1, and the linear algebra of their links, of many nodes at once.

Matrices have the shape (M, M, nodes) and vectors (M, nodes). The innermost loops run over the nodes, have no branches,
and compile to vector instructions; functions take the first n nodes of their arrays. A node whose numbers are not
finite spoils no other node.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.fastmath import exp_fast

from ...arithmetic.references import INNER

__all__ = [
    "LOOPS",
    "Constants",
    "Mixed",
    "attend",
    "block_of",
    "mix",
    "multiply",
    "new_mixed",
    "readout",
    "set_mixing",
    "solve",
]

Array = NDArray[np.float64]

#: Options of functions with loops over nodes. Sums may be reordered; numbers that are not finite are seen.
LOOPS = {**INNER, "fastmath": {"contract", "arcp", "nsz", "reassoc"}}


class Constants(NamedTuple):
    """Strength of the skip connection, inverse temperature, and whether the activation is the identity."""

    skip: float
    beta: float
    linear: bool


class Mixed(NamedTuple):
    """Layers of many nodes; functions take it by reference, too.

    Attributes
    ----------
    base : ndarray, shape (M, M, nodes)
        B after the layers before.
    sigma : ndarray, shape (M, M, nodes)
        Attention of the layer.
    w : ndarray, shape (M, nodes)
        What the attention is of.
    rows : ndarray, shape (2, nodes)
        Numbers in passing.
    """

    base: Array
    sigma: Array
    w: Array
    rows: Array


def block_of(size: int) -> int:
    """Nodes of a block where there are so many tokens."""
    # Nodes at a time, numbers of a vector register, and those of a matrix of all nodes at a time: what is known of a
    # block stays in the fast caches.
    block, vector, room = 128, 8, 1 << 14
    return max(min(block, room // size**2) // vector, 1) * vector


def new_mixed(size: int, nodes: int) -> Mixed:
    """Arrays for so many tokens and nodes."""
    square = (size, size, nodes)
    return Mixed(np.empty(square), np.empty(square), np.empty((size, nodes)), np.empty((2, nodes)))


@njit(cache=True, **LOOPS)
def solve(matrix: Array, rhs: Array, n: int, det: Array) -> None:
    """Solve for each right-hand side, shape (k, M, nodes), in its place, and multiply det, shape (nodes,), by |det|.

    The matrix is lost. A singular matrix has determinant zero, and numbers without meaning for its solution.
    """
    size, columns = len(matrix), len(rhs)
    for i in range(size):
        for k in range(i + 1, size):
            _put_larger_first(matrix, rhs, (i, k), n)
        for j in range(n):
            pivot = matrix[i, i, j]
            det[j] *= abs(pivot)
            matrix[i, i, j] = 1.0 / pivot if pivot != 0.0 else 0.0
        for k in range(i + 1, size):
            for j in range(n):
                matrix[k, i, j] *= matrix[i, i, j]
            for b in range(i + 1, size):
                for j in range(n):
                    matrix[k, b, j] -= matrix[k, i, j] * matrix[i, b, j]
            for c in range(columns):
                for j in range(n):
                    rhs[c, k, j] -= matrix[k, i, j] * rhs[c, i, j]
    for c in range(columns):
        for i in range(size - 1, -1, -1):
            for k in range(i + 1, size):
                for j in range(n):
                    rhs[c, i, j] -= matrix[i, k, j] * rhs[c, k, j]
            for j in range(n):
                rhs[c, i, j] *= matrix[i, i, j]


@njit(cache=True, **LOOPS)
def _put_larger_first(matrix: Array, rhs: Array, rows: tuple[int, int], n: int) -> None:
    """Exchange two rows, i and k, where entry (k, i) is larger than (i, i)."""
    i, k = rows
    for c in range(len(rhs)):
        for j in range(n):
            swap = abs(matrix[k, i, j]) > abs(matrix[i, i, j])
            first, second = rhs[c, i, j], rhs[c, k, j]
            rhs[c, i, j] = second if swap else first
            rhs[c, k, j] = first if swap else second
    # The column that decides is the last to change.
    for b in range(len(matrix) - 1, i - 1, -1):
        for j in range(n):
            swap = abs(matrix[k, i, j]) > abs(matrix[i, i, j])
            first, second = matrix[i, b, j], matrix[k, b, j]
            matrix[i, b, j] = second if swap else first
            matrix[k, b, j] = first if swap else second


@njit(cache=True, **LOOPS)
def multiply(matrix: Array, x: Array, n: int, out: Array) -> None:
    """Matrix times vector."""
    size = len(x)
    for a in range(size):
        for j in range(n):
            out[a, j] = matrix[a, 0, j] * x[0, j]
        for b in range(1, size):
            for j in range(n):
                out[a, j] += matrix[a, b, j] * x[b, j]


@njit(cache=True, **LOOPS)
def attend(w: Array, network: Constants, n: int, out: Array, rows: Array) -> None:
    """sigma(beta w w^T); `rows`, shape (2, nodes), is lost."""
    beta, linear, size = network.beta, network.linear, len(w)
    top, total = rows[0], rows[1]
    for a in range(size):
        if linear:
            for b in range(size):
                for j in range(n):
                    out[a, b, j] = beta * w[a, j] * w[b, j]
            continue
        for j in range(n):
            top[j], total[j] = w[a, j] * w[0, j], 0.0
        for b in range(1, size):
            for j in range(n):
                score = w[a, j] * w[b, j]
                top[j] = score if score > top[j] else top[j]
        for b in range(size):
            for j in range(n):
                weight = exp_fast(beta * (w[a, j] * w[b, j] - top[j]))
                out[a, b, j] = weight
                total[j] += weight
        for j in range(n):
            total[j] = 1.0 / total[j]
        for b in range(size):
            for j in range(n):
                out[a, b, j] *= total[j]


@njit(cache=True, **LOOPS)
def set_mixing(sigma: Array, skip: float, n: int, out: Array) -> None:
    """Mixing matrix c I + sigma of one layer."""
    size = len(sigma)
    for a in range(size):
        for b in range(size):
            added = skip if a == b else 0.0
            for j in range(n):
                out[a, b, j] = sigma[a, b, j] + added


@njit(cache=True, **LOOPS)
def _add_layer(sigma: Array, skip: float, n: int, base: Array, column: Array) -> None:
    """(c I + sigma) B in place of B, column by column."""
    size = len(base)
    for b in range(size):
        for a in range(size):
            for j in range(n):
                column[a, j] = skip * base[a, b, j]
            for k in range(size):
                for j in range(n):
                    column[a, j] += sigma[a, k, j] * base[k, b, j]
        for a in range(size):
            for j in range(n):
                base[a, b, j] = column[a, j]


@njit(cache=True, **LOOPS)
def mix(h: Array, layers: int, network: Constants, n: int, mixed: Mixed) -> None:
    """Set `base` to B after so many layers, at least one, of indices h, shape (L, M, nodes); the others are lost."""
    base, sigma, w, rows = mixed.base, mixed.sigma, mixed.w, mixed.rows
    attend(h[0], network, n, sigma, rows)
    set_mixing(sigma, network.skip, n, base)
    for layer in range(1, layers):
        multiply(base, h[layer], n, w)
        attend(w, network, n, sigma, rows)
        _add_layer(sigma, network.skip, n, base, w)


@njit(cache=True, inline="always", **INNER)
def readout(h: Array, network: Constants, n: int, mixed: Mixed, out: Array) -> None:
    """B_{L-1} h_L, shape (M, nodes); `mixed` is lost."""
    last = len(h) - 1
    mix(h, last, network, n, mixed)
    multiply(mixed.base, h[last], n, out)
