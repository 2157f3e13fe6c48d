"""Where a branch turns back in the parameter."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["turning_point"]

Array = NDArray[np.float64]


class Branch(Protocol):
    """A point on a branch, which `correct` moves along it."""

    w: Array
    t: float

    @property
    def free(self) -> list[int]:
        """Groups whose overlap is solved for."""

    def correct(self, w: Array, t: float, row: Array, value: float) -> int | None:
        """Solve for the point with row @ (free w, t) = value; None once solved."""


def turning_point(branch: Branch, before: tuple[Array, float], way: float) -> tuple[Array, float]:
    """Extremum of t along the overlap that changes most, from a point before it and the branch's, which is beyond."""
    free = branch.free
    near, beyond = (np.append(w[free], t) for w, t in (before, (branch.w, branch.t)))
    k = int(np.abs((beyond - near)[:-1]).argmax())
    row = np.eye(len(near))[k]
    best = max((before, (branch.w, branch.t)), key=lambda point: way * point[1])

    # Height of a place that the corrector did not reach.
    failed = 1e3

    def height(at: float) -> float:
        nonlocal best
        part = (at - near[k]) / (beyond[k] - near[k])
        guess = near + part * (beyond - near)
        w = branch.w.copy()
        w[free] = np.maximum(guess[:-1], 1e-12)
        if branch.correct(w, float(guess[-1]), row, at) is not None:
            return failed
        best = max(best, (branch.w, branch.t), key=lambda point: way * point[1])
        return -way * branch.t

    # The top may lie as far before the last point of the rise as after it.
    ends = sorted((float(max(2 * near[k] - beyond[k], 1e-6)), float(beyond[k])))
    # Accuracy of the place of a fold within the last steps; that of t is its square.
    vertex = 3e-3
    minimize_scalar(height, bounds=ends, method="bounded", options={"xatol": vertex * (ends[1] - ends[0])})
    return best
