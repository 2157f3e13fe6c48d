"""What the variational problem and the algorithms need to know of the law of a row of the weights.

A row w in R^P is seen through y = qhat^{1/2} w + z, z ~ N(0, I). The free entropy of this channel,

    psi(qhat) = E log int dP(w) exp(-w^T qhat w/2 + w^T qhat^{1/2} y),   d psi/d qhat = F(qhat)/2,

and its overlap F(qhat) = E <w><w>^T are all that (10) and (14) see of the prior.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Prior"]

Array = NDArray[np.float64]


class Prior(Protocol):
    """Law of one row of W: mean zero, covariance I.

    Attributes
    ----------
    dimension : float
        d per entry: the potential behaves as (d/2) log(1 - q) towards q = 1.
    """

    @property
    def dimension(self) -> float:
        """How fast the potential falls towards recovery."""

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""

    def overlap(self, qhat: Array) -> Array:
        """F(qhat) = E <w><w>^T."""

    def mmse(self, qhat: Array) -> Array:
        """I - F(qhat), the mean posterior covariance."""

    def inverse(self, q: Array) -> Array:
        """Return qhat with F(qhat) = q."""

    def uncertainty(self, q: Array) -> Array:
        """What the inverse is off by, shape (P, P): of rounding, and of the search for it."""

    def response(self, q: Array) -> Array:
        """Derivatives of the diagonal of qhat by that of q, shape (P, P), for diagonal q."""

    def potential(self, q: Array) -> float:
        """Infimum over qhat of psi(qhat) - Tr(q qhat)/2: zero at q = 0."""

    def rounding(self, q: Array) -> float:
        """Error of the potential: of rounding, and of rules over rows of coupled entries."""

    def describe(self) -> str:
        """One line."""
