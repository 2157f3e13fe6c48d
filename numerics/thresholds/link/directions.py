"""Subspaces of the indices of a link: which are learned, along which vectors of integers, and what they are called."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Known", "Vectors", "named"]

Array = NDArray[np.float64]
Vectors = tuple[tuple[int, ...], ...]

# Projectors of learned subspaces are known to a few 1e-4; those of vectors of small integers are told apart so.
_LARGEST_DENOMINATOR, _SAME_DIRECTION = 12, 1e-3


class Known(NamedTuple):
    """A subspace that is learned.

    Attributes
    ----------
    projector : ndarray, shape (P, P)
    given : tuple of int
        Its indices, counted from 1; or, where no indices span it, how many of the vectors do.
    vectors : tuple of tuple of int
        Orthogonal: first those that span it, then the others. Empty where indices span it.
    """

    projector: Array
    given: tuple[int, ...]
    vectors: Vectors = ()

    @classmethod
    def nothing(cls, indices: int) -> "Known":
        """No direction is learned."""
        return cls(np.zeros((indices, indices)), ())

    @property
    def rank(self) -> int:
        """How many directions are learned."""
        return round(float(np.trace(self.projector)))

    def joined(self, direction: Array, least: float) -> "Known | None":
        """The subspace with the span of a PSD matrix, whose eigenvalues below `least` are zero.

        None where neither indices nor vectors of small integers span it.
        """
        values, axes = np.linalg.eigh(direction)
        new = axes[:, values > least]
        projector = self.projector + new @ new.T
        rank, inside = round(float(np.trace(projector))), np.flatnonzero(projector.diagonal() > least)
        if rank == len(inside):
            return Known(np.diag((projector.diagonal() > least).astype(float)), tuple((inside + 1).tolist()))
        found = _integers(projector)
        return Known(projector, tuple(range(1, rank + 1)), found) if found else None

    def in_indices(self, matrix: Array) -> Array:
        """A matrix along the vectors by the indices themselves."""
        if not self.vectors:
            return matrix
        units = _units(self.vectors)
        return np.asarray(units.T @ matrix @ units)

    def named(self, direction: Array) -> str:
        """Name of a subspace that comes in, given this one."""
        given = f" given {named(self.projector)}" if self.given else ""
        return named(direction) + given


def named(direction: Array) -> str:
    """Name of the span of a PSD matrix: its indices, or the vectors that span it.

    Parameters
    ----------
    direction : ndarray, shape (P, P)

    Examples
    --------
    >>> named(np.diag([0.0, 1.0])), named(np.array([[0.5, -0.5], [-0.5, 0.5]]))
    ('index 2', 'h_1 - h_2')
    """
    values, axes = np.linalg.eigh(direction)
    inside = axes[:, values > _SAME_DIRECTION * max(float(values[-1]), 1e-300)]
    projector = inside @ inside.T
    rank, touched = inside.shape[1], np.flatnonzero(projector.diagonal() > _SAME_DIRECTION)
    if rank == len(touched):
        names = ", ".join(str(i + 1) for i in touched)
        return ("index " if rank == 1 else "indices ") + names if rank else "none"
    found = _integers(projector)[:rank]
    return ", ".join(map(_combination, found if found else inside.T))


def _units(vectors: Vectors) -> Array:
    array = np.array(vectors, dtype=float)
    return np.asarray(array / np.linalg.norm(array, axis=1)[:, None])


def _integers(projector: Array) -> Vectors:
    """Orthogonal vectors of integers: first those that span the subspace, then the others.

    Empty if the subspace is not spanned by vectors of small integers.
    """
    size = len(projector)
    exact = [[Fraction(float(x)).limit_denominator(_LARGEST_DENOMINATOR) for x in row] for row in projector]
    if np.abs(np.array(exact, dtype=float) - projector).max() > _SAME_DIRECTION:
        return ()
    if any(
        sum(exact[i][k] * exact[k][j] for k in range(size)) != exact[i][j] for i in range(size) for j in range(size)
    ):
        return ()
    other = [[(i == j) - x for j, x in enumerate(row)] for i, row in enumerate(exact)]
    found: list[tuple[int, ...]] = []
    for row in (*exact, *other):
        left = _orthogonal(row, found)
        if any(left):
            scale = math.lcm(*(x.denominator for x in left))
            whole = [int(x * scale) for x in left]
            divisor = math.gcd(*whole) * (1 if next(x for x in whole if x) > 0 else -1)
            found.append(tuple(x // divisor for x in whole))
    return tuple(found)


def _orthogonal(row: Sequence[Fraction], found: Iterable[tuple[int, ...]]) -> list[Fraction]:
    """What is left of a vector beside others that are orthogonal to each other."""
    left = list(row)
    for known in found:
        share = sum(x * y for x, y in zip(left, known, strict=True)) / Fraction(sum(y * y for y in known))
        left = [x - share * y for x, y in zip(left, known, strict=True)]
    return left


def _combination(vector: Sequence[float]) -> str:
    """Write a vector as a sum of indices."""
    terms = [(float(x), f"{abs(x):.3g}*" if abs(x) != 1 else "", p) for p, x in enumerate(vector)]
    text = "".join(f" {'-' if x < 0 else '+'} {factor}h_{p + 1}" for x, factor, p in terms if x)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]
