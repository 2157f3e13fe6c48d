"""Both starts along a parameter: points, onsets and jumps."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .equations import Equations
from .explicit import Explicit
from .settle import SEED, settled
from .trace import Trace
from .walk import Stop, Walker

__all__ = ["Follower"]

Array = NDArray[np.float64]


class Follower:
    """Fixed points at the values of a parameter, from one start.

    Parameters
    ----------
    equations : Equations
    start : {"uninformed", "informed"}
    tol : float
    done : callable
        Called after each point.
    """

    def __init__(self, equations: Equations, start: str, tol: float, done: Callable[[], None]) -> None:
        self.equations, self.start, self.tol = equations, start, tol
        self.trace = Trace(equations, start, tol, done)
        self._explicit: dict[int, Explicit] = {}

    def _onset(self, t: float, w: Array, group: int, active: list[int]) -> tuple[Array, float]:
        """Solve for where a group of zero overlap turns unstable on a branch, and record it with its error."""
        equations = self.equations
        rows, w = [*active, group], w.copy()
        w[group] = 0.0
        if not active and equations.alpha is None:
            local = equations.at(w)
            t = float(local.log_alpha[group])
            self.trace.onset(t, local, group, equations.combined(local, [group], np.eye(1))[0])
            return w, t
        w, t, response, left = equations.meet(w, t, active, group)
        local = equations.at(w, t)
        error = equations.combined(local, rows, response)[-1] + float(np.abs(response[-1]).sum()) * left
        self.trace.onset(t, local, group, float(error))
        return w, t

    def follow(self, values: Sequence[float]) -> None:
        """Points at rising values of the parameter, in the order in which the start meets them."""
        if self.equations.alpha is None:
            (self.rise if self.start == "uninformed" else self.fall)(values)
            return
        rest = list(values) if self.start == "uninformed" else list(values)[::-1]
        t = math.log(rest[0])
        size = len(self.equations.groups(t))
        top = min(-math.log(1e-3), self.equations.top) if self.start == "informed" else 0.0
        self._walk(settled(self.equations, self.tol, np.full(size, top), t), rest)

    # --- from zero overlap --------------------------------------------------------------------------------------------

    def rise(self, values: Sequence[float]) -> None:
        """From zero overlap along rising alpha."""
        equations = self.equations
        size = len(equations.groups())
        zero = np.zeros(size)
        told = equations.at(zero).log_alpha
        # Layers that join within this of each other, in log alpha, join together.
        near = 1e-6
        first = int((told <= told.min() + near).argmax())  # of those that rounding tells apart, the first
        rest = list(values)
        while rest and (rest[0] == 0 or math.log(rest[0]) <= told[first]):
            value = rest.pop(0)
            self.trace.nothing(math.log(value) if value else -math.inf, value)
        if not rest:
            return
        if math.isfinite(told[first]):
            self._onset(float(told[first]), zero, first, [])
        together = [k for k in range(size) if told[k] <= told[first] + near]
        if len(together) > 1:
            t = math.log(rest[0])
            self._walk(
                settled(self.equations, self.tol, np.where(np.isin(np.arange(size), together), SEED, 0.0), t), rest
            )
            return
        explicit = self.explicit(first, size)
        joins = self._first_join(explicit)
        while joins is None and not explicit.complete and explicit.alpha(explicit.end) <= rest[-1]:
            explicit.extend()
            joins = self._first_join(explicit)
        self._walk_explicit(explicit, rest, joins)

    def explicit(self, group: int, size: int) -> Explicit:
        """Return the curve of one group, with its first panel."""
        if group not in self._explicit:
            self._explicit[group] = Explicit(self.equations, group, [k for k in range(size) if k != group], size)
            self._explicit[group].extend()
        return self._explicit[group]

    def _first_join(self, explicit: Explicit) -> tuple[float, float, int] | None:
        """Alpha, w and group of the first other layer that turns unstable on the way up."""
        ways = []
        for other in range(len(explicit.full(0.0))):
            if other != explicit.group:
                # On the way are the points that no earlier one exceeds in alpha.
                before, highest = 0.0, -math.inf
                for w in explicit.grid().tolist():
                    alpha = explicit.alpha(w)
                    if alpha >= highest and explicit.excess(w, other) > 0:
                        w = explicit.turns_unstable(before, w, other)
                        ways.append((max(explicit.alpha(w), highest), w, other))
                        break
                    before, highest = w, max(highest, alpha)
        return min(ways) if ways else None

    def _walk_explicit(self, explicit: Explicit, rest: list[float], joins: tuple[float, float, int] | None) -> None:
        """Points on the curve of one layer, until another joins."""
        folds = explicit.folds(rising=True)
        for before, after in folds:
            level = explicit.alpha(before)
            if level <= rest[-1] and (joins is None or level < joins[0] or before < joins[1]):
                self._record_fold(explicit, before, after, rising=True)
        while rest and (joins is None or rest[0] < joins[0]):
            value = rest.pop(0)
            self._at(explicit, explicit.first(value), value)
        if joins is None or not rest:
            return
        level, w, group = joins
        jumped = any(before < w <= after + 1e-9 for before, after in folds if before != after)
        if jumped:
            # Unstable as soon as the jump has landed.
            t = math.log(level)
            start = explicit.full(w)
            self.trace.onset(t, self.equations.at(start), group, explicit.error)
            start[group] = SEED
            self._walk(settled(self.equations, self.tol, start, math.log(rest[0])), rest)
        else:
            at, t = self._onset(math.log(level), explicit.full(w), group, [explicit.group])
            self._walk(self._join(at, t, group, [explicit.group], math.log(rest[0])), rest)

    def _record_fold(self, explicit: Explicit, before: float, after: float, *, rising: bool) -> None:
        t = math.log(explicit.alpha(before))
        local = self.equations.at(explicit.full(before))
        error = float(self.equations.combined(local, [explicit.group], np.eye(1))[0]) + explicit.error
        self.trace.jump(t, math.exp(t) * error, explicit.full(before), explicit.full(after), rising=rising)

    def _at(self, explicit: Explicit, w: float, value: float) -> None:
        """Point on the curve of one layer, with the residual of the averages themselves."""
        t = math.log(value) if value > 0 else -math.inf
        if w <= 0:
            self.trace.nothing(t, value)
            return
        ends = w >= explicit.end and explicit.complete and explicit.alpha(w) <= value
        group = [explicit.group]
        walker = Walker(self.equations, explicit.full(w), t, group, self.tol, capped=group if ends else ())
        if not ends:
            walker.set_jacobian(np.array([[explicit.slope(w), -1.0]]))
            if walker.residual() > self.tol and not walker.solve_at(walker.w, t):
                walker.w = explicit.full(w)
            walker.set_jacobian(np.array([[explicit.slope(float(walker.w[explicit.group])), -1.0]]))
        self.trace.point(walker, value)

    # --- several layers -----------------------------------------------------------------------------------------------

    def _join(self, w: Array, t: float, group: int, active: list[int], target: float) -> Walker:
        """Walker a little beyond the point where a group joins, or at the target where the branch starts backwards."""
        walker = self._joined(w, t, group, active, SEED)
        if (walker.t - t) * (target - t) >= 0:
            # Nearer to where it joins the overlap is in proportion to the way from there.
            near = abs(target - t) < abs(walker.t - t)
            return self._joined(w, t, group, active, SEED * (target - t) / (walker.t - t)) if near else walker
        after = settled(self.equations, self.tol, walker.w, target)
        # Averages that are sampled differ a little between no overlap and a small one.
        if np.abs(after.w - walker.w).max() > 10 * SEED:
            known = [one for one in self.trace.onsets if one.indices == self.equations.groups(t)[group]]
            self.trace.jump(t, known[-1].error if known else 0.0, w, after.w, rising=target > t)
        return after

    def _joined(self, w: Array, t: float, group: int, active: list[int], seed: float) -> Walker:
        """Walker on the branch with a group that has joined, its overlap held at a small value."""
        start = w.copy()
        start[group] = seed
        walker = Walker(self.equations, start, t, [*active, group], self.tol)
        row = np.append(np.array(walker.free) == group, 0.0)
        if walker.correct(start, t, row, seed) is not None:
            walker.w, walker.t = start, t
        return walker

    def _walk(self, walker: Walker, rest: list[float]) -> None:
        """Points along the parameter from where a walker stands."""
        while rest:
            value = rest[0]
            target = math.log(value)
            way = 1.0 if target >= walker.t else -1.0
            # A layer that has just joined stands a little beyond: that way back is no turn.
            stop = walker.to(target)
            if stop.reason in ("joins", "leaves"):
                walker = self._changed(walker, stop, target)
                if walker.t != target:
                    continue
                stop = Stop("target", walker.w, target)
            if stop.reason in ("fold", "lost"):
                walker = self._beyond(walker, stop, target, way)
            rest.pop(0)
            self.trace.point(walker, value, "" if walker.residual() <= self.tol else "the corrector did not converge")

    def _changed(self, walker: Walker, stop: Stop, target: float) -> Walker:
        """The walker after a layer has joined or left."""
        group = stop.group
        if stop.reason == "joins":
            w, t = self._onset(stop.t, stop.w, group, walker.active)
            return self._join(w, t, group, walker.active, target)
        left = [k for k in walker.active if k != group]
        w = stop.w.copy()
        w[group] = 0.0
        if left or self.equations.alpha is not None:
            self._onset(stop.t, w, group, left)
        after = Walker(self.equations, w, target, left, self.tol)
        if left:
            after.solve_at(w, target)
        if after.unstable() == group:
            # Sampled averages need not agree to the last digit on where it leaves.
            return settled(self.equations, self.tol, stop.w, target)
        return after

    def _beyond(self, walker: Walker, stop: Stop, target: float, way: float) -> Walker:
        """The walker where the iteration settles beyond a fold."""
        after = settled(self.equations, self.tol, stop.w, target)
        if stop.reason == "fold":
            free = walker.free or walker.active
            by_w = self.equations.slopes(stop.w, stop.t, free)[0][free]
            left = np.linalg.svd(by_w)[0][:, -1]
            total = float(left.sum())
            local = self.equations.at(stop.w, stop.t)
            weights = (left / total if abs(total) > 1e-6 else np.ones(len(left)) / len(left))[None]
            error = float(self.equations.combined(local, free, weights)[0])
            self.trace.jump(stop.t, math.exp(stop.t) * error, stop.w, after.w, rising=way > 0)
        return after

    # --- from the informed start --------------------------------------------------------------------------------------

    def fall(self, values: Sequence[float]) -> None:
        """From the informed start at the last value down; the points come in falling order."""
        equations = self.equations
        rest = sorted(values, reverse=True)
        zeros = [value for value in rest if value == 0]
        rest = [value for value in rest if value > 0]
        size = len(equations.groups())
        walker: Walker | None = None
        if rest and size > 1:
            walker = settled(
                self.equations, self.tol, np.full(size, min(-math.log(1e-3), equations.top)), math.log(rest[0])
            )
        while rest:
            if size > 1 and walker is not None and len(walker.active) > 1:
                walker = self._fall_once(walker, rest)
                continue
            group = 0 if walker is None else walker.active[0] if walker.active else -1
            if group < 0:
                value = rest.pop(0)
                self.trace.nothing(math.log(value), value)
                continue
            self._fall_explicit(group, size, rest, walker)
        for value in zeros:
            self.trace.nothing(-math.inf, value)

    def _fall_once(self, walker: Walker, rest: list[float]) -> Walker:
        """One more point, or one layer less, from the informed start."""
        target = math.log(rest[0])
        stop = walker.to(target) if walker.t != target else Stop("target", walker.w, target)
        if stop.reason in ("joins", "leaves"):
            walker = self._changed(walker, stop, target)
        elif stop.reason in ("fold", "lost"):
            walker = self._beyond(walker, stop, target, -1.0)
        if len(walker.active) > 1 and walker.t == target:
            self.trace.point(walker, rest.pop(0))
        return walker

    def _fall_explicit(self, group: int, size: int, rest: list[float], walker: Walker | None) -> None:
        explicit = self.explicit(group, size)
        while not explicit.complete:
            explicit.extend()
        top = explicit.end
        if walker is not None and rest:
            top = explicit.last(rest[0], None) if not walker.w[group] else _nearest(explicit, rest[0], walker.w[group])
        for before, after in explicit.folds(rising=False, top=top):
            if rest[-1] <= explicit.alpha(before) <= rest[0]:
                self._record_fold(explicit, before, after, rising=False)
        while rest:
            value = rest.pop(0)
            self._at(explicit, explicit.last(value, top), value)


def _nearest(explicit: Explicit, alpha: float, w: float) -> float:
    """Where alpha(w) takes a value nearest to a guess, with a margin."""
    found = explicit.crossings(lambda at: explicit.alpha(at) - alpha)
    return min(found, key=lambda at: abs(at - w)) if found else w
