"""What the variational problem and the algorithms need to know of the law of a row of the weights.

A row w in R^P is seen through y = qhat^{1/2} w + z, z ~ N(0, I). The free entropy of this channel,

    psi(qhat) = E log int dP(w) exp(-w^T qhat w/2 + w^T qhat^{1/2} y),   d psi/d qhat = F(qhat)/2,

and its overlap F(qhat) = E <w><w>^T are all that (10) and (14) see of the prior.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["OverlapMap", "Prior"]

Array = NDArray[np.float64]


class OverlapMap(Protocol):
    """What state evolution asks of a prior.

    Attributes
    ----------
    isotropic : bool
        Whether every rotation of the entries leaves the law what it is.
    """

    @property
    def isotropic(self) -> bool:
        """Whether it is the same along all axes."""

    def overlap(self, qhat: Array) -> Array:
        """F(qhat) = E <w><w>^T, for qhat of shape (..., P, P)."""

    def overlap_error(self, qhat: Array) -> Array:
        """What F(qhat) is off by, shape (P, P)."""

    def slope(self, qhat: Array, moved: Array) -> Array:
        """Derivative of F at qhat along a change of it, both of shape (P, P)."""

    def inverse(self, q: Array) -> Array:
        """Return qhat with F(qhat) = q."""


class Prior(OverlapMap, Protocol):
    """Law of one row of W: mean zero, covariance I.

    Attributes
    ----------
    dimension : float
        d per entry: the potential behaves as (d/2) log(1 - q) towards q = 1.
    """

    @property
    def fourth_moment(self) -> float:
        """E w^4 of an entry."""

    @property
    def dimension(self) -> float:
        """How fast the potential falls towards recovery."""

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """Mean of w under exp(b.w - w^T A w/2), for each of n fields b of shape (P, n), and its mean covariance."""

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Weights, shape (P, D), or any other."""

    def mmse(self, qhat: Array) -> Array:
        """I - F(qhat), the mean posterior covariance."""

    def uncertainty(self, q: Array) -> Array:
        """What the inverse is off by, shape (P, P): of rounding, and of the search for it."""

    def potential(self, q: Array) -> float:
        """Infimum over qhat of psi(qhat) - Tr(q qhat)/2: zero at q = 0."""

    def rounding(self, q: Array) -> float:
        """Error of the potential: of rounding, and of rules over rows of coupled entries."""

    def describe(self) -> str:
        """One line."""
