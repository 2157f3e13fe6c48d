"""Whether a fixed point is as accurate as was asked: the one decision that results, the command and sweeps read."""

from dataclasses import replace

import numpy as np

from ..core import accuracy as asked_for
from .state import Solution

__all__ = ["is_reached", "missed", "times_asked"]


def times_asked(solution: Solution, accuracy: float, *, absolute: bool = True) -> float:
    """Largest error of an overlap in units of the accuracy asked for, which is absolute or relative to the overlap."""
    asked = accuracy if absolute else accuracy * solution.q.diagonal()
    return float((solution.error.diagonal() / np.maximum(asked, 1e-300)).max())


def is_reached(solution: Solution, accuracy: float, *, absolute: bool = True) -> bool:
    """Whether the fixed point is converged, beyond doubt, and as accurate as asked: no error is a tenth more than that.

    Parameters
    ----------
    solution : Solution
    accuracy : float
        Asked for of each overlap.
    absolute : bool, optional
        Whether it is absolute, or relative to the overlap.
    """
    times = times_asked(solution, accuracy, absolute=absolute)
    return asked_for.is_reached(times, solution.converged and not solution.doubt)


def missed(solution: Solution, sentence: str) -> Solution:
    """The same, marked as less accurate than asked, with a sentence on it."""
    return replace(solution, reached=False, note="; ".join(part for part in (solution.note, sentence) if part))
