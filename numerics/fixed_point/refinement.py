"""Newton's method on averages of rising accuracy, until the overlaps are as accurate as asked.

The unknowns are t_l = logit q_ll of the layers that are learned, and the equations log alpha = log alpha_l(t) those of
`balance`. Rough averages find the neighbourhood of the fixed point (`_search`), finer and finer ones the fixed point
(`_refine`). `slopes` has d log alpha_l/dt, `stopping` decides when it is enough.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Refinable
from ..core.standard_error import SIGMAS
from .balance import AT_RECOVERY, RECOVERED, Entries
from .evaluations import FOR_SLOPES, At, Evaluations, Layers
from .growth import rates
from .iteration import Iteration
from .marginal import decided
from .newton import broyden
from .postprocess import Measured, postprocess, stated
from .resolved import is_within_noise, resolved_imbalance
from .slopes import NEARLY, STEP, Passed, distance, logistic, logit, newton, sampled_step, stable, steady
from .state import DEAD, Problem, Solution, State
from .stopping import (
    CUT,
    ROUGH,
    WRONG_BY_SAMPLES,
    Evaluation,
    Stage,
    below_top,
    bias_of,
    is_short,
    judge_rule,
    judge_sampled,
    next_stage,
    noise_of,
    noted,
    shortest_learned,
)
from .unconverged import covering_error

__all__ = ["Refinement"]

Array = NDArray[np.float64]


class _Found(NamedTuple):
    """Where the search has ended, and the slopes there."""

    t: Array
    slopes: Array


@dataclass(frozen=True)
class Refinement:
    """Newton steps on the layers' own alphas.

    Attributes
    ----------
    problem : Problem
    averages : Refinable
        Those of the problem.
    accuracy : float
        Asked for of each overlap: relative, or absolute where the averages are sampled however accurate they are.
    """

    problem: Problem
    averages: Refinable
    accuracy: float

    # As those of `slopes` and `stopping`, these constants were chosen by hand, and are held by the tests named there.
    _longest = 1.5  # longest step, in t

    @property
    def evaluations(self) -> Evaluations:
        """The averages at points of the search."""
        return Evaluations(self.problem, self.averages)

    def settle(self, state: State, q: Array, active: list[int], pairs: Entries = ()) -> State:
        """Find the fixed point with the overlaps of the active layers free."""
        if pairs:
            return Iteration(self.problem).settle(state, q, active, pairs)
        layers = tuple(sorted(active))
        free = tuple((i, i) for i in layers)
        state = replace(state, q=q.copy(), free=free, converged=False, residual=math.inf, path=(), error=None)
        start = logit(np.clip(q.diagonal()[list(layers)], 0.1 * DEAD, RECOVERED))
        slopes = None
        first = 0.5  # longest first step from the slopes of a neighbouring alpha
        if layers in state.slopes and q.diagonal().max() < AT_RECOVERY:
            passed = state.slopes[layers]  # of another alpha: the way there is known to first order
            slopes = passed.slopes
            if stable(slopes):
                start = passed.onward(math.log(self.problem.alpha), first)
        state, found = self._search(state, layers, start, slopes)
        if found is None:
            return state
        if self._leads_on(state, layers):
            return replace(state, converged=True)
        return self._refine(state, layers, found)

    def postprocess(self, state: State) -> Solution:
        """Fixed point with the error of the averages, carried through the slopes, and of the last step."""
        if not state.converged:
            # Rough averages do not state what they are off by.
            found = stated(self.problem, Measured(state, covering_error(self.problem, state, SIGMAS * ROUGH)))
            return noted(found, self.averages, self.accuracy, state.averages)
        if (error := state.error) is None:
            return noted(postprocess(self.problem, state), self.averages, self.accuracy, None)
        doubt = ""
        if state.silent:
            state, doubt = decided(self.problem, self.averages, self.accuracy, state, error)
        return noted(stated(self.problem, Measured(state, error, doubt)), self.averages, self.accuracy, state.averages)

    def _leads_on(self, state: State, layers: Layers) -> bool:
        """Whether another layer is certain to join: what is found without it is only on the way."""
        growth = rates(self.problem, state)
        # A growth rate of a layer of zero overlap that averages of accuracy 1e-2 do not mistake for one below 1.
        joins = 1.2
        return any(growth[i] > joins for i in range(len(growth)) if i not in {*layers, *state.dead})

    def _search(self, state: State, layers: Layers, t: Array, slopes: Array | None) -> tuple[State, _Found | None]:
        """Fixed point of the rough averages with the slopes there; None where it ended otherwise."""
        before: tuple[Array, Array] | None = None
        square = 1e-16  # square of the length of a step that is rounding
        while state.n_iter < self.problem.max_iter:
            t = below_top(t)
            at = self.evaluations.evaluate(state, layers, t, ROUGH)
            state, here = at
            off, close = np.abs(here.imbalance).max(), is_within_noise(here, list(layers))
            if (ended := self._ended(at, layers, t)) is not None:
                return ended, None
            if slopes is not None and before is not None:
                slopes = broyden(slopes, t - before[0], here.log_alpha - before[1], least=square)
                # Slopes of another alpha have been put right by a step.
                close = close or self._leaves_little(here, slopes)
            missing = slopes is None or (close and not stable(slopes))
            if missing and off < 1:
                state, slopes = self.evaluations.differences(state, layers, t, ROUGH, here.averages.sampled)
            if close and slopes is not None:
                return state, _Found(t, slopes)
            before = (t, here.log_alpha)
            step = resolved_imbalance(here, list(layers))
            recovered = bool(here.x.max() >= AT_RECOVERY)
            if slopes is not None and here.averages.sampled:
                step = sampled_step(slopes, step, t)
            elif slopes is not None and not recovered:
                step = newton(slopes, step)
            # Once a layer is recovered the ratios of 1 - q are open, which steps of one length leave as they are.
            longest = max(float(np.abs(step).max()) / self._longest, 1.0)
            t = t + (step / longest if recovered else np.clip(step, -self._longest, self._longest))
        return state, None

    def _leaves_little(self, here: Evaluation, slopes: Array) -> bool:
        """Whether the step that is left is so short beside the accuracy asked for that it may be the last one."""
        return stable(slopes) and is_short(slopes, newton(slopes, here.imbalance), self._asked(here.x))

    def _asked(self, x: Array) -> Array:
        """Accuracy of t for that asked for of q."""
        return self.accuracy / ((1 - x) * (x if self.averages.absolute else 1.0))

    def _ended(self, at: At, layers: Layers, t: Array, level: float = ROUGH) -> State | None:
        """State where a layer has died out, which `released` looks at, or recovery is reached; None elsewhere."""
        here = at.here
        if here.x.min() < DEAD and here.imbalance[int(here.x.argmin())] < 0:
            return replace(at.state, converged=True)
        # A layer is pushed beyond the last step that is resolved, with the others on the way.
        pushed = (here.x >= AT_RECOVERY) & (here.imbalance > 0)
        if pushed.any() and (1 - here.x).max() < NEARLY:
            # A layer that grows by so much more than a recovered one, in log alpha, comes nearer to recovery.
            # Others that are not known to the accuracy asked for yet may come nearer to it.
            nearer = here.imbalance > here.imbalance[pushed].max() + 0.05
            if not (nearer & (1 - here.x > self.accuracy)).any():
                return self._end(at, layers, t, level)
        return None

    def _end(self, at: At, layers: Layers, t: Array, level: float) -> State:
        """Recovery: the last step that is resolved still leads on; by how little decides on the error."""
        chosen, finest = list(layers), self.averages.finest[True]
        state, here = at
        error = left = 1 - here.x
        # Imbalance beyond so many standard errors leaves no doubt of its sign: a recovered layer is pushed on.
        clear = 5.0
        while not (here.imbalance > clear * noise_of(here.averages, chosen, np.eye(len(t)))).all():
            # Rough averages of which this is not clear leave too much: finer ones come first.
            if level < ROUGH:
                state, slopes = self._last_slopes(At(state, here), layers, t)
                inverse = np.asarray(np.linalg.pinv(slopes), np.float64)
                noise = noise_of(here.averages, chosen, inverse)
                # In 1 - q, of which the slopes are those of a line here.
                error = np.clip(here.x * left * (noise - inverse @ here.imbalance), left, 1.0)
                if error.max() <= self.accuracy or level <= finest:
                    break
            level = max(CUT * level, finest)
            (state, here), error = self.evaluations.evaluate(state, layers, t, level), left
        return replace(state, error=self.evaluations.entered(chosen, error), converged=True, residual=0.0)

    def _last_slopes(self, at: At, layers: Layers, t: Array) -> tuple[State, Array]:
        """Slopes at the last step that is resolved, which alphas beyond recovery have in common."""
        state, here = at
        passed = state.slopes.get(layers)
        if passed is not None and passed.measured is not None and np.array_equal(passed.measured[0], t):
            return state, passed.measured[1]
        state, slopes = self.evaluations.differences(state, layers, t, FOR_SLOPES, here.averages.sampled)
        passed = Passed(t, float(here.log_alpha.mean()), slopes, measured=(t, slopes))
        return replace(state, slopes={**state.slopes, layers: passed}), slopes

    def _refine(self, state: State, layers: Layers, found: _Found) -> State:
        """Chord steps with finer and finer rules, until two of them agree to the accuracy asked for.

        Each rule is summed at one point; the fixed point near it is found by coarser ones (`_anchored`). The error
        follows from the distances of the fixed points of the last three, as errors fall by several times from one rule
        to the next; of sampled averages it is their noise. The last step is taken, and a part of it added.
        """
        chosen = list(layers)
        stage = Stage(found.t, found.slopes, np.full(len(layers), math.inf))
        while True:
            at, stage = self.evaluations.anchored(state, layers, stage)
            here, x, sampled = at.here, at.here.x, at.here.averages.sampled
            state, stage = self._with_slopes(at, layers, stage)
            if (ended := self._ended(At(state, here), layers, stage.t, stage.level)) is not None:
                return ended
            inverse: Array = np.asarray(np.linalg.pinv(stage.slopes), np.float64)
            off = resolved_imbalance(here, chosen)
            step = steady(stage.slopes, off, stage.t) if sampled else inverse @ off
            step = np.clip(step, -self._longest, self._longest)
            finest = self.averages.finest[sampled]
            coarse, at_rest = stage.level > finest, state.residual <= self.problem.tolerance.value
            there = np.minimum(logistic(stage.t + step), RECOVERED)
            # What is asked of q is asked where the step leads, too: an error of t makes one of q by x (1 - x) there.
            asked = np.minimum(self._asked(x), self._asked(there))
            judge, error_of = (judge_sampled, noise_of) if sampled else (judge_rule, bias_of)
            # Slopes of sampled averages are those by u: what noise makes of u is the same where the step leads.
            left = error_of(here.averages, chosen, inverse) * (x / there if sampled else 1.0)
            judged = judge(stage, step, left, asked, at_rest=at_rest, coarse=coarse)
            if (judged.settled and (judged.enough or not coarse)) or state.n_iter >= self.problem.max_iter:
                break
            stage = next_stage(stage, judged, here, asked, finest)
        if not judged.settled:
            return state
        before = None if (known := state.slopes.get(layers)) is None else (known.t, known.log_alpha)
        passed = Passed(logit(there), math.log(self.problem.alpha), stage.slopes, before, stage.measured)
        return replace(
            state,
            q=self.evaluations.entered(chosen, there),
            converged=True,
            slopes={**state.slopes, layers: passed},
            error=self.evaluations.entered(chosen, np.minimum(there * (1 - there) * judged.error, 1.0)),
        )

    def _with_slopes(self, at: At, layers: Layers, stage: Stage) -> tuple[State, Stage]:
        """The stage with slopes that take the latest evaluation into account."""
        state, here = at
        t, moved = stage.t, stage.moved
        if not (here.averages.sampled and stage.level < ROUGH):
            if moved is None or np.abs(t - moved[0]).max() <= shortest_learned(stage.level):
                return state, stage
            return state, replace(stage, slopes=broyden(stage.slopes, t - moved[0], here.log_alpha - moved[1]))
        # Neighbours differ by their noise: slopes are taken from distant points.
        together = len(t) == len(self.averages.layers) and bool((1 - here.x).max() < NEARLY)
        measured = stage.measured
        if measured is None and not together and layers in state.slopes:
            measured = state.slopes[layers].brought(t, here.log_alpha, WRONG_BY_SAMPLES)
        u = distance(t)
        # Slopes of sampled averages are measured afresh so far in u = -log(1 - q) from where they were: on the way of
        # all layers to recovery, where a law is known for them, and elsewhere.
        away, near = 3.0, 0.8
        if measured is None or np.abs(u - distance(measured[0])).max() > (away if together else near):
            state, slopes = self.evaluations.differences(state, layers, t, FOR_SLOPES, sampled=True)
            measured = t, slopes
        elif moved is not None and not together and np.abs(way := u - distance(moved[0])).max() > STEP:
            # The same samples as before the step: their noise is nearly the same.
            x = logistic(measured[0])
            measured = measured[0], broyden(measured[1] / x, way, here.log_alpha - moved[1]) * x
        slopes = measured[1] * (logistic(t) / logistic(measured[0]))
        if together:
            # Where all layers come to recovery, that slope is their distance to it.
            shrunk = math.expm1(float((measured[0] - t).mean()))
            slopes = slopes + np.outer(slopes.sum(axis=1), np.full(len(t), shrunk / len(t)))
        return state, replace(stage, slopes=slopes, measured=measured)
