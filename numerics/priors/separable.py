"""Priors of independent entries: of any law of one entry whose rows give averages and posteriors."""

import math
from collections.abc import Callable
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from ..core.shown import few_lines
from .coupled import coupled_groups, coupled_inverse
from .roots import decreasing_root
from .rows import Rounding, Summary

__all__ = ["EntryLaw", "RowLaw", "Separable"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)
# Inverses that are kept.
_KEPT = 256
# Largest log qhat that an overlap is looked for at: beyond, 1 - q is lost in rounding.
_TOP = 40.0
# Least overlap of an entry: below, what is made of it leaves the range of float64.
_LEAST = 1e-300
# Above this, log(1 - q) fixes qhat better than log q.
_HALF = 0.5
# Steps of rules that are compared with the usual ones.
_COARSER = 1.25


class RowLaw(Protocol):
    """Law of some independent entries, which qhat or A couples."""

    def summary(self, qhat: Array, wider: float = 1.0) -> Summary:
        """Averages over y at qhat, by rules whose steps are wider by a factor."""

    def rounding(self, qhat: Array) -> Rounding:
        """What those of one entry are off by."""

    def slopes(self, qhat: Array) -> Array:
        """E[C_ia C_bj], C = Cov(w | y), shape (P, P, P, P)."""

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """Means, shape (P, n), and mean covariance under exp(b.w - w^T A w/2)."""


