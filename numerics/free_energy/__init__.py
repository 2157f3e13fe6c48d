"""The free entropy (10): its parts, stationary points, thresholds and what follows from them."""

from .entropy import FreeEntropy
from .points import StationaryPoint
from .psi_out import OutputEntropy, output_entropy
from .stationary import stationary_points

__all__ = [
    "FreeEntropy",
    "OutputEntropy",
    "StationaryPoint",
    "output_entropy",
    "stationary_points",
]
