r"""Law of Y = S + sqrt(Delta) Z in the limit of large d, in the parameter in which nothing needs to be solved.

S = W W^T / sqrt(r d) has the law sqrt(rho) times Marchenko-Pastur, Z is GOE of off-diagonal variance 1/d. With s =
sqrt(rho), the Stieltjes transform g of Y solves

    x = 1/g + rho/(s - g) + Delta g.

Inside the support the cubic has a complex pair u -+ i w, w = pi times the density, and one real root s + e, e > 0. All
of it is explicit in e: with a = (s + e)^{-1/2}, b = s e^{-1/2}, m = (Delta s)^{1/2},

    x = a^2 - b^2 + Delta (s + e),  u = (a^2 - b^2 + m^2)/(2 Delta),  w = 2 (area of the triangle a, b, m)/Delta,

(Heron's formula for the discriminant), and the optimal estimate of an eigenvalue is f(x) = x - 2 Delta u = Delta e.
The support is where the triangle exists: its edges are a + b = m, b = a + m and, if rho^{1/3} + (rho Delta)^{1/3} < 1,
the two solutions of a = b + m, which bound a gap. The change e -> rho sqrt(Delta)/e takes the cubic at (rho, Delta)
into the one at (rho Delta, 1/Delta).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import ConvergenceError
from ..core.results import Estimate
from ..learning.blocks import Array
from ..quadrature.rules import Rule, refine, tanh_sinh
from .checks import above_zero
from .precise import mmse_digits
from .support import support

__all__ = ["Spectrum", "mmse", "overlap_gain"]

_EPS = float(np.finfo(float).eps)


@lru_cache
def _rule(level: int) -> Rule:
    # Steps of the double-exponential rule, each half of the one before.
    first_step = 0.25
    return tanh_sinh(first_step / 2**level)


class Points(NamedTuple):
    """Eigenvalue x, real part u of g, w = pi times the density, and slope dx/de at given e; see the module."""

    x: Array
    u: Array
    w: Array
    slope: Array


class Spectrum:
    """Support, density and optimal shrinkage of Y = S + sqrt(Delta) Z.

    Parameters
    ----------
    rho : float
        Width r/d, in [1e-30, 1e30].
    delta : float
        Variance of the noise, likewise.

    Attributes
    ----------
    intervals : tuple of (float, float)
        log e of the edges of each interval of the support.
    edges : ndarray, shape (k, 2)
        The intervals in x; k = 2 if rho^{1/3} + (rho Delta)^{1/3} < 1, else 1.

    Raises
    ------
    ValueError
        A parameter out of range.
    ConvergenceError
        Edges that agree in float64.

    Notes
    -----
    Numbers are good to about 1e-15 over the width of an interval in log e, which is small where Y is almost S or almost
    noise (and at gaps where a small share of the eigenvalues is); `mmse` turns to more digits there.

    References
    ----------
    boncoraglio2025, matrix denoiser.
    """

    def __init__(self, rho: float, delta: float) -> None:
        self.rho = above_zero("rho", rho, "rho = r/d")
        self.delta = above_zero("Delta", delta, "noise of the matrix denoiser")
        self.s = math.sqrt(self.rho)
        self._m = math.sqrt(self.delta * self.s)
        self.intervals, self._split = support(self.rho, self.delta)
        ends = np.array(self.intervals)
        self.edges: Array = self.at(np.exp(ends)).x

    def _sides(self, e: Array) -> tuple[Array, Array]:
        return 1 / np.sqrt(self.s + e), self.s / np.sqrt(e)

    def _x(self, log_e: Array) -> Array:
        e = np.exp(log_e)
        return np.asarray(1 / (self.s + e) - self.rho / e + self.delta * (self.s + e))

    def at(self, e: ArrayLike) -> Points:
        """Return x, u, w and dx/de at e > 0; w is zero where there is no triangle."""
        e = np.asarray(e, np.float64)
        a, b = self._sides(e)
        m = self._m
        heron = (a + b + m) * (b + m - a) * (a + m - b) * (a + b - m)
        return Points(
            x=a * a - b * b + self.delta * (self.s + e),
            u=(a * a - b * b + m * m) / (2 * self.delta),
            w=np.sqrt(np.maximum(heron, 0.0)) / (2 * self.delta),
            slope=b**4 / self.rho + self.delta - a**4,
        )

    def integrate(self, f: Callable[[Array, Points], Array]) -> Estimate:
        """Integral over the support of f(e, points) dx.

        Parameters
        ----------
        f : callable
            Takes arrays of e and `Points`; analytic inside the support.

        Notes
        -----
        Double-exponential rule in log e on each interval. Where a gap is about to open inside an interval, two branch
        points come close to the real axis there; the interval is cut at that point.
        """
        panels = list(self.intervals)
        if self._split is not None:
            (first, last), split = panels[0], self._split
            panels = [(first, split), (split, last)]

        def evaluate(level: int) -> float:
            rule, total = _rule(level), 0.0
            for left, right in panels:
                half = 0.5 * (right - left)
                e = np.exp(0.5 * (left + right) + half * rule.nodes)
                points = self.at(e)
                total += half * float(rule.weights @ (f(e, points) * points.slope * e))
            return total

        return refine(evaluate, relative=4 * _EPS, first=1, last=6)[0]

    def mass(self) -> Estimate:
        """Integral of the density: one, and so a check."""
        return self.integrate(lambda e, p: p.w / math.pi)

    def cube(self) -> Estimate:
        """(4 pi^2/3) Delta times the integral of the cubed density: 1 - MMSE/Delta."""
        scale = 4 / (3 * math.pi) * self.delta
        return self.integrate(lambda e, p: scale * p.w**3)

    def parameter(self, x: ArrayLike) -> Array:
        """Return e at eigenvalues inside the support; NaN outside."""
        x = np.asarray(x, np.float64)
        found = np.full(x.shape, np.nan)
        for (left, right), (low, high) in zip(self.intervals, self.edges, strict=True):
            inside = (x >= low) & (x <= high)
            found[inside] = np.exp(_monotone(self._x, x[inside], left, right))
        return found

    def density(self, x: ArrayLike) -> Array:
        """Density of the eigenvalues of Y; zero outside the support."""
        e = self.parameter(x)
        inside = np.isfinite(e)
        out = np.zeros(e.shape)
        out[inside] = self.at(e[inside]).w / math.pi
        return out

    def rounding(self, x: ArrayLike) -> Array:
        """Relative error of w from the rounding of the sides of its triangle, which counts where it is flat."""
        e = self.parameter(x)
        inside = np.isfinite(e)
        a, b = self._sides(e[inside])
        m = self._m
        flat = sum(1 / np.maximum(np.abs(part), 1e-300) for part in (b + m - a, a + m - b, a + b - m))
        out = np.zeros(e.shape)
        out[inside] = np.minimum(2 * _EPS * np.maximum(np.maximum(a, b), m) * flat, 1.0)
        return out

    def shrink(self, x: ArrayLike) -> Array:
        """f(x) = x - 2 Delta Re g(x), the optimal estimate of the eigenvalues of S.

        Inside the support it is Delta e > 0; outside, g is the real root with dx/dg < 0.
        """
        x = np.asarray(x, np.float64)
        out = np.asarray(self.delta * self.parameter(x))
        for where, g in self._outside(x):
            out[where] = x[where] - 2 * self.delta * g
        return out

    def shrink_slope(self, x: ArrayLike) -> Array:
        """f'(x): Delta/(dx/de) inside the support, 1 - 2 Delta/(dx/dg) outside."""
        x = np.asarray(x, np.float64)
        e = self.parameter(x)
        out = np.full(x.shape, np.nan)
        inside = np.isfinite(e)
        out[inside] = self.delta / self.at(e[inside]).slope
        for where, g in self._outside(x):
            out[where] = 1 - 2 * self.delta / (-1 / g**2 + self.rho / (self.s - g) ** 2 + self.delta)
        return out

    def _outside(self, x: Array) -> list[tuple[NDArray[np.bool_], Array]]:
        """For each part of the complement of the support: which x lie there, and the physical g."""

        def x_of(g: Array) -> Array:
            return 1 / g + self.rho / (self.s - g) + self.delta * g

        # At an edge g = -+ a (s/Delta)^{1/2}, negative at the lowest one only.
        log_e = np.array(self.intervals).ravel()
        g_edge = np.sqrt(self.s / self.delta / (self.s + np.exp(log_e)))
        g_edge[0] *= -1
        parts = []
        below, above = x < self.edges[0, 0], x > self.edges[-1, 1]
        if below.any():
            least = float(x[below].min())
            # 1/g alone is below x once |g| < 1/(|x| + s + |Delta g_edge|).
            start = -1 / (abs(least) + 2 * self.s + self.delta * abs(g_edge[0]) + 1 / abs(g_edge[0]))
            parts.append((below, _monotone(lambda g: -x_of(g), -x[below], g_edge[0], start)))
        if above.any():
            start = 1 / (float(x[above].max()) + 1 / g_edge[-1])
            parts.append((above, _monotone(lambda g: -x_of(g), -x[above], start, g_edge[-1])))
        if len(self.intervals) == 2:
            gap = (x > self.edges[0, 1]) & (x < self.edges[1, 0])
            if gap.any():
                parts.append((gap, _monotone(lambda g: -x_of(g), -x[gap], g_edge[2], g_edge[1])))
        return parts


