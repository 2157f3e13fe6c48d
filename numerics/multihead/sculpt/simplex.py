"""Least squares over the simplex, one small problem per row, by faces."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.copies import copy_vector
from ...core.shown import few_lines
from ...learning.blocks import Array

__all__ = ["Patterns", "faces", "simplex_regression"]


@few_lines
class Patterns(NamedTuple):
    """The best common attention pattern of every row, and how far it is from explaining the output.

    Attributes
    ----------
    alpha : ndarray of shape (n, k, k)
        alpha[n, r] lies in the simplex.
    rho : ndarray of shape (n, k)
        |y_r - alpha_r^T X S|.
    face : ndarray of shape (n, k)
        Bit mask of the entries of alpha that are not zero; a start for a nearby S.
    """

    alpha: Array
    rho: Array
    face: NDArray[np.int64]


class _Space(NamedTuple):
    """Where one face is solved: its tokens, the Cholesky factor, and the right-hand side, then the solution."""

    vertices: NDArray[np.int64]
    factor: Array
    right: Array


@cache
def faces(tokens: int) -> NDArray[np.int64]:
    """Bit masks of the 2^k - 1 faces of the simplex, larger faces first."""
    masks = sorted(range(1, 2**tokens), key=lambda mask: (-mask.bit_count(), mask))
    return np.array(masks, np.int64)


def simplex_regression(x: Array, y: Array, s: Array, start: NDArray[np.int64] | None = None) -> Patterns:
    """Solve argmin over the simplex of |y_r - alpha^T X S| for every sample and row r (paper: certification).

    On each face the minimum over its affine hull is a linear system; the first face whose solution is positive and
    satisfies the conditions of optimality is the answer, for the problem is convex.

    Parameters
    ----------
    x, y : ndarray of shape (n, k, d)
        Tokens and outputs.
    s : ndarray of shape (d, d)
        Estimate of sum_i W_i.
    start : ndarray of shape (n, k), optional
        Faces to try first.

    References
    ----------
    chen2024, certification of rows on which the heads agree.
    """
    image = x @ s
    n, k, _ = x.shape
    face = np.full((n, k), 2**k - 1, np.int64) if start is None else start.copy()
    gram = image @ image.swapaxes(1, 2)
    alpha = np.empty((n, k, k))
    _solve(gram, image @ y.swapaxes(1, 2), faces(k), face, alpha)
    return Patterns(alpha, np.linalg.norm(y - alpha @ image, axis=2), face)


@njit(cache=True, nogil=True)
def _solve(gram: Array, products: Array, masks: NDArray[np.int64], face: NDArray[np.int64], alpha: Array) -> None:
    """Fill `face` and `alpha`; `products[n, j, r]` is the image of token j times output r."""
    n, k, _ = gram.shape
    trial, best = np.empty(k), np.empty(k)
    space = _Space(np.empty(k, np.int64), np.empty((k, k)), np.empty(k))
    # Of a multiplier, relative to the largest entry of the gradient: rounding of sums of at most a few dozen products.
    slack = 1e-10
    for sample in range(n):
        g = gram[sample]
        scale = 0.0
        for j in range(k):
            scale = max(scale, g[j, j])
        for row in range(k):
            c = products[sample, :, row]
            lowest, chosen = np.inf, 0
            for attempt in range(-1, len(masks)):
                mask = face[sample, row] if attempt < 0 else masks[attempt]
                if not _on_face(g, c, mask, scale, space, trial):
                    continue
                value, low, high = 0.0, np.inf, 0.0
                multiplier = 0.0
                for j in range(k):
                    slope = -c[j]
                    for i in range(k):
                        slope += g[j, i] * trial[i]
                    value += trial[j] * (slope - c[j])
                    # On the face the slope is the same for all j; elsewhere it may not be lower.
                    if mask >> j & 1:
                        multiplier = slope
                    else:
                        low = min(low, slope)
                    high = max(high, abs(c[j]))
                if value < lowest:
                    lowest, chosen = value, mask
                    copy_vector(trial, best)
                if low >= multiplier - slack * max(scale, high):
                    chosen = mask
                    copy_vector(trial, best)
                    break
            face[sample, row] = chosen
            copy_vector(best, alpha[sample, row])


@njit(cache=True, nogil=True)
def _on_face(g: Array, c: Array, mask: int, scale: float, space: _Space, out: Array) -> bool:
    """Minimise over the affine hull of a face; False if the solution leaves the face or the face is flat."""
    index, factor, right = space.vertices, space.factor, space.right
    k = len(c)
    size = 0
    for j in range(k):
        out[j] = 0.0
        if mask >> j & 1:
            index[size] = j
            size += 1
    base = index[0]
    # Of a pivot beside the largest square norm of the tokens' images: below, a face is flat and a smaller one is as
    # good.
    flat = 1e-12
    # Cholesky of the Gram matrix of the differences to the first vertex, and forward substitution.
    for p in range(1, size):
        a = index[p]
        right[p] = c[a] - c[base] - g[a, base] + g[base, base]
        for q in range(1, p + 1):
            b = index[q]
            total = g[a, b] - g[a, base] - g[base, b] + g[base, base]
            for t in range(1, q):
                total -= factor[p, t] * factor[q, t]
            if q < p:
                factor[p, q] = total / factor[q, q]
                right[p] -= factor[p, q] * right[q]
            elif total <= flat * scale:
                return False
            else:
                factor[p, p] = np.sqrt(total)
        right[p] /= factor[p, p]
    rest = 1.0
    for p in range(size - 1, 0, -1):
        for t in range(p + 1, size):
            right[p] -= factor[t, p] * right[t]
        right[p] /= factor[p, p]
        if right[p] < 0.0:
            return False
        out[index[p]] = right[p]
        rest -= right[p]
    out[base] = rest
    return rest >= 0.0
