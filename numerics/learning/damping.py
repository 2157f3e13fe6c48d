"""Damping: the share of the old estimate in the new one."""

import math
from typing import Literal

import numpy as np

from .blocks import Array

__all__ = ["Damping", "SizeDamping"]


class Damping:
    """Constant, or raised where successive steps have opposite directions and lowered where they agree.

    Parameters
    ----------
    value : float in [0, 1), or "adaptive"

    Raises
    ------
    ValueError
        Anything else.
    """

    def __init__(self, value: float | Literal["adaptive"]) -> None:
        self.adaptive = isinstance(value, str) and value == "adaptive"
        number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
        if not self.adaptive and not (number and 0 <= float(value) < 1):
            raise ValueError(
                f'damping must be a number in [0, 1), the share of the old estimate (104)-(112), or "adaptive", got '
                f"{value!r}"
            )
        self.value = 0.0 if self.adaptive else float(value)
        self._last: Array | None = None

    def adapt(self, step: Array) -> None:
        """Take note of a step of the estimate."""
        if not self.adaptive:
            return
        # Cosine of successive steps below which they oscillate, and above which they continue.
        back, on = -0.1, 0.3
        # What is taken of the undamped share then, and of the damping.
        part, lower, most = 0.3, 0.8, 0.9
        if self._last is not None:
            norms = float(np.linalg.norm(step)) * float(np.linalg.norm(self._last))
            cosine = float(np.vdot(step, self._last)) / norms if norms > 0 else 0.0
            if cosine < back:
                self.value = min(most, self.value + part * (1 - self.value))
            elif cosine > on:
                self.value *= lower
        self._last = step


class SizeDamping(Damping):
    """Constant, or raised whenever a window of steps is not much smaller than the one before.

    Of an iteration with modes that rotate slowly, as that of matrices, the cosine of two steps shows little: at d = 50
    it takes up to twice as many iterations by that rule.
    """

    # Of a rule by sizes: first shares of two tries, the most, and the steps of a window.
    _first, _second, _largest, _window = 0.3, 0.8, 0.95, 8

    def __init__(self, value: float | Literal["adaptive"]) -> None:
        super().__init__(value)
        self.value = self._first if self.adaptive else self.value
        self._sizes: list[float] = []
        self._size, self._again = math.inf, self.adaptive

    def adapt(self, step: Array) -> None:
        """Take note of a step of the estimate."""
        self._sizes.append(float((step**2).sum()))
        if self.adaptive and len(self._sizes) == self._window:
            mean = sum(self._sizes) / self._window
            if mean > 0.5 * self._size:
                self.value = min(self.value + (1 - self.value) / 3, self._largest)
            self._size, self._sizes = mean, []

    def again(self) -> bool:
        """Whether there is a second try, with more damping: once, where it is adaptive."""
        again, self._again = self._again, False
        if again:
            self.value, self._size, self._sizes = self._second, math.inf, []
        return again
