"""Checks of arguments of the attention-indexed model; each message is a sentence with the equation and a remedy."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import UnreachableOutputError
from ..core.validation import numbers, within

__all__ = ["ACTIVATIONS", "CITE", "above_zero", "check_outputs", "check_symmetric", "count", "from_zero"]

#: Names of the output channels; the last is the published formula for hardmax, which is not Bayes-optimal.
ACTIVATIONS = ("softmax", "hardmax", "linear", "hardmax_published")
CITE = "boncoraglio2025"


def _number(name: str, value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name} must be a real number ({CITE}, {where}), got {value!r}; pass a float")
    return float(value)


def above_zero(name: str, value: object, where: str) -> float:
    """Return a number in [1e-30, 1e30], or raise ValueError that names it and its equation."""
    number = _number(name, value, where)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be finite and > 0 ({CITE}, {where}), got {number!r}; give a positive number")
    # Beyond these the sides of the triangle of `spectrum` leave the range where float64 holds their products.
    smallest, largest = 1e-30, 1e30
    # The inverse of either end may be rounded beyond the other.
    if not smallest * (1 - 1e-9) <= number <= largest * (1 + 1e-9):
        raise ValueError(
            f"{name} must be in [{smallest:g}, {largest:g}] ({CITE}, {where}), got {number!r}; the limits beyond are "
            "closed forms"
        )
    within(name, number)
    return number


def from_zero(name: str, value: object, where: str) -> float:
    """Return a finite number >= 0, or raise ValueError that names it and its equation."""
    number = _number(name, value, where)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be finite and >= 0 ({CITE}, {where}), got {number!r}; give zero or more")
    within(name, number)
    return number


def count(name: str, value: object, least: int, where: str) -> int:
    """Return an integer that is at least `least`, or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least} ({CITE}, {where}), got {value!r}; give a whole number")
    within(name, int(value))
    return int(value)


def check_outputs(y: ArrayLike, tokens: int) -> NDArray[np.float64]:
    """Return finite outputs of shape (n, T, T), or raise ValueError."""
    array = numbers("y", y)
    if array.ndim != 3 or array.shape[1:] != (tokens, tokens) or not len(array):
        raise ValueError(
            f"y must have shape (n, T, T) = (n, {tokens}, {tokens}) ({CITE}, outputs), got {array.shape}; stack one "
            "attention matrix per sample"
        )
    if not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array).all(axis=(1, 2))))
        raise ValueError(f"y must be finite, got NaN or infinity in sample {bad}; leave such samples out, of x too")
    return array


def check_symmetric(y: ArrayLike, tokens: int, because: str) -> NDArray[np.float64]:
    """Return finite, symmetric outputs of shape (n, T, T), or raise ValueError."""
    array = check_outputs(y, tokens)
    off = float(np.abs(array - np.swapaxes(array, 1, 2)).max())
    if off > 1e-9 * (1 + float(np.abs(array).max())):
        raise UnreachableOutputError(
            f"y must be symmetric, {because}; it is off by {off:.3g}; pass (y + y^T)/2 if that is rounding"
        )
    return array
