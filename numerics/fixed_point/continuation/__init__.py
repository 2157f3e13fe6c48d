"""Curves of fixed points: continuation, onsets, first-order jumps, hysteresis."""

from .curve import curve, default_channel, usual_samples
from .records import CurvePoint, CurveResult, Gap, Jump, Onset

__all__ = ["CurvePoint", "CurveResult", "Gap", "Jump", "Onset", "curve", "default_channel", "usual_samples"]
