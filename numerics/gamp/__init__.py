"""Generalised approximate message passing: weights from data, and what it reaches predicted by state evolution."""

from .algorithm import gamp
from .data import informed_start, make_data, teacher
from .estimator import GAMP
from .prediction import PredictedOverlaps, predicted_overlaps
from .results import GAMPResult, GAMPStep

__all__ = [
    "GAMP",
    "GAMPResult",
    "GAMPStep",
    "PredictedOverlaps",
    "gamp",
    "informed_start",
    "make_data",
    "predicted_overlaps",
    "teacher",
]
