"""The operator (15) of a link from random samples: for links that no quadrature here serves.

Samples whose outputs are neighbours have the same posterior. Sorted into boxes of few samples, by the outputs and by
what is known, products of two different samples of a box average to E[G (x) G] without knowing E[h h^T | y].
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_SORTED", "PairAverages", "box_order", "pair_averages"]

Array = NDArray[np.float64]

#: Outputs and known entries that the samples are sorted by; with more, the boxes are too wide.
MOST_SORTED = 3


@dataclass(frozen=True)
class PairAverages:
    """Averages over pairs of samples in the same box.

    Attributes
    ----------
    linear : ndarray, shape (R, R)
        E sum_m E[h_m | y] E[h_m | y]^T.
    matrix : ndarray, shape (R, R, R, R)
        The operator (15).
        Both extrapolated to boxes of no size, from boxes of two sizes.
    bias : float
        Half of what the operator moves by in the extrapolation, in the spectral norm.
    """

    linear: Array
    matrix: Array
    bias: float


def box_order(keys: Array, box: int) -> NDArray[np.int64]:
    """Order in which runs of `box` rows are neighbours: strips along the first column, then along the next.

    Parameters
    ----------
    keys : ndarray, shape (n, d)
        n / box is a power of two.
    box : int

    Returns
    -------
    ndarray, shape (n,)
    """
    n, d = keys.shape
    bits = round(math.log2(n / box))
    order = _ascending(keys[:, 0])
    strips = 1
    for column in range(1, d):
        strips *= 2 ** (bits // d + (1 if column <= bits % d else 0))
        rows = order.reshape(strips, -1)
        inner = _ascending(keys[rows, column])
        order = np.take_along_axis(rows, inner, axis=1).ravel()
    return order


def _ascending(values: Array) -> NDArray[np.int64]:
    """Stable order along the last axis, by the faster sort where no two values are equal: there is one order then."""
    order: NDArray[np.int64] = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    if (ordered[..., 1:] > ordered[..., :-1]).all():
        return order
    return np.argsort(values, axis=-1, kind="stable")


def pair_averages(h: Array, keys: Array, mean: Array, pair: Array, tokens: int) -> PairAverages:
    """Average over pairs of one sample of (h, y).

    Parameters
    ----------
    h : ndarray, shape (n, M R)
        Entries that are not known, token by token.
    keys : ndarray, shape (n, d)
        Outputs and known entries.
    mean, pair : ndarray, shape (M R,) and (M R, M R)
        1, or 0 where a symmetry makes E[h_i | y] or E[h_i h_j | y] - delta_ij vanish.
    tokens : int
        M.

    Returns
    -------
    PairAverages

    References
    ----------
    troiani2025, (15).
    """
    r = h.shape[1] // tokens
    d = keys.shape[1]
    # Samples in a box: more of them average better, fewer are closer together, which matters with two keys and more.
    of_one_key, of_more = 32, 8
    small = of_one_key if d == 1 else of_more
    # Twice as wide along every key: the bias, which the tails rule, grows as the side of a box.
    fine, coarse = (_averages(h[box_order(keys, box)], box, mean, pair, tokens) for box in (small, small * 2**d))
    linear, matrix = (2 * a - b for a, b in zip(fine, coarse, strict=True))
    bias = 0.5 * float(np.linalg.norm((fine[1] - coarse[1]).reshape(r * r, r * r), 2))
    return PairAverages(linear, matrix, bias)


def _averages(h: Array, box: int, mean: Array, pair: Array, tokens: int) -> tuple[Array, Array]:
    """Averages over pairs of different rows in runs of `box` rows."""
    n, size = h.shape
    r = size // tokens
    first = (h * mean).reshape(n, tokens, r)
    g = ((h[:, :, None] * h[:, None, :] - np.eye(size)) * pair).reshape(n, tokens, r, tokens, r)
    runs = _products(
        first.reshape(n // box, box, tokens, r).sum(axis=1),
        g.reshape(n // box, box, tokens, r, tokens, r).sum(axis=1),
    )
    linear, matrix = ((a - b) / (n * (box - 1)) for a, b in zip(runs, _products(first, g), strict=True))
    return linear, matrix


def _products(first: Array, g: Array) -> tuple[Array, Array]:
    """Sums over rows and tokens of h_i h_j and of G_ik G_jl."""
    n, tokens, r = first.shape
    flat = first.reshape(n * tokens, r)
    # A column for each pair (i, k), a row for each sample and pair of tokens.
    cells = g.transpose(0, 1, 3, 2, 4).reshape(n * tokens * tokens, r * r)
    matrix = (cells.T @ cells).reshape(r, r, r, r)  # i k j l
    return flat.T @ flat, matrix.transpose(0, 2, 1, 3)
