"""Averages of one accuracy at points t of the search for a fixed point, what the layers' alphas differ by, and slopes.

The points are t_l = logit q_ll of the layers that are learned; `refinement` has the search. Fine averages near a point
where they are known follow from how far coarser ones move from there (`Evaluations.anchored`).
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Refinable
from .balance import RECOVERED, log_alpha
from .slopes import differences, logistic
from .state import Problem, State
from .stopping import ROUGH, Anchor, Evaluation, Stage, moving

__all__ = ["FOR_SLOPES", "At", "Evaluations", "Layers"]

Array = NDArray[np.float64]
Layers = tuple[int, ...]
#: Accuracy of the sampled averages of which slopes are taken.
FOR_SLOPES = 2e-3


class At(NamedTuple):
    """A state with the evaluation at which it stands."""

    state: State
    here: Evaluation


@dataclass(frozen=True)
class Evaluations:
    """Averages at points of a search.

    Attributes
    ----------
    problem : Problem
    averages : Refinable
        Those of the problem.
    """

    problem: Problem
    averages: Refinable

    def entered(self, chosen: list[int], error: Array) -> Array:
        """Errors of these layers as a matrix."""
        out = self.problem.zero
        out[chosen, chosen] = error
        return out

    def overlap(self, layers: Layers, t: Array) -> Array:
        """Overlap with these t, and zero elsewhere."""
        return self.entered(list(layers), np.minimum(logistic(t), RECOVERED))

    def evaluate(self, state: State, layers: Layers, t: Array, level: float) -> At:
        """Averages of this accuracy at these t, by the method of the latest ones."""
        q = self.overlap(layers, t)
        return self._judged(state, layers, t, q, self.averages.alike(q, level, state.averages))

    def anchored(self, state: State, layers: Layers, stage: Stage) -> tuple[At, Stage]:
        """Averages of the stage; near a point where they are known, by how far coarser ones move from there."""
        anchor = stage.anchor
        if anchor is not None:
            moved, anchor = self._moved(layers, stage, anchor)
            if moved is not None:
                at = self._judged(state, layers, stage.t, self.overlap(layers, stage.t), moved)
                return at, replace(stage, anchor=anchor)
        # Each stage keeps its first method.
        at = self.evaluate(state if stage.tries else replace(state, averages=None), layers, stage.t, stage.level)
        found = at.here.averages
        known = stage.level < (FOR_SLOPES if found.sampled else ROUGH)
        return at, replace(stage, anchor=Anchor(stage.t, found) if known else None)

    def _moved(self, layers: Layers, stage: Stage, anchor: Anchor) -> tuple[Averages | None, Anchor]:
        """Averages of the stage by those of its anchor and by coarser ones at both points; None if these do not serve.

        Deterministic ones of two accuracies away: such rules jump by less than the one of the stage is off, and those
        of the next accuracy are known at the anchor.
        """
        sampled = anchor.averages.sampled
        # Distance in t over which the ratio of averages of neighbouring accuracies changes by little of what it differs
        # from 1; of sampled ones the scatter of the ratio measures its error.
        reach, sampled_reach = 0.1, 0.3
        if np.abs(stage.t - anchor.t).max() > (sampled_reach if sampled else reach):
            return None, anchor
        level = FOR_SLOPES if sampled else moving(stage.level)
        how = stage.level, level, anchor.averages
        if anchor.coarse is None:
            anchor = replace(anchor, coarse=self.averages.beside(self.overlap(layers, anchor.t), *how))
        return anchor.moved(self.averages.beside(self.overlap(layers, stage.t), *how)), anchor

    def _judged(self, state: State, layers: Layers, t: Array, q: Array, averages: Averages) -> At:
        """Averages with what the layers' alphas differ by from the one asked for."""
        x = q.diagonal()[list(layers)]
        least_average = 1e-16  # of few outputs that of a layer which is hardly learned may be negative: it dies out
        g = np.maximum(averages.g.mean(axis=0).diagonal()[list(layers)], least_average)
        own = log_alpha(self.problem.prior, t, g)
        imbalance = math.log(self.problem.alpha) - own
        residual = float(np.abs(self.problem.image(np.diag(g)).diagonal() - x).max())
        return At(replace(state.visited(q, averages), residual=residual), Evaluation(x, averages, own, imbalance))

    def differences(self, state: State, layers: Layers, t: Array, level: float, sampled: bool) -> tuple[State, Array]:
        """Slopes from differences of averages of this accuracy; the state stays where it is."""
        tried: list[Array] = []

        def there(at: Array) -> Array:
            tried.append(self.overlap(layers, at))
            g = self.averages.alike(tried[-1], level, state.averages).g.mean(axis=0)
            return log_alpha(self.problem.prior, at, g.diagonal()[list(layers)])

        slopes = differences(there, t, sampled=sampled, whole=len(t) == len(self.averages.layers))
        return state.beside(*tried), slopes
