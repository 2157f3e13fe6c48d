"""Entries of h, which are counted token by token: their indices, and the covariance that an overlap gives them."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...model.link_terms import output_at
from ...model.links import LinkKernel, Part

__all__ = ["covariance", "same_token", "turns"]

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


def turns(kernel: LinkKernel, part: Part) -> tuple[tuple[int, ...], ...]:
    """Signs of the entries of a part that change the sign of its output, which is one; none where there are several."""
    entries = sorted(part.entries)
    if len(part.outputs) != 1 or kernel.label_noise is not None:
        return ()
    # Points at which outputs are compared, and roundings by which they may differ.
    points, roundings = 512, 64
    h = 1.5 * np.random.default_rng(0).standard_normal((points, kernel.size))
    value, found = output_at(kernel, part.outputs[0], h), []
    close = roundings * np.finfo(float).eps * np.abs(value)
    for signs in product((1, -1), repeat=len(entries)):
        mirrored = h.copy()
        mirrored[:, entries] *= signs
        if np.isfinite(value).all() and (np.abs(output_at(kernel, part.outputs[0], mirrored) + value) <= close).all():
            found.append(signs)
    return tuple(found)
