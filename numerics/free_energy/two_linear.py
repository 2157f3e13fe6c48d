"""E log Z_out of two linear layers over two tokens, from the sums that state evolution takes over outputs.

The Jacobian of the output, whose mean does not depend on q, is left out.
"""

import numpy as np
from numpy.typing import NDArray

from ..channel.two_linear.channel import TwoLinearQuadrature
from .diagonal import DiagonalEntropy

__all__ = ["TwoLinearEntropy"]

Array = NDArray[np.float64]


class TwoLinearEntropy(DiagonalEntropy, TwoLinearQuadrature):
    """E log Z_out at a diagonal overlap, by the rules of the quadrature of G.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, linear attention, rank 1.
    accuracy : float, optional
        Absolute accuracy aimed at, 1e-13 to 1e-2.
    workers : int, ClusterPool or None
        Threads, or the workers of a cluster.

    References
    ----------
    troiani2025, (10), (96)-(97), (163)-(170).
    """

    entropy = True

    def _summed(self, q1: float, q2: float, share: float) -> Array:
        return self._sums(self._steps(q1, q2, share))[3:]
