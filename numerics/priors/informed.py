"""A prior beside side information on the weights: some of them known, and others seen through noise."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..core.shown import few_lines
from ..core.validation import not_negative, numbers
from .coupled import coupled_groups, coupled_inverse
from .gaussian import GAUSSIAN
from .protocol import Prior
from .slopes import responses

__all__ = ["Informed"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)
# Of a qhat where there is none >= 0, because the side information alone has a larger overlap.
_NONE = 1e-300
# Indices whose 2^P patterns of known entries are summed over.
_MOST = 10


@few_lines
class Informed:
    """A prior whose weights are partly known: F(qhat) = rho + (1 - rho) F_0(qhat + lambda) for one index.

    Each weight of row k is known with probability rho_k, independently of the others; the rest is seen through
    S = sqrt(lambda) W + Z with Z standard normal, which is noise of variance 1/lambda. Entries that are known drop out
    of the field of the others, so that F is the mean over patterns of known entries of a coordinate of the F_0 of
    those that are not, at their block of qhat + lambda I.

    Parameters
    ----------
    prior : Prior, optional
        Of the weights; Gaussian by default.
    known : float or sequence of float, optional
        rho, in [0, 1), one for all rows or one for each.
    strength : float, optional
        lambda >= 0.

    Raises
    ------
    ValueError
        A number out of range.

    References
    ----------
    troiani2025, (113)-(117): S with the Gaussian prior.

    Examples
    --------
    >>> prior = Informed(known=0.25, strength=1.0)
    >>> float(prior.overlap(np.eye(1))[0, 0]) == 0.25 + 0.75 * 2 / 3
    True
    """

    isotropic = False

    def __init__(self, prior: Prior = GAUSSIAN, known: float | Sequence[float] = 0.0, strength: float = 0.0) -> None:
        shares = np.atleast_1d(numbers("known", known))
        if shares.ndim != 1 or not ((shares >= 0) & (shares < 1)).all():
            raise ValueError(
                f"known must be a share in [0, 1) of each row's weights, one number or one for each row, got {known!r}"
            )
        self.prior, self.known = prior, shares
        self.strength = not_negative("strength", strength, "(113)")

    @property
    def dimension(self) -> float:
        """Of the entries that are not known."""
        return (1 - float(self.known.mean())) * self.prior.dimension

    @property
    def fourth_moment(self) -> float:
        """E w^4 of an entry."""
        return self.prior.fourth_moment

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel, less that of the side information."""
        found = 0.5 * float(self._shares(len(qhat)) @ qhat.diagonal())
        for share, at in self._patterns(qhat):
            side = self.strength * np.eye(len(at))
            found += share * (self.prior.psi(qhat[np.ix_(at, at)] + side) - self.prior.psi(side))
        return found

    def overlap(self, qhat: Array) -> Array:
        """F(qhat) = E <w><w>^T."""
        if qhat.ndim > 2:
            return np.array([self.overlap(one) for one in qhat])
        return self._mean(qhat, self.prior.overlap) + np.diag(self._shares(len(qhat)))

    def overlap_error(self, qhat: Array) -> Array:
        """What it is off by."""
        return self._mean(qhat, self.prior.overlap_error) + _EPS * np.diag(self._shares(len(qhat)))

    def slope(self, qhat: Array, moved: Array) -> Array:
        """Derivative of F at qhat along a change of it."""
        out = np.zeros_like(moved)
        for share, at in self._patterns(qhat + np.abs(moved)):
            block = np.ix_(at, at)
            out[block] += share * self.prior.slope(qhat[block] + self.strength * np.eye(len(at)), moved[block])
        return out

    def mmse(self, qhat: Array) -> Array:
        """I - F(qhat)."""
        return self._mean(qhat, self.prior.mmse)

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """None without the side information itself.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            "message passing takes what is known of the weights as it is: give known= or side_information= beside the "
            f"{self.prior.describe()} (113)"
        )

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Weights."""
        return self.prior.draw(shape, rng)

    def inverse(self, q: Array) -> Array:
        """Return qhat with F(qhat) = q; next to nothing where the side information alone has a larger overlap."""
        if _diagonal(q):
            return np.diag(
                [self._inverse(x, share) for x, share in zip(q.diagonal(), self._shares(len(q)), strict=True)]
            )
        if not self.known.any():
            return np.asarray(self.prior.inverse(q) - self.strength * np.eye(len(q)))
        return coupled_inverse(self, q)

    def uncertainty(self, q: Array) -> Array:
        """What the inverse is off by."""
        if not _diagonal(q):
            off = np.linalg.norm(self.overlap(self.inverse(q)) - q) + np.linalg.norm(
                self.overlap_error(self.inverse(q))
            )
            return np.full_like(q, off * float(np.linalg.norm(np.linalg.inv(self.mmse(self.inverse(q))), 2)) ** 2)
        rest = [_one(self._rest(x, share)) for x, share in zip(q.diagonal(), self._shares(len(q)), strict=True)]
        found = np.array([self.prior.uncertainty(one)[0, 0] + 2 * _EPS * (1 + self.strength) for one in rest])
        slopes = np.array([responses(self.prior, one)[0] for one in rest])
        return np.diag(found + 2 * _EPS * slopes / (1 - self._shares(len(q))))

    def potential(self, q: Array) -> float:
        """Infimum over qhat >= 0 of psi(qhat) - Tr(q qhat)/2: zero where the side information has a larger overlap."""
        if not _diagonal(q):
            qhat = self.inverse(q)
            return self.psi(qhat) - 0.5 * float(np.trace(q @ qhat))
        start = self.prior.psi(_one(self.strength))
        found = 0.0
        for x, share in zip(q.diagonal(), self._shares(len(q)), strict=True):
            if (rest := self._rest(x, share)) > self._start:
                found += (1 - share) * (self.prior.potential(_one(rest)) + 0.5 * rest * self.strength - start)
        return found

    def rounding(self, q: Array) -> float:
        """Error of the potential."""
        size = 4 * _EPS * (1 + self.strength)
        if not _diagonal(q):
            qhat = self.inverse(q)
            shift = float(np.abs(self.overlap(qhat) - q).sum() * np.abs(qhat).sum())
            return size + 4 * _EPS * float(np.abs(qhat).sum()) + shift
        rest = [self._rest(x, share) for x, share in zip(q.diagonal(), self._shares(len(q)), strict=True)]
        return sum(self.prior.rounding(_one(x)) + size for x in rest)

    def describe(self) -> str:
        """One line."""
        what = []
        if self.known.any():
            what.append(f"{', '.join(f'{share:g}' for share in self.known)} of the weights known")
        if self.strength:
            what.append(f"side information of strength {self.strength:g}")
        return self.prior.describe() + (f" with {' and '.join(what)}" if what else "")

    @property
    def _start(self) -> float:
        """Overlap of an entry that is not known, of S alone."""
        return float(self.prior.overlap(_one(self.strength))[0, 0]) if self.strength else 0.0

    def _shares(self, size: int) -> Array:
        if len(self.known) not in (1, size):
            raise ValueError(f"known must have one share for each of the P = {size} rows, got {len(self.known)}")
        return np.broadcast_to(self.known, size)

    def _rest(self, q: float, share: float) -> float:
        """Overlap of the entries that are not known, where that of all is q: at least that of S alone."""
        return max((float(q) - share) / (1 - share), self._start)

    def _inverse(self, q: float, share: float) -> float:
        rest = self._rest(q, share)
        return max(float(self.prior.inverse(_one(rest))[0, 0]) - self.strength, _NONE) if rest > self._start else _NONE

    def _patterns(self, matrix: Array) -> Iterator[tuple[float, list[int]]]:
        """Shares of coordinates, and the entries that are not known in them, for each group of coupled ones."""
        shares = self._shares(len(matrix))
        for group in coupled_groups(matrix):
            if len(group) > _MOST:
                raise ValueError(f"known weights are served for up to {_MOST} coupled rows (10), got {len(group)}")
            for pattern in product((False, True), repeat=len(group)):
                share = float(
                    np.prod([shares[k] if one else 1 - shares[k] for k, one in zip(group, pattern, strict=True)])
                )
                at = [k for k, one in zip(group, pattern, strict=True) if not one]
                if share and at:
                    yield share, at

    def _mean(self, qhat: Array, values: Callable[[Array], Array]) -> Array:
        """Mean over patterns of a function of the block of qhat that is not known."""
        out = np.zeros_like(qhat)
        for share, at in self._patterns(qhat):
            block = np.ix_(at, at)
            out[block] += share * values(qhat[block] + self.strength * np.eye(len(at)))
        return out


def _one(value: float) -> Array:
    return np.array([[value]])


def _diagonal(matrix: Array) -> bool:
    return not np.abs(matrix - np.diag(matrix.diagonal())).any()