class EntryLaw(Protocol):
    """Law of an entry of mean 0 and variance 1.

    Attributes
    ----------
    averaged, coupled : int
        Entries that averages over y, and posteriors, couple at most.
    """

    averaged: ClassVar[int]
    coupled: ClassVar[int]

    @property
    def fourth_moment(self) -> float:
        """E w^4."""

    def rows(self, size: int) -> RowLaw:
        """Law of so many entries."""

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent entries."""


@few_lines
class Separable:
    """Independent entries; diagonal overlaps separate, others are a quadrature over the entries that they couple."""

    dimension: float
    isotropic = False

    def __init__(self, law: EntryLaw) -> None:
        self._law = law
        self._rows = {1: law.rows(1)}
        self._inverses: dict[float, float] = {}
        self._slopes_at: dict[bytes, Array] = {}
        self._summaries: dict[tuple[bytes, float], Summary] = {}

    @property
    def fourth_moment(self) -> float:
        """E w^4 of an entry."""
        return self._law.fourth_moment

    def _of(self, size: int) -> RowLaw:
        """Law of some entries, whose averages are by a rule over all of them."""
        if size > self._law.averaged:
            raise ValueError(
                f"{self.describe()} serves rows of up to {self._law.averaged} entries where qhat couples them (10), "
                f"got P = {size}; take a diagonal overlap, or the Gaussian prior"
            )
        return self._coupled(size)

    def _coupled(self, size: int) -> RowLaw:
        if size not in self._rows:
            self._rows[size] = self._law.rows(size)
        return self._rows[size]

    def _refusal(self, size: int) -> str:
        return f"{self.describe()} serves up to {self._law.coupled} coupled entries of a row (13), got P = {size}"

    def _summary(self, qhat: Array, wider: float = 1.0) -> Summary:
        """Averages at qhat, the latest ones kept: F, 1 - F and the potential are asked for in turn."""
        key = qhat.tobytes(), wider
        if key not in self._summaries:
            if len(self._summaries) >= _KEPT:
                self._summaries.clear()
            self._summaries[key] = self._of(len(qhat)).summary(qhat, wider)
        return self._summaries[key]

    def _entry(self, qhat: float) -> Summary:
        """Averages of one entry."""
        return self._summary(np.array([[qhat]]))

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""
        if _diagonal(qhat):
            return sum(self._entry(value).psi for value in qhat.diagonal())
        return self._summary(qhat).psi

    def overlap(self, qhat: Array) -> Array:
        """F(qhat) = E <w><w>^T."""
        if qhat.ndim > 2:
            return np.array([self.overlap(one) for one in qhat])
        return _by_blocks(qhat, lambda block: self._summary(block).overlap)

    def overlap_error(self, qhat: Array) -> Array:
        """What F(qhat) is off by: of rounding, or of rules over coupled entries by coarser ones."""
        return _by_blocks(qhat, self._overlap_error)

    def _overlap_error(self, qhat: Array) -> Array:
        if len(qhat) == 1:
            return self._of(1).rounding(qhat).overlap
        return np.asarray(np.abs(self._summary(qhat, _COARSER).overlap - self._summary(qhat).overlap) + _EPS)

    def slope(self, qhat: Array, moved: Array) -> Array:
        """Derivative E[C dqhat C] of F along dqhat, C = Cov(w | y); groups of entries are independent."""
        groups = coupled_groups(qhat)
        out = np.zeros_like(moved)
        if len(groups) > 1:
            mmse = self.mmse(qhat)
            out = mmse @ moved @ mmse
        for group in groups:
            at = np.ix_(group, group)
            out[at] = np.tensordot(self._slopes(qhat[at]), moved[at])
        return out

    def _slopes(self, qhat: Array) -> Array:
        """Derivatives of F within a block, the latest ones kept: those along all entries are asked for in turn."""
        key = qhat.tobytes()
        if key not in self._slopes_at:
            if len(self._slopes_at) >= _KEPT:
                self._slopes_at.clear()
            tensor = self._of(len(qhat)).slopes(qhat)
            self._slopes_at[key] = np.einsum("iabj->ijab", tensor)
        return self._slopes_at[key]

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """Mean, shape (P, n), and mean covariance of w under exp(b.w - w^T A w/2), for each of n fields b."""
        size = len(precision)
        if max(map(len, coupled_groups(precision))) > self._law.coupled:
            raise ValueError(self._refusal(size))
        mean, covariance = np.empty_like(field), np.zeros((size, size))
        for group in coupled_groups(precision):
            at = np.ix_(group, group)
            mean[group], covariance[at] = self._coupled(len(group)).posterior(precision[at], field[group])
        return mean, covariance

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent entries."""
        return self._law.draw(shape, rng)

    def mmse(self, qhat: Array) -> Array:
        """I - F(qhat)."""
        return _by_blocks(qhat, lambda block: self._summary(block).mmse)

    def inverse(self, q: Array) -> Array:
        """Return qhat with F(qhat) = q."""
        if _diagonal(q):
            return np.diag([self._inverse(float(value)) for value in q.diagonal()])
        return coupled_inverse(self, q)

    def _inverse(self, q: float) -> float:
        """Return qhat of one entry; potential, slope and error at the same overlap ask for the same one."""
        if q not in self._inverses:
            if len(self._inverses) >= _KEPT:
                self._inverses.clear()
            self._inverses[q] = self._solved(q)
        return self._inverses[q]

    def _solved(self, q: float) -> float:
        if q <= 0:
            return 0.0
        if q < _LEAST:
            raise ConvergenceError(
                f"q = {q:.1e} of a {self.describe()} is below {_LEAST:g}, where float64 numbers lose digits (14); "
                "take a larger overlap, or 0"
            )

        def rest(log_qhat: float) -> tuple[float, float]:
            """Logarithm of what falls with qhat over what it is to be, and its slope: F grows by E Var(w | y)^2."""
            qhat = math.exp(log_qhat)
            found = self._entry(qhat)
            overlap, mmse = (max(float(one[0, 0]), 1e-307) for one in (found.overlap, found.mmse))
            if q < _HALF:
                return math.log(q) - math.log(overlap), -found.square * qhat / overlap
            return math.log(mmse) - math.log1p(-q), -found.square * qhat / mmse

        # F rises, and from few entries that are not zero faster than qhat.
        low = math.log(q) - 1.0
        while rest(low)[0] < 0:
            low -= 2.0
        return math.exp(decreasing_root(rest, low, _TOP))

    def uncertainty(self, q: Array) -> Array:
        """Of one entry: what F(qhat) is off q by and its rounding, over the slope E Var(w | y)^2 of F."""
        if _diagonal(q):
            return np.diag([self._uncertainty(float(value)) for value in q.diagonal()])
        qhat = self.inverse(q)
        fine, coarse = (self._summary(qhat, wider) for wider in (1.0, _COARSER))
        off, moved = np.linalg.norm(fine.overlap - q), np.linalg.inv(coarse.mmse) - np.linalg.inv(fine.mmse)
        return np.abs(moved) + np.linalg.norm(np.linalg.inv(fine.mmse), 2) ** 2 * off

    def _uncertainty(self, q: float) -> float:
        if q == 0:
            return 0.0
        qhat = self._inverse(q)
        found, rounding = self._entry(qhat), self._rows[1].rounding(np.array([[qhat]]))
        off = np.abs(found.overlap - q) + rounding.overlap
        if q >= _HALF:
            off = np.abs(found.mmse - (1 - q)) + rounding.mmse
        return float(off[0, 0] / found.square) if found.square else math.inf

    def potential(self, q: Array) -> float:
        """Psi - Tr(q qhat)/2 at the qhat of q."""
        if _diagonal(q):
            return sum(self._potential(float(value))[0] for value in q.diagonal())
        qhat = self.inverse(q)
        return self.psi(qhat) - 0.5 * float(np.trace(q @ qhat))

    def _potential(self, q: float) -> tuple[float, float]:
        """Of one entry, with its rounding: psi - q qhat/2, or (1 - q) qhat/2 less the information."""
        if q == 0:
            return 0.0, 0.0
        qhat = self._inverse(q)
        found, rounding = self._entry(qhat), self._rows[1].rounding(np.array([[qhat]]))
        value, term, wrong = found.psi, -0.5 * q * qhat, rounding.psi
        if q >= _HALF:
            value, term, wrong = -found.information, 0.5 * (1 - q) * qhat, rounding.information
        return value + term, wrong + _EPS * (abs(term) + 0.5 * abs(value + term))

    def rounding(self, q: Array) -> float:
        """Of two terms that cancel, and of rules over coupled entries, which are compared with coarser ones.

        A qhat that is off by delta moves the potential by (F(qhat) - q) delta/2: delta is that of (I - F)^{-1}.
        """
        if _diagonal(q):
            return sum(self._potential(float(value))[1] for value in q.diagonal())
        rounding = 4 * _EPS * float(np.abs(np.trace(q @ (qhat := self.inverse(q)))))
        fine, coarse = (self._summary(qhat, wider) for wider in (1.0, _COARSER))
        off = float(np.linalg.norm(coarse.overlap - fine.overlap))
        moved = float(np.linalg.norm(np.linalg.inv(coarse.mmse) - np.linalg.inv(fine.mmse)))
        return rounding + abs(coarse.psi - fine.psi) + 0.5 * off * moved

    def describe(self) -> str:
        """One line."""
        raise NotImplementedError


def _diagonal(matrix: Array) -> bool:
    return not np.abs(matrix - np.diag(matrix.diagonal())).any()


def _by_blocks(qhat: Array, value: Callable[[Array], Array]) -> Array:
    """Matrix whose blocks of coupled entries are values of theirs."""
    out = np.zeros_like(qhat, dtype=np.float64)
    for group in coupled_groups(qhat):
        at = np.ix_(group, group)
        out[at] = value(qhat[at])
    return out
