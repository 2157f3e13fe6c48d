"""Priors of independent entries, each a mixture of Gaussians and points."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from ..core.shown import few_lines
from .coupled import coupled_groups, coupled_inverse
from .roots import decreasing_root
from .rows import Mixture, Summary

__all__ = ["Binary", "GaussBernoulli"]

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
# Entries of a row whose 2^P components a posterior sums over.
_MOST_COUPLED = 10


@few_lines
class _Separable:
    """Independent entries, each a mixture; diagonal overlaps separate, others are a quadrature of P <= 3 dimensions."""

    dimension: float
    isotropic = False

    def __init__(self, weights: list[float], means: list[float], variances: list[float]) -> None:
        self._law = (weights, means, variances)
        self._rows = {1: Mixture.of_entries(*self._law, 1)}
        self._inverses: dict[float, float] = {}
        self._slopes_at: dict[bytes, Array] = {}

    @property
    def fourth_moment(self) -> float:
        """E w^4 of an entry."""
        return sum(w * (m**4 + 6 * m * m * v + 3 * v * v) for w, m, v in zip(*self._law, strict=True))

    def _of(self, size: int) -> Mixture:
        """Law of some entries, whose averages are by a rule over all of them."""
        if size > 3:
            raise ValueError(
                f"{self.describe()} serves rows of up to 3 entries where qhat couples them (10), got P = {size}; "
                "take a diagonal overlap, or the Gaussian prior"
            )
        return self._mixture(size)

    def _mixture(self, size: int) -> Mixture:
        if size not in self._rows:
            self._rows[size] = Mixture.of_entries(*self._law, size)
        return self._rows[size]

    def _refusal(self, size: int) -> str:
        return f"{self.describe()} serves up to {_MOST_COUPLED} coupled entries of a row (13), got P = {size}"

    def _entry(self, qhat: float) -> Summary:
        """Averages of one entry."""
        return self._rows[1].summary(np.array([[qhat]]))

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""
        if _diagonal(qhat):
            return sum(self._entry(value).psi for value in qhat.diagonal())
        return self._of(len(qhat)).summary(qhat).psi

    def overlap(self, qhat: Array) -> Array:
        """F(qhat) = E <w><w>^T."""
        if qhat.ndim > 2:
            return np.array([self.overlap(one) for one in qhat])
        return _by_blocks(qhat, lambda block: self._of(len(block)).summary(block).overlap)

    def overlap_error(self, qhat: Array) -> Array:
        """What F(qhat) is off by: of rounding, or of rules over coupled entries by coarser ones."""
        return _by_blocks(qhat, self._overlap_error)

    def _overlap_error(self, qhat: Array) -> Array:
        rows = self._of(len(qhat))
        if len(qhat) == 1:
            return rows.rounding(qhat).overlap
        return np.asarray(np.abs(rows.summary(qhat, _COARSER).overlap - rows.summary(qhat).overlap) + _EPS)

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
        if size > _MOST_COUPLED and not _diagonal(precision):
            raise ValueError(self._refusal(size))
        mean, covariance = np.empty_like(field), np.zeros((size, size))
        for group in coupled_groups(precision):
            at = np.ix_(group, group)
            mean[group], covariance[at] = self._mixture(len(group)).posterior(precision[at], field[group])
        return mean, covariance

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent entries."""
        weights, means, variances = (np.array(one) for one in self._law)
        which = rng.choice(len(weights), size=shape, p=weights)
        return np.asarray(means[which] + np.sqrt(variances[which]) * rng.standard_normal(shape))

    def mmse(self, qhat: Array) -> Array:
        """I - F(qhat)."""
        return _by_blocks(qhat, lambda block: self._of(len(block)).summary(block).mmse)

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
        fine, coarse = (self._of(len(q)).summary(qhat, wider) for wider in (1.0, _COARSER))
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
        fine, coarse = (self._of(len(q)).summary(qhat, wider) for wider in (1.0, _COARSER))
        off = float(np.linalg.norm(coarse.overlap - fine.overlap))
        moved = float(np.linalg.norm(np.linalg.inv(coarse.mmse) - np.linalg.inv(fine.mmse)))
        return rounding + abs(coarse.psi - fine.psi) + 0.5 * off * moved

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


def _diagonal(matrix: Array) -> bool:
    return not np.abs(matrix - np.diag(matrix.diagonal())).any()


def _by_blocks(qhat: Array, value: Callable[[Array], Array]) -> Array:
    """Matrix whose blocks of coupled entries are values of theirs."""
    out = np.zeros_like(qhat, dtype=np.float64)
    for group in coupled_groups(qhat):
        at = np.ix_(group, group)
        out[at] = value(qhat[at])
    return out
