"""Curves where overlaps of a group differ or are correlated: the iteration itself, from one value to the next.

Keys and queries are learned together, with overlaps of their own, so that no single alpha belongs to a group
(`equations`). Every point is iterated from the one before. Groups begin and cease to be learned where their growth rate
on the branch without them is one. Where the iteration does not come back the way it came, the branch has ended in
between: the place is bracketed. A hysteresis narrower than the distance of the points is not seen.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...channel.averages import Averages, Channel
from ...core.standard_error import SIGMAS
from ...core.ties import first_largest
from ...priors import Prior
from ..balance import AT_RECOVERY
from ..evolve import INFORMED
from ..growth import grown
from ..iteration import Iteration
from ..result import status_of
from ..state import Problem, Solution, State, Tolerance
from .records import CurvePoint, Jump, Onset

__all__ = ["Events", "Iterated"]

Array = NDArray[np.float64]
Group = tuple[int, ...]


@dataclass
class Events:
    """What is met from one start: points, onsets and jumps."""

    points: list[CurvePoint]
    onsets: list[Onset]
    jumps: list[Jump]


@dataclass(frozen=True)
class _Place:
    """The fixed point at one value of the parameter."""

    value: float
    solution: Solution
    averages: Channel

    @property
    def q(self) -> Array:
        """Overlap."""
        return self.solution.q

    def rate(self, group: Group) -> float:
        """Logarithm of the growth rate of a group of zero overlap."""
        found = float(self.solution.rates[group[0]])
        return math.log(found) if found > 0 else -math.inf

    def error(self, group: Group) -> float:
        """Error of that logarithm."""
        return float(self.solution.rates_error[group[0]] / self.solution.rates[group[0]])

    def learned(self) -> list[Group]:
        """Groups of positive overlap."""
        return [group for group in self.averages.groups if self.q[group[0], group[0]] > 0]

    def without(self, group: Group) -> Array:
        """Overlap with that of a group set to zero."""
        q = self.q.copy()
        q[list(group)] = q[:, list(group)] = 0.0
        return q


class Iterated:
    """Fixed points at the values of a parameter, from one start.

    Parameters
    ----------
    channel_at : callable
        From the value of the parameter to its averages; of None where alpha is the parameter.
    start : {"uninformed", "informed"}
    alpha : float or None
        Fixed, where something else is the parameter.
    settings : (float, float)
        Tolerance on max |F(q) - q|, and distance to one at which an overlap counts as recovered.
    done : callable
        Called after each point.
    prior : Prior
        Law of the weights.
    """

    # Evaluations for a point; fixed points on the way to an onset, and to a jump.
    _most, _tries, _halvings = 200, 3, 4

    def __init__(
        self,
        channel_at: Callable[[float | None], Channel],
        start: str,
        alpha: float | None,
        settings: tuple[float, float],
        done: Callable[[], None],
        prior: Prior,
    ) -> None:
        self._prior = prior
        self._channel_at, self.start, self._alpha, self._done = channel_at, start, alpha, done
        self._tol, self._closest = settings
        self.trace = Events([], [], [])
        self.n_iter = 0
        self._nothing: Averages | None = None

    def follow(self, values: Sequence[float]) -> None:
        """Points at rising values, in the order in which the start meets them."""
        rising = self.start == "uninformed"
        before: _Place | None = None
        for value in values if rising else values[::-1]:
            before = self._next(before, value)

    def onset_of(self, groups: Sequence[Group], values: Iterable[float]) -> Onset | None:
        """Where the first of some groups begins to be learned; None where that is by a jump, or at none of the values.

        Parameters
        ----------
        groups : sequence of tuple of int
        values : iterable of float
            Rising; no more of them are taken than needed.
        """
        before: _Place | None = None
        for value in values:
            before = self._next(before, value)
            if any(group in groups for group in before.learned()):
                break
        return next((one for one in self.trace.onsets if one.indices in groups), None)

    def _next(self, before: _Place | None, value: float) -> _Place:
        """The fixed point at a value, from the one before it, with what is met in between."""
        place = self._place(value, self._first(value) if before is None else before.q)
        if before is None and self.start == "uninformed" and self._alpha is None and place.q.any():
            before = self._onset_of_all(place)
        if before is not None:
            self._between(before, place)
        self._add(place)
        return place

    def _first(self, value: float) -> Array:
        """Overlap from which the first point is iterated."""
        size = self._channel(value).model.indices
        return (1 - INFORMED) * np.eye(size) if self.start == "informed" and value > 0 else np.zeros((size, size))

    def _channel(self, value: float) -> Channel:
        return self._channel_at(None if self._alpha is None else value)

    def _place(self, value: float, q: Array, only: Sequence[Group] | None = None) -> _Place:
        """Fixed point to which the iteration goes from q, with these groups learned, if any are named."""
        averages = self._channel(value)
        alpha = value if self._alpha is None else self._alpha
        problem = Problem(averages, alpha, Tolerance(self._tol), self._most, prior=self._prior)
        strategy, state = Iteration(problem), State.start(problem)
        if not q.any() and self._alpha is None:
            # Zero overlap is a fixed point at every alpha, and its averages do not depend on alpha.
            if self._nothing is None:
                self._nothing, self.n_iter = averages(q), self.n_iter + 1
            state = replace(state, averages=self._nothing, converged=True, silent=frozenset(averages.layers))
            if only is not None or not problem.rising * np.nanmax(self._nothing.growth.mean(axis=0)) > 1:
                return _Place(value, strategy.postprocess(state), averages)
        if only is None:
            state = grown(strategy, state, q)
        elif q.any():
            state = strategy.settle(state, q, sorted(i for group in only for i in group))
            state = replace(state, silent=frozenset(averages.layers))
        else:
            state = replace(state.visited(q, averages(q)), converged=True, silent=frozenset(averages.layers))
        solution = strategy.postprocess(state)
        self.n_iter += solution.n_iter
        return _Place(value, solution, averages)

    def _add(self, place: _Place) -> None:
        solution, q = place.solution, place.q
        recovered = tuple(np.flatnonzero(q.diagonal() >= min(AT_RECOVERY, 1 - self._closest)).tolist())
        self.trace.points.append(
            CurvePoint(
                parameter=place.value,
                alpha=solution.alpha,
                overlap=q,
                overlap_error=solution.error,
                eigenvalues=solution.eigenvalues,
                growth=solution.rates,
                recovered=recovered,
                converged=solution.converged and not solution.doubt,
                residual=solution.residual,
                n_iter=solution.n_iter,
                status=status_of(solution, place.averages),
            )
        )
        self._done()

    # --- between two points -------------------------------------------------------------------------------------------

    def _between(self, before: _Place, after: _Place) -> None:
        """Onsets and jumps between two points, in the order in which they are met."""
        came, went = before.learned(), after.learned()
        changed = [group for group in came if group not in went] + [group for group in went if group not in came]
        met = False
        # On the branch without a group its growth rate passes through one, or the group comes and goes by a jump.
        for group in sorted(changed, key=lambda group: went.index(group) if group in went else -1):
            silent, learned = (after, before) if group in came else (before, after)
            others = [one for one in learned.learned() if one != group]
            beside = self._place(learned.value, learned.without(group), others)
            if silent.rate(group) <= 0 < beside.rate(group):
                self._onset(silent, beside, group)
                met = True
        # Changes of overlaps from point to point below which no jump is looked for.
        smooth = 0.1
        if not met and np.abs(after.q - before.q).max() > smooth:
            self._jump(before, after)

    def _onset_of_all(self, after: _Place) -> _Place:
        """Record where the first group turns unstable from zero overlap; zero overlap there."""
        zero = self._place(after.value, np.zeros_like(after.q), [])
        groups = after.averages.groups
        first = groups[first_largest(np.exp([zero.rate(group) for group in groups]))]
        value = after.value * math.exp(-zero.rate(first))
        place = self._place(value, zero.q, [])
        self._record(first, value, value * zero.error(first), place.q)
        return place

    def _onset(self, silent: _Place, unstable: _Place, group: Group) -> None:
        """Find where the growth rate of a group is one, on the branch without it; record it with its error."""
        if not silent.q.any() and self._alpha is None:
            value = silent.value * math.exp(-silent.rate(group)) if silent.value > 0 else 0.0
            if not value:
                value = unstable.value * math.exp(-unstable.rate(group))
            if not unstable.q.any() or silent.value == 0:
                self._record(group, value, value * unstable.error(group), silent.q)
                return
        ends = [silent, unstable]
        # Share of a bracket that its ends are not approached by.
        inside = 0.1
        for _ in range(self._tries):
            here = min(ends, key=lambda end: abs(end.rate(group)))
            if abs(here.rate(group)) <= here.error(group):
                break
            low, high = (math.log(end.value) for end in ends)
            share = -ends[0].rate(group) / (ends[1].rate(group) - ends[0].rate(group))
            t = low + min(max(share, inside), 1 - inside) * (high - low)
            middle = self._place(math.exp(t), here.q, ends[1].learned())
            ends[0 if middle.rate(group) <= 0 else 1] = middle
        slope = self._slope(ends, group)
        here = min(ends, key=lambda end: abs(end.rate(group)))
        value = here.value * math.exp(-here.rate(group) / slope)
        # The growth rate is a line up to half of what the last step was.
        off = (here.error(group) + 0.5 * abs(here.rate(group))) / abs(slope)
        self._record(group, value, value * off, here.q)

    @staticmethod
    def _slope(ends: Sequence[_Place], group: Group) -> float:
        """Derivative of the logarithm of the growth rate by that of the parameter."""
        low, high = ends
        return (high.rate(group) - low.rate(group)) / (math.log(high.value) - math.log(low.value))

    def _record(self, group: Group, value: float, error: float, q: Array) -> None:
        known = [one for one in self.trace.onsets if one.indices == group and abs(one.value - value) <= SIGMAS * error]
        if not known:
            self.trace.onsets.append(Onset(group, value, error, q, self.start))

    def _jump(self, before: _Place, after: _Place) -> None:
        """Bracket where the branch of the first point ends, if the iteration from the second does not come back."""
        back = self._place(before.value, after.q)
        apart = np.abs(back.q - before.q) - SIGMAS * (back.solution.error + before.solution.error)
        if not (apart > 0).any():
            return
        low, high = before, after
        for _ in range(self._halvings):
            middle = self._place(0.5 * (low.value + high.value), low.q)
            if np.abs(middle.q - low.q).max() <= np.abs(middle.q - high.q).max():
                low = middle
            else:
                high = middle
        direction = "up" if after.value > before.value else "down"
        value, off = 0.5 * (low.value + high.value), 0.5 * abs(high.value - low.value)
        self.trace.jumps.append(Jump(value, off, direction, low.q, high.q, self.start))
