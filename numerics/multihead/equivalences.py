"""Equivalences: other parameters that give the same layer.

For k >= 3: heads with equal Theta merge, and a head with W = 0 has any Theta. For k = 2 the outputs are y_r = v^T sum_i
W_i + u^T sum_i tanh(z_i / 2) W_i with v, u = (x_1 +- x_2)/2 and z_i = x_r^T Theta_i (x_1 - x_2), odd in Theta_i: a head
counts only up to (Theta, W) -> (-Theta, -W), and the sum of the W_i on its own. On real inputs that is all, which
papers/chen2024/README.md proves.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.shown import few_lines
from ..core.validation import numbers
from ..learning.blocks import Array
from .checks import at_least_zero, count

__all__ = ["Comparison", "Degeneracies", "compare", "find_degeneracies", "flip_subsets", "reduce_layer"]

Pairs = tuple[tuple[int, int], ...]

#: Of the largest |Theta_i| or |W_i| of a layer: smaller distances are zero.
TOLERANCE = 1e-4


@few_lines
@dataclass(frozen=True)
class Degeneracies:
    """Reasons why other parameters give the same layer; heads are numbered from 0.

    Attributes
    ----------
    equal : tuple of (int, int)
        Heads with the same Theta: only the sum of their W is fixed.
    silent : tuple of int
        Heads with W = 0: their Theta is free.
    opposite : tuple of (int, int)
        k = 2: heads with Theta_j = -Theta_i; (Theta, A), (-Theta, B) is (Theta, A - B), (0, 2 B).
    invisible : tuple of (int, int)
        Those of them with W_j = W_i: a linear map for every Theta.
    linear : tuple of int
        k = 2, two heads or more: heads with Theta = 0, whose W takes up what the flip of any other head changes.
    flips : tuple of tuple of int
        k = 2: sets of heads with sum W = 0, which may be flipped to (-Theta, -W) together.
    status : str
        A sentence.
    """

    equal: Pairs
    silent: tuple[int, ...]
    opposite: Pairs
    invisible: Pairs
    linear: tuple[int, ...]
    flips: tuple[tuple[int, ...], ...]
    status: str

    @property
    def identifiable(self) -> bool:
        """Whether only the order of the heads is free, on real inputs."""
        return not (self.equal or self.silent or self.opposite or self.linear or self.flips)


@few_lines
@dataclass(frozen=True)
class Comparison:
    """Whether two sets of parameters give the same layer, and how they are related.

    Attributes
    ----------
    equivalent : bool
    gap : float
        Largest norm of what is left of the difference of the layers, over the largest |W_i|.
    relation : str
        "permutation", "flip", "other heads" (merged, split, silent or linear ones), or "different".
    flipped : tuple of int
        Heads of the first that the second has with the other sign, for "flip".
    status : str
        A sentence.
    """

    equivalent: bool
    gap: float
    relation: str
    flipped: tuple[int, ...]
    status: str


def find_degeneracies(theta: ArrayLike, w: ArrayLike, tokens: int, *, tol: float = TOLERANCE) -> Degeneracies:
    """Test one set of parameters for every known way in which others give the same layer.

    Parameters
    ----------
    theta, w : array_like, shape (m, d, d)
        m <= 16 at k = 2, where all sets of heads are tested.
    tokens : int
        k >= 2; at k = 1 every Theta is free.
    tol : float
        Distances below this times the largest |Theta_i|, or |W_i|, count as zero.

    Raises
    ------
    ValueError
        Shapes, tokens < 2, or too many heads at k = 2.

    References
    ----------
    chen2024, identifiability.
    """
    parts, values = _heads(theta, w)
    k, at_most = count("tokens", tokens), at_least_zero("tol", tol)
    if k == 1:
        raise ValueError("tokens must be at least 2: with one token the attention is 1 for every Theta (chen2024)")
    m = len(parts)
    size, limit = at_most * _largest(parts), at_most * _largest(values)
    pairs = list(combinations(range(m), 2))
    equal = tuple((i, j) for i, j in pairs if np.linalg.norm(parts[i] - parts[j]) <= size)
    silent = tuple(i for i in range(m) if np.linalg.norm(values[i]) <= limit)
    opposite: tuple[tuple[int, int], ...] = ()
    invisible: tuple[tuple[int, int], ...] = ()
    linear: tuple[int, ...] = ()
    flips: tuple[tuple[int, ...], ...] = ()
    if k == 2:
        opposite = tuple(p for p in pairs if p not in equal and np.linalg.norm(parts[p[0]] + parts[p[1]]) <= size)
        invisible = tuple((i, j) for i, j in opposite if np.linalg.norm(values[i] - values[j]) <= limit)
        linear = tuple(i for i in range(m) if np.linalg.norm(parts[i]) <= size) if m > 1 else ()
        heard = [i for i in range(m) if i not in silent]
        flips = tuple(
            tuple(heard[i] for i in subset)
            for subset in flip_subsets(values[heard], tol=at_most)
            # The flip of a linear head alone is already in `linear`.
            if not set(subset) <= {n for n, i in enumerate(heard) if i in linear}
        )
    said = [
        f"{what}: {', '.join(str(one) for one in found)}"
        for what, found in (
            ("equal Theta", equal),
            ("W = 0", silent),
            ("opposite Theta", opposite),
            ("Theta = 0", linear),
            ("sum of W = 0", flips),
        )
        if found
    ]
    status = "; ".join(said) if said else "only the order of the heads is free, on real inputs"
    return Degeneracies(equal, silent, opposite, invisible, linear, flips, status)


def flip_subsets(w: ArrayLike, *, tol: float = TOLERANCE) -> tuple[tuple[int, ...], ...]:
    """Non-empty sets of heads with sum of W_i = 0, which at k = 2 may change their signs together.

    Parameters
    ----------
    w : array_like, shape (m, d, d)
        m <= 16.
    tol : float
        Of the largest |W_i|.

    Returns
    -------
    tuple of tuple of int
        Heads from 0 on, smallest sets first.

    Raises
    ------
    ValueError
        Too many heads.

    References
    ----------
    chen2024, identifiability at k = 2.
    """
    values = numbers("w", w)
    m = len(values)
    # All subsets of heads are tested.
    max_heads = 16
    if m > max_heads:
        raise ValueError(
            f"w must have at most {max_heads} heads, as all sets of them are looked at (chen2024, identifiability at "
            f"k = 2), got {m}; test subsets of the heads, or use three tokens, where no flips exist"
        )
    if m == 0 or not values.any():
        return ()
    members = np.arange(1, 1 << m)[:, None] >> np.arange(m) & 1
    sums = members @ values.reshape(m, -1)
    found = members[np.linalg.norm(sums, axis=1) <= tol * _largest(values)]
    return tuple(sorted((tuple(np.flatnonzero(row).tolist()) for row in found), key=lambda one: (len(one), one)))


def reduce_layer(
    theta: ArrayLike, w: ArrayLike, tokens: int, *, tol: float = TOLERANCE
) -> tuple[Array, Array, Array | None]:
    """Parameters of the same layer that are unique on real inputs, up to order and, at k = 2, signs.

    Parameters
    ----------
    theta, w : array_like, shape (m, d, d)
    tokens : int
        k.
    tol : float
        As in `find_degeneracies`.

    Returns
    -------
    theta, w : ndarray, shape (m', d, d)
        Merged heads with W != 0. At k = 2 as functions u^T tanh(z / 2) W, with Theta != 0 and one of +-Theta; at k = 1
        none.
    linear : ndarray, shape (d, d), or None
        At k <= 2 the sum of all W_i, which multiplies v (or the token); None otherwise.

    References
    ----------
    chen2024, identifiability.
    """
    parts, values = _heads(theta, w)
    k, at_most = count("tokens", tokens), at_least_zero("tol", tol)
    d = parts.shape[1]
    if k == 1:
        return np.zeros((0, d, d)), np.zeros((0, d, d)), values.sum(axis=0)
    limit = at_most * _largest(values)
    kept: list[tuple[Array, Array]] = []
    for members, signs in _clusters(parts, k, at_most * _largest(parts)):
        total = np.einsum("i,iab->ab", signs, values[members])
        if np.linalg.norm(total) > limit and signs.any():
            kept.append((parts[members[0]], total))
    merged = np.array(kept).reshape(-1, 2, d, d)
    return merged[:, 0], merged[:, 1], values.sum(axis=0) if k == 2 else None


def compare(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    tokens: int,
    *,
    tol: float = TOLERANCE,
) -> Comparison:
    """Whether two sets of parameters give the same layer, by the equivalences alone: no input is drawn.

    Parameters
    ----------
    first, second : (theta, w), each array_like, shape (m, d, d)
        m may differ.
    tokens : int
        k.
    tol : float
        As in `find_degeneracies`, of the larger of both layers.

    Notes
    -----
    The layers are equal iff their difference, a layer of all heads, reduces to nothing.

    References
    ----------
    chen2024, identifiability.
    """
    (parts, values), (others, weights) = _heads(*first), _heads(*second)
    if parts.shape[1:] != others.shape[1:]:
        raise ValueError(f"first and second must have one d (chen2024), got {parts.shape[1]} and {others.shape[1]}")
    k, at_most = count("tokens", tokens), at_least_zero("tol", tol)
    theta, w = np.concatenate([parts, others]), np.concatenate([values, -weights])
    m, unit = len(parts), _largest(w) or 1.0
    clusters = _clusters(theta, k, at_most * _largest(theta))
    left = [float(np.linalg.norm(np.einsum("i,iab->ab", signs, w[members]))) for members, signs in clusters]
    if k <= 2:
        left.append(float(np.linalg.norm(w.sum(axis=0))))
    gap = max(left) / unit
    if gap > at_most:
        return Comparison(False, gap, "different", (), f"different layers: {gap:.2g} of the largest W_i is left over")
    flipped: list[int] = []
    for members, signs in clusters:
        paired = len(members) == 2 and members[0] < m <= members[1]
        # A head with Theta = 0 takes up the flips of others by another W.
        if not paired or (not signs.any() and np.linalg.norm(w[members].sum(axis=0)) > at_most * unit):
            return Comparison(True, gap, "other heads", (), "the same layer, from other heads")
        if signs[0] != signs[1]:
            flipped.append(int(members[0]))
    if flipped:
        said = f"the same layer, with heads {', '.join(map(str, flipped))} of the first flipped"
        return Comparison(True, gap, "flip", tuple(flipped), said)
    return Comparison(True, gap, "permutation", (), "the same layer, up to the order of the heads")


def _clusters(parts: Array, tokens: int, size: float) -> list[tuple[NDArray[np.int64], Array]]:
    """Heads with the same attention, and the sign of each one's Theta against the first of them.

    At k = 2 the signs of heads with Theta = 0 are 0: they add to the sum of the W_i alone.
    """
    free = list(range(len(parts)))
    found = []
    while free:
        head = parts[free[0]]
        signs = {i: 1.0 for i in free if np.linalg.norm(parts[i] - head) <= size}
        if tokens == 1:
            signs = dict.fromkeys(free, 0.0)
        elif tokens == 2:
            signs |= {i: -1.0 for i in free if i not in signs and np.linalg.norm(parts[i] + head) <= size}
            if np.linalg.norm(head) <= size:
                signs = dict.fromkeys(signs, 0.0)
        members = sorted(signs)
        found.append((np.array(members), np.array([signs[i] for i in members])))
        free = [i for i in free if i not in signs]
    return found


def _heads(theta: ArrayLike, w: ArrayLike) -> tuple[Array, Array]:
    parts, values = numbers("theta", theta), numbers("w", w)
    if parts.ndim != 3 or parts.shape != values.shape or parts.shape[1] != parts.shape[2] or not len(parts):
        raise ValueError(
            f"theta and w must both have shape (m, d, d), heads and dimensions (chen2024), got {parts.shape} and "
            f"{values.shape}"
        )
    if not (np.isfinite(parts).all() and np.isfinite(values).all()):
        raise ValueError("theta and w must be finite (chen2024), got NaN or infinite entries")
    return parts, values


def _largest(matrices: Array) -> float:
    return float(np.linalg.norm(matrices, axis=(1, 2)).max(initial=0.0))
