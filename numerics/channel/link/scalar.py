"""Channel averages of a link of one combination of h without noise, by deterministic quadrature.

For u ~ N(0, 1) seen through outputs of u alone, and omega | u ~ N(q u, q V), V = 1 - q, the posterior of u is a sum
over the points with the same outputs, or over intervals on which these are constant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ...model.links import LinkKernel, Part, Region
from ...posterior.link.monotone import MonotonePieces
from ...posterior.link.rules import CUT, half_interval_rule
from .points import Points, log_sums, moments

__all__ = ["ScalarEntry", "ScalarLink", "interval_posterior"]

Array = NDArray[np.float64]


def interval_posterior(low: Array, high: Array, omega: Array, sd: Array | float) -> tuple[Array, Array, Array]:
    """Integrals of (1, u - omega, (u - omega)^2) against N(omega, sd^2) over [low, high]."""
    if np.ndim(low) == np.ndim(high) == 0 and np.isinf(low) != np.isinf(high):
        return _half_line(low, high, omega, sd)
    a, b = (low - omega) / sd, (high - omega) / sd
    # Beyond the middle the complements keep their digits.
    beyond = a > 0
    mass = ndtr(np.where(beyond, -a, b)) - ndtr(np.where(beyond, -b, a))
    finite = [np.clip(x, -40.0, 40.0) for x in (a, b)]
    left, right = (np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) for x in finite)
    return mass, sd * (left - right), sd**2 * (mass + finite[0] * left - finite[1] * right)


def _half_line(low: Array, high: Array, omega: Array, sd: Array | float) -> tuple[Array, Array, Array]:
    """Do what `interval_posterior` does where one end is infinite, without what vanishes there."""
    below = bool(np.isinf(low))
    end = ((high if below else low) - omega) / sd
    finite = np.clip(end, -40.0, 40.0)
    density = np.exp(-0.5 * finite * finite) / math.sqrt(2 * math.pi)
    if below:
        mass = ndtr(end)
        return mass, sd * -density, sd**2 * (mass - finite * density)
    tail = ndtr(-np.abs(end))
    mass = np.where(end > 0, tail, 1 - tail)
    return mass, sd * density, sd**2 * (mass + finite * density)


@dataclass(frozen=True)
class _Nodes:
    """Values of u with weights, and what else gives the same outputs.

    Attributes
    ----------
    u, weight : ndarray, shape (n,)
    others, slopes : ndarray, shape (n, k)
        Points with the same outputs and 1/|dy/du| there relative to u's own; weight zero where there is none.
    intervals : list of (ndarray of n bool, list of (low, high))
        Nodes at which the outputs are constant, and where they have the same values.
    """

    u: Array
    weight: Array
    others: Array
    slopes: Array
    intervals: list[tuple[NDArray[np.bool_], list[tuple[float, float]]]]

    def points(self, rows: NDArray[np.bool_]) -> Points:
        """Those of the nodes at which the posterior is a sum over points."""
        with np.errstate(divide="ignore"):
            return Points(self.u[rows], self.others[rows], np.log(self.slopes[rows]))


@dataclass(frozen=True)
class _Inverse:
    """One output on one region, inverted on its monotone pieces."""

    region: Region
    number: int
    pieces: MonotonePieces


@dataclass(frozen=True)
class _Truth:
    """Nodes on one region, all outputs there, and the size of the slope of the one that is inverted."""

    here: NDArray[np.bool_]
    u: Array
    y: Sequence[Array]
    slope: Array


class ScalarEntry:
    """One entry of h, or one combination of entries, as outputs depend on it.

    Parameters
    ----------
    kernel : LinkKernel
    part : Part
        With one entry, or with a direction.
    """

    def __init__(self, kernel: LinkKernel, part: Part) -> None:
        self.kernel, self.part = kernel, part
        #: Entries of h, and the unit vector over them.
        self.places = part.entries
        self.direction = np.array(part.direction or (1.0,))

    def entries(self, u: Array) -> list[Array]:
        """Entries of h where this one is u; NaN for the others."""
        out = [np.array(math.nan)] * self.kernel.size
        out[self.places[0]] = u
        return out

    def value(self, region: Region, u: Array) -> list[Array]:
        """Outputs on a region."""
        return [np.broadcast_to(v, u.shape) for v in region.output(self.entries(u))]

    def limits(self, region: Region) -> tuple[float, float]:
        """Interval of a region, cut where the normal law ends."""
        low, high = region.interval(self.places[0])
        return max(low, -CUT), min(high, CUT)

    def rule(self, special: set[float], order: int, dense: float) -> tuple[Array, Array]:
        """Nodes of u, density included, dense towards special points."""
        edges = np.unique(np.clip([*np.linspace(-CUT, CUT, 9), *special], -CUT, CUT))
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9])]
        middle = 0.5 * (edges[1:] + edges[:-1])
        start, end = np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle])
        at = np.array(sorted(special) or [np.inf])
        near = np.abs(start[:, None] - at).min(axis=1) < 1e-8
        # First panel away from ends and critical points.
        plain = 0.34
        rules = [
            half_interval_rule(start[chosen], end[chosen], order, least)
            for chosen, least in ((near, dense), (~near, plain))
        ]
        u, w = (np.concatenate([rule[k].ravel() for rule in rules]) for k in (0, 1))
        keep = np.exp(-0.5 * u * u) * w > 1e-18
        return u[keep], (w * np.exp(-0.5 * u * u))[keep] / math.sqrt(2 * math.pi)


class ScalarLink(ScalarEntry):
    """Outputs of one entry of h, or of the square of one combination of them."""

    _same = 1e-7

    # Nodes of u per panel and step in omega, coarse and fine.
    _resolutions = ((10, 0.26), (14, 0.2))

    def __init__(self, kernel: LinkKernel, part: Part) -> None:
        super().__init__(kernel, part)
        self._nodes = [self._make(order) for order, _ in self._resolutions]

    def __call__(self, q: float) -> tuple[Array, Array]:
        """E g^2 and E (dg/d omega)^2 at the overlap q, each by two resolutions: shape (2,)."""
        values = [self._average(q, n, step) for n, (_, step) in zip(self._nodes, self._resolutions, strict=True)]
        return np.array([v[0] for v in values]), np.array([v[1] for v in values])

    def log_density(self, q: float) -> Array:
        """E log Z_out at the overlap q by two resolutions, shape (2,), less E log of the slope at the truth.

        The slope does not depend on q; the digits of differences are kept, also near q = 1.
        """
        return np.array(
            [self._log_density(q, n, step) for n, (_, step) in zip(self._nodes, self._resolutions, strict=True)]
        )

    @property
    def solved(self) -> float:
        """Probability that the outputs leave a few points for u, and not an interval."""
        nodes = self._nodes[-1]
        intervals = [here for here, _ in nodes.intervals]
        return float(nodes.weight[~np.any(intervals, axis=0)].sum()) if intervals else 1.0

    def _pieces(self, region: Region, number: int) -> MonotonePieces:
        slope = region.branches[number][self.places[0]][2]
        return MonotonePieces(
            lambda u: self.value(region, u)[number],
            lambda u: np.broadcast_to(slope(self.entries(u))[0], u.shape),
            *self.limits(region),
        )

    def _make(self, order: int) -> _Nodes:
        # First panel towards an end or a critical point, of t where u = start + length t^2.
        dense = 3e-3
        if self.part.fixed:
            # y fixes u up to its sign, with equal slopes.
            u, weight = self.rule({0.0}, order, dense)
            return _Nodes(u, weight, np.stack([u, -u], axis=1), np.ones((len(u), 2)), [])
        regions = [r for r in self.part.regions if self.limits(r)[0] < self.limits(r)[1]]
        moving = [(r, next(k for k, used in enumerate(r.depends) if used)) for r in regions if any(r.depends)]
        monotone = [_Inverse(r, k, self._pieces(r, k)) for r, k in moving]
        u, weight = self.rule(self._special(regions, monotone), order, dense)
        others, slopes = [u], [np.ones(len(u))]
        intervals = []
        with np.errstate(all="ignore"):
            for region in regions:
                low, high = self.limits(region)
                here = (u > low) & (u < high)
                if not here.any():
                    continue
                y = self.value(region, u[here])
                if not any(region.depends):
                    same = [
                        r.interval(self.places[0]) for r in regions if not any(r.depends) and self._agree(r, u[here], y)
                    ]
                    intervals.append((here, same))
                    continue
                number = next(k for k, used in enumerate(region.depends) if used)
                truth = _Truth(here, u, y, np.abs(self._pieces(region, number).slope(u[here])))
                for inverse in (i for i in monotone if i.number == number):
                    for piece in range(inverse.pieces.count):
                        found, point, relative = self._branch(inverse, piece, truth)
                        if found:
                            others.append(point)
                            slopes.append(relative)
        return _Nodes(u, weight, np.stack(others, axis=1), np.stack(slopes, axis=1), intervals)

    def _branch(self, inverse: _Inverse, piece: int, truth: _Truth) -> tuple[bool, Array, Array]:
        """Whether a piece has points with the same outputs as nodes, these, and 1/|dy/du| over that at the nodes."""
        here, u, y = truth.here, truth.u, truth.y
        x = inverse.pieces.solve(y[inverse.number], piece)
        slope = np.abs(inverse.pieces.slope(x))
        low, high = (end[piece] for end in inverse.pieces.ends)
        # The node itself is there already.
        found = np.isfinite(x) & (slope > 0) & ~((u[here] >= low) & (u[here] <= high))
        values = zip(self.value(inverse.region, x), y, strict=True)
        found &= np.all([np.abs(v - t) <= self._same * (1 + np.abs(t)) for v, t in values], axis=0)
        point, relative = u.copy(), np.zeros(len(u))
        point[here] = np.where(found, x, u[here])
        relative[here] = np.where(found, truth.slope / slope, 0.0)
        return bool(found.any()), point, relative

    def _agree(self, region: Region, u: Array, y: Sequence[Array]) -> bool:
        values = self.value(region, u)
        return all(bool(np.all(np.abs(v - t) <= self._same * (1 + np.abs(t)))) for v, t in zip(values, y, strict=True))

    def _special(self, regions: Sequence[Region], monotone: Sequence[_Inverse]) -> set[float]:
        """Where the link is not smooth, and where the number of points with the same output changes."""
        entry = self.places[0]
        at = {b for r in regions for b in r.interval(entry)} | {c for r in regions for c in r.centres.get(entry, ())}
        at |= {float(e) for inverse in monotone for side in inverse.pieces.ends for e in side}
        at = {x for x in at if abs(x) < CUT}
        found = set(at)
        with np.errstate(all="ignore"):
            for own in monotone:
                low, high = self.limits(own.region)
                ends = np.array([x for x in at if low <= x <= high])
                values = self.value(own.region, ends)[own.number] if len(ends) else np.zeros(0)
                values = values[np.isfinite(values)]
                for inverse in (i.pieces for i in monotone if i.number == own.number and len(values)):
                    roots = np.concatenate([inverse.solve(values, piece) for piece in range(inverse.count)])
                    found |= {float(x) for x in roots[np.isfinite(roots)]}
        return found

    def _log_density(self, q: float, nodes: _Nodes, step: float) -> float:
        v = 1 - q
        z, density = _normal_rule(step)
        shift = math.sqrt(q * v) * z
        total = np.zeros(len(nodes.u))
        everywhere = np.ones(len(nodes.u), dtype=bool)
        for here, same in nodes.intervals:
            everywhere &= ~here
            omega = q * nodes.u[here, None] + shift
            mass = np.sum(
                [interval_posterior(np.array(a), np.array(b), omega, math.sqrt(v))[0] for a, b in same], axis=0
            )
            total[here] = np.log(np.maximum(mass, 1e-300)) @ density
        points = nodes.points(everywhere)
        excess = np.empty(len(points.truth))
        # Of the truth the prior density is known on average; what the other points add to it is left.
        log_sums(points, q, shift, density, excess)
        total[everywhere] = excess - 0.5 * (v * points.truth**2 + q + math.log(2 * math.pi * v))
        return float(nodes.weight @ total)

    def _average(self, q: float, nodes: _Nodes, step: float) -> tuple[float, float]:
        v = 1 - q
        z, density = _normal_rule(step)
        shift = math.sqrt(q * v) * z
        moved, spread, change = np.zeros((3, len(nodes.u)))
        everywhere = np.ones(len(nodes.u), dtype=bool)
        for here, same in nodes.intervals:
            everywhere &= ~here
            omega = q * nodes.u[here, None] + shift
            parts = [interval_posterior(np.array(a), np.array(b), omega, math.sqrt(v)) for a, b in same]
            mass, first, second = (reduce(np.add, [p[k] for p in parts]) for k in range(3))
            mass = np.maximum(mass, 1e-300)
            mean = first / mass
            variance = second / mass - mean**2
            moved[here] = mean**2 @ density
            spread[here] = variance @ density
            change[here] = (variance / v - 1) ** 2 @ density
        points = nodes.points(everywhere)
        out = np.empty((3, len(points.truth)))
        moments(points, q, shift, density, out)
        moved[everywhere], spread[everywhere], change[everywhere] = out
        # E (E[u|y] - omega)^2 = V - E Var[u|y]: each keeps its digits where it is the small one.
        g = nodes.weight @ moved / v**2 if v > 0.5 else (v - nodes.weight @ spread) / v**2
        return float(g), float(nodes.weight @ change / v**2)


def _normal_rule(step: float) -> tuple[Array, Array]:
    """Trapezoidal rule over a standard normal variable, density included."""
    reach = math.ceil(8.6 / step)
    z = step * np.arange(-reach, reach + 1, dtype=np.float64)
    density: Array = np.exp(-0.5 * z * z) * step / math.sqrt(2 * math.pi)
    return z, density
