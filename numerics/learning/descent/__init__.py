"""Gradient descent on the square loss beside GAMP: batches used again, all samples, Adam; and a spectral start."""

from .algorithm import descend
from .results import DescentResult, DescentStep
from .similarity import cosines
from .spectral import SpectralResult, spectral_method, spectral_start

__all__ = [
    "DescentResult",
    "DescentStep",
    "SpectralResult",
    "cosines",
    "descend",
    "spectral_method",
    "spectral_start",
]
