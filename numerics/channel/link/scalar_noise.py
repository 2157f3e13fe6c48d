"""Channel averages of a noisy link of one entry of h, by deterministic quadrature.

The posterior is integrated over panels that are as wide as the prior or the noise allows, whichever is narrower: those
near the peaks are found, and the others left out.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.fastmath import exp_fast

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Part, Region
from ...posterior.link.rules import CUT
from ...quadrature.rules import gauss_legendre
from .scalar import ScalarEntry, ScalarLink
from .scalar_labels import ScalarLabels

__all__ = ["NoisyScalarLink", "OfOne", "scalar_link"]

Array = NDArray[np.float64]

# Deviations of prior and noise that count, and their number in a panel.
_REACH, _PANEL = 8.5, 2.0


def scalar_link(kernel: LinkKernel, part: Part) -> "OfOne":
    """Averages of a part of one entry, or without noise of one combination.

    Raises
    ------
    NotServedError
        A region is no interval, but where a condition holds.
    """
    if any(region.conditions is not None for region in part.regions):
        raise NotServedError("a region of the link is no interval")
    if kernel.noise > 0:
        return NoisyScalarLink(kernel, part)
    discrete = not any(used for region in part.regions for used in region.depends)
    return ScalarLabels(kernel, part) if discrete else ScalarLink(kernel, part)


class _Resolution(NamedTuple):
    """Nodes of u per panel; step in omega and in the noise; radius of the ball of the three; nodes of the posterior.

    Near a threshold the overlap is as far off as the average times one over the overlap, so that no cut may be common
    to both resolutions.
    """

    order: int
    step: float
    ball: float
    posterior: int


class NoisyScalarLink(ScalarEntry):
    """One noisy output of one entry of h.

    Raises
    ------
    NotServedError
        Several outputs, or poles.
    """

    _coarse, _fine = _Resolution(7, 0.6, 7.6, 8), _Resolution(10, 0.36, 8.4, 10)

    def __init__(self, kernel: LinkKernel, part: Part) -> None:
        super().__init__(kernel, part)
        if len(part.outputs) > 1:
            raise NotServedError("several noisy outputs of one entry")
        for region in part.regions:
            self._line(region)

    def __call__(self, q: float) -> tuple[Array, Array]:
        """E g^2 and E (dg/d omega)^2 at the overlap q, each by two resolutions: shape (2,)."""
        values = [self._average(q, resolution) for resolution in (self._coarse, self._fine)]
        return np.array([v[0] for v in values]), np.array([v[1] for v in values])

    def log_density(self, q: float) -> Array:
        """E log Z_out at the overlap q by two resolutions: shape (2,)."""
        # Less the exponent at the truth, whose mean is -1.
        constant = -1.0 - math.log(2 * math.pi) - 0.5 * math.log((1 - q) * self.kernel.noise)
        return np.array(
            [
                sum(float(weights @ np.log(sums[0])) for weights, sums in self._posteriors(q, resolution)) + constant
                for resolution in (self._coarse, self._fine)
            ]
        )

    @property
    def solved(self) -> float:
        """Probability that the output fixes u up to a few points: never, under noise."""
        return 0.0

    def _average(self, q: float, resolution: _Resolution) -> tuple[float, float]:
        v = 1 - q
        g = change = 0.0
        for weights, sums in self._posteriors(q, resolution):
            first = sums[1] / sums[0]
            variance = sums[2] / sums[0] - first**2
            g += float(weights @ first**2) / v**2
            change += float(weights @ (variance / v - 1) ** 2) / v**2
        return g, change

    def _posteriors(self, q: float, resolution: _Resolution) -> Iterator[tuple[Array, Array]]:
        """Weights of (u, omega, y); integrals of (1, u - omega, (u - omega)^2) over the density at the truth."""
        v, sigma = 1 - q, math.sqrt(self.kernel.noise)
        # First panel towards a special point, of t where u = start + length t^2.
        dense = 0.04
        u, weight = self.rule(self._marks, resolution.order, dense)
        step, ball = resolution.step, resolution.ball
        z = step * np.arange(-math.ceil(ball / step), math.ceil(ball / step) + 1)
        density = np.exp(-0.5 * z * z) * step / math.sqrt(2 * math.pi)
        w = weight[:, None, None] * density[:, None] * density
        keep = u[:, None, None] ** 2 + z[:, None] ** 2 + z**2 < ball**2
        a, b, c = np.nonzero(keep)
        truth, noise, weights = u[a], z[b], w[keep]
        omega = q * truth + math.sqrt(q * v) * z[c]
        y = np.zeros(len(truth))
        for region in self.part.regions:
            low, high = self.limits(region)
            here = (truth > low) & (truth < high)
            y[here] = self.value(region, truth[here])[0]
        y = y + sigma * noise
        panels = [
            p for region in self.part.regions for p in self._panels(region, math.sqrt(v), sigma, resolution.posterior)
        ]
        chunk = 400_000
        for begin in range(0, len(truth), chunk):
            part = slice(begin, begin + chunk)
            own = -0.5 * (truth[part] - omega[part]) ** 2 / v - 0.5 * noise[part] ** 2
            sums = np.zeros((3, len(own)))
            for panel in panels:
                sums += panel(_Truth(omega[part], y[part], own), v, sigma)
            yield weights[part], sums

    @cached_property
    def _marks(self) -> set[float]:
        """Where the link is not smooth, and the other points with its values there."""
        lines = [(x, y) for r in self.part.regions for x, y in [self._line(r)] if len(x)]
        found = {float(x[k]) for x, _ in lines for k in (0, -1) if abs(x[k]) < CUT}
        levels = {float(y[k]) for x, y in lines for k in (0, -1) if abs(x[k]) < CUT}
        for x, y in lines:
            turns = _turns(y)
            found |= {float(u) for u in x[turns]}
            levels |= {float(level) for level in y[turns]}
        for x, y in lines:
            for level in levels:
                at = np.flatnonzero((y[1:] - level) * (y[:-1] - level) < 0)
                found |= {float(u) for u in x[at] + (level - y[at]) * (x[at + 1] - x[at]) / (y[at + 1] - y[at])}
        # Those closer than the grid are one.
        points = np.array(sorted(found))
        return set(points[np.diff(points, prepend=-np.inf) > 1e-2].tolist())

    def _line(self, region: Region) -> tuple[Array, Array]:
        """The link of one region on a grid."""
        low, high = self.limits(region)
        if low >= high:
            return np.zeros(0), np.zeros(0)
        grid = np.linspace(low, high, 4001)
        inner = grid.copy()
        # The ends belong to the neighbours, where the formula may be another one.
        inner[0], inner[-1] = low + 1e-9 * (high - low), high - 1e-9 * (high - low)
        with np.errstate(all="ignore"):
            y = self.value(region, inner)[0]
        if not np.isfinite(y).all():
            raise NotServedError("the link has poles, or grows beyond the range of float64")
        return grid, y

    def _panels(self, region: Region, sd: float, sigma: float, order: int) -> list["_Panels"]:
        grid, y = self._line(region)
        if not len(grid):
            return []
        turns = _turns(y)
        found = []
        most_panels = 400_000
        for begin, end in zip([0, *turns], [*turns, len(grid) - 1], strict=True):
            x, level = grid[begin : end + 1], y[begin : end + 1]
            run = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(level)) / sigma + np.diff(x) / sd)])
            count = max(1, math.ceil(run[-1] / _PANEL))
            if count > most_panels:
                raise ValueError(
                    f"noise of deviation {sigma:.2g} is too narrow for the outputs {'; '.join(self.kernel.text)} (14): "
                    "leave it out, as it changes little until V is about as narrow"
                )
            edges = np.interp(np.linspace(0.0, run[-1], count + 1), run, x)
            found.append(_Panels(edges, np.interp(edges, x, level), lambda u: self.value(region, u)[0], order))
        return found


def _turns(y: Array) -> NDArray[np.int64]:
    """Places where a sequence turns."""
    way = np.sign(np.diff(y))
    return np.flatnonzero(way[1:] * way[:-1] < 0) + 1


class _Truth(NamedTuple):
    """Prior means, outputs, and the exponents of prior and noise at the truth, shape (n,)."""

    omega: Array
    y: Array
    own: Array


class _Rule(NamedTuple):
    """Nodes, weights, and the link at the nodes, shape (panels, order)."""

    x: Array
    w: Array
    level: Array


class _Panels:
    """Panels along a stretch on which the link rises or falls."""

    def __init__(self, edges: Array, level: Array, value: Callable[[Array], Array], order: int) -> None:
        nodes, weights = gauss_legendre(order)
        half = 0.5 * np.diff(edges)[:, None]
        x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes
        self.rule = _Rule(x, half * weights, np.array(value(x), order="C"))
        self.edges = edges
        self.way = 1.0 if level[-1] >= level[0] else -1.0
        self.level = np.maximum.accumulate(self.way * level)

    def __call__(self, truth: _Truth, v: float, sigma: float) -> Array:
        """Integrals of (1, u - omega, (u - omega)^2) against prior times noise, over the same at the truth."""
        omega, y = truth.omega, truth.y
        reach, wide = _REACH * math.sqrt(v), (_REACH + _PANEL) * sigma
        low = np.maximum(np.searchsorted(self.edges, omega - reach), np.searchsorted(self.level, self.way * y - wide))
        high = np.minimum(
            np.searchsorted(self.edges, omega + reach), np.searchsorted(self.level, self.way * y + wide, "right")
        )
        out = np.zeros((3, len(y)))
        spans = np.maximum(low - 1, 0), np.minimum(high, len(self.rule.x))
        _integrate(spans, self.rule, truth, v, sigma, out)
        return out


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _integrate(
    spans: tuple[NDArray[np.int64], NDArray[np.int64]], rule: _Rule, truth: _Truth, v: float, sigma: float, out: Array
) -> None:
    """Sum of each row over its panels, from the first to the last of `spans`."""
    low, high = spans
    order = rule.x.shape[1]
    x, w, level = rule.x.ravel(), rule.w.ravel(), rule.level.ravel()
    omega, y, own = truth
    narrow, steep = 0.5 / v, math.sqrt(0.5) / sigma
    for row in range(len(y)):
        zero = first = second = 0.0
        # In any order, so that several nodes are added at once.
        for k in range(low[row] * order, high[row] * order):
            point = x[k] - omega[row]
            gap = (y[row] - level[k]) * steep
            weight = w[k] * exp_fast(-narrow * point * point - gap * gap - own[row])
            zero += weight
            first += weight * point
            second += weight * point * point
        out[0, row], out[1, row], out[2, row] = zero, first, second


OfOne: TypeAlias = ScalarLink | ScalarLabels | NoisyScalarLink
