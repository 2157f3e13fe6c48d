"""Which quadrature serves two layers over two tokens: that of their activation."""

from ...core.cluster_pool import Workers
from ...model.network import Network
from ..two_linear.channel import TwoLinearQuadrature
from .channel import TwoLayerQuadrature
from .diagonal import DiagonalQuadrature

__all__ = ["quadrature"]


def quadrature(model: Network, accuracy: float, workers: Workers = None) -> DiagonalQuadrature:
    """Averages at diagonal overlaps by quadrature.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, rank 1, softmax or linear.
    accuracy : float
        Relative accuracy aimed at, see `DiagonalQuadrature`.
    workers : int, ClusterPool or None
    """
    kind = TwoLinearQuadrature if model.activation == TwoLinearQuadrature.activation else TwoLayerQuadrature
    return kind(model, accuracy, workers)
