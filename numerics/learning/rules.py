"""From a gradient to a step."""

from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .blocks import Array, Floats

__all__ = ["METHODS", "Adam", "Method", "Plain", "Rule"]

_Number = TypeVar("_Number", bound=np.floating)
Method: TypeAlias = Literal["sgd", "gd", "adam"]
METHODS = ("sgd", "gd", "adam")


class Rule(Protocol):
    """Updates weights."""

    def __call__(self, weights: Array, gradient: Array) -> Array:
        """Return the weights after a step."""


class Plain:
    """W - rate (gradient + decay W)."""

    def __init__(self, rate: float, decay: float) -> None:
        self._rate, self._decay = rate, decay

    def __call__(self, weights: Array, gradient: Array) -> Array:
        """Return the weights after a step."""
        return weights - self._rate * (gradient + self._decay * weights)


class Adam:
    """W - rate (m / (sqrt(v) + 1e-8) + decay W), m and v the means of past gradients and their squares (AdamW)."""

    def __init__(self, rate: float, decay: float) -> None:
        self._rate, self._decay = rate, decay
        self._first: Floats | float = 0.0
        self._second: Floats | float = 0.0
        self._steps = 0

    def __call__(self, weights: NDArray[_Number], gradient: NDArray[_Number]) -> NDArray[_Number]:
        """Return the weights after a step."""
        self._steps += 1
        # Adam's memory of gradients and of their squares, and what keeps it from dividing by zero.
        first, second, small = 0.9, 0.999, 1e-8
        self._first = first * self._first + (1 - first) * gradient
        self._second = second * self._second + (1 - second) * gradient**2
        # Both began at zero.
        mean = self._first / (1 - first**self._steps)
        square = self._second / (1 - second**self._steps)
        moved = weights - self._rate * (mean / (np.sqrt(square) + small) + self._decay * weights)
        return np.asarray(moved, dtype=weights.dtype)
