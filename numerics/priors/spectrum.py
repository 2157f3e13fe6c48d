"""Inputs whose coordinates have a covariance Sigma: the law of the weights as the indices see them.

With x = Sigma^{1/2} x~ the indices h = W x/sqrt(D) = U x~/sqrt(D) are of weights U = W Sigma^{1/2} on whitened inputs:
in the eigenbasis of Sigma column i of U is N(0, lambda_i I). That is a prior of independent columns which know their
variance, and D columns average over the law of lambda:

    psi(qhat) = (Tr qhat - E log det(I + lambda qhat))/2,       F(qhat) = E lambda^2 qhat (I + lambda qhat)^{-1}.

Every rotation of the rows leaves it what it is, so that all of this is of the eigenvalues s of qhat. The mean of the
eigenvalues is 1, so that F(inf) = I; F'(0) = E lambda^2 divides every threshold from zero overlap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from ..core.shown import in_html
from .laws import Rule, SpectralLaw
from .precision import positive
from .roots import decreasing_root

__all__ = ["Spectrum"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)
# Overlaps from here on are looked for by 1 - q; overlaps below this are out of the range of float64.
_HALF, _LEAST = 0.5, 1e-300
# Largest log qhat that an overlap is looked for at, and inverses that are kept.
_TOP, _KEPT = 200.0, 512


@in_html
@dataclass(frozen=True, eq=False)
class Spectrum:
    """Standard normal weights on inputs whose covariance has eigenvalues of a law of mean 1.

    Parameters
    ----------
    law : SpectralLaw

    References
    ----------
    docs/theory/spectrum.md.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from attnlimits.numerics.priors.laws import MarchenkoPastur
    >>> prior = Spectrum(MarchenkoPastur(Fraction(1)))
    >>> print(f"{prior.overlap(np.array([[2.0]]))[0, 0]:.6f}")  # 1 - (sqrt(1 + 4 qhat) - 1)^2/(2 qhat)^2
    0.750000
    """

    law: SpectralLaw
    isotropic: ClassVar[bool] = True
    _inverses: dict[float, float] = field(default_factory=dict, repr=False)

    @property
    def gain(self) -> float:
        """E lambda^2, the derivative of F at zero."""
        return float(self.law.square)

    @property
    def dimension(self) -> float:
        """Probability of eigenvalues above zero: the others leave nothing of the weights in the indices."""
        return self.law.share

    @property
    def fourth_moment(self) -> float:
        """E u^4 of an entry of U."""
        return 3 * self.gain

    def coordinates(self, dimension: int) -> Array:
        """Eigenvalues of D coordinates, shape (D,)."""
        return self.law.of(dimension)

    @property
    def basis(self) -> Array | None:
        """Directions that have them, in columns; None where they are the coordinates."""
        return getattr(self.law, "basis", None)

    @property
    def directed(self) -> bool:
        """Whether it is known which directions have them."""
        return getattr(self.law, "directed", True)

    # --- averages over the law, at eigenvalues s of qhat --------------------------------------------------------------

    def _left(self, s: Array, rule: Rule | None = None) -> Array:
        """Mean posterior variance E lambda/(1 + lambda s)."""
        rule = self.law.fine if rule is None else rule
        return np.asarray((1 / (1 + np.multiply.outer(np.abs(s), rule.nodes))) @ rule.weights)

    def _overlaps(self, s: Array, rule: Rule | None = None) -> Array:
        """E lambda^2 s/(1 + lambda s); odd beyond zero, where averages that scatter may lead."""
        rule = self.law.fine if rule is None else rule
        x = np.multiply.outer(np.abs(s), rule.nodes)
        return np.asarray(np.sign(s) * ((x / (1 + x)) @ rule.weights))

    def _quotients(self, s: Array) -> Array:
        """Divided differences of F, shape (..., n, n): E lambda^2/((1 + lambda s_a)(1 + lambda s_b))."""
        rule = self.law.fine
        one = 1 / (1 + np.multiply.outer(np.abs(s), rule.nodes))
        return np.einsum("ak,bk,k->ab", one, one, rule.nodes * rule.weights)

    def _off(self, s: Array) -> Array:
        """What the rule and rounding leave open of F."""
        found = self._overlaps(s)
        return np.abs(found - self._overlaps(s, self.law.coarse)) + _EPS * np.abs(found)

    def _potentials(self, s: Array, rule: Rule) -> Array:
        """Psi(s) - s F(s)/2, E[x/(1 + x) - log(1 + x)]/2 with x = lambda s."""
        x = np.multiply.outer(s, rule.nodes)
        return np.asarray(0.5 * (x / (1 + x) - np.log1p(x)) @ (rule.weights / rule.nodes))

    # --- the prior ----------------------------------------------------------------------------------------------------

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""
        rule, s = self.law.fine, np.linalg.eigvalsh(qhat)
        x = np.multiply.outer(s, rule.nodes)
        return 0.5 * float(((x - np.log1p(x)) @ (rule.weights / rule.nodes)).sum())

    def overlap(self, qhat: Array) -> Array:
        """E lambda^2 qhat (I + lambda qhat)^{-1}."""
        values, vectors = np.linalg.eigh(qhat)
        return np.asarray((vectors * self._overlaps(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))

    def overlap_error(self, qhat: Array) -> Array:
        """Difference of two rules."""
        return _along(*np.linalg.eigh(qhat), self._off)

    def slope(self, qhat: Array, moved: Array) -> Array:
        """E lambda^2 (I + lambda qhat)^{-1} dqhat (I + lambda qhat)^{-1}."""
        values, vectors = np.linalg.eigh(qhat)
        return np.asarray(vectors @ (self._quotients(values) * (vectors.T @ moved @ vectors)) @ vectors.T)

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """Means (I/lambda_i + A)^{-1} b_i of the n = D columns of U, and the mean of their covariances."""
        scale = self.coordinates(field.shape[1])
        positive(np.eye(len(precision)) + scale.max() * precision)
        values, vectors = np.linalg.eigh(precision)
        share = scale / (1 + np.multiply.outer(values, scale))
        return vectors @ (share * (vectors.T @ field)), np.asarray((vectors * share.mean(axis=1)) @ vectors.T)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Weights W, standard normal: the inputs have the spectrum."""
        return rng.standard_normal(shape)

    def mmse(self, qhat: Array) -> Array:
        """E lambda (I + lambda qhat)^{-1}."""
        values, vectors = np.linalg.eigh(qhat)
        return np.asarray((vectors * self._left(values)) @ vectors.T)

    def inverse(self, q: Array) -> Array:
        """Qhat with F(qhat) = q, of the same eigenvectors."""
        values, vectors = np.linalg.eigh(q)
        return np.asarray((vectors * self._inverse(values)) @ vectors.T)

    def _inverse(self, q: Array) -> Array:
        """S of each of these overlaps, kept: potential, slope and error at one overlap ask for the same."""
        for one in map(float, q):
            if one not in self._inverses:
                if len(self._inverses) >= _KEPT:
                    self._inverses.clear()
                self._inverses[one] = self._solved(one)
        return np.array([self._inverses[float(one)] for one in q])

    def _solved(self, q: float) -> float:
        if q < _LEAST:
            return 0.0
        if q >= 1:
            raise ConvergenceError(f"q = {q!r} has no finite qhat (14): overlaps are below 1")

        def rest(log_s: float) -> tuple[float, float]:
            """Logarithm of what falls with s over what it is to be, and its slope."""
            s = np.array([math.exp(log_s)])
            rise = float(s[0] * self._quotients(s)[0, 0])
            if q < _HALF:
                found = float(self._overlaps(s)[0])
                return math.log(q) - math.log(found), -rise / found
            left = float(self._left(s)[0])
            return math.log(left) - math.log1p(-q), -rise / left

        # F(s) <= E lambda^2 s.
        return math.exp(decreasing_root(rest, math.log(q / self.gain) - 1e-9, _TOP))

    def uncertainty(self, q: Array) -> Array:
        """What F is off by over its slope, and the rounding of q."""

        def off(values: Array) -> Array:
            s = self._inverse(values)
            missed = np.abs(self._overlaps(s) - values) + self._off(s) + _EPS * np.abs(values)
            return np.asarray(missed / self._quotients(s).diagonal())

        return _along(*np.linalg.eigh(q), off)

    def potential(self, q: Array) -> float:
        """Psi - Tr(q qhat)/2 at the qhat of q."""
        return float(
            self._potentials(self._inverse(np.asarray(np.linalg.eigvalsh(q), np.float64)), self.law.fine).sum()
        )

    def rounding(self, q: Array) -> float:
        """Of two terms that cancel at small overlaps, and of the rule."""
        s = self._inverse(np.asarray(np.linalg.eigvalsh(q), np.float64))
        rules = np.abs(self._potentials(s, self.law.fine) - self._potentials(s, self.law.coarse))
        return float(rules.sum() + 2 * _EPS * np.minimum(s, 1e3 + np.log1p(s)).sum())

    def describe(self) -> str:
        """One line."""
        return self.law.describe()


def _along(values: Array, vectors: Array, error: Callable[[Array], Array]) -> Array:
    """Error of a matrix function from those at its eigenvalues."""
    size = np.abs(vectors)
    return np.asarray((size * error(values)) @ size.T)
