"""Checks of what a multi-head layer is learned from."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..core.validation import numbers, within
from ..learning.blocks import Array

__all__ = ["at_least_zero", "boolean", "count", "examples", "one_of", "tokens_of"]


def count(name: str, value: object) -> int:
    """Return an integer >= 1, or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1 (chen2024), got {value!r}")
    within(name, int(value))
    return int(value)


def at_least_zero(name: str, value: object) -> float:
    """Return a finite number >= 0, or raise ValueError."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not (math.isfinite(value) and value >= 0):  # type: ignore[operator, arg-type]
        raise ValueError(f"{name} must be finite and >= 0 (chen2024), got {value!r}")
    within(name, float(value))  # type: ignore[arg-type]
    return float(value)  # type: ignore[arg-type]


def one_of(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return one of the allowed words, or raise ValueError that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)} (chen2024), got {value!r}")
    return value


def tokens_of(name: str, value: ArrayLike) -> Array:
    """Return a float64 array of shape (n, k, d) with finite entries, or raise ValueError."""
    array = numbers(name, value)
    if array.ndim != 3 or array.size == 0:
        raise ValueError(
            f"{name} must have shape (n, k, d) with n, k, d >= 1, samples, tokens and dimensions (chen2024), got "
            f"shape {array.shape}"
        )
    bad = int(array.size - np.isfinite(array).sum())
    if bad:
        raise ValueError(f"{name} must be finite, got {bad} entries that are NaN or infinite; drop those samples")
    return array


def examples(X: ArrayLike, Y: ArrayLike, names: tuple[str, str] = ("X", "Y")) -> tuple[Array, Array]:
    """Return inputs and outputs as float64 arrays of one shape (n, k, d), or raise ValueError."""
    tokens, outputs = tokens_of(names[0], X), tokens_of(names[1], Y)
    if tokens.shape != outputs.shape:
        raise ValueError(
            f"{names[0]} and {names[1]} must have the same shape (n, k, d), for the layer keeps tokens and dimensions "
            f"(chen2024); got {tokens.shape} and {outputs.shape}"
        )
    # Of the largest entry: squares, and sums of them, stay in the range of float64.
    smallest = 1e-140
    for name, array in zip(names, (tokens, outputs), strict=True):
        largest = float(np.abs(array).max())
        if array.any() and not smallest < largest < 1 / smallest:
            raise ValueError(
                f"{name} must have entries whose squares float64 holds, the largest between {smallest:g} and "
                f"{1 / smallest:g} (chen2024), got {largest:.3g}; scale it"
            )
    if not outputs.any():
        raise ValueError(f"{names[1]} must not be zero everywhere: nothing can be learned from it (chen2024)")
    return tokens, outputs


def boolean(X: Array, remedy: str, name: str = "X") -> None:
    """Raise ValueError unless every entry is +1 or -1."""
    other = np.abs(X) != 1.0
    if other.any():
        raise ValueError(
            f"{name} must have entries +1 and -1 only (chen2024), got {int(other.sum())} others, such as "
            f"{X[other][0]:.6g}; {remedy}"
        )
