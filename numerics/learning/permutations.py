"""Signed permutations of indices that leave a link unchanged: found one coset at a time, searched by bounds."""

from collections.abc import Callable, Iterator
from functools import cached_property, reduce
from itertools import product

import numpy as np
from scipy.optimize import linear_sum_assignment

from .blocks import Array

__all__ = ["Element", "PermutationGroup", "signed_permutations"]

#: Order and signs: (g h)_p = sign_p h_{order_p}.
Element = tuple[tuple[int, ...], tuple[int, ...]]


def _after(second: Element, first: Element) -> Element:
    """The element h -> second(first(h))."""
    order = tuple(first[0][p] for p in second[0])
    return order, tuple(s * first[1][p] for p, s in zip(*second, strict=True))


def _matrix(element: Element) -> Array:
    out = np.zeros((len(element[0]),) * 2)
    out[np.arange(len(out)), element[0]] = element[1]
    return out


class PermutationGroup:
    """A group of signed permutations by its chain of cosets: all of them at once where they are too many to list.

    Parameters
    ----------
    cosets : list of dict
        For each index p, elements that leave all indices before p, one for each place and sign that p can take.
    """

    def __init__(self, cosets: list[dict[tuple[int, int], Element]]) -> None:
        self._cosets = cosets

    @property
    def order(self) -> int:
        """Number of elements."""
        return reduce(lambda n, coset: n * len(coset), self._cosets, 1)

    def elements(self) -> Iterator[Array]:
        """All elements as matrices, shape (P, P)."""
        size = len(self._cosets)
        for parts in product(*(coset.values() for coset in self._cosets)):
            yield _matrix(reduce(lambda done, part: _after(part, done), parts, _identity(size)))

    @cached_property
    def _orbits(self) -> list[list[set[tuple[int, int]]]]:
        """Places and signs of each index under the elements that leave all before the k-th."""
        size = len(self._cosets)
        found = []
        for k in range(size + 1):
            generators = [element for coset in self._cosets[k:] for element in coset.values()]
            orbits = [{(p, 1)} for p in range(size)]
            for p, orbit in enumerate(orbits):
                fresh = [(p, 1)]
                while fresh:
                    q, s = fresh.pop()
                    for order, signs in generators:
                        image = (order[q], s * signs[q])
                        if image not in orbit:
                            orbit.add(image)
                            fresh.append(image)
            found.append(orbits)
        return found

    def best(self, overlap: Array) -> Array:
        """The element R of largest tr(overlap R^T), by branch and bound.

        A bound is the best assignment of the indices left to places that each of them, alone, can take.

        Parameters
        ----------
        overlap : ndarray, shape (P, P)

        Returns
        -------
        ndarray, shape (P, P)
        """
        size = len(self._cosets)
        scale = float(np.abs(overlap).max(initial=0.0))
        if not scale:
            return np.eye(size)
        best, record = -np.inf, _identity(size)

        # Of an exchange that no element makes; relative to the overlap.
        never = 1e6

        def bound(k: int, done: Element) -> float:
            order, signs = done
            known = sum(overlap[p, order[p]] * signs[p] for p in range(k))
            gain = np.full((size - k, size - k), -never * scale)
            for p in range(k, size):
                for q, s in self._orbits[k][p]:
                    gain[p - k, q - k] = max(gain[p - k, q - k], overlap[p, order[q]] * s * signs[q])
            return float(known + gain[linear_sum_assignment(gain, maximize=True)].sum())

        def descend(k: int, done: Element, value: float) -> None:
            nonlocal best, record
            if k == size:
                best, record = value, done
                return
            nexts = [_after(element, done) for element in self._cosets[k].values()]
            # Bounds before elements: the sort keeps the identity first where they are equal.
            for top, then in sorted(((bound(k + 1, n), n) for n in nexts), key=lambda pair: -pair[0]):
                if top > best + 1e-12 * scale:
                    descend(k + 1, then, top)

        descend(0, _identity(size), np.inf)
        return _matrix(record)


