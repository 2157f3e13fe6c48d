"""A prior along other orthogonal axes of its rows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .protocol import OverlapMap, Prior

__all__ = ["along"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Rotated:
    """What a prior makes of matrices along other axes, the columns of a matrix."""

    prior: Prior
    axes: Array
    isotropic: ClassVar[bool] = False

    def overlap(self, qhat: Array) -> Array:
        """F(qhat) along these axes."""
        return np.asarray(self.axes.T @ self.prior.overlap(self._back(qhat)) @ self.axes)

    def overlap_error(self, qhat: Array) -> Array:
        """What it is off by."""
        size = np.abs(self.axes)
        return np.asarray(size.T @ self.prior.overlap_error(self._back(qhat)) @ size)

    def slope(self, qhat: Array, moved: Array) -> Array:
        """Derivative of F at qhat along a change of it."""
        return np.asarray(self.axes.T @ self.prior.slope(self._back(qhat), self._back(moved)) @ self.axes)

    def inverse(self, q: Array) -> Array:
        """Return qhat with F(qhat) = q."""
        return np.asarray(self.axes.T @ self.prior.inverse(self._back(q)) @ self.axes)

    def _back(self, matrix: Array) -> Array:
        return np.asarray(self.axes @ matrix @ self.axes.T)


def along(prior: Prior, axes: Array) -> OverlapMap:
    """The map F of a prior along orthogonal axes, the columns of a matrix of shape (P, P).

    Examples
    --------
    >>> from attnlimits.numerics.priors import Binary
    >>> turned = along(Binary(), np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2))
    >>> print(f"{turned.overlap(np.diag([2.0, 0.0]))[0, 0]:.4f}")  # of the sum of two entries
    0.6826
    """
    if prior.isotropic or np.array_equal(axes, np.eye(len(axes))):
        return prior
    return _Rotated(prior, axes)
