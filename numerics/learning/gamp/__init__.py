"""Generalised approximate message passing: weights from data, and what it reaches predicted by state evolution."""

from ..data import informed_start, make_data, teacher
from .algorithm import gamp
from .estimator import GAMP
from .flattening import Flattened, flatten
from .pictures import draw_runs
from .prediction import PredictedOverlaps, predicted_overlaps
from .relaxed_bp import relaxed_bp
from .results import GAMPResult, GAMPStep

__all__ = [
    "GAMP",
    "Flattened",
    "GAMPResult",
    "GAMPStep",
    "PredictedOverlaps",
    "draw_runs",
    "flatten",
    "gamp",
    "informed_start",
    "make_data",
    "predicted_overlaps",
    "relaxed_bp",
    "teacher",
]
