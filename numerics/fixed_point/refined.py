"""Fixed points found with rough averages, and refined until the overlaps are as accurate as asked.

With t_l = log(q_ll/(1 - q_ll)), q = F(alpha G(q)) (14) is log alpha = log alpha_l(t) = t_l - log G_ll(q) for each layer
l. The right-hand side does not depend on alpha, and its slopes by t serve Newton steps, neighbouring alphas and the
error. `slopes` has these, `refinement` decides when it is enough.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Refinable
from ..core.standard_error import student
from .error import growth_error
from .refinement import CUT, ROUGH, TOP, Evaluation, Stage, judge_rule, judge_sampled, next_stage
from .slopes import NEARLY, STEP, broyden, differences, logit, newton, stable
from .solver import DEAD, RECOVERED, Solver

__all__ = ["RefinedSolver", "Slopes"]

Array = NDArray[np.float64]
# From layers that are learned to a log alpha and the slopes there.
Slopes = dict[tuple[int, ...], tuple[float, Array]]

# As those of `slopes` and `refinement`, these constants were chosen by hand, and are held by the tests named there.
#
# Longest step, in t, and the largest imbalance in log alpha at which the search ends: a third of its averages' error.
_LONGEST, _FOUND = 1.5, 3e-3
# Longest first step from the slopes of a neighbouring alpha.
_FIRST = 0.5
# Imbalance beyond so many standard errors leaves no doubt of its sign: a recovered layer is pushed on.
_CLEAR = 5.0
# A growth rate of a layer of zero overlap that averages of accuracy 1e-2 do not mistake for one below 1.
_JOINS = 1.2
# Growth rates this close to 1 are judged with the error of the overlaps, too.
_MARGINAL = 0.05
# Least step in t from which Broyden's update learns: shorter ones show rounding, or jumps of the rules.
_TELLING = 1e-3
# Slopes of sampled averages are measured afresh so far in t from where they were: on the way of all layers to
# recovery, where a law is known for them, and elsewhere.
_AWAY, _NEAR = 3.0, 0.8
# Accuracy of the sampled averages of which slopes are taken.
_TOLD = 2e-3


class RefinedSolver(Solver):
    """Newton steps on the layers' own alphas.

    Parameters
    ----------
    averages : Refinable
    alpha, tol, max_iter
        As for `Solver`.
    accuracy : float
        Asked for of each overlap: relative, or absolute where the averages are sampled however accurate they are.
    slopes : dict, optional
        From the layers that are learned to d(t - log G)/dt, shared by the solvers of neighbouring alphas.
    """

    averages: Refinable

    def __init__(
        self,
        averages: Refinable,
        alpha: float,
        tol: float,
        max_iter: int,
        accuracy: float,
        slopes: Slopes | None = None,
    ) -> None:
        super().__init__(averages, alpha, tol, max_iter)
        self._accuracy = accuracy
        self._slopes = {} if slopes is None else slopes
        self._error: Array | None = None

    def settle(self, q: Array, active: list[int], *, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """Find the fixed point with the overlaps of the active layers free."""
        pairs = tuple(pairs)
        self._error = None
        if pairs:
            super().settle(q, active, pairs=pairs)
            return
        layers = tuple(sorted(active))
        self.free = [(i, i) for i in layers]
        self.converged, self.residual, self.q = False, math.inf, q.copy()
        start = logit(np.clip(q.diagonal()[list(layers)], 0.1 * DEAD, RECOVERED))
        slopes = None
        if layers in self._slopes:  # of another alpha: the way there is known to first order
            log_alpha, slopes = self._slopes[layers]
            if stable(slopes):
                step = np.linalg.solve(slopes, np.full(len(layers), math.log(self.alpha) - log_alpha))
                start = start + np.clip(step, -_FIRST, _FIRST)
        found = self._search(layers, start, slopes)
        if found is None:
            return
        if self._leads_on(layers):
            self.converged = True
        else:
            self._refine(layers, *found)

    def _leads_on(self, layers: tuple[int, ...]) -> bool:
        """Whether another layer is certain to join: what is found without it is only on the way."""
        rates = self.stability()
        return any(rates[i] > _JOINS for i in range(len(rates)) if i not in {*layers, *self.dead})

    def measure(self) -> tuple[Array, str]:
        """Error of q, that of the averages carried through the slopes and what the last step would have moved."""
        if self._error is None:
            return super().measure()
        return self._error, self._near_growth() if self.silent else ""

    def _near_growth(self) -> str:
        """What is said of layers of zero overlap that grow or not by less than the averages decide."""
        assert self._error is not None
        rates = self.stability()
        silent = [i for i in self.silent if abs(rates[i] - 1) < _MARGINAL]
        if not silent or (self._known_rate() is not None and silent == [len(rates) - 1]):
            return ""
        # The ends of an interval, and what the error of the overlaps makes of it.
        found = self.averages(self.q)
        growth = growth_error(found)
        here = self._rough_growth(self.q)
        for k in np.flatnonzero(self._error.diagonal()).tolist():
            moved = self.q.copy()
            moved[k, k] -= min(_MARGINAL * min(self.q[k, k], 1 - self.q[k, k]), 0.1)
            slope = (self._rough_growth(moved) - here) / (moved[k, k] - self.q[k, k])
            growth = growth + np.abs(slope) * self._error[k, k]
        return self._undecided(growth, found.sampled)

    def _rough_growth(self, q: Array) -> Array:
        self.n_iter += 1
        return np.asarray(self.averages.rough(q, ROUGH).growth.mean(axis=0))

    def _search(self, layers: tuple[int, ...], t: Array, slopes: Array | None) -> tuple[Array, Array] | None:
        """Fixed point of the rough averages with the slopes there; None where it ended otherwise."""
        before: tuple[Array, Array] | None = None
        while self.n_iter < self.max_iter:
            t = np.minimum(t, TOP)
            here = self._evaluate(layers, t, ROUGH)
            off = np.abs(here.imbalance).max()
            if self._ended(layers, t, here):
                return None
            if slopes is not None and before is not None:
                slopes = broyden(slopes, t - before[0], here.log_alpha - before[1])
            if off <= _FOUND:
                if slopes is None or not stable(slopes):
                    slopes = self._differences(layers, t, ROUGH, here.averages.sampled)
                return t, slopes
            if slopes is None and off < 1:
                slopes = self._differences(layers, t, ROUGH, here.averages.sampled)
            before = (t, here.log_alpha)
            step = here.imbalance if slopes is None else newton(slopes, here.imbalance)
            t = t + np.clip(step, -_LONGEST, _LONGEST)
        return None

    def _ended(self, layers: tuple[int, ...], t: Array, here: Evaluation) -> bool:
        """Whether a layer has died out, which `release` looks at, or recovery is reached."""
        if here.x.min() < DEAD and here.imbalance[int(here.x.argmin())] < 0:
            self.converged = True
            return True
        # A layer is pushed beyond the last step that is resolved, with the others on the way.
        pushed = (here.x >= RECOVERED - 1e-9) & (here.imbalance > 0)
        if pushed.any() and (1 - here.x).max() < NEARLY:
            self._end(layers, t, here.imbalance)
            return True
        return False

    def _end(self, layers: tuple[int, ...], t: Array, imbalance: Array) -> None:
        """Recovery: the last step that is resolved still leads on; by how little decides on the error."""
        chosen, level = list(layers), ROUGH
        x = self.q.diagonal()[chosen]
        error = 1 - x
        while True:
            assert self.latest is not None
            if (imbalance > _CLEAR * self._noise(self.latest, chosen, np.eye(len(t)))).all():
                break
            here = self._evaluate(layers, t, level)
            imbalance = here.imbalance
            slopes = self._differences(layers, t, max(level, _TOLD), here.averages.sampled)
            inverse = np.asarray(np.linalg.pinv(slopes), np.float64)
            noise = self._noise(here.averages, chosen, inverse)
            # In 1 - q, of which the slopes are those of a line here.
            error = np.clip(x * (1 - x) * (noise - inverse @ imbalance), 1 - x, 1.0)
            if error.max() <= self._accuracy or level <= self.averages.finest[True]:
                break
            level = max(CUT * level, self.averages.finest[True])
        self._state_error(chosen, error)
        self.converged, self.residual = True, 0.0

    def _refine(self, layers: tuple[int, ...], t: Array, slopes: Array) -> None:
        """Chord steps with finer and finer rules, until two of them agree to the accuracy asked for.

        The error is the distance of the fixed points of the last two: about that of the coarser one, as errors fall by
        several times from one rule to the next. Of sampled averages it is their noise, and part of the last step.
        """
        chosen = list(layers)
        stage = Stage(t, slopes, np.full(len(t), math.inf))
        while True:
            here = self._evaluate(layers, stage.t, stage.level)
            x, sampled = here.x, here.averages.sampled
            stage = self._with_slopes(layers, stage, here)
            if self._ended(layers, stage.t, here):
                return
            inverse: Array = np.asarray(np.linalg.pinv(stage.slopes), np.float64)
            step = np.clip(inverse @ here.imbalance, -_LONGEST, _LONGEST)
            finest = self.averages.finest[sampled]
            coarse, at_rest = stage.level > finest, self.residual <= self.tol
            # Of t, for the accuracy asked of q.
            asked = self._accuracy / ((1 - x) * (x if self.averages.absolute else 1.0))
            if sampled:
                noise = self._noise(here.averages, chosen, inverse)
                judged = judge_sampled(stage, step, noise, asked, at_rest=at_rest, coarse=coarse)
            else:
                judged = judge_rule(stage, step, asked, at_rest=at_rest, coarse=coarse)
            if (judged.settled and (judged.enough or not coarse)) or self.n_iter >= self.max_iter:
                break
            stage = next_stage(stage, judged, here, asked, finest)
        if sampled and judged.settled:
            self.q = self._at(layers, stage.t + step)
        self.converged = judged.settled
        self._slopes[layers] = (float(here.log_alpha.mean()), stage.slopes)
        self._state_error(chosen, np.minimum(x * (1 - x) * judged.error, 1.0))

    def _with_slopes(self, layers: tuple[int, ...], stage: Stage, here: Evaluation) -> Stage:
        """The stage with slopes that take the latest evaluation into account."""
        t, moved = stage.t, stage.moved
        length = 0.0 if moved is None else float(np.abs(t - moved[0]).max())
        if not (here.averages.sampled and stage.level < ROUGH):
            if moved is None or length <= _TELLING:
                return stage
            return replace(stage, slopes=broyden(stage.slopes, t - moved[0], here.log_alpha - moved[1]))
        # Neighbours differ by their noise: slopes are taken from distant points.
        together = len(t) == len(self.averages.layers) and bool((1 - here.x).max() < NEARLY)
        measured = stage.measured
        if measured is None or np.abs(t - measured[0]).max() > (_AWAY if together else _NEAR):
            measured = t, self._differences(layers, t, _TOLD, sampled=True)
        elif moved is not None and not together and length > STEP:
            # The same samples as before the step: their noise is nearly the same.
            measured = measured[0], broyden(measured[1], t - moved[0], here.log_alpha - moved[1])
        slopes = measured[1]
        if together:
            # Where all layers come to recovery, that slope is their distance to it.
            shrunk = math.expm1(float((measured[0] - t).mean()))
            slopes = slopes + np.outer(slopes.sum(axis=1), np.full(len(t), shrunk / len(t)))
        return replace(stage, slopes=slopes, measured=measured)

    def _state_error(self, chosen: list[int], error: Array) -> None:
        self._error = np.zeros_like(self.q)
        self._error[chosen, chosen] = error

    def _at(self, layers: tuple[int, ...], t: Array) -> Array:
        q = np.zeros((self.averages.model.indices,) * 2)
        q[list(layers), list(layers)] = np.minimum(1 / (1 + np.exp(-t)), RECOVERED)
        return q

    def _rough(self, layers: tuple[int, ...], t: Array, level: float) -> Averages:
        """Averages of this accuracy where q has these t, and zero elsewhere."""
        self.q = self._at(layers, t)
        self.latest = self.averages.rough(self.q, level)
        self.history.append(self.q.copy())
        self.n_iter += 1
        return self.latest

    def _evaluate(self, layers: tuple[int, ...], t: Array, level: float) -> Evaluation:
        """The same, with max |F(q) - q| stated and what the layers' alphas differ by from the one asked for."""
        averages = self._rough(layers, t, level)
        x = self.q.diagonal()[list(layers)]
        log_alpha = _log_alpha(layers, t, averages)
        imbalance = math.log(self.alpha) - log_alpha
        self.residual = float(np.abs(1 / (1 + np.exp(-(t + imbalance))) - x).max())
        return Evaluation(x, averages, log_alpha, imbalance)

    def _noise(self, averages: Averages, chosen: list[int], inverse: Array) -> Array:
        """Standard error of t where G is sampled, and what its bias makes of it."""
        g = averages.g[:, chosen, chosen]
        mean = g.mean(axis=0)
        deviations = (g / mean) @ inverse.T
        factor = student(len(g)) if averages.sampled else 1.0
        out: Array = factor * deviations.std(axis=0, ddof=1) / math.sqrt(len(g))
        return out + np.abs(inverse) @ (np.abs(averages.bias[chosen, chosen]) / mean)

    def _differences(self, layers: tuple[int, ...], t: Array, level: float, sampled: bool) -> Array:
        """Slopes from differences of averages of this accuracy; the solver stays where it is."""
        here = self.q, self.latest
        slopes = differences(
            lambda at: _log_alpha(layers, at, self._rough(layers, at, level)),
            t,
            TOP,
            sampled=sampled,
            whole=len(t) == len(self.averages.layers),
        )
        self.q, self.latest = here
        return slopes


def _log_alpha(layers: tuple[int, ...], t: Array, averages: Averages) -> Array:
    """Log of the alpha at which each layer would be at rest."""
    g = averages.g.mean(axis=0).diagonal()[list(layers)]
    out: Array = t - np.log(g)
    return out
