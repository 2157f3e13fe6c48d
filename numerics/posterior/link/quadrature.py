"""Integrals of 1, h and h h^T over the level sets and the regions of a user's link.

A `Piece` is a region with some entries of h known. Entries of the rest that neither the output nor a condition on
several entries holds are integrated in closed form; the others by branches y -> h (where the output varies) or over
the region (where it does not).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import Region
from .monotone import MonotonePieces, bisect_change
from .rules import (
    CUT,
    half_interval_rule,
    interval_moments,
    marks_within,
    normal_density,
    normal_primitives,
    scan_grid,
    section_rule,
    turning_points,
    valid_intervals,
)
from .work import Work

__all__ = ["Piece", "pieces"]

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


@dataclass(frozen=True)
class Piece:
    """A region, with some entries of h known.

    Attributes
    ----------
    region : Region
    size : int
        Number P M of entries.
    scope : tuple of int
        Entries whose moments are wanted, sorted.
    known : dict of int to float
    output : int
        The output to solve for.
    plan : tuple of int
        Entry to solve for, then the others, the innermost first; empty for the plain order.
    work : Work
        What is left of the work of the average that this piece is part of.
    """

    region: Region
    size: int
    scope: tuple[int, ...]
    known: dict[int, float]
    output: int = 0
    plan: tuple[int, ...] = ()
    work: Work = field(default_factory=Work, compare=False, repr=False)

    @cached_property
    def rest(self) -> tuple[int, ...]:
        """Entries in the scope that are not known."""
        return tuple(i for i in self.scope if i not in self.known)

    @cached_property
    def active(self) -> tuple[int, ...]:
        """Entries of the rest that need quadrature."""
        return tuple(i for i in self.region.active if i not in self.known)

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """Outputs that vary with the rest."""
        return tuple(k for k, used in enumerate(self.region.depends) if any(i not in self.known for i in used))

    @cached_property
    def label(self) -> tuple[float | None, ...]:
        """Values of the outputs that do not vary, None for the others."""
        values = self.region.output(self.entries({}))
        return tuple(None if k in self.varying else float(value) for k, value in enumerate(values))

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

    def planned(self) -> "Piece":
        """The piece with the order of integration under which two accuracies agree best at a few y."""
        orders = [(u, *others) for u in self.solvable for others in permutations([i for i in self.active if i != u])]
        if len(orders) == 1:
            return self
        rng = np.random.default_rng(0)
        h = {i: rng.normal(size=2000) for i in self.active}
        for i, x in h.items():
            low, high = self.limits(i)
            h[i] = x[(x > low) & (x < high)]
        count = min(len(x) for x in h.values())
        entries = self.entries({i: x[:count] for i, x in h.items()})
        ok = np.broadcast_to(self.inside(entries), (count,))
        y = np.broadcast_to(self.value(entries), (count,))[ok][:6]
        if not len(y):
            return self
        best, least = self, math.inf
        for order in orders:
            piece = replace(self, plan=order)
            coarse, fine = piece.density(y, 5), piece.density(y, 7)
            size = np.abs(fine).max(axis=1, keepdims=True) + 1e-300
            difference = float((np.abs(coarse - fine) / size).max())
            # Only a clear gain is worth more branches.
            if difference < 0.3 * least:
                best, least = piece, difference
        return best

    @cached_property
    def free(self) -> dict[int, tuple[float, float, float]]:
        """Integrals of 1, x, x^2 of the entries in no formula."""
        return {i: interval_moments(*self.region.interval(i)) for i in self.rest if i not in self.active}

    @cached_property
    def free_mass(self) -> float:
        """Probability of the bounds of the entries in no formula."""
        return math.prod(m[0] for m in self.free.values())

    def limits(self, entry: int) -> tuple[float, float]:
        """Interval of an entry, cut where the normal law ends."""
        low, high = self.region.interval(entry)
        return max(low, -CUT), min(high, CUT)

    def entries(self, values: dict[int, Array]) -> list[Array]:
        """All entries of h, with what is known filled in; NaN for those in no formula."""
        return [values[i] if i in values else np.array(self.known.get(i, math.nan)) for i in range(self.size)]

    def inside(self, entries: Sequence[Array], but: int | None = None) -> NDArray[np.bool_]:
        """Whether active entries lie in the region (conditions, and the bounds of the entry `but`)."""
        ok: NDArray[np.bool_] = np.asarray(True)
        if but is not None:
            low, high = self.region.interval(but)
            ok = (entries[but] > low) & (entries[but] < high)
        if self.region.conditions is not None:
            for value in self.region.conditions(entries):
                ok = ok & (np.asarray(value) > 0)
        return ok

    def moments(self, weight: Array, values: dict[int, Array], rows: IntArray, count: int) -> Array:
        """Sums by row of weight times (1, h_i, h_i h_j) over the rest, i <= j; shape (count, 1 + n + n(n+1)/2)."""

        def total(column: Array) -> Array:
            return np.asarray(np.bincount(rows, column, minlength=count), dtype=np.float64)

        n = len(self.rest)
        mean = {i: (m[1] / m[0], m[2] / m[0]) for i, m in self.free.items()} if self.free_mass > 0 else {}
        sums: dict[tuple[int, ...], Array] = {(): total(weight)}
        for a, i in enumerate(self.active):
            first = weight * values[i]
            sums[(i,)] = total(first)
            for j in self.active[a:]:
                sums[(i, j)] = total(first * values[j])

        def entry(powers: tuple[int, ...]) -> Array:
            inner = tuple(sorted(i for i in powers if i not in self.free))
            outer = [i for i in powers if i in self.free]
            factor = 1.0
            if len(outer) == 2 and outer[0] == outer[1]:
                factor = mean[outer[0]][1]
            else:
                factor = math.prod(mean[i][0] for i in outer)
            return factor * sums[inner]

        if self.free_mass == 0:
            return np.zeros((count, 1 + n + n * (n + 1) // 2))
        columns = [entry(())] + [entry((i,)) for i in self.rest]
        columns += [entry((i, j)) for a, i in enumerate(self.rest) for j in self.rest[a:]]
        return self.free_mass * np.stack(columns, axis=1)

    # --- where the output varies: branches -----------------------------------------------------------------------

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

    def _outer_rule(self, entry: int, order: int) -> tuple[Array, Array]:
        low, high = self.limits(entry)
        marks = [low, *(c for c in {0.0, *self.region.centres.get(entry, ())} if low < c < high), high]
        edges = np.unique(marks)
        middle = 0.5 * (edges[1:] + edges[:-1])
        x, w = half_interval_rule(
            np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle]), order, 0.01
        )
        keep = np.abs(x.ravel()) < 7.0
        return x.ravel()[keep], w.ravel()[keep]

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
        n = len(self.rest)
        out = np.zeros((count, 1 + n + n * (n + 1) // 2))
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
        n = len(self.rest)
        out = np.zeros((slices.n_rows, 1 + n + n * (n + 1) // 2))
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
        n = len(self.rest)
        out = np.zeros((count, 1 + n + n * (n + 1) // 2))
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

    # --- where it does not: integrals over the region ---------------------------------------------------------------

    def volume(self, order: int) -> Array:
        """Integrals of (1, h, h h^T) over the piece; shape (1 + n + n(n+1)/2,)."""
        if not self.active:
            return self.moments(np.ones(1), {}, np.zeros(1, dtype=np.int64), 1)[0]
        last, *outer = sorted(self.active, reverse=True)
        nodes = np.zeros((1, 0))
        weights = np.ones(1)
        if len(outer) == 1:
            x, w = self._resolved_rule(outer[0], last, order)
            nodes, weights = x[:, None], w * normal_density(x)
        elif outer:
            x0, w0 = self._outer_rule(outer[0], order)
            low, high = (float(np.clip(end, -7.0, 7.0)) for end in self.limits(outer[1]))
            if low >= high:
                return self.moments(np.zeros(0), dict.fromkeys(self.active, np.zeros(0)), np.zeros(0, np.int64), 1)[0]

            def form(row: IntArray, x: Array) -> IntArray:
                return self._forms(np.stack([x0[row], x], axis=1), outer, last)

            marks = sorted(marks_within(low, high))
            rows, x, w = section_rule(form, len(x0), marks, scan_grid(marks, 81), order, 0.03)
            nodes = np.stack([x0[rows], x], axis=1)
            weights = (w0 * normal_density(x0))[rows] * w * normal_density(x)
        out = np.zeros(1 + len(self.rest) + len(self.rest) * (len(self.rest) + 1) // 2)
        for begin in range(0, len(nodes), 4000):
            part = slice(begin, begin + 4000)
            out += self._columns(nodes[part], weights[part], outer, last)
        return out

    def _scan_last(self, nodes: Array, outer: Sequence[int], last: int) -> tuple[NDArray[np.bool_], Array]:
        grid = scan_grid(sorted({*self.limits(last), 0.0} & marks_within(*self.limits(last))), 161)
        values = {i: nodes[:, [k]] for k, i in enumerate(outer)}
        values[last] = np.broadcast_to(grid, (len(nodes), len(grid)))
        ok = np.broadcast_to(self.inside(self.entries(values)), (len(nodes), len(grid)))
        return ok, grid

    def _columns(self, nodes: Array, weights: Array, outer: Sequence[int], last: int) -> Array:
        """Sum over outer nodes of closed integrals over the last entry."""
        low, high = self.limits(last)
        if low >= high:
            return np.zeros(1 + len(self.rest) + len(self.rest) * (len(self.rest) + 1) // 2)
        ok, grid = self._scan_last(nodes, outer, last)

        def valid(row: IntArray, x: Array) -> NDArray[np.bool_]:
            values = {i: nodes[row, k] for k, i in enumerate(outer)}
            return np.broadcast_to(self.inside(self.entries({**values, last: x})), x.shape)

        row, a, b = valid_intervals(ok, grid, [low, high], valid)
        difference = normal_primitives(b) - normal_primitives(a)
        per = np.stack([np.bincount(row, d, minlength=len(nodes)) for d in difference], axis=1)
        # A pseudo-node per outer node carries the moments of the last entry.
        mass = weights * per[:, 0]
        mean = np.divide(per[:, 1], per[:, 0], out=np.zeros(len(nodes)), where=per[:, 0] > 1e-300)
        values = {i: nodes[:, k] for k, i in enumerate(outer)} | {last: mean}
        zero = np.zeros(len(nodes), dtype=np.int64)
        out = self.moments(mass, values, zero, 1)[0]
        # h_last^2 is not the square of the mean.
        place = moment_column(self.rest.index(last), self.rest.index(last), len(self.rest))
        out[place] += self.free_mass * float(weights @ (per[:, 2] - per[:, 1] * mean))
        return out

    def _resolved_rule(self, entry: int, last: int, order: int, least: float = 1e-4) -> tuple[Array, Array]:
        """Rule along an entry with panels that end where the section of the region changes its form."""
        low, high = self.limits(entry)
        if low >= high:
            return np.zeros(0), np.zeros(0)
        grid = scan_grid(sorted({low, high, 0.0} & marks_within(low, high)), 801)
        code = self._form(grid, entry, last)
        changes = np.flatnonzero(code[1:] != code[:-1])
        a, b, left = grid[changes], grid[changes + 1], code[changes]
        a, b = bisect_change(a, b, lambda m: self._form(m, entry, last) == left)
        edges = np.unique(np.concatenate([[low, high, *({0.0} & marks_within(low, high))], 0.5 * (a + b)]))
        middle = 0.5 * (edges[1:] + edges[:-1])
        x, w = half_interval_rule(
            np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle]), order, least
        )
        return x.ravel(), w.ravel()

    def _form(self, x: Array, entry: int, last: int) -> IntArray:
        return self._forms(x[:, None], [entry], last)

    def _forms(self, nodes: Array, outer: Sequence[int], last: int) -> IntArray:
        """Number that identifies how many intervals a section has, and whether it begins inside; 0 if empty."""
        code = np.zeros(len(nodes), dtype=np.int64)
        for begin in range(0, len(nodes), 8000):
            part = slice(begin, begin + 8000)
            ok, _ = self._scan_last(nodes[part], outer, last)
            code[part] = 2 * (ok[:, 1:] != ok[:, :-1]).sum(axis=1) + ok[:, 0]
        return code

    # --- with noise: nodes over the whole piece --------------------------------------------------------------------

    def nodes(self, order: int, least: float) -> tuple[dict[int, Array], Array]:
        """Nodes over the active entries and their weights, density included; kinks lie between panels."""
        if not self.active:
            return {}, np.ones(1)
        last, *outer = sorted(self.active, reverse=True)
        values: dict[int, Array] = {}
        weights = np.ones(1)
        for number, entry in enumerate(outer):
            if number == 0 and len(outer) == 1 and self.region.conditions is not None:
                x, w = self._resolved_rule(entry, last, order, least)
            else:
                x, w = self._panels(entry, order, least)
            values = {i: np.repeat(v, len(x)) for i, v in values.items()} | {entry: np.tile(x, len(weights))}
            weights = np.multiply.outer(weights, w * normal_density(x)).ravel()
        if self.region.conditions is None:
            x, w = self._panels(last, order, least)
            row = np.repeat(np.arange(len(weights)), len(x))
            x, w = np.tile(x, len(weights)), np.tile(w, len(weights))
        else:
            array = np.stack([values[i] for i in outer], axis=1) if outer else np.zeros((1, 0))
            ok, grid = self._scan_last(array, outer, last)

            def valid(row: IntArray, x: Array) -> NDArray[np.bool_]:
                inner = {i: v[row] for i, v in values.items()}
                return np.broadcast_to(self.inside(self.entries({**inner, last: x})), x.shape)

            row, a, b = valid_intervals(ok, grid, [*self.limits(last), 0.0], valid)
            middle = 0.5 * (a + b)
            x, w = half_interval_rule(np.concatenate([a, b]), np.concatenate([middle, middle]), order, least)
            row = np.repeat(np.concatenate([row, row]), x.shape[1])
            x, w = x.ravel(), w.ravel()
        values = {i: v[row] for i, v in values.items()} | {last: x}
        return values, weights[row] * w * normal_density(x)

    def _panels(self, entry: int, order: int, least: float) -> tuple[Array, Array]:
        low, high = self.limits(entry)
        if low >= high:
            return np.zeros(0), np.zeros(0)
        edges = np.unique([low, high, *({0.0} & marks_within(low, high))])
        middle = 0.5 * (edges[1:] + edges[:-1])
        x, w = half_interval_rule(
            np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle]), order, least
        )
        return x.ravel(), w.ravel()


def moment_column(i: int, j: int, n: int) -> int:
    """Column of h_i h_j, i <= j, among the moments."""
    return 1 + n + i * n - i * (i - 1) // 2 + (j - i)


def pieces(
    regions: Sequence[Region], size: int, scope: tuple[int, ...], known: dict[int, float], work: Work
) -> list[Piece]:
    """Regions of a part of a link that the known entries allow, which share the work of one average."""
    made = []
    for region in regions:
        if all(region.interval(i)[0] < x < region.interval(i)[1] for i, x in known.items()):
            piece = Piece(region, size, scope, known, work=work)
            if piece.active or bool(np.all(piece.inside(piece.entries({})))):
                made.append(piece)
    return made
