"""One layer: alpha is an explicit function of its overlap, so that the whole curve with its folds is one interpolant.

From the uninformed start the iteration rises to the first overlap at which alpha(q) = alpha, from the informed one it
falls to the last. Where alpha(q) has a maximum before larger values, the first one jumps there; where it has a minimum,
the last one.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import NDArray
from scipy.optimize import brentq

from .equations import Equations

__all__ = ["Explicit"]

Array = NDArray[np.float64]

# Width in w of the panels to start with, orders tried on each, and the narrowest one.
_WIDTH, _ORDERS, _NARROWEST = 1.5, (6, 12), 0.02


class _Fit:
    """A positive function on a panel from the logarithms of its values at Chebyshev's nodes.

    Its logarithm is interpolated, which becomes a line towards recovery; the function itself where it vanishes.
    """

    def __init__(self, begin: float, end: float, nodes: Array, logarithms: Array) -> None:
        self._plain = not np.isfinite(logarithms).all()
        values = np.exp(logarithms) if self._plain else logarithms
        size = max(float(np.abs(values).max()), 1e-300) if self._plain else 1.0
        coefficients = np.polynomial.chebyshev.chebfit(nodes, values, len(nodes) - 1)
        # Relative error.
        self.rest = float(np.abs(coefficients[-2:]).max()) / size
        self._series = Chebyshev(coefficients, domain=[begin, end])
        self._change = self._series.deriv()

    def __call__(self, w: float) -> float:
        value = float(self._series(w))
        return value if self._plain else math.exp(value)

    def slope(self, w: float) -> float:
        """Derivative of the logarithm."""
        change = float(self._change(w))
        return change / max(float(self._series(w)), 1e-300) if self._plain else change


class Explicit:
    """alpha(w) along one group, the others at zero overlap, with the growth rates of those.

    Parameters
    ----------
    equations : Equations
    group : int
    others : list of int
        Groups whose growth rates are wanted.
    size : int
        Number of groups.
    """

    # Relative accuracy of the interpolant, or this share of the error of the averages.
    _accuracy, _share = 1e-7, 0.3

    def __init__(self, equations: Equations, group: int, others: list[int], size: int) -> None:
        self._equations, self.group, self._others, self._size = equations, group, others, size
        self._edges = [0.0]
        self._panels: list[list[_Fit]] = []
        self._width = _WIDTH
        # Relative error of the interpolant, and of the averages.
        self.error = 0.0

    @property
    def end(self) -> float:
        """Largest w so far."""
        return self._edges[-1]

    @property
    def complete(self) -> bool:
        """Whether there is no further panel."""
        return self.end >= self._equations.top

    def full(self, w: float) -> Array:
        """All groups' w."""
        out = np.zeros(self._size)
        out[self.group] = w
        return out

    def extend(self) -> None:
        """Add the next panel."""
        begin, width = self.end, self._width
        while True:
            end = min(begin + width, self._equations.top)
            if end + 0.25 * width > self._equations.top:
                end = self._equations.top
            for order in _ORDERS:
                found, rest, noise = self._fitted(begin, end, order)
                if rest <= max(self._accuracy, self._share * noise):
                    break
            if rest <= max(self._accuracy, self._share * noise) or width < 2 * _NARROWEST:
                break
            width /= 2
        # Towards recovery all becomes simple.
        self._width = 2 * width if order == _ORDERS[0] else max(width, _WIDTH)
        self.error = max(self.error, rest)
        self._edges.append(end)
        self._panels.append(found)

    def _fitted(self, begin: float, end: float, order: int) -> tuple[list[_Fit], float, float]:
        """Interpolants on one panel, what the last coefficients leave, and the error of the averages."""
        nodes = np.cos(np.pi * np.arange(order, -1, -1) / order)
        # Both ends exactly, so that neighbours share them.
        w = np.concatenate([[begin], 0.5 * (begin + end) + 0.5 * (end - begin) * nodes[1:-1], [end]])
        points = [self._equations.at(self.full(float(at))) for at in w]
        rows = [np.array([p.log_alpha[self.group] for p in points])]
        rows += [np.array([-p.log_alpha[k] for p in points]) for k in self._others]
        fits, rest = [], 0.0
        for row in rows:
            fit = _Fit(begin, end, nodes, row)
            fits.append(fit)
            rest = max(rest, fit.rest)
        noise = max(float(np.abs(p.noise[:, self.group]).max()) for p in points)
        return fits, rest, noise

    def _fit(self, w: float, row: int) -> _Fit:
        panel = min(int(np.searchsorted(self._edges, w, side="right")) - 1, len(self._panels) - 1)
        return self._panels[max(panel, 0)][row]

    def alpha(self, w: float) -> float:
        """Alpha at which this overlap is a fixed point."""
        return self._fit(w, 0)(w)

    def slope(self, w: float) -> float:
        """Derivative of log alpha by w."""
        return self._fit(w, 0).slope(w)

    def excess(self, w: float, group: int) -> float:
        """Logarithm of the growth rate of another group at this fixed point."""
        rate = self.alpha(w) * self._fit(w, 1 + self._others.index(group))(w)
        return math.log(rate) if rate > 0 else -math.inf

    def turns_unstable(self, before: float, w: float, group: int) -> float:
        """Where another group begins to grow between these overlaps; the second where a jump is between them."""
        if not self.alpha(before) <= self.alpha(w) or not -math.inf < self.excess(before, group) <= 0:
            return w
        return float(brentq(lambda at: self.excess(at, group), before, w, xtol=1e-14))

    def grid(self) -> Array:
        """Samples of w, with the edges of the panels."""
        # Samples of a panel among which its extrema and crossings are looked for.
        samples = 33
        parts = [np.linspace(a, b, samples) for a, b in zip(self._edges, self._edges[1:], strict=False)]
        return np.unique(np.concatenate(parts))

    def crossings(self, function: Callable[[float], float]) -> list[float]:
        """Roots of a function of w, in order."""
        grid = self.grid()
        values = [function(float(w)) for w in grid]
        out = []
        for k in range(len(grid) - 1):
            a, b = values[k], values[k + 1]
            if a == 0:
                out.append(float(grid[k]))
            elif a * b < 0:
                out.append(
                    float(brentq(function, grid[k], grid[k + 1], xtol=1e-14))
                    if math.isfinite(a * b)
                    else float(grid[k + 1])
                )
        if values[-1] == 0:
            out.append(float(grid[-1]))
        return out

    def first(self, alpha: float) -> float:
        """Smallest w at which the iteration from zero converges; the end where it goes beyond."""
        if alpha <= self.alpha(0.0):
            return 0.0
        return next(iter(self.crossings(lambda w: self.alpha(w) - alpha)), self.end)

    def last(self, alpha: float, top: float | None = None) -> float:
        """Largest w <= top at which the iteration from above converges; the end where it stays beyond."""
        top = self.end if top is None else top
        if self.alpha(top) <= alpha:
            return top
        below = [w for w in self.crossings(lambda w: self.alpha(w) - alpha) if w <= top]
        # Towards larger w alpha rises through its value: a stable fixed point.
        return below[-1] if below else 0.0

    def folds(self, *, rising: bool, top: float | None = None) -> list[tuple[float, float]]:
        """Spinodals met from below (first overlap), or from above (last overlap): w before and after the jump."""
        grid = self.grid()
        grid = grid if top is None else grid[grid <= top]
        grid = grid if rising else grid[::-1]
        values = np.array([self.alpha(float(w)) for w in grid])
        sign = 1.0 if rising else -1.0
        values = sign * values
        out: list[tuple[float, float]] = []
        k = 0
        while k < len(grid) - 1:
            if values[k + 1] >= values[k]:
                k += 1
                continue
            later = np.flatnonzero(values[k + 1 :] > values[k])
            until = k + 1 + int(later[0]) if len(later) else len(grid)
            dip = values[k] - values[k + 1 : until].min()
            if dip > 3 * (self.error + self._accuracy) * abs(values[k]):
                at = self._extremum(float(grid[max(k - 1, 0)]), float(grid[k]), float(grid[k + 1]))
                level = self.alpha(at)
                if until < len(grid):
                    after = self._where(level, float(grid[until - 1]), float(grid[until]))
                else:
                    after = float(grid[-1])
                out.append((at, after))
            k = until
        return out

    def _where(self, alpha: float, before: float, after: float) -> float:
        return float(brentq(lambda w: self.alpha(w) - alpha, before, after))

    def _extremum(self, before: float, at: float, after: float) -> float:
        """Where the slope of alpha vanishes; an end of the interval if it does not."""
        low, high = min(before, after), max(before, after)
        if self.slope(low) * self.slope(high) >= 0:
            return at
        return float(brentq(self.slope, low, high, xtol=1e-12))
