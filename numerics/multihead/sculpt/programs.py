"""Step 6, paper: linear programs over the convex body, by HiGHS."""

import math
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from ...core.shown import few_lines
from ...learning.blocks import Array
from ..errors import LinearProgramFailure
from .assumptions import check_bounded
from .body import Body
from .hull import Hull

__all__ = ["Box", "Polytope"]


@few_lines
@dataclass(frozen=True)
class Box:
    """Bounds of the body in hull coordinates, Theta = Theta* + sum_j c_j D_j + the rest.

    Attributes
    ----------
    level : float
        t of the body K(t).
    low, high : ndarray, shape (m - 1,)
    """

    level: float
    low: Array
    high: Array


class Polytope:
    """The body K(t) in coordinates in which its constraints are well scaled.

    Theta = Theta* + sum_j w_j v_j / s_j with the directions v_j of the hull and across it, and s_j the size of the
    constraints along them, so that all w_j are of one size. Only the `reach` directions in which the body is widest are
    free, the hull's among them, and Theta* holds in the others: all d^2 up to d = 12. Beyond, that is a heuristic which
    makes the body smaller and its least level higher, and bounds the time of a program, which grows as d^4.

    Parameters
    ----------
    slab : Body
        Two-sided constraints.
    one_sided : Body
        Constraints from below; may be empty.
    hull : Hull
    time_limit : float
        Seconds for each program.
    reach : int
        Free directions, m - 1 at least; d^2 for all of them.

    Raises
    ------
    InsufficientCertifiedRows
        If no two-sided constraint depends on one of these directions.
    """

    def __init__(self, slab: Body, one_sided: Body, hull: Hull, time_limit: float, reach: int = 144) -> None:
        basis = hull.basis[-reach:].T
        check_bounded(slab.rows @ basis)
        both = slab.rows / slab.slack[:, None] @ basis
        below = one_sided.rows / one_sided.slack[:, None] @ basis
        self.scale = np.linalg.norm(both, axis=0) / math.sqrt(len(slab))
        self.hull_axes = range(len(self.scale) - len(hull.directions), len(self.scale))
        both /= self.scale
        below /= self.scale
        off = (slab.bound - slab.values(hull.proxy)) / slab.slack
        short = (one_sided.bound - one_sided.values(hull.proxy)) / one_sided.slack
        # matrix w <= right + t
        self.matrix = np.concatenate([both, -both, -below])
        self.right = np.concatenate([off, -off, -short])
        self.time_limit = time_limit

    def least_level(self) -> float:
        """Smallest t for which K(t) is not empty: a large one means rows certified falsely (paper)."""
        matrix = np.hstack([self.matrix, -np.ones((len(self.right), 1))])
        return float(self._solve(matrix, self.right, len(self.scale), 1.0)[-1])

    def box(self, level: float) -> Box:
        """Bounds of K(level) along every hull direction (paper)."""
        ends = np.empty((len(self.hull_axes), 2))
        for number, axis in enumerate(self.hull_axes):
            for side, sign in enumerate((1.0, -1.0)):
                point = self._solve(self.matrix, self.right + level, axis, sign)
                ends[number, side] = point[axis] / self.scale[axis]
        return Box(level, ends[:, 0], ends[:, 1])

    def _solve(self, matrix: Array, right: Array, axis: int, sign: float) -> Array:
        """Minimise sign times one coordinate over matrix w <= right."""
        cost = np.zeros(matrix.shape[1])
        cost[axis] = sign
        start = time.monotonic()
        found = linprog(
            cost, A_ub=matrix, b_ub=right, bounds=(None, None), method="highs", options={"time_limit": self.time_limit}
        )
        status = {
            1: "stopped at its limit of time or iterations",
            2: "without a solution",
            3: "unbounded",
            4: "lost to rounding",
        }
        if found.status != 0:
            raise LinearProgramFailure(
                "a linear program over the convex body",
                f"{status.get(found.status, 'not solved')} after {time.monotonic() - start:.3g} s",
                "its optimum",
                "raise time_limit, or give more examples so that the body is bounded",
            )
        return np.asarray(found.x)