def _monotone(f: Callable[[Array], Array], target: Array, left: float, right: float) -> Array:
    """Solve f(t) = target for increasing f on [left, right], elementwise, by bisection to the last bit of its ends."""
    low, half = np.full(target.shape, left), 0.5 * (right - left)
    ends = sorted((abs(left), abs(right)))
    least = 0.25 * np.spacing(max(ends[0], 1e-17 * ends[1]))  # an end may be zero
    for _ in range(200):
        if half < least:
            break
        middle = low + half
        low = np.where(f(middle) < target, middle, low)
        half *= 0.5
    return low + half


@lru_cache(maxsize=4096)
def _loss(rho: float, delta: float) -> tuple[Estimate, Estimate]:
    """I(rho, Delta) and 1 - I."""
    # The ends of an interval of log e are good to the last bit, so its width is to that over itself.
    try:
        spectrum = Spectrum(rho, delta)
        narrow = min(right - left for left, right in spectrum.intervals)
    except ConvergenceError:
        narrow = 0.0
    # Of an interval in log e, below which the digits come from mpmath.
    if narrow < 1e-3:
        digits = 40
        exact = Fraction(mmse_digits(rho, delta, digits=digits).value) / Fraction(delta)
        loss, kept = float(1 - exact), float(exact)
        far = 2 * 10.0**-digits
        return (
            Estimate(loss, 2 * _EPS * loss + far, "estimated"),
            Estimate(kept, 2 * _EPS * kept + far, "estimated"),
        )
    found = spectrum.cube()
    error = found.error + 4 * _EPS * (1 + float(np.abs(spectrum.intervals).max())) / narrow * found.value
    rest = max(1 - found.value, 0.0)
    return Estimate(found.value, error, "estimated"), Estimate(rest, error + _EPS, "estimated")


