"""Checks of the numbers that models are made of."""

import math

import numpy as np

__all__ = ["positive", "whole"]


def whole(name: str, value: object, least: int, equation: str) -> int:
    """Return an integer that is at least `least`, or raise ValueError naming it and its equation."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least} (troiani2025 {equation}), got {value!r}")
    return int(value)


def positive(name: str, value: object, equation: str) -> float:
    """Return a finite number above zero, or raise ValueError naming it and its equation."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name} must be a positive number (troiani2025 {equation}), got {value!r}")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be finite and > 0 (troiani2025 {equation}), got {number!r}")
    return number
