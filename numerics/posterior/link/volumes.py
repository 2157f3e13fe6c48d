"""Integrals of 1, h and h h^T over a region of a link, and nodes over it: outputs that do not vary, or have noise."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .known import KnownRegion, moment_column
from .monotone import bisect_change
from .rules import (
    GradedRule,
    LineRule,
    marks_within,
    normal_density,
    normal_primitives,
    scan_grid,
    section_rule,
    valid_intervals,
)

__all__ = ["Volumes"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Volumes(KnownRegion):
    """A region that is integrated over, one entry after the other."""

    def volume(self, order: int) -> Array:
        """Integrals of (1, h, h h^T) over the piece; shape (1 + n + n(n+1)/2,)."""
        if not self.active:
            return self.moments(np.ones(1), {}, np.zeros(1, dtype=np.int64), 1)[0]
        last, *outer = sorted(self.active, reverse=True)
        nodes = np.zeros((1, 0))
        weights = np.ones(1)
        if len(outer) == 1:
            x, w = self._resolved_rule(outer[0], last, GradedRule(order, 1e-4))
            nodes, weights = x[:, None], w * normal_density(x)
        elif outer:
            x0, w0 = self._outer_rule(outer[0], order)
            low, high = (float(np.clip(end, -7.0, 7.0)) for end in self.limits(outer[1]))
            if low >= high:
                return self.moments(np.zeros(0), dict.fromkeys(self.active, np.zeros(0)), np.zeros(0, np.int64), 1)[0]

            def form(row: IntArray, x: Array) -> IntArray:
                return self._forms(np.stack([x0[row], x], axis=1), outer, last)

            marks = sorted(marks_within(low, high))
            rows, x, w = section_rule(form, len(x0), marks, scan_grid(marks, 81), GradedRule(order, 0.03))
            nodes = np.stack([x0[rows], x], axis=1)
            weights = (w0 * normal_density(x0))[rows] * w * normal_density(x)
        out = np.zeros(self.width)
        for begin in range(0, len(nodes), 4000):
            part = slice(begin, begin + 4000)
            out += self._columns(nodes[part], weights[part], outer, last)
        return out

    def _outer_rule(self, entry: int, order: int) -> tuple[Array, Array]:
        low, high = self.limits(entry)
        marks = [low, *(c for c in {0.0, *self.region.centres.get(entry, ())} if low < c < high), high]
        edges = np.unique(marks)
        _, x, w = GradedRule(order, 0.01).section(edges[:-1], edges[1:])
        keep = np.abs(x) < 7.0
        return x[keep], w[keep]

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
            return np.zeros(self.width)
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

    def _resolved_rule(self, entry: int, last: int, rule: LineRule) -> tuple[Array, Array]:
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
        return rule.section(edges[:-1], edges[1:])[1:]

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

    def nodes(self, rule: LineRule) -> tuple[dict[int, Array], Array]:
        """Nodes over the active entries and their weights, density included; kinks lie between panels."""
        if not self.active:
            return {}, np.ones(1)
        last, *outer = sorted(self.active, reverse=True)
        values: dict[int, Array] = {}
        weights = np.ones(1)
        for number, entry in enumerate(outer):
            if number == 0 and len(outer) == 1 and self.region.conditions is not None:
                x, w = self._resolved_rule(entry, last, rule)
            else:
                x, w = self._panels(entry, rule)
            values = {i: np.repeat(v, len(x)) for i, v in values.items()} | {entry: np.tile(x, len(weights))}
            weights = np.multiply.outer(weights, w * normal_density(x)).ravel()
        if self.region.conditions is None:
            x, w = self._panels(last, rule)
            row = np.repeat(np.arange(len(weights)), len(x))
            x, w = np.tile(x, len(weights)), np.tile(w, len(weights))
        else:
            array = np.stack([values[i] for i in outer], axis=1) if outer else np.zeros((1, 0))
            ok, grid = self._scan_last(array, outer, last)

            def valid(row: IntArray, x: Array) -> NDArray[np.bool_]:
                inner = {i: v[row] for i, v in values.items()}
                return np.broadcast_to(self.inside(self.entries({**inner, last: x})), x.shape)

            row, a, b = valid_intervals(ok, grid, [*self.limits(last), 0.0], valid)
            own, x, w = rule.section(a, b)
            row = row[own]
        values = {i: v[row] for i, v in values.items()} | {last: x}
        return values, weights[row] * w * normal_density(x)

    def _panels(self, entry: int, rule: LineRule) -> tuple[Array, Array]:
        low, high = self.limits(entry)
        if low >= high:
            return np.zeros(0), np.zeros(0)
        edges = np.unique([low, high, *({0.0} & marks_within(low, high))])
        return rule.section(edges[:-1], edges[1:])[1:]
