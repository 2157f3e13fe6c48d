"""Whether a fixed point is as accurate as was asked: the one decision that results, the command and sweeps read."""

from dataclasses import replace

import numpy as np

from .state import Solution

__all__ = ["ROOM", "is_reached", "missed", "times_asked"]

#: Errors up to so many times the accuracy asked for are what a last step leaves.
ROOM = 1.1


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
    within = times_asked(solution, accuracy, absolute=absolute) <= ROOM
    return bool(solution.converged and not solution.doubt and within)


def missed(solution: Solution, accuracy: float, why: str) -> Solution:
    """The same, marked as less accurate than asked, with a sentence that ends in the reason."""
    sentence = f"the accuracy of {accuracy:g} is not reached{why}"
    return replace(solution, reached=False, note="; ".join(part for part in (solution.note, sentence) if part))
