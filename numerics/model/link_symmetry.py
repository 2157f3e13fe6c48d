"""Symmetries of a user's own link that hold the overlap of its state evolution."""

from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from ..core.ties import canonical_basis
from .links import LinkKernel

__all__ = ["couplings", "exchanges", "symmetric_axes"]

Array = NDArray[np.float64]

# Differences of eigenvalues of random symmetric matrices that are rounding.
_EIGENVALUES = 1e-9
# Digits of sums over directions that differ.
_DIGITS = 9
# Entries whose signs, and indices whose orders, are all tried; random h for it; relative differences that are none.
_MOST_SIGNS, _MOST_EXCHANGED, _PROBES, _EQUAL = 10, 4, 2048, 1e-12


def couplings(kernel: LinkKernel, q: Array) -> NDArray[np.bool_]:
    """Entries of the overlap that state evolution from q may make non-zero, shape (P, P).

    Two indices are coupled only through a part of the link that has both in one token. And if a change of sign of
    indices, the same for every token up to sign, leaves q as it is and the outputs up to their signs, then it leaves
    all that follows from q.
    """
    p = kernel.indices
    linked = np.eye(p, dtype=bool)
    for part in kernel.parts:
        for a in part.entries:
            for b in part.entries:
                if a // p == b // p:
                    linked[a % p, b % p] = True
    for _ in range(p):
        linked = (linked.astype(int) @ linked) > 0
    for sign in _sign_changes(kernel):
        outer = np.outer(sign, sign)
        if not q[outer < 0].any():
            linked &= outer > 0
    return linked


def exchanges(kernel: LinkKernel, q: Array) -> list[tuple[int, ...]]:
    """Permutations of the indices that leave q as it is, and the outputs up to their signs and order."""
    p = kernel.indices
    if p > _MOST_EXCHANGED:
        return []
    h, y = _probes(kernel)
    orders = (list(order) for order in permutations(range(p)))
    return [
        tuple(order)
        for order in orders
        if np.abs(q[np.ix_(order, order)] - q).max() == 0 and _tells_as_much(kernel.link(h[:, order]), y)
    ]


def symmetric_axes(kernel: LinkKernel) -> tuple[Array, tuple[tuple[int, ...], ...]] | None:
    """Axes in which every overlap is diagonal that state evolution reaches from zero or from I.

    Returns
    -------
    axes : ndarray, shape (P, P)
        Columns, orthonormal.
    groups : tuple of tuple of int
        Axes that have the same overlap.

    None where the symmetries of the link do not fix such axes.
    """
    p = kernel.indices
    zero, rng = np.zeros((p, p)), np.random.default_rng(0)
    mask, orders = couplings(kernel, zero), exchanges(kernel, zero) or [tuple(range(p))]

    def allowed() -> Array:
        """A random symmetric matrix with the symmetries of the overlap."""
        drawn = rng.standard_normal((p, p))
        drawn = np.where(mask, drawn + drawn.T, 0.0)
        return np.asarray(np.mean([drawn[np.ix_(order, order)] for order in orders], axis=0))

    values, axes = np.linalg.eigh(allowed())
    other = axes.T @ allowed() @ axes
    groups: list[list[int]] = []
    for k, value in enumerate(values):
        if groups and value - values[groups[-1][0]] < _EIGENVALUES:
            groups[-1].append(k)
        else:
            groups.append([k])
    same = all(np.ptp(other.diagonal()[group]) < _EIGENVALUES for group in groups)
    if not same or np.abs(other - np.diag(other.diagonal())).max() > _EIGENVALUES:
        return None
    # Directions that treat indices alike come first; sums of two directions may be equal but for rounding.
    groups.sort(key=lambda group: (len(group), -abs(round(float(axes[:, group[0]].sum()), _DIGITS))))
    for group in groups:
        axes[:, group] = canonical_basis(axes[:, group])
    return axes, tuple(tuple(group) for group in groups)


def _probes(kernel: LinkKernel) -> tuple[Array, Array]:
    h = np.random.default_rng(0).standard_normal((_PROBES, kernel.indices, kernel.tokens))
    return h, kernel.link(h)


def _tells_as_much(moved: Array, y: Array) -> bool:
    """Whether these are the outputs y but for their signs and order."""
    size = _EQUAL * np.abs(y).max(axis=0)
    with np.errstate(invalid="ignore"):
        same = [
            [bool((np.abs(a - s * b) <= size[k]).all()) for k, b in enumerate(y.T) for s in (1, -1)] for a in moved.T
        ]
    places = [{k // 2 for k, yes in enumerate(row) if yes} for row in same]
    return any(
        all(k in row for k, row in zip(order, places, strict=True)) for order in permutations(range(len(places)))
    )


def _sign_changes(kernel: LinkKernel) -> list[Array]:
    """Signs of the indices, up to sign in each token, that leave the outputs but for their signs and order."""
    p, m = kernel.indices, kernel.tokens
    if p * m > _MOST_SIGNS:
        return []
    h, y = _probes(kernel)
    found = []
    for bits in product((1.0, -1.0), repeat=p - 1):
        sign = np.array([1.0, *bits])
        flips = (np.array(f) for f in product((1.0, -1.0), repeat=m))
        if any(_tells_as_much(kernel.link(h * sign[:, None] * f), y) for f in flips):
            found.append(sign)
    return found
