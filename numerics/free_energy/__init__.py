"""The free entropy (10): its parts, stationary points, thresholds and what follows from them."""

from .entropy import FreeEntropy
from .points import StationaryPoint
from .prior import Binary, GaussBernoulli, Gaussian, Prior
from .psi_out import OutputEntropy, output_entropy
from .stationary import stationary_points

__all__ = [
    "Binary",
    "FreeEntropy",
    "GaussBernoulli",
    "Gaussian",
    "OutputEntropy",
    "Prior",
    "StationaryPoint",
    "output_entropy",
    "stationary_points",
]
