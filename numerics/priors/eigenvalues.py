"""Laws of finitely many eigenvalues: some values with their shares, and those of coordinates one by one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.shown import in_html
from .laws import Rule, Ruled, scaled

__all__ = ["Eigenvalues", "Points"]

Array = NDArray[np.float64]

# Eigenvalues of a covariance below this share of the largest are rounding.
_ROUNDING = 1e-12


@in_html
@dataclass(frozen=True)
class Points(Ruled):
    """Eigenvalues of a few values, each with its share of the coordinates; values are scaled to mean 1.

    Parameters
    ----------
    values, shares : tuple of Fraction
        Shares are scaled to sum 1.
    """

    values: tuple[Fraction, ...]
    shares: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        """Check and scale both."""
        if min(self.values) < 0 or min(self.shares) <= 0:
            raise ValueError("eigenvalues of points: must be >= 0 and their shares > 0, as in points:0.5,1.5@2")
        total = sum(self.shares)
        shares = tuple(Fraction(one) / total for one in self.shares)
        mean = sum((v * s for v, s in zip(self.values, shares, strict=True)), Fraction(0))
        if not mean:
            raise ValueError("the spectrum has mean 0: some eigenvalue must be > 0")
        object.__setattr__(self, "values", tuple(v / mean for v in self.values))
        object.__setattr__(self, "shares", shares)

    def _pairs(self) -> Iterator[tuple[Fraction, Fraction]]:
        return zip(self.values, self.shares, strict=True)

    @cached_property
    def _rules(self) -> tuple[Rule, Rule]:
        """The sum."""
        found = [(float(v), float(v * s)) for v, s in self._pairs() if v]
        rule = Rule(np.array([v for v, _ in found]), np.array([w for _, w in found]))
        return rule, rule

    @property
    def square(self) -> Fraction:
        """Sum of the squares."""
        return sum((v * v * s for v, s in self._pairs()), Fraction(0))

    @property
    def share(self) -> float:
        """Of those above zero."""
        return float(sum((s for v, s in self._pairs() if v), Fraction(0)))

    def of(self, dimension: int) -> Array:
        """Each value for its share of the coordinates, rounded, the largest first, over their mean."""
        order = sorted(self._pairs(), reverse=True)
        ends = np.round(dimension * np.cumsum([float(s) for _, s in order])).astype(int)
        return scaled(np.repeat([float(v) for v, _ in order], np.diff(ends, prepend=0)))

    def describe(self) -> str:
        """One line."""
        parts = ", ".join(f"{float(v):.10g} ({float(s):.10g})" for v, s in self._pairs())
        return f"spectrum of {len(self.values)} eigenvalues: {parts}"


@in_html
@dataclass(frozen=True, eq=False)
class Eigenvalues(Ruled):
    """Eigenvalues of D coordinates in their order, scaled to mean 1.

    Parameters
    ----------
    given : ndarray, shape (D,)
    name : str, optional
        What they are of.
    basis : ndarray of shape (D, D), optional
        Orthonormal columns: the directions that have them. By default those of the coordinates.
    directed : bool, optional
        Whether their directions are known; data of one's own need them.
    """

    given: Array = field(repr=False)
    name: str = "given spectrum"
    basis: Array | None = field(default=None, repr=False)
    directed: bool = True

    @classmethod
    def checked(cls, values: ArrayLike, name: str = "given spectrum") -> "Eigenvalues":
        """Eigenvalues >= 0, not all zero, shape (D,).

        Raises
        ------
        ValueError
            They are not; the message says which condition fails.
        """
        given = np.asarray(values)
        if given.dtype.kind not in "iuf" or given.ndim != 1 or not given.size:
            raise ValueError(
                f"the {name} must be eigenvalues, real numbers of shape (D,), got shape {given.shape} of {given.dtype}"
            )
        given = given.astype(np.float64)
        if not np.isfinite(given).all():
            raise ValueError(f"the {name} must be finite, got NaN or infinity among its eigenvalues")
        if given.min() < 0:
            raise ValueError(f"the {name} must have eigenvalues >= 0, got {given.min():g}; those of rounding set to 0")
        if not given.any():
            raise ValueError(f"the {name} has mean 0: some eigenvalue must be > 0")
        return cls(scaled(given), name)

    @classmethod
    def of_covariance(cls, covariance: Array, name: str) -> "Eigenvalues":
        """Of a covariance matrix of shape (D, D), the largest first, with its directions."""
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[::-1], vectors[:, ::-1]
        if not values[0] > 0:
            raise ValueError(f"the {name} has mean 0: its entries do not vary")
        values = np.where(values > _ROUNDING * values[0], values, 0.0)
        return cls(scaled(values), name, np.ascontiguousarray(vectors))

    @cached_property
    def _rules(self) -> tuple[Rule, Rule]:
        """The sum, equal eigenvalues once."""
        values, counts = np.unique(self.given[self.given > 0], return_counts=True)
        rule = Rule(values, values * counts / len(self.given))
        return rule, rule

    @property
    def square(self) -> float:
        """Mean of the squares."""
        return float((self.given**2).mean())

    @property
    def share(self) -> float:
        """Of those above zero."""
        return float((self.given > 0).mean())

    def of(self, dimension: int) -> Array:
        """Themselves.

        Raises
        ------
        ValueError
            They are of another dimension.
        """
        if dimension != len(self.given):
            raise ValueError(
                f"the {self.name} has {len(self.given)} eigenvalues, one for each coordinate, and the data have D = "
                f"{dimension}: give as many, or a law (mp:gamma, power:a, points:v,..)"
            )
        return self.given

    def describe(self) -> str:
        """One line."""
        own = blake2b(self.given.tobytes(), digest_size=4).hexdigest()
        return f"{self.name} of {len(self.given)} eigenvalues ({own})"
