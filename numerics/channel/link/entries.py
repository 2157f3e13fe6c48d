"""Entries of h, which are counted token by token: their indices, and the covariance that an overlap gives them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["covariance", "same_token"]

Array = NDArray[np.float64]


def same_token(entries: Sequence[int], indices: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Index of each of some entries, and the pairs of them that are of one token.

    Examples
    --------
    >>> same_token((0, 1, 2), 2)
    ([0, 1, 0], [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)])
    """
    token, place = np.divmod(np.array(entries), indices)
    size = range(len(place))
    return place.tolist(), [(a, b) for a in size for b in size if token[a] == token[b]]


def covariance(entries: Sequence[int], q: Array) -> Array:
    """Covariance of omega over some entries at the overlap q, shape (P, P)."""
    token, place = np.divmod(np.array(entries), len(q))
    return np.where(np.equal.outer(token, token), q[np.ix_(place, place)], 0.0)
