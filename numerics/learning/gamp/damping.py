"""Damping: the share of the old estimate in the new one."""

from typing import Literal

import numpy as np

from ..blocks import Array

__all__ = ["Damping"]

# Cosine of successive steps below which they oscillate, and above which they continue.
_BACK, _ON = -0.1, 0.3
# What is taken of the undamped share then, and of the damping.
_RAISE, _LOWER, _MOST = 0.3, 0.8, 0.9


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
        if self._last is not None:
            norms = float(np.linalg.norm(step)) * float(np.linalg.norm(self._last))
            cosine = float(np.vdot(step, self._last)) / norms if norms > 0 else 0.0
            if cosine < _BACK:
                self.value = min(_MOST, self.value + _RAISE * (1 - self.value))
            elif cosine > _ON:
                self.value *= _LOWER
        self._last = step
