"""The standard normal prior, under which every rotation of the indices is as likely as another."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.shown import in_html
from .precision import positive

__all__ = ["GAUSSIAN", "Gaussian"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)


@in_html
@dataclass(frozen=True)
class Gaussian:
    """Rows N(0, I): psi = (Tr qhat - log det(I + qhat))/2, F = qhat (I + qhat)^{-1}; any P x P qhat.

    References
    ----------
    troiani2025, (10), (14), (96).
    """

    dimension: float = 1.0
    isotropic: ClassVar[bool] = True
    fourth_moment: ClassVar[float] = 3.0

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel."""
        values = np.linalg.eigvalsh(qhat)
        return 0.5 * float((values - np.log1p(values)).sum())

    def overlap(self, qhat: Array) -> Array:
        """Qhat (I + qhat)^{-1}."""
        out: Array = qhat @ np.linalg.inv(np.eye(qhat.shape[-1]) + qhat)
        return 0.5 * (out + np.swapaxes(out, -1, -2))

    def overlap_error(self, qhat: Array) -> Array:
        """None beside that of any sum of a few terms."""
        return np.zeros_like(qhat)

    def slope(self, qhat: Array, moved: Array) -> Array:
        """(I + qhat)^{-1} dqhat (I + qhat)^{-1}."""
        left = np.linalg.inv(np.eye(len(qhat)) + qhat)
        return np.asarray(left @ moved @ left)

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """(I + A)^{-1} b, and (I + A)^{-1}."""
        covariance = np.asarray(np.linalg.inv(positive(np.eye(len(precision)) + precision)), np.float64)
        return covariance @ field, covariance

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Standard normal entries."""
        return rng.standard_normal(shape)

    def mmse(self, qhat: Array) -> Array:
        """(I + qhat)^{-1}."""
        return np.asarray(np.linalg.inv(np.eye(len(qhat)) + qhat), dtype=np.float64)

    def inverse(self, q: Array) -> Array:
        """Q (I - q)^{-1}."""
        found = np.asarray(np.linalg.solve(np.eye(len(q)) - q, q), dtype=np.float64)
        return 0.5 * (found + found.T)

    def uncertainty(self, q: Array) -> Array:
        """Of 1 - q, one, and of an elimination, 3 P: |(1 - q)^{-1}| |1 - q| |qhat| each, of half an eps."""
        left = np.eye(len(q)) - q
        found: Array = np.abs(np.linalg.inv(left)) @ np.abs(left) @ np.abs(self.inverse(q))
        return 2 * len(q) * _EPS * found

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


#: The usual prior.
GAUSSIAN = Gaussian()