def _identity(size: int) -> Element:
    return tuple(range(size)), (1,) * size


def signed_permutations(link: Callable[[Array], Array], indices: int, tokens: int) -> PermutationGroup:
    """Find the exchanges and changes of sign of indices that leave the outputs as they are, by trying.

    Parameters
    ----------
    link : callable
        Outputs of h, shape (n, P, M); it may raise ValueError where it is not defined.
    indices, tokens : int

    Returns
    -------
    PermutationGroup

    Notes
    -----
    Each element has been tried on random h, whole. Beyond four indices the search is cut short where a part of an
    element fails on h that are random in that part and constant in the rest (zero where more than eight are left): some
    may be missed if the link is not symmetric where indices are equal, or if the tries run out.
    """
    search = _Search(link, indices, tokens)
    cosets = []
    for k in range(indices):
        coset = {}
        for place in range(k, indices):
            for sign in (1, -1):
                element = search.complete(k, place, sign)
                if element is not None:
                    coset[place, sign] = element
        cosets.append(coset)
    return PermutationGroup(cosets)


class _Search:
    # Random h that an element is tried on, and a part of one; rounding of the outputs.
    _probes, _few, _equal = 256, 4, 1e-9

    def __init__(self, link: Callable[[Array], Array], indices: int, tokens: int) -> None:
        rng = np.random.default_rng(0)
        self._link, self._size = link, indices
        self._h = rng.standard_normal((self._probes, indices, tokens))
        self._y = link(self._h)
        self._rest = rng.standard_normal(tokens)
        # Tries of parts in all.
        tries = 20_000
        self._tries = tries

    def complete(self, k: int, place: int, sign: int) -> Element | None:
        """An element that leaves the indices before k and takes k to a place with a sign; None if there is none."""
        order, signs = [*range(k), place], [*(1,) * k, sign]
        return self._extend(order, signs)

    def _extend(self, order: list[int], signs: list[int]) -> Element | None:
        known = len(order)
        if known == self._size:
            moved = self._h[:, order] * np.array(signs)[:, None]
            return (tuple(order), tuple(signs)) if self._same(moved, self._y) else None
        # Indices up to which nothing but whole elements is tried.
        whole = 4
        if self._size > whole and not self._may_be(order, signs):
            return None
        places = sorted(set(range(self._size)) - set(order), key=lambda place: place != known)
        for place in places:
            for sign in (1, -1):
                found = self._extend([*order, place], [*signs, sign])
                if found is not None:
                    return found
        return None

    def _same(self, h: Array, y: Array) -> bool:
        return bool(np.allclose(self._link(h), y, rtol=self._equal, atol=self._equal))

    def _may_be(self, order: list[int], signs: list[int]) -> bool:
        """Whether some signs of the rest, where it is constant, complete this part of an element."""
        self._tries -= 1
        if self._tries < 0:
            return False
        left = self._size - len(order)
        h = np.empty((self._few, *self._h.shape[1:]))
        # Unknown signs that are all tried.
        all_signs = 8
        h[:] = self._rest if left <= all_signs else 0.0
        h[:, order] = self._h[: self._few, : len(order)]
        rest = np.array(list(product((1, -1), repeat=left)) if left <= all_signs else [(1,) * left])
        moved = np.empty((len(rest), *h.shape))
        moved[:, :, : len(order)] = h[:, order] * np.array(signs)[:, None]
        moved[:, :, len(order) :] = h[0, next(iter(set(range(self._size)) - set(order)))] * rest[:, None, :, None]
        try:
            y = self._link(h)
            found = self._link(moved.reshape(-1, *h.shape[1:])).reshape(len(rest), *y.shape)
        except ValueError:
            # Not defined there: nothing is known.
            return True
        return bool(np.isclose(found, y, rtol=self._equal, atol=self._equal).reshape(len(rest), -1).all(axis=1).any())
