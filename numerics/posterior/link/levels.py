"""Integrals of 1, h and h h^T over the level sets of a link in a region, where the output varies: branches y -> h."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from .known import KnownRegion
from .monotone import MonotonePieces
from .rules import (
    CUT,
    Intervals,
    LineRule,
    normal_density,
    scan_grid,
    section_rule,
    turning_points,
    valid_intervals,
)

__all__ = ["Level", "LevelSets"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


class _Slices(NamedTuple):
    """Level sets at some fixed entries: y, these entries, the row of the sums each counts in, its weight."""

    y: Array
    fixed: dict[int, Array]
    rows: IntArray
    weight: Array

    def part(self, which: slice) -> "_Slices":
        fixed = {i: v[which] for i, v in self.fixed.items()}
        return _Slices(self.y[which], fixed, self.rows[which], self.weight[which])


class Level(NamedTuple):
    """Nodes on level sets: the active entries, the row of y of each node, and its weight."""

    values: dict[int, Array]
    rows: IntArray
    weight: Array


class LevelSets(KnownRegion):
    """A region in which y = g(h) is solved for one entry, and the others are integrated over."""

    # Points on level sets at which smoothness is tried, at these distances, and the second derivative that is smooth.
    _trials, _distances, _bend = 400, (1e-4, 1e-3, 1e-2, 1e-1), 10.0

    _chunk = 2_000_000

    @cached_property
    def solvable(self) -> list[int]:
        """Entries that y = g(h) can be solved for, those with the fewest branches first."""
        table = self.region.branches[self.output]
        choice = [i for i, (count, _, _) in table.items() if i not in self.known and (count or len(self.active) == 1)]
        if not choice:
            names = ", ".join(f"entry {i + 1}" for i in self.active)
            raise NotServedError(f"y = g(h) has no closed solution in any of {names}")
        return sorted(choice, key=lambda i: (table[i][0], i))

    @cached_property
    def numeric(self) -> MonotonePieces | None:
        """Inverse by bisection where the only active entry has no closed one."""
        if self.region.branches[self.output][self.unknown][0]:
            return None

        def at(f: Callable[[Sequence[Array]], tuple[Array, ...]], place: int) -> Callable[[Array], Array]:
            return lambda x: np.broadcast_to(f(self.entries({self.unknown: x}))[place], x.shape)

        slope = self.region.branches[self.output][self.unknown][2]
        return MonotonePieces(at(self.region.output, self.output), at(slope, 0), *self.limits(self.unknown))

    @cached_property
    def branch_count(self) -> int:
        """How many candidates y = g(h) has for the unknown entry."""
        numeric = self.numeric
        return self.region.branches[self.output][self.unknown][0] if numeric is None else numeric.count

    def value(self, entries: Sequence[Array]) -> Array:
        """The output that is solved for."""
        return np.asarray(self.region.output(entries)[self.output])

    def slope(self, entries: Sequence[Array]) -> Array:
        """Its slope in the unknown entry."""
        return np.asarray(self.region.branches[self.output][self.unknown][2](entries)[0])

    def _candidate(self, y: Array, values: dict[int, Array], number: int) -> Array:
        solve = self.region.branches[self.output][self.unknown][1]
        if solve is None:
            assert self.numeric is not None
            return self.numeric.solve(y, number)
        return np.asarray(solve(y, self.entries(values))[number])

    @property
    def unknown(self) -> int:
        """Entry to solve y = g(h) for."""
        return self.plan[0] if self.plan else self.solvable[0]

    @property
    def others(self) -> tuple[int, ...]:
        """The other active entries, the innermost first."""
        return self.plan[1:] if self.plan else tuple(i for i in self.active if i != self.unknown)

    def check(self) -> None:
        """Refuse more coupled entries than the nested rules serve."""
        if len(self.active) > 3:
            raise NotServedError(
                f"the link couples {len(self.active)} entries of h at once (entries "
                f"{', '.join(str(i + 1) for i in self.active)}, token by token), and a quadrature serves at most 3"
            )

    def density(self, y: Array, rule: LineRule) -> Array:
        """Density at y times (1, E[h], E[h h^T]) of this piece; shape (len(y), 1 + n + n(n+1)/2)."""
        out = np.zeros((len(y), self.width))
        for level in self.levels(y, rule):
            out += self.moments(level.weight, level.values, level.rows, len(y))
        return out

    def levels(self, y: Array, rule: LineRule) -> Iterator[Level]:
        """Nodes of a rule over the level sets at y, with the density of N(0, I) over the slope as weight."""
        count = len(y)
        others = self.others
        self.check()
        slices = _Slices(y, {}, np.arange(count), np.ones(count))
        if not others:
            yield from self._branches(slices)
        elif len(others) == 1:
            yield from self._line(slices, others[0], rule, 481)
        else:
            rows, x, w = self._section_rule(y, others[1], others[0], rule)
            slices = _Slices(y[rows], {others[1]: x}, rows, w * normal_density(x))
            yield from self._line(slices, others[0], rule, 121)

    def _section_rule(self, y: Array, entry: int, along: int, rule: LineRule) -> tuple[IntArray, Array, Array]:
        """Rule along an entry for each y, with panels that end where a level set's section changes its form."""
        # Where panels of the outer one of two entries end.
        nested_cut = 7.0
        far = CUT if self.even and rule.even else nested_cut
        low, high = (float(np.clip(end, -far, far)) for end in self.limits(entry))
        if low >= high:
            return np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
        marks = sorted({low, high, *(c for c in self._marks(entry, rule) if low < c < high)})
        lines = sorted({*self.limits(along), *(c for c in (0.0,) if self.limits(along)[0] < c < self.limits(along)[1])})
        line = scan_grid(lines, 61)
        grid = scan_grid(marks, 61)

        def form(row: IntArray, x: Array) -> IntArray:
            code = np.zeros(len(row), dtype=np.int64)
            step = max(1, self._chunk // len(line))
            for begin in range(0, len(row), step):
                part = slice(begin, begin + step)
                values = {entry: x[part][:, None], along: np.broadcast_to(line, (len(x[part]), len(line)))}
                for number in range(self.branch_count):
                    ok = self.branch(y[row[part]][:, None], values, number)[1]
                    code[part] = 64 * code[part] + 2 * (ok[:, 1:] != ok[:, :-1]).sum(axis=1) + ok[:, 0]
            return code

        return section_rule(form, len(y), marks, grid, rule)

    def _marks(self, entry: int, rule: LineRule) -> tuple[float, ...]:
        """Values of an entry at which panels of a rule end."""
        centres = tuple(self.region.centres.get(entry, ()))
        return centres if self.even and rule.even else (0.0, *centres)

    @property
    def smooth(self) -> bool:
        """Whether level sets are smooth over all of the other entries, as far as second differences show."""
        if not self.others or not self.branch_count:
            return False
        rng = np.random.default_rng(0)
        # On every scale about zero, where links have their corners and poles.
        scale = 10.0 ** -rng.integers(0, 6, (len(self.active), self._trials))
        h = dict(zip(self.active, rng.standard_normal(scale.shape) * scale, strict=True))
        whole = replace(self, even=True)
        with np.errstate(all="ignore"):
            y = np.broadcast_to(self.value(self.entries(h)), (self._trials,))
            rest = {e: h[e] for e in self.others}
            return all(whole.smooth_about_zero(y, rest, e, d) for e in self.others for d in self._distances)

    def smooth_about_zero(self, y: Array, values: dict[int, Array], entry: int, distance: float) -> bool:
        """Whether all branches exist about zero, and bend with their slopes by no more than smooth functions do."""
        for number in range(self.branch_count):
            found = []
            for x in (-distance, 0.0, distance):
                moved = {**values, entry: np.full_like(y, x)}
                z, ok = self.branch(y, moved, number)
                slope = self.slope(self.entries({**moved, self.unknown: z}))
                found.append((z, np.broadcast_to(slope, z.shape), ok))
            (z0, s0, a), (z1, s1, b), (z2, s2, c) = found
            if not (a & b & c).all():
                return False
            bend = np.maximum(np.abs(z0 - 2 * z1 + z2), np.abs(s0 - 2 * s1 + s2) / np.abs(s1))
            if (bend > self._bend * distance**2 + 1e-9 * (1 + np.abs(z1))).any():
                return False
        return True

    def branch(self, y: Array, values: dict[int, Array], number: int) -> tuple[Array, NDArray[np.bool_]]:
        """One candidate for the unknown entry, and whether it is a solution in the region."""
        shape = np.broadcast_shapes(y.shape, *(v.shape for v in values.values()))
        self.work.spend(math.prod(shape))
        z = np.broadcast_to(self._candidate(y, values, number), shape)
        ok = np.isfinite(z) & (np.abs(z) < (math.inf if self.even else 3 * CUT))
        z = np.where(ok, z, 0.0)
        entries = self.entries({**values, self.unknown: z})
        back = self.value(entries)
        slope = np.abs(self.slope(entries))
        # |g(branch) - y| above this, relative to the terms, is no solution (a squared equation brings such in).
        residual = 1e-7
        ok = ok & self.inside(entries, self.unknown) & (np.abs(back - y) <= residual * (np.abs(y) + slope * 1 + 1e-30))
        return z, ok

    def _branches(self, slices: _Slices) -> Iterator[Level]:
        """Level sets that are points."""
        for number in range(self.branch_count):
            z, ok = self.branch(slices.y, {}, number)
            yield self._level(z, ok, slices)

    def _level(self, z: Array, ok: NDArray[np.bool_], slices: _Slices) -> Level:
        """Nodes at which the unknown entry is z, each with its weight."""
        full = {**slices.fixed, self.unknown: z}
        slope = np.broadcast_to(np.abs(self.slope(self.entries(full))), z.shape)
        ok = ok & (slope > 0)
        weight = np.where(ok, slices.weight * normal_density(z) / np.where(ok, slope, 1.0), 0.0)
        if self.charts:
            weight = np.where(ok, weight * self._share(full, slope), 0.0)
        return Level(full, slices.rows, weight)

    def _share(self, values: dict[int, Array], slope: Array) -> Array:
        """Partition of unity over the charts by the fourth powers of the slopes: none counts where it is steep."""
        entries = self.entries(values)
        table = self.region.branches[self.output]
        ratios = [np.asarray(table[i][2](entries)[0]) / slope for i in self.charts]
        return np.asarray(1 / np.sum([np.broadcast_to(ratio, slope.shape) ** 4 for ratio in ratios], axis=0))

    def _flat(
        self, slices: _Slices, along: int, number: int, intervals: tuple[IntArray, Array, Array]
    ) -> NDArray[np.bool_]:
        """Ends of intervals (row, low, high) where the slope vanishes, or the unknown is cut off, shape (2, n)."""
        row, low, high = intervals
        fixed = {i: v[row] for i, v in slices.fixed.items()}

        def at(share: float) -> tuple[Array, Array]:
            values = {**fixed, along: low + share * (high - low)}
            z = self.branch(slices.y[row], values, number)[0]
            slope = self.slope(self.entries({**values, self.unknown: z}))
            return np.abs(z), np.broadcast_to(np.abs(slope), row.shape)

        # A slope is flat at an end that is smaller than this times that in the middle, this share of the interval away
        # from it: at the end of a branch it vanishes like the root of the distance.
        flatness, near = 1e-6, 1e-9
        least = flatness * at(0.5)[1]
        ends = [at(near), at(1 - near)]
        return np.array([(z > 2 * CUT) | (slope < least) for z, slope in ends])

    def _slope_sign(self, z: Array, values: dict[int, Array]) -> Array:
        slope = self.slope(self.entries({**values, self.unknown: z}))
        return np.broadcast_to(np.sign(slope), z.shape)

    def _line(self, slices: _Slices, along: int, rule: LineRule, scan: int) -> Iterator[Level]:
        """Nodes of the branches along one more entry, between the ends of their domains."""
        low, high = self.limits(along)
        if low >= high:
            return
        marks = sorted({low, high, *(c for c in self._marks(along, rule) if low < c < high)})
        grid = scan_grid(marks, scan)
        step = max(1, self._chunk // (len(grid) * 4))
        for begin in range(0, len(slices.y), step):
            yield from self._line_part(slices.part(slice(begin, begin + step)), along, rule, marks, grid)

    def _line_part(
        self, slices: _Slices, along: int, rule: LineRule, marks: list[float], grid: Array
    ) -> Iterator[Level]:
        y, fixed, rows, weight = slices
        columns = {i: v[:, None] for i, v in fixed.items()}
        for number in range(self.branch_count):

            def valid(row: IntArray, x: Array, number: int = number) -> NDArray[np.bool_]:
                values = {**{i: v[row] for i, v in fixed.items()}, along: x}
                return self.branch(y[row], values, number)[1]

            def rising(row: IntArray, x: Array, number: int = number) -> Array:
                values = {**{i: v[row] for i, v in fixed.items()}, along: x}
                return self._slope_sign(self.branch(y[row], values, number)[0], values)

            line = {**columns, along: np.broadcast_to(grid, (len(y), len(grid)))}
            z, ok = self.branch(y[:, None], line, number)
            turns = turning_points(self._slope_sign(z, line), grid, rising)
            row, a, b = valid_intervals(ok, grid, marks, valid, turns)
            if not len(row):
                continue
            # Towards zero, or a pole, the integrand may vary on every scale; elsewhere the end itself is rounded.
            deep = np.array([(end == 0) | np.isin(end, turns[1]) for end in (a, b)])
            # Rules that are dense towards every end do not ask.
            flat = self._flat(slices, along, number, (row, a, b)) if rule.even else np.zeros_like(deep)
            for own, x, w in rule.line(Intervals(a, b, deep, flat, nested=bool(fixed))):
                r = np.repeat(row[own], x.shape[1])
                x, w = x.ravel(), w.ravel()
                values = {**{i: v[r] for i, v in fixed.items()}, along: x}
                z, good = self.branch(y[r], values, number)
                yield self._level(z, good, _Slices(y[r], values, rows[r], w * normal_density(x) * weight[r]))
