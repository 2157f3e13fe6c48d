"""Layers that carry a hidden parity: exact teachers that every method of statistical queries needs many queries for.

With k = 2, S a set of n of the first d - 1 coordinates, Theta_i = (1_S + b_i e_d) e_d^T and W_i = c_i e_d e_1^T, the
first entry of the first output row is x_1d sum_i c_i tanh(x_1d s + b_i), s = sum_{p in S} x_1p, wherever the last
coordinates of the two tokens differ, and does not depend on S elsewhere. The c_i make it the parity of x_1 on S, times
x_1d where n is even.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..core.shown import few_lines
from ..learning.blocks import Array
from .checks import count

__all__ = [
    "ParityTeacher",
    "SqCorrelations",
    "hidden_bit",
    "parity_coefficients",
    "parity_shifts",
    "parity_teacher",
    "sq_correlations",
]


@dataclass(frozen=True)
class ParityTeacher:
    """A layer at k = 2 whose outputs carry the parity of a token on a hidden set of coordinates.

    Attributes
    ----------
    theta, w : ndarray, shape (m, d, d)
        m = n heads for odd n, n + 1 for even n.
    subset : tuple of int
        S, from 0 on, of the first d - 1 coordinates.
    shifts, coefficients : ndarray, shape (m,)
        b_i and c_i.
    """

    theta: Array
    w: Array
    subset: tuple[int, ...]
    shifts: Array
    coefficients: Array


def parity_shifts(n: int) -> Array:
    """Shifts b_i, halfway between the values of s; for even n one more beyond them.

    Parameters
    ----------
    n : int
        Size of the hidden set, >= 1.

    Returns
    -------
    ndarray, shape (m,)
    """
    size = count("n", n)
    between = np.arange(1.0 - size, size, 2.0)
    return between if size % 2 else np.append(between, size + 1.0)


def parity_coefficients(n: int) -> Array:
    """Solve sum_i c_i tanh(s + b_i) = (-1)^((n - s)/2) for s = -n, -n + 2, .., n.

    Parameters
    ----------
    n : int
        Size of the hidden set, >= 1.

    Returns
    -------
    ndarray, shape (m,)

    Notes
    -----
    There are n + 1 equations. For even n there are as many unknowns. For odd n the shifts are symmetric, so that
    c_i = c_{m - i} makes both sides odd in s: (n + 1)/2 equations and unknowns. Either matrix is regular
    for all n, see `attnlimits.derive.multihead.parity`.
    """
    shifts = parity_shifts(n)
    sums = np.arange(-float(n), n + 1.0, 2.0)
    matrix, signs = np.tanh(sums[:, None] + shifts), (-1.0) ** ((n - sums) / 2)
    if n % 2 == 0:
        return np.asarray(np.linalg.solve(matrix, signs))
    half = (n + 1) // 2
    folded = matrix[half:, :half] + matrix[half:, ::-1][:, :half]
    folded[:, -1] /= 2  # the shift 0 is its own mirror image
    first = np.linalg.solve(folded, signs[half:])
    return np.concatenate([first, first[-2::-1]])


def parity_teacher(n: int, dim: int, rng: np.random.Generator | int | None = None) -> ParityTeacher:
    """Layer that carries the parity of n hidden coordinates.

    Parameters
    ----------
    n : int
        Size of the hidden set, 1 <= n <= dim - 1.
    dim : int
        d.
    rng : Generator, int or None
        Draws the set.

    Raises
    ------
    ValueError
        n or dim out of range.
    """
    size, d = _sizes(n, dim)
    subset = np.sort(np.random.default_rng(rng).choice(d - 1, size, replace=False))
    shifts, coefficients = parity_shifts(size), parity_coefficients(size)
    theta, w = np.zeros((2, len(shifts), d, d))
    theta[:, subset, -1] = 1.0
    theta[:, -1, -1] = shifts
    w[:, -1, 0] = coefficients
    return ParityTeacher(theta, w, tuple(int(p) for p in subset), shifts, coefficients)


def hidden_bit(X: Array, subset: tuple[int, ...]) -> Array:
    """What the first output entry of each row should be where the last coordinates of the two tokens differ.

    Parameters
    ----------
    X : ndarray, shape (n, 2, d)
        Entries +-1.
    subset : tuple of int

    Returns
    -------
    ndarray, shape (n, 2)
        The parity of the row's token on the subset, times its last coordinate where the subset is even; 0 where
        the last coordinates agree, so that the output does not depend on the subset.
    """
    bit = X[:, :, list(subset)].prod(axis=2)
    if len(subset) % 2 == 0:
        bit = bit * X[:, :, -1]
    return np.asarray(bit * (X[:, :1, -1] != X[:, 1:, -1]))


@few_lines
@dataclass(frozen=True)
class SqCorrelations:
    """Correlations of the hidden bits of all sets of one size, by enumeration in integers.

    Attributes
    ----------
    concepts : int
        C(d - 1, n), the number of sets.
    pairwise : int
        Largest |sum over all x of bit_S(x) bit_S'(x)|, S != S'; 2^d times a correlation.
    low_degree : int
        Largest |sum over all x of bit_S(x) x^T|, over all monomials x^T of degree < n.
    inputs : int
        2^d.
    """

    concepts: int
    pairwise: int
    low_degree: int
    inputs: int


def sq_correlations(n: int, dim: int) -> SqCorrelations:
    """Correlations of the hidden bits with each other and with all monomials of degree below n, exactly.

    Parameters
    ----------
    n : int
        Size of the hidden sets, 1 <= n <= dim - 1.
    dim : int
        d <= 14.

    Raises
    ------
    ValueError
        n or dim out of range.

    Notes
    -----
    A Walsh-Hadamard transform in int64 gives the correlations of one bit with all monomials. The other token enters
    a bit only through its last coordinate, and the tokens are independent: the zeros stay.
    """
    size, d = _sizes(n, dim)
    # All 2^d inputs of one token are enumerated once per set.
    max_dim = 14
    if d > max_dim:
        raise ValueError(
            f"dim must be at most {max_dim}, as all 2^dim inputs are enumerated for each of C(dim - 1, n) sets "
            f"(chen2024, parity teachers), got {dim}; larger dimensions have the same zeros"
        )
    # Coordinate p of input number x is -1 where bit p of x is set.
    signs = 1 - 2 * (np.arange(1 << d)[:, None] >> np.arange(d) & 1)
    degree = (signs < 0).sum(axis=1)
    sets = [list(part) + [d - 1] * (size % 2 == 0) for part in combinations(range(d - 1), size)]
    own = np.array([sum(1 << p for p in part) for part in sets])
    pairwise = low = 0
    for number, part in enumerate(sets):
        spectrum = np.abs(_walsh_hadamard(signs[:, part].prod(axis=1)))
        low = max(low, int(spectrum[degree < size].max()))
        pairwise = max(pairwise, int(spectrum[np.delete(own, number)].max(initial=0)))
    return SqCorrelations(len(sets), pairwise, low, 1 << d)


def _walsh_hadamard(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum over x of values(x) x^T for every T, numbered by its bits."""
    found, step = values.astype(np.int64), 1
    while step < len(found):
        pairs = found.reshape(-1, 2, step)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        step *= 2
    return found


def _sizes(n: int, dim: int) -> tuple[int, int]:
    size, d = count("n", n), count("dim", dim)
    if size > d - 1:
        raise ValueError(
            f"n must be at most dim - 1 = {d - 1}, as the last coordinate is never hidden (chen2024, parity teachers), "
            f"got {size}; lower n or raise dim"
        )
    return size, d
