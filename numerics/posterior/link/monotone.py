"""Invert a function of one real variable on its monotone pieces, where no closed inverse is known."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["MonotonePieces", "bisect_change", "section_change"]

Array = NDArray[np.float64]

_BISECTIONS = 60


def bisect_change(
    a: Array, b: Array, as_left: Callable[[Array], NDArray[np.bool_]], steps: int = _BISECTIONS
) -> tuple[Array, Array]:
    """Narrow brackets [a, b] down to where `as_left` turns from true, at a, to false, at b."""
    for _ in range(steps if len(a) else 0):
        middle = 0.5 * (a + b)
        same = as_left(middle)
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    return a, b


def section_change(a: Array, b: Array, as_left: Callable[[Array], NDArray[np.bool_]]) -> tuple[Array, Array]:
    """The same by several points of each bracket at once, shape (points, n), for what takes the same time for many."""
    # Points at once within each bracket, which are as good as three bisections.
    at_once = 7
    shares = np.arange(1, at_once + 1)[:, None] / (at_once + 1)
    column = np.arange(len(a))
    for _ in range(math.ceil(_BISECTIONS / math.log2(at_once + 1)) if len(a) else 0):
        points = a + shares * (b - a)
        same = as_left(points)
        # Points before the first that is not as at the left.
        count = np.where(same.all(axis=0), at_once, np.argmin(same, axis=0))
        points = np.concatenate([a[None], points, b[None]])
        a, b = points[count, column], points[count + 1, column]
    return a, b


@dataclass(frozen=True)
class MonotonePieces:
    """Intervals on which a function rises or falls all the way, and its inverse on each.

    Attributes
    ----------
    value, slope : callable
        The function and its derivative, of arrays of any shape.
    low, high : float
        Ends of the interval that matters.
    """

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    low: float
    high: float

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """Ends of the pieces: they are cut at extrema and at jumps."""
        scan = 8001
        x = np.linspace(self.low, self.high, scan)[1:-1]
        with np.errstate(all="ignore"):
            sign, value = np.sign(self.slope(x)), self.value(x)
            turn = np.flatnonzero(sign[1:] * sign[:-1] < 0)
            left = sign[turn]
            at, after = bisect_change(x[turn], x[turn + 1], lambda m: np.sign(self.slope(m)) == left)
            # Between two points with the same slope the values must follow it.
            jump = np.flatnonzero((sign[1:] * sign[:-1] > 0) & (np.diff(value) * sign[1:] < 0))
            start, way = value[jump], sign[jump]
            at2, after2 = bisect_change(x[jump], x[jump + 1], lambda m: (self.value(m) - start) * way >= 0)
        zero = x[sign == 0]
        lower = np.sort(np.concatenate([[self.low], after, after2, zero]))
        upper = np.sort(np.concatenate([at, at2, zero, [self.high]]))
        return lower, upper

    @property
    def count(self) -> int:
        """Number of pieces."""
        return len(self.ends[0])

    def solve(self, y: Array, number: int) -> Array:
        """Solution on one piece, NaN where there is none."""
        a, b = (np.full(y.shape, end[number]) for end in self.ends)
        with np.errstate(all="ignore"):
            middle = 0.5 * (a + b)
            rising = np.sign(self.slope(middle))
            inside = ((self.value(a) - y) * rising <= 0) & ((self.value(b) - y) * rising >= 0)
            for _ in range(_BISECTIONS):
                below = (self.value(middle) - y) * rising < 0
                a, b = np.where(below, middle, a), np.where(below, b, middle)
                middle = 0.5 * (a + b)
        return np.where(inside, middle, np.nan)
