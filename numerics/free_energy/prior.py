"""Priors of a row of the weights: what (10) and (14) need to know of W.

A row w in R^P is seen through y = qhat^{1/2} w + z, z ~ N(0, I). The free entropy of this channel,

    psi(qhat) = E log int dP(w) exp(-w^T qhat w/2 + w^T qhat^{1/2} y),   d psi/d qhat = F(qhat)/2,

and its overlap F(qhat) = E <w><w>^T are all that the variational problem sees of the prior.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, root

from ..core.errors import ConvergenceError
from .rows import Mixture

__all__ = ["Binary", "GaussBernoulli", "Gaussian", "Prior", "prior_named"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)
# Largest log qhat that an overlap is looked for at: beyond, 1 - q is lost in rounding.
_TOP = 40.0
# Least log qhat: below, 1 - q is one to rounding, and no smaller qhat has another q.
_BOTTOM = -700.0


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

    def mmse(self, qhat: Array) -> Array:
        """I - F(qhat), the mean posterior covariance."""

    def inverse(self, q: Array) -> Array:
        """Return qhat with F(qhat) = q."""

    def response(self, q: Array) -> Array:
        """Derivatives of the diagonal of qhat by that of q, shape (P, P), for diagonal q."""

    def potential(self, q: Array) -> float:
        """Infimum over qhat of psi(qhat) - Tr(q qhat)/2: zero at q = 0."""

    def rounding(self, q: Array) -> float:
        """What rounding leaves of the potential."""

    def describe(self) -> str:
        """One line."""


@dataclass(frozen=True)
class Gaussian:
    """Rows N(0, I): psi = (Tr qhat - log det(I + qhat))/2, F = qhat (I + qhat)^{-1}; any P x P qhat.

    References
    ----------
    troiani2025, (10), (14), (96).
    """

    dimension: float = 1.0

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""
        values = np.linalg.eigvalsh(qhat)
        return 0.5 * float((values - np.log1p(values)).sum())

    def mmse(self, qhat: Array) -> Array:
        """(I + qhat)^{-1}."""
        return np.asarray(np.linalg.inv(np.eye(len(qhat)) + qhat), dtype=np.float64)

    def inverse(self, q: Array) -> Array:
        """Q (I - q)^{-1}."""
        found = np.asarray(np.linalg.solve(np.eye(len(q)) - q, q), dtype=np.float64)
        return 0.5 * (found + found.T)

    def response(self, q: Array) -> Array:
        """Return (1 - q_k)^{-2} on the diagonal."""
        out: Array = np.diag((1 - q.diagonal()) ** -2.0)
        return out

    def potential(self, q: Array) -> float:
        """(Tr q + log det(I - q))/2."""
        values = np.linalg.eigvalsh(q)
        return 0.5 * float((values + np.log1p(-values)).sum())

    def rounding(self, q: Array) -> float:
        """Of two terms that cancel at small overlaps."""
        values = np.linalg.eigvalsh(q)
        return 2 * _EPS * float((np.abs(values) - np.log1p(-values)).sum())

    def describe(self) -> str:
        """One line."""
        return "Gaussian prior"


class _Separable:
    """Entries that are independent under the prior, and whose law is a mixture: P <= 3.

    Diagonal overlaps separate into entries; others are a P-dimensional quadrature.
    """

    dimension: float

    def __init__(self, weights: list[float], means: list[float], variances: list[float]) -> None:
        self._law = (weights, means, variances)
        self._rows = {1: Mixture.of_entries(*self._law, 1)}

    def _of(self, size: int) -> Mixture:
        if size not in self._rows:
            if size > 3:
                raise ValueError(
                    f"{self.describe()} serves rows of up to 3 entries where qhat couples them (10), got P = {size}; "
                    "take a diagonal overlap, or the Gaussian prior"
                )
            self._rows[size] = Mixture.of_entries(*self._law, size)
        return self._rows[size]

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""
        if _diagonal(qhat):
            return sum(self._rows[1].summary(np.array([[value]])).psi for value in qhat.diagonal())
        return self._of(len(qhat)).summary(qhat).psi

    def mmse(self, qhat: Array) -> Array:
        """I - F(qhat)."""
        if _diagonal(qhat):
            return np.diag([self._rows[1].summary(np.array([[value]])).mmse[0, 0] for value in qhat.diagonal()])
        return self._of(len(qhat)).summary(qhat).mmse

    def inverse(self, q: Array) -> Array:
        """Return qhat with F(qhat) = q."""
        if _diagonal(q):
            return np.diag([self._entry(value) for value in q.diagonal()])
        return _coupled(self, q)

    def _entry(self, q: float) -> float:
        """Of one entry."""
        if q <= 0:
            return 0.0
        # Both F and 1 - F keep their digits.
        target = math.log(1 - q)

        def rest(log_qhat: float) -> float:
            return math.log(max(self._rows[1].summary(np.array([[math.exp(log_qhat)]])).mmse[0, 0], 1e-300)) - target

        # F rises, and from few entries that are not zero faster than qhat.
        low = math.log(q) - 1.0
        while rest(low) < 0:
            low -= 2.0
            if low < _BOTTOM:
                raise ConvergenceError(f"q = {q:.1e} is below the rounding of the averages of a {self.describe()}")
        return math.exp(brentq(rest, low, _TOP, xtol=1e-13, rtol=1e-14))

    def response(self, q: Array) -> Array:
        """Return 1/E Var(w | y)^2 of each entry on the diagonal."""
        rows = [self._rows[1].summary(np.array([[self._entry(value)]])).square for value in q.diagonal()]
        return np.diag([1 / one for one in rows])

    def potential(self, q: Array) -> float:
        """Psi - Tr(q qhat)/2 at the qhat of q."""
        qhat = self.inverse(q)
        return self.psi(qhat) - 0.5 * float(np.trace(q @ qhat))

    def rounding(self, q: Array) -> float:
        """Of two terms that grow with qhat, and cancel."""
        return 4 * _EPS * float(np.abs(np.trace(q @ self.inverse(q))))

    def describe(self) -> str:
        """One line."""
        raise NotImplementedError


class Binary(_Separable):
    """Entries +1 or -1 with equal probability."""

    dimension = 0.0

    def __init__(self) -> None:
        super().__init__([0.5, 0.5], [1.0, -1.0], [0.0, 0.0])

    def describe(self) -> str:
        """One line."""
        return "binary prior"


class GaussBernoulli(_Separable):
    """Entries N(0, 1/density) with probability `density`, else zero.

    Parameters
    ----------
    density : float
        In (0, 1).
    """

    def __init__(self, density: float) -> None:
        if isinstance(density, bool) or not isinstance(density, int | float) or not 0 < density < 1:
            raise ValueError(
                f"density must be a number in (0, 1), the probability of an entry that is not zero; got {density!r}"
            )
        self.density = self.dimension = float(density)
        super().__init__([1 - self.density, self.density], [0.0, 0.0], [0.0, 1 / self.density])

    def describe(self) -> str:
        """One line."""
        return f"Gauss-Bernoulli prior of density {self.density:g}"


def prior_named(name: str, density: float | None = None) -> Prior:
    """Prior of a name: "gaussian", "binary" or "sparse", of which the density is needed."""
    if name == "sparse" and density is not None:
        return GaussBernoulli(density)
    return Binary() if name == "binary" else Gaussian()


def _diagonal(matrix: Array) -> bool:
    return not np.abs(matrix - np.diag(matrix.diagonal())).any()


# Disagreement of F(qhat) with q that is small enough: what the rules over three entries resolve.
_CLOSE = 1e-6


def _coupled(prior: Prior, q: Array) -> Array:
    """Solve F(qhat) = q for a matrix that is not diagonal, from the qhat of the Gaussian prior."""
    size = len(q)
    rows, columns = np.triu_indices(size)
    target = np.linalg.inv(np.eye(size) - q)

    def matrix(entries: Array) -> Array:
        out = np.zeros((size, size))
        out[rows, columns] = out[columns, rows] = entries
        return out

    def rest(entries: Array) -> Array:
        # mmse^{-1} - I is qhat for the Gaussian prior, and grows with it for others.
        return (np.linalg.inv(prior.mmse(matrix(entries))) - target)[rows, columns]

    found = matrix(root(rest, Gaussian().inverse(q)[rows, columns], tol=1e-12).x)
    off = float(np.abs(prior.mmse(found) - (np.eye(size) - q)).max())
    if not off <= _CLOSE:
        raise ConvergenceError(
            f"no qhat with F(qhat) = q for the {prior.describe()} was found (14): off by {off:.1e}; "
            "take a diagonal overlap"
        )
    return found
