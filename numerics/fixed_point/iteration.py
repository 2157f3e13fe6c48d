"""Iteration of q -> F(alpha G(q)) with Anderson's acceleration: the strategy that needs no slopes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .balance import AT_RECOVERY, RECOVERED, Entries, free_entries, least_and_largest
from .postprocess import postprocess
from .state import DEAD, FAINT, Problem, Solution, State, Tolerance

__all__ = ["Iteration"]

Array = NDArray[np.float64]

# Evaluations after which a share of the statistical error is enough, for averages that need it. Where those of a
# network jump, the share grows with the evaluations: the error has all that is left.
_PATIENCE, _ROUGH = 24, 0.1


@dataclass(frozen=True)
class _Iterates:
    """A state, the free entries of the next evaluation, and the latest points with their images."""

    state: State
    x: Array
    points: tuple[Array, ...] = ()
    images: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Iteration:
    """Anderson-accelerated iteration over the entries that are free.

    Attributes
    ----------
    problem : Problem
    """

    problem: Problem

    def settle(self, state: State, q: Array, active: list[int], pairs: Entries = ()) -> State:
        """Iterate from q with the diagonal over the active layers free, and these entries off it."""
        free = free_entries(self.problem.averages, active, pairs)
        state = replace(state, q=q.copy(), free=free, converged=False, residual=math.inf, path=(), error=None)
        at = _Iterates(state, q[state.entries].copy())
        while not self.terminate(at.state):
            at = self.step(at)
        return at.state

    def terminate(self, state: State) -> bool:
        """Whether the fixed point is found, or the evaluations are used up."""
        return state.converged or (state.averages is not None and state.n_iter >= self.problem.max_iter)

    def step(self, at: _Iterates) -> _Iterates:
        """Take the averages at the next point, and choose the one after it."""
        state, problem = at.state, self.problem
        q = problem.overlap(state.free, at.x)
        x = q[state.entries]
        averages = problem.averages(q)
        fx = problem.image(averages.g.mean(axis=0))[state.entries]
        # The diagonal comes first.
        size = sum(i == j for i, j in state.free)
        # What dies out may stay at the noise of its averages, and what is recovered at the largest overlap resolved.
        faint = (x < DEAD) & (fx < DEAD) if problem.averages.smooth else (x < FAINT) & (fx < FAINT)
        fading = {i for k, (i, j) in enumerate(state.free) if i == j and faint[k]}
        alone = problem.averages.smooth and len(state.free) > size
        ended = np.array([not alone and set(pair) <= fading for pair in state.free])
        recovered = (x >= AT_RECOVERY) & (fx > RECOVERED)
        if problem.relative and len(state.free) == size and not recovered.all():
            ended |= recovered
        residual = float(np.abs(np.where(ended, 0.0, fx - x)).max())
        state = replace(state.visited(q, averages), residual=residual, path=(*state.path, (x, averages)))
        state = replace(state, tolerance=self._tolerance(state))
        least, reached = (float(v[:size].min()) for v in (x, fx))
        if residual <= state.tolerance.value or (reached > RECOVERED and least >= AT_RECOVERY):
            return replace(at, state=replace(state, converged=True))
        memory = 4
        points, images = (*at.points, x)[-memory:], (*at.images, fx)[-memory:]
        if not problem.averages.smooth and len(state.path) > _PATIENCE:
            # Extrapolation would follow the jumps of the averages, the mean of the latest images does not.
            return _Iterates(state, np.mean(images, axis=0), points, images)
        # Plain steps that an extrapolation may be, which doubles with every evaluation beyond `_PATIENCE`, so many
        # times.
        plain_steps, doublings = 20.0, 30
        # Near a double root plain steps are as the square of the distance: no multiple of them will do.
        reach = plain_steps * 2.0 ** min(max(len(state.path) - _PATIENCE, 0), doublings)
        return _Iterates(state, self._trusted(state.free, _anderson(points, images, reach), x, fx), points, images)

    def postprocess(self, state: State) -> Solution:
        """Fixed point with its error; it is solved for further where that matters."""
        return postprocess(self.problem, state)

    def _tolerance(self, state: State) -> Tolerance:
        """Residual that is small enough."""
        asked = self.problem.tolerance
        relative, smooth = self.problem.relative, self.problem.averages.smooth
        if not relative and smooth:
            return asked
        allowed = asked.value
        if relative:
            values = np.linalg.eigvalsh(state.q)
            if all(i == j for i, j in state.free):
                # Beside others, what is recovered does not come closer to one.
                known = state.q[state.entries]
                values = known[known < AT_RECOVERY] if known.min() < AT_RECOVERY else known
            allowed *= 1 - float(values.max())
        taken = len(state.history if smooth else state.path)
        if taken > _PATIENCE and state.known.sampled:
            # Sums over finitely many nodes jump where a link does: far below the statistical error is enough.
            rows, columns = state.entries
            g = state.known.g
            spread = self.problem.image(g)[:, rows, columns].std(axis=0, ddof=1)
            share = _ROUGH if smooth else min(_ROUGH * taken / _PATIENCE, 1.0)
            rough = share * float(spread.max()) / math.sqrt(len(g))
            if rough > allowed and state.residual > allowed:
                times = f" (tol = {asked.value:g} times the least 1 - q)" if relative else ""
                part = "a tenth" if smooth else f"{share:.2g}"
                why = (
                    f"the tolerance was {rough:.1e} instead of {allowed:.1e}{times}: {part} of the standard error of "
                    "F(q), as averages over finitely many nodes jump"
                )
                return Tolerance(rough, why)
        return Tolerance(allowed)

    def _trusted(self, free: Entries, trial: Array, x: Array, fx: Array) -> Array:
        """Let an extrapolation from x go the way of the plain step to fx, and not much further.

        Extrapolation is drawn to unstable fixed points (q = 0, and q = I before recovery) as to stable ones; the plain
        step leads away from them. Beyond fx, q may shrink by 0.3 and 1 - q by 0.1, no more.
        """
        if all(i == j for i, j in free):
            bounded = np.clip(trial, 0.3 * fx, 1 - 0.1 * (1 - fx))
            return np.where((bounded - x) * (fx - x) >= 0, bounded, fx)
        far, near = (least_and_largest(self.problem.averages, free, point) for point in (trial, fx))
        inside = far[0] >= 0.3 * near[0] and 1 - far[1] >= 0.1 * (1 - near[1])
        return trial if inside and (trial - x) @ (fx - x) >= 0 else fx


def _anderson(points: Sequence[Array], images: Sequence[Array], reach: float = 20.0) -> Array:
    """Next iterate of Anderson's method: the affine combination of images with the least residual.

    A wild extrapolation is cut to `reach` times the plain step.
    """
    last = images[-1]
    if len(points) < 2:
        return last
    residuals = np.array([f - x for x, f in zip(points, images, strict=True)])
    steps = residuals[-1] - residuals[:-1]
    gamma, *_ = np.linalg.lstsq(steps.T, residuals[-1], rcond=1e-10)
    moved = last - gamma @ (last - np.array(images[:-1]))
    limit = reach * float(np.abs(residuals[-1]).max())
    out: Array = points[-1] + np.clip(moved - points[-1], -limit, limit)
    inside = (out > 0) & (out < 1)
    return np.where(inside | (last < 0), out, last)
