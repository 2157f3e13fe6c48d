"""Rules along one entry of h: panels dense towards their ends, and where a section of a region or level set begins."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from ...quadrature.rules import gauss_legendre, half_line, tanh_sinh, trapezoid
from .monotone import bisect_change, section_change

__all__ = [
    "BEYOND_CUT",
    "CUT",
    "AnalyticRule",
    "GradedRule",
    "Intervals",
    "LineRule",
    "between_ends",
    "half_interval_rule",
    "interval_moments",
    "marks_within",
    "normal_density",
    "normal_primitives",
    "scan_grid",
    "section_rule",
    "turning_points",
    "valid_intervals",
]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Points of one pass, which bounds the memory.
_CHUNK = 2_000_000
# The normal density beyond is below 1e-17 of its maximum.
CUT = 8.8
#: E (h^2 - 1)^2 over the rest: what (15) may lose with each entry of h.
BEYOND_CUT = 2 * math.exp(-0.5 * CUT**2) / math.sqrt(2 * math.pi) * (CUT**3 + CUT) + 4 * float(ndtr(-CUT))


@lru_cache(maxsize=32)
def _graded(order: int, least: float) -> tuple[Array, Array]:
    """Nodes and weights on (0, 1): Gauss panels whose ends double from `least` on."""
    edges = [0.0, least]
    while edges[-1] < 1 / 1.5:
        edges.append(2 * edges[-1])
    edges[-1] = 1.0
    nodes, weights = gauss_legendre(order)
    width = 0.5 * np.diff(edges)[:, None]
    middle = 0.5 * (np.array(edges[1:]) + np.array(edges[:-1]))[:, None]
    return (middle + width * nodes).ravel(), (width * weights).ravel()


def half_interval_rule(start: Array, end: Array, order: int, least: float) -> tuple[Array, Array]:
    """Nodes and weights from `start` to `end` (either may be larger), dense towards `start`; shapes (n, nodes).

    x = start + (end - start) t^2 makes square-root singularities at the start analytic.
    """
    t, w = _graded(order, least)
    length = (end - start)[:, None]
    return start[:, None] + length * t**2, np.abs(length) * (2 * t * w)


class Intervals(NamedTuple):
    """Intervals of one entry of h between which level sets change their form.

    Attributes
    ----------
    low, high : ndarray, shape (n,)
    deep : ndarray of bool, shape (2, n)
        Ends, the lower and the upper ones, towards which the integrand may vary on every scale.
    flat : ndarray of bool, shape (2, n)
        Those at which the slope of the link in the unknown entry vanishes as fast as the distance.
    nested : bool
        Whether a second entry is integrated over beside this one, and less accuracy is asked for.
    """

    low: Array
    high: Array
    deep: NDArray[np.bool_]
    flat: NDArray[np.bool_]
    nested: bool


class LineRule(Protocol):
    """A rule along one entry of h, on many intervals at once; `even` ones need no end where nothing is singular."""

    @property
    def even(self) -> bool:
        """Whether nodes are as dense in the middle of an interval as towards its ends."""

    def line(self, intervals: "Intervals") -> Iterator[tuple[IntArray, Array, Array]]:
        """Numbers of the intervals, with nodes and weights in them, shape (n, nodes)."""

    def section(self, low: Array, high: Array) -> tuple[IntArray, Array, Array]:
        """The same, flat, along the entry whose sections are integrated over."""


class GradedRule(NamedTuple):
    """Gauss panels that grow twofold from both ends of an interval.

    Attributes
    ----------
    order : int
        Nodes per panel.
    least : float
        First panel of a section.
    """

    order: int
    least: float = 0.03

    @property
    def even(self) -> bool:
        """No."""
        return False

    def line(self, intervals: Intervals) -> Iterator[tuple[IntArray, Array, Array]]:
        """As of `LineRule`."""
        low, high, deep, _, nested = intervals
        index = np.arange(len(low))
        middle = 0.5 * (low + high)
        own, start = np.concatenate([index, index]), np.concatenate([low, high])
        far, near = np.concatenate([middle, middle]), deep.ravel()
        small = (1e-4, 3e-2) if nested else (1e-6, 1e-3)
        for chosen, least in zip((near, ~near), small, strict=True):
            size = max(1, _CHUNK // 300)
            at = np.flatnonzero(chosen)
            for begin in range(0, len(at), size):
                take = at[begin : begin + size]
                yield own[take], *half_interval_rule(start[take], far[take], self.order, least)

    def section(self, low: Array, high: Array) -> tuple[IntArray, Array, Array]:
        """As of `LineRule`."""
        index = np.arange(len(low))
        middle = 0.5 * (low + high)
        far = np.concatenate([middle, middle])
        x, w = half_interval_rule(np.concatenate([low, high]), far, self.order, self.least)
        return np.repeat(np.concatenate([index, index]), x.shape[1]), x.ravel(), w.ravel()


class AnalyticRule(NamedTuple):
    """Rules that converge exponentially where the integrand is analytic inside an interval, whatever it is at an end.

    Attributes
    ----------
    step : float
        Of the trapezoidal rules: in standard deviations where an interval has no end before the normal law ends, in
        factors of e from the only end, and half as much of the double-exponential rule between two ends.
    """

    step: float

    @property
    def even(self) -> bool:
        """Yes."""
        return True

    def line(self, intervals: Intervals) -> Iterator[tuple[IntArray, Array, Array]]:
        """As of `LineRule`."""
        low, high, _, flat, _ = intervals
        for index in np.array_split(np.arange(len(low)), len(low) // (_CHUNK // 300) + 1):
            for own, x, w in self._kinds(low[index], high[index], flat[:, index]):
                yield index[own], x, w

    def section(self, low: Array, high: Array) -> tuple[IntArray, Array, Array]:
        """As of `LineRule`."""
        nowhere = np.zeros((2, len(low)), dtype=bool)
        parts = [(np.repeat(own, x.shape[1]), x.ravel(), w.ravel()) for own, x, w in self._kinds(low, high, nowhere)]
        if not parts:
            return np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
        rows, x, w = (np.concatenate(column) for column in zip(*parts, strict=True))
        return rows, x, w

    def _kinds(self, low: Array, high: Array, flat: NDArray[np.bool_]) -> Iterator[tuple[IntArray, Array, Array]]:
        """Intervals without an end, with one at their bottom or top, where the link is flat or not, and with two."""
        from_below, to_above = low > -CUT, high < CUT
        up, down = from_below & ~to_above, ~from_below & to_above
        # Distances from where a link is flat at which level sets still have features, as y is as close to its value
        # there.
        nothing = 1e-10
        for chosen, rule in (
            (~from_below & ~to_above, self._line),
            (up & flat[0], partial(self._half_line, way=1.0, scale=nothing)),
            (up & ~flat[0], partial(self._half_line, way=1.0, scale=1.0)),
            (down & flat[1], partial(self._half_line, way=-1.0, scale=nothing)),
            (down & ~flat[1], partial(self._half_line, way=-1.0, scale=1.0)),
            (from_below & to_above, partial(between_ends, step=0.5 * self.step)),
        ):
            index = np.flatnonzero(chosen)
            if len(index):
                yield index, *rule(low[index], high[index])

    def _line(self, low: Array, high: Array) -> tuple[Array, Array]:
        rule = trapezoid(-CUT, CUT, self.step)
        shape = (len(low), len(rule.nodes))
        return np.broadcast_to(rule.nodes, shape), np.broadcast_to(rule.weights, shape)

    def _half_line(self, low: Array, high: Array, way: float, scale: float) -> tuple[Array, Array]:
        rule = half_line(scale, 2 * CUT, self.step)
        x = (low if way > 0 else high)[:, None] + way * rule.nodes
        return x, np.where(np.abs(x) < CUT, rule.weights, 0.0)


def between_ends(low: Array, high: Array, step: float) -> tuple[Array, Array]:
    """Nodes and weights of the double-exponential rule on intervals, shape (n, nodes).

    Distances from the nearer end keep their digits: an integrable singularity there is resolved.
    """
    weights = tanh_sinh(step).weights
    t = step * (np.arange(len(weights)) - len(weights) // 2)
    share = expit(-np.pi * np.sinh(np.abs(t)))
    length = (high - low)[:, None]
    x = np.where(t < 0, low[:, None] + length * share, high[:, None] - length * share)
    return x, 0.5 * length * weights


def interval_moments(low: float, high: float) -> tuple[float, float, float]:
    """Integrals of 1, x and x^2 against the standard normal density over (low, high)."""
    a, b = normal_primitives(np.array([low])), normal_primitives(np.array([high]))
    # Far tails: the difference of two numbers near one loses its digits, that of their complements does not.
    zero = float(ndtr(-low) - ndtr(-high)) if low > 0 else float(b[0, 0] - a[0, 0])
    first, edge = float(b[1, 0] - a[1, 0]), float(b[2, 0] - b[0, 0] - a[2, 0] + a[0, 0])
    return zero, first, zero + edge


def normal_primitives(x: Array) -> Array:
    """Primitives of phi, x phi and x^2 phi at x, shape (3, n)."""
    finite = np.clip(x, -40.0, 40.0)
    density = np.exp(-0.5 * finite**2) / math.sqrt(2 * math.pi)
    return np.stack([ndtr(x), -density, ndtr(x) - finite * density])


def normal_density(x: Array) -> Array:
    """Standard normal density."""
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def marks_within(low: float, high: float) -> set[float]:
    """The marks among {low, high, 0} that lie in [low, high]."""
    return {low, high} | ({0.0} if low < 0 < high else set())


def scan_grid(marks: Sequence[float], count: int) -> Array:
    """Points between the marks, dense towards each: where domains end, and narrow ones, is looked for there."""
    parts = []
    per = max(9, count // (2 * (len(marks) - 1)))
    t = np.concatenate([np.geomspace(1e-9, 1e-2, per // 4), np.linspace(1e-2, 1.0, per - per // 4)[1:]])
    for a, b in pairwise(marks):
        half = 0.5 * (b - a)
        parts += [a + half * t, b - half * t]
    return np.unique(np.concatenate(parts))


def section_rule(
    form: Callable[[IntArray, Array], IntArray], count: int, marks: list[float], grid: Array, rule: LineRule
) -> tuple[IntArray, Array, Array]:
    """Rule along one entry for each of `count` rows: panels end where the form of the section changes.

    Returns the row, the node and the weight of each point; sections of form 0 are empty and left out.
    """
    index = np.arange(count, dtype=np.int64)
    code = form(np.repeat(index, len(grid)), np.tile(grid, count)).reshape(count, -1)
    row, column = np.nonzero(code[:, 1:] != code[:, :-1])
    a, b, left = grid[column], grid[column + 1], code[row, column]
    a, b = bisect_change(a, b, lambda m: form(row, m) == left, 30)
    rows = np.concatenate([row, np.repeat(index, len(marks))])
    points = np.concatenate([0.5 * (a + b), np.tile(marks, count)])
    arrange = np.lexsort((points, rows))
    rows, points = rows[arrange], points[arrange]
    keep = (rows[1:] == rows[:-1]) & (points[1:] - points[:-1] > 1e-12)
    r, a, b = rows[:-1][keep], points[:-1][keep], points[1:][keep]
    full = form(r, 0.5 * (a + b)) != 0
    r, a, b = r[full], a[full], b[full]
    own, x, w = rule.section(a, b)
    return r[own], x, w


def turning_points(sign: Array, grid: Array, rising: Callable[[IntArray, Array], Array]) -> tuple[IntArray, Array]:
    """Where along each row the slope of the link in the unknown changes sign: near it the Jacobian is singular."""
    row, column = np.nonzero(sign[:, 1:] * sign[:, :-1] < 0)
    a, b, left = grid[column], grid[column + 1], sign[row, column]
    a, b = section_change(a, b, lambda m: rising(row, m) == left)
    return row, 0.5 * (a + b)


def valid_intervals(
    ok: NDArray[np.bool_],
    grid: Array,
    marks: Sequence[float],
    valid: Callable[[IntArray, Array], NDArray[np.bool_]],
    more: tuple[IntArray, Array] | None = None,
) -> tuple[IntArray, Array, Array]:
    """Intervals on which each row is valid: (row, start, end), cut at the marks and at more points of single rows."""
    row, column = np.nonzero(ok[:, 1:] != ok[:, :-1])
    a, b = grid[column], grid[column + 1]
    left = ok[row, column]
    a, b = section_change(a, b, lambda m: valid(row, m) == left)
    # The end on the valid side.
    found = np.where(left, a, b)
    count = len(ok)
    low, high = min(marks), max(marks)
    fixed = np.array(sorted(set(marks)))
    own = more if more is not None else (np.zeros(0, dtype=np.int64), np.zeros(0))
    rows = np.concatenate([row, np.repeat(np.arange(count), len(fixed)), own[0]])
    points = np.concatenate([found, np.tile(fixed, count), own[1]])
    order = np.lexsort((points, rows))
    rows, points = rows[order], points[order]
    same_row = (rows[1:] == rows[:-1]) & (points[1:] > points[:-1])
    r, a, b = rows[:-1][same_row], points[:-1][same_row], points[1:][same_row]
    if not len(r):
        return r, a, b
    # Two of three points inside decide: one alone may sit on a corner.
    votes = sum(valid(r, a + share * (b - a)).astype(int) for share in (0.2, 0.5, 0.81))
    keep = (votes >= 2) & (a >= low) & (b <= high)
    return r[keep], a[keep], b[keep]
