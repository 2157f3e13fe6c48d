"""E log Z_out of two layers at diagonal overlaps: what softmax and linear attention have in common."""

import numpy as np
from numpy.typing import NDArray

from ..channel.two_layers.diagonal import COARSE, DiagonalQuadrature

__all__ = ["DiagonalEntropy"]

Array = NDArray[np.float64]


class DiagonalEntropy(DiagonalQuadrature):
    """E log Z_out by the rules of a quadrature of G, whose `_summed` gives it first."""

    def log_density(self, q: Array) -> Array:
        """E log Z_out by the coarser rule and by the finer one, shape (2,)."""
        at = self._checked(q)
        return np.array([self._averages(*at, share)[0] for share in (COARSE, 1.0)])

    def _averages(self, q1: float, q2: float, share: float) -> Array:
        key = (q1, q2, share)
        if key not in self._known:
            self._known[key] = self._summed(q1, q2, share)
        return self._known[key]