def _dual(rho: float, delta: float) -> tuple[Estimate, Estimate]:
    """Both at (rho Delta, 1/Delta), each of which is rounded: powers of at most one of them."""
    first, second = _loss(rho * delta, 1 / delta)
    return (
        Estimate(first.value, first.error + 4 * _EPS * first.value, "estimated"),
        Estimate(second.value, second.error + 4 * _EPS * second.value, "estimated"),
    )


def mmse(rho: float, delta: float) -> Estimate:
    """Minimal mean squared error (1/d) E ||S - E[S | Y]||^2 of the matrix denoiser.

    Delta (1 - I(rho, Delta)), I = (4 pi^2/3) Delta times the integral of the cubed density of Y. Above Delta = 1 the
    form 1 - I(rho Delta, 1/Delta) takes its place (duality), so that nothing cancels where MMSE -> 1.

    Parameters
    ----------
    rho : float
        Width r/d, in [1e-30, 1e30].
    delta : float
        Variance of the noise, likewise, and so rho Delta.

    Returns
    -------
    Estimate
        Relative accuracy is that of 1 - I, which is at least min(2 rho - rho^2, 1) at Delta -> 0.

    Raises
    ------
    ValueError
        A parameter out of range.

    References
    ----------
    boncoraglio2025, matrix denoiser.
    """
    rho, delta = above_zero("rho", rho, "rho = r/d"), above_zero("Delta", delta, "noise of the matrix denoiser")
    if delta > 1:
        above_zero("rho Delta", rho * delta, "noise of the matrix denoiser")
        return _dual(rho, delta)[1]
    rest = _loss(rho, delta)[1]
    return Estimate(delta * rest.value, delta * rest.error + _EPS * delta * rest.value, "estimated")


def overlap_gain(rho: float, delta: float) -> Estimate:
    """Overlap gained, q - rho = 1 - MMSE, to its own relative accuracy also at Delta -> infinity, where it is 1/Delta.

    References
    ----------
    boncoraglio2025, matrix denoiser.
    """
    rho, delta = above_zero("rho", rho, "rho = r/d"), above_zero("Delta", delta, "noise of the matrix denoiser")
    if delta > 1:
        above_zero("rho Delta", rho * delta, "noise of the matrix denoiser")
        return _dual(rho, delta)[0]
    value = mmse(rho, delta)
    return Estimate(1 - value.value, value.error + _EPS, "estimated")
