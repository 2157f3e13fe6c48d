"""Integrals of 1, h and h h^T over the level sets of a link in a region, where the output varies: branches y -> h."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from .known import KnownRegion
from .monotone import MonotonePieces
from .rules import CUT, half_interval_rule, normal_density, scan_grid, section_rule, turning_points, valid_intervals

__all__ = ["LevelSets"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

# |g(branch) - y| above this, relative to the terms, is no solution (a squared equation brings such in).
_RESIDUAL = 1e-7
_CHUNK = 2_000_000


class _Slices(NamedTuple):
    """Level sets at some fixed entries: y, these entries, the row of the sums each counts in, its weight, all rows."""

    y: Array
    fixed: dict[int, Array]
    rows: IntArray
    weight: Array
    n_rows: int

    def part(self, which: slice) -> "_Slices":
        fixed = {i: v[which] for i, v in self.fixed.items()}
        return _Slices(self.y[which], fixed, self.rows[which], self.weight[which], self.n_rows)


class LevelSets(KnownRegion):
    """A region in which y = g(h) is solved for one entry, and the others are integrated over."""

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

    def density(self, y: Array, order: int) -> Array:
        """Density at y times (1, E[h], E[h h^T]) of this piece; shape (len(y), 1 + n + n(n+1)/2)."""
        count = len(y)
        others = self.others
        self.check()
        if not others:
            return self._sum_branches(y, {}, np.arange(count), np.ones(count), count)
        if len(others) == 1:
            return self._line(_Slices(y, {}, np.arange(count), np.ones(count), count), others[0], order, 481)
        rows, x, w = self._section_rule(y, others[1], others[0], order)
        return self._line(_Slices(y[rows], {others[1]: x}, rows, w * normal_density(x), count), others[0], order, 121)

    def _section_rule(self, y: Array, entry: int, along: int, order: int) -> tuple[IntArray, Array, Array]:
        """Rule along an entry for each y, with panels that end where a level set's section changes its form."""
        low, high = (float(np.clip(end, -7.0, 7.0)) for end in self.limits(entry))
        if low >= high:
            return np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
        marks = sorted({low, high, *(c for c in (0.0, *self.region.centres.get(entry, ())) if low < c < high)})
        lines = sorted({*self.limits(along), *(c for c in (0.0,) if self.limits(along)[0] < c < self.limits(along)[1])})
        line = scan_grid(lines, 61)
        grid = scan_grid(marks, 61)

        def form(row: IntArray, x: Array) -> IntArray:
            code = np.zeros(len(row), dtype=np.int64)
            step = max(1, _CHUNK // len(line))
            for begin in range(0, len(row), step):
                part = slice(begin, begin + step)
                values = {entry: x[part][:, None], along: np.broadcast_to(line, (len(x[part]), len(line)))}
                for number in range(self.branch_count):
                    ok = self.branch(y[row[part]][:, None], values, number)[1]
                    code[part] = 64 * code[part] + 2 * (ok[:, 1:] != ok[:, :-1]).sum(axis=1) + ok[:, 0]
            return code

        return section_rule(form, len(y), marks, grid, order, 0.03)

    def branch(self, y: Array, values: dict[int, Array], number: int) -> tuple[Array, NDArray[np.bool_]]:
        """One candidate for the unknown entry, and whether it is a solution in the region."""
        shape = np.broadcast_shapes(y.shape, *(v.shape for v in values.values()))
        self.work.spend(math.prod(shape))
        z = np.broadcast_to(self._candidate(y, values, number), shape)
        ok = np.isfinite(z) & (np.abs(z) < 3 * CUT)
        z = np.where(ok, z, 0.0)
        entries = self.entries({**values, self.unknown: z})
        back = self.value(entries)
        slope = np.abs(self.slope(entries))
        ok = ok & self.inside(entries, self.unknown) & (np.abs(back - y) <= _RESIDUAL * (np.abs(y) + slope * 1 + 1e-30))
        return z, ok

    def _sum_branches(self, y: Array, values: dict[int, Array], rows: IntArray, weight: Array, count: int) -> Array:
        out = np.zeros((count, self.width))
        for number in range(self.branch_count):
            z, ok = self.branch(y, values, number)
            out += self._one_branch(z, ok, values, rows, weight, count)
        return out

    def _one_branch(
        self, z: Array, ok: NDArray[np.bool_], values: dict[int, Array], rows: IntArray, weight: Array, count: int
    ) -> Array:
        full = {**values, self.unknown: z}
        slope = np.abs(self.slope(self.entries(full)))
        slope = np.broadcast_to(slope, z.shape)
        ok = ok & (slope > 0)
        w = np.where(ok, weight * normal_density(z) / np.where(ok, slope, 1.0), 0.0)
        return self.moments(w, full, rows, count)

    def _slope_sign(self, z: Array, values: dict[int, Array]) -> Array:
        slope = self.slope(self.entries({**values, self.unknown: z}))
        return np.broadcast_to(np.sign(slope), z.shape)

    def _line(self, slices: _Slices, along: int, order: int, scan: int) -> Array:
        """Integrate the branches over one more entry, between the ends of their domains."""
        out = np.zeros((slices.n_rows, self.width))
        low, high = self.limits(along)
        if low >= high:
            return out
        marks = sorted({low, high, *(c for c in (0.0, *self.region.centres.get(along, ())) if low < c < high)})
        grid = scan_grid(marks, scan)
        step = max(1, _CHUNK // (len(grid) * 4))
        for begin in range(0, len(slices.y), step):
            out += self._line_part(slices.part(slice(begin, begin + step)), along, order, marks, grid)
        return out

    def _line_part(self, slices: _Slices, along: int, order: int, marks: list[float], grid: Array) -> Array:
        y, fixed, rows, weight, count = slices
        out = np.zeros((count, self.width))
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
            middle = 0.5 * (a + b)
            start = np.concatenate([a, b])
            far = np.concatenate([middle, middle])
            row = np.concatenate([row, row])
            deep = (start == 0) | np.isin(start, turns[1])
            # A third entry asks for less accuracy.
            small = (1e-6, 1e-3) if not fixed else (1e-4, 3e-2)
            for chosen, least in zip((deep, ~deep), small, strict=True):
                size = max(1, _CHUNK // 300)
                index = np.flatnonzero(chosen)
                for begin in range(0, len(index), size):
                    take = index[begin : begin + size]
                    x, w = half_interval_rule(start[take], far[take], order, least)
                    r = np.repeat(row[take], x.shape[1])
                    x, w = x.ravel(), w.ravel()
                    values = {**{i: v[r] for i, v in fixed.items()}, along: x}
                    z, good = self.branch(y[r], values, number)
                    out += self._one_branch(z, good, values, rows[r], w * normal_density(x) * weight[r], count)
        return out
