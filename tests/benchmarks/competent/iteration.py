"""State evolution by plain iteration, in a basis where the symmetries of a link make the overlap diagonal."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Found", "Script", "fixed_point", "iterated", "legendre", "normal"]

Array = NDArray[np.float64]

# Where iteration begins, a little different in each direction, so that symmetries may break.
_START = 1e-3 * np.array([1.0, 0.9])
# What is left of rounding in the averages.
_ROUNDING = 1e-14
# Evaluations at most, and how steady the rate of convergence is where the rest is extrapolated.
_MOST, _STEADY = 20_000, 0.01


class Found(NamedTuple):
    """Overlaps in the basis of a script, the difference of its two resolutions, and the seconds of both together.

    Iteration ends where it expects to have 1e-12 to go, which is not part of the difference.
    """

    values: Array
    errors: Array
    seconds: float


class Script(NamedTuple):
    """What a physicist writes for one link.

    Attributes
    ----------
    fixed : callable
        Overlaps at alpha by a coarse and by a fine resolution, each so many nodes in a dimension.
    directions : ndarray, shape (k, P, P)
        The overlap matrix is the sum of each overlap times its projector.
    nodes : tuple of int
        Resolutions, from coarse to fine.
    """

    fixed: Callable[[float, int, int], Found]
    directions: Array
    nodes: tuple[int, ...]

    def solve(self, alpha: float, level: int) -> tuple[Array, Array, float]:
        """Overlap matrix by the resolution of this level, its difference from that of the one before, and seconds."""
        found = self.fixed(alpha, *self.nodes[level - 1 : level + 1])
        matrix = np.tensordot(found.values, self.directions, 1)
        return matrix, np.tensordot(found.errors, np.abs(self.directions), 1), found.seconds


def iterated(averages: Callable[[Array, int], Array], size: int) -> Callable[[float, int, int], Found]:
    """Fixed points of `size` overlaps by averages of so many nodes, the finer one beginning from the coarser one."""

    def fixed(alpha: float, coarse: int, fine: int) -> Found:
        begin = time.process_time()
        first = fixed_point(lambda q: averages(q, coarse), alpha, _START[:size])
        second = fixed_point(lambda q: averages(q, fine), alpha, first)
        return Found(second, np.abs(second - first) + _ROUNDING, time.process_time() - begin)

    return fixed


def fixed_point(averages: Callable[[Array], Array], alpha: float, q: Array, tol: float = 1e-12) -> Array:
    """Iterate q -> q_hat = alpha G(q) -> q_hat / (1 + q_hat); extrapolate where steps shrink at one rate.

    Raises
    ------
    ArithmeticError
        It does not settle.
    """
    before, known = np.zeros(q.shape), math.inf
    for _ in range(_MOST):
        hat = alpha * averages(q)
        step = hat / (1 + hat) - q
        size = float(np.abs(step).max())
        if not size <= 1:
            break
        if size < _ROUNDING:
            return q + step
        q = q + step
        rate = size / np.abs(before).max() if before.any() else math.inf
        # The slowest direction may only show in the next step: two rates in a row.
        worst = max(rate, known)
        if worst < 1 and size * worst / (1 - worst) < tol:
            return q
        if rate < 1 and max(np.abs(step - rate * before).max() / size, abs(rate - known)) < _STEADY * (1 - rate):
            q, step, rate = np.maximum(q + step * rate / (1 - rate), 1e-3 * q), np.zeros(q.shape), math.inf
        before, known = step, rate
    raise ArithmeticError(f"not settled after {_MOST} iterations: the latest step is {size:.1e}")


def normal(nodes: int) -> tuple[Array, Array]:
    """Nodes and weights of an average over a standard normal: the trapezoidal rule, up to where its own errors are."""
    end = min(1.6 * math.sqrt(nodes), 8.0)
    x = np.linspace(-end, end, nodes)
    w = np.exp(-x * x / 2)
    return x, w / w.sum()


def legendre(nodes: int, low: float, high: float) -> tuple[Array, Array]:
    """Nodes and weights of an integral from low to high."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return low + 0.5 * (high - low) * (x + 1), 0.5 * (high - low) * w
