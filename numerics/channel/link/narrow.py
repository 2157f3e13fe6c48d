"""Averages where little is left of h, from those where multiples of it are left.

Of V = v S, with S fixed, V^{1/2} G V^{1/2} tends to what the tangents of the fibres leave open as v shrinks. Ends of
the fibres change it in proportion to v^{1/2}, and their curvature 1/r in proportion to v/r^2 where r exceeds v^{1/2}.
Around a nondegenerate critical point of a smooth link of two entries r is of the size of the distance to it, and the
integral of v/r^2 over the plane is v log(1/v).
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cubature

from ...model.link_regions import Region
from ..averages import SAFETY, matrix_root
from .axes import REACH, scaled

__all__ = ["MULTIPLES", "Ladder", "Resolved", "tangents"]

Array = NDArray[np.float64]
Terms = Sequence[Callable[[Array], Array]]

#: Of the least that is left where averages are taken.
MULTIPLES = (1.0, 2.0, 4.0)
# What averages are fitted by: with a limit that is not known, for ends; and beside the known limit of smooth links.
_ENDS: Terms = (np.ones_like, np.sqrt, np.asarray)
_SMOOTH: Terms = (lambda v: -v * np.log(v), np.asarray, lambda v: -v * v * np.log(v))


class Resolved(NamedTuple):
    """An average by a finer rule, and what it may be off by, of the same shape."""

    value: Array
    error: Array


class Ladder(NamedTuple):
    """Covariances of h given omega in the same ratios as one that is too small for grids.

    Attributes
    ----------
    left : ndarray, shape (k, k)
        The small one.
    at : float
        Its smallest eigenvalue.
    rungs : tuple of ndarray, shape (k, k)
        Those whose smallest eigenvalues are `MULTIPLES` of the least that grids resolve.
    values : ndarray, shape (3,)
        These eigenvalues.
    in_ratio : bool
        Whether the others are as large beside it: none may exceed the prior.
    """

    left: Array
    at: float
    rungs: tuple[Array, ...]
    values: Array
    in_ratio: bool

    @staticmethod
    def of(left: Array, least: float) -> "Ladder":
        """The ladder above a covariance."""
        values, vectors = np.linalg.eigh(left)
        smallest = float(values[0])
        times = np.array(MULTIPLES) * (least / smallest)
        # The same where the directions are left as much: digits are rounded off.
        rungs = tuple(np.round((vectors * np.minimum(values * one, 1.0)) @ vectors.T, 12) for one in times)
        in_ratio = bool(values[-1] * times[-1] <= 1.0)
        return Ladder(left, smallest, rungs, np.array(MULTIPLES) * least, in_ratio)

    def average(self, pairs: Sequence[tuple[Array, Array]], limit: Resolved | None) -> Resolved:
        """Average at the small covariance from those on the rungs, each by a coarse and by a fine rule.

        Parameters
        ----------
        pairs : sequence of (ndarray, ndarray)
        limit : Resolved or None
            Of V^{1/2} G V^{1/2}, of a smooth link of two entries.
        """
        roots = [matrix_root(rung) for rung in self.rungs]
        coarse, fine = (
            np.array([scaled(pair[k], root) for pair, root in zip(pairs, roots, strict=True)]) for k in range(2)
        )
        terms = _ENDS if limit is None else _SMOOTH
        known = Resolved(np.zeros(fine.shape[1:]), np.zeros(fine.shape[1:])) if limit is None else limit
        weights, fewer = self._weights(terms), np.append(self._weights(terms[:2]), 0.0)
        found = known.value + np.tensordot(weights, fine - known.value, 1)
        off = SAFETY * np.abs(np.tensordot(weights - fewer, fine - known.value, 1))
        off += np.tensordot(np.abs(weights), np.abs(fine - coarse), 1) + abs(1 - weights.sum()) * known.error
        inverse = np.asarray(np.linalg.inv(matrix_root(self.left)), np.float64)
        return Resolved(scaled(found, inverse), scaled(off, np.abs(inverse)))

    def _weights(self, terms: Terms) -> Array:
        """Weights of the first rungs by which all of these terms are exact."""
        rungs, at = self.values[: len(terms)], np.array([self.at])
        matrix, wanted = (np.array([term(v) for term in terms]) for v in (rungs, at))
        return np.asarray(np.linalg.solve(matrix, wanted[:, 0]))


def tangents(region: Region, entries: Sequence[int], ratios: Array) -> tuple[Resolved, Resolved]:
    """Limits of V^{1/2} G V^{1/2} and of the operator (15) in such units, for V proportional to some matrix.

    Given h the direction n = V^{1/2} grad g, of length 1, is fixed and all others are left open: E n n^T, and the mean
    of all products of four of its entries.

    Parameters
    ----------
    region : Region
        The whole space.
    entries : sequence of int
        Of the output.
    ratios : ndarray, shape (k, k)
    """
    k, root = len(entries), matrix_root(ratios)
    slopes = [region.branches[0][entry][2] for entry in entries]
    kinds = list(combinations_with_replacement(range(k), 4))

    def integrand(points: Array) -> Array:
        h = {entry: points[:, place] for place, entry in enumerate(entries)}
        gradient = np.stack([np.broadcast_to(slope(h)[0], len(points)) for slope in slopes]) + 0.0  # type: ignore[arg-type]
        direction = root @ gradient
        size = np.sqrt((direction**2).sum(axis=0))
        direction = np.where(size > 0, direction / np.where(size > 0, size, 1.0), 0.0)
        density = np.exp(-0.5 * (points**2).sum(axis=1) - 0.5 * k * math.log(2 * math.pi))
        return np.asarray((density * np.prod(direction[np.array(kinds)], axis=1)).T)

    ends = np.full(k, REACH)
    # Error of the limit, and boxes that its integral is divided into at most.
    limit, boxes = 1e-10, 4000
    found = cubature(integrand, -ends, ends, rtol=0.0, atol=limit, max_subdivisions=boxes)
    place: dict[tuple[int, ...], int] = {kind: number for number, kind in enumerate(kinds)}
    where = np.array([place[tuple(sorted(axes))] for axes in product(range(k), repeat=4)]).reshape((k,) * 4)
    fourth, off = found.estimate[where], found.error[where]
    # n has length 1: so much has the limit, and so has its sum over a pair of entries.
    fourth = fourth / np.einsum("aabb", fourth)
    return Resolved(np.einsum("abcc", fourth), np.einsum("abcc", off)), Resolved(fourth, off)
