"""Newton's method on q = F(alpha G(q)) where G has slopes: the strategy for averages by quadrature over fibres.

Plain steps lead from a start to the fixed point in whose basin it lies; Newton's method leads to any that is near. So
Newton's step is taken where F contracts, and where it does not, a multiple of the plain step that at most doubles what
there is: away from an unstable fixed point overlaps grow by a factor in each step, which may be close to one. On the
diagonal alone steps are of logit q, in which growth from zero and the way to recovery are straight.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .balance import AT_RECOVERY, RECOVERED, Entries, free_entries, least_and_largest
from .postprocess import postprocess
from .state import Problem, Solution, State, Tolerance

__all__ = ["Steered"]

Array = NDArray[np.float64]

# Where the largest slope of F stays below this, Newton's step is taken.
_CONTRACTS = 1 - 1e-9
# Longest step of logit q, unless the plain step is longer.
_LONGEST = math.log(8.0)
# Step, of q or its logit, that is short: the next one would be as its square.
_SETTLED = 1e-5
# What falls below this on its way to zero has died out.
_DEAD = 1e-8
# Beyond the plain step, overlaps may shrink by this factor, and what is left to 1 by that one.
_SHRINK, _LEFT = 0.25, 0.1
_HALVINGS = 40


def _step(slopes: Array, move: Array, longest: float) -> Array:
    """Newton's step for move = 0 where it leads to a stable fixed point, else along the plain step; at most so long.

    Parameters
    ----------
    slopes : ndarray, shape (n, n)
        Of the plain step `move`, shape (n,): those of F less the identity.
    """
    plain = float(np.abs(move).max())
    if plain == 0:
        return move
    if float(np.linalg.eigvals(slopes).real.max()) < _CONTRACTS - 1:
        step = -np.linalg.solve(slopes, move)
    else:
        step = move * max(1.0, longest / plain)
    return np.asarray(step * min(1.0, max(longest, plain) / float(np.abs(step).max())))


def _logit_step(x: Array, fx: Array, inner: Array) -> tuple[Array, Array]:
    """Step of logit x, and where it leads."""
    image = np.clip(fx, 1e-300, 1 - 1e-16)
    slopes = inner * (x * (1 - x)) / (image * (1 - image))[:, None] - np.eye(len(x))
    step = _step(slopes, np.log(image / (1 - image)) - np.log(x / (1 - x)), _LONGEST)
    return step, np.minimum(1 / (1 + np.exp(-(np.log(x / (1 - x)) + step))), RECOVERED)


@dataclass(frozen=True)
class Steered:
    """Newton's method with plain steps where F does not contract.

    Attributes
    ----------
    problem : Problem
        Of averages that have their derivative.
    """

    problem: Problem

    def settle(self, state: State, q: Array, active: list[int], pairs: Entries = ()) -> State:
        """Solve from q with the diagonal over the active layers free, and these entries off it."""
        free = free_entries(self.problem.averages, active, pairs)
        state = replace(state, q=q.copy(), free=free, converged=False, residual=math.inf, path=(), error=None)
        x = q[state.entries].copy()
        while True:
            state, x = self.step(state, x)
            if self.terminate(state):
                return state

    def terminate(self, state: State) -> bool:
        """Whether the fixed point is found, or the evaluations are used up."""
        return state.converged or state.n_iter >= self.problem.max_iter

    def step(self, state: State, x: Array) -> tuple[State, Array]:
        """Take the averages and their slopes at x, and choose the next point."""
        problem = self.problem
        q = problem.overlap(state.free, x)
        x = q[state.entries]
        # The slopes first: averages with them give those without.
        slopes = problem.averages.derivative(q)
        averages = problem.averages(q)
        assert slopes is not None
        g = averages.g.mean(axis=0)
        fx = problem.image(g)[state.entries]
        diagonal = all(i == j for i, j in state.free)
        # What has died out, or is recovered, stays where it is.
        ended = (np.abs(x) < _DEAD) & (fx < x)
        recovered = (x >= AT_RECOVERY) & (fx > RECOVERED)
        moving = ~(ended | recovered) if diagonal else np.ones(len(x), dtype=bool)
        residual = float(np.abs(fx - x)[moving].max(initial=0.0))
        known = x[moving].max(initial=0.0) if diagonal else float(np.linalg.eigvalsh(q)[-1])
        allowed = problem.tolerance.value * (1 - known if problem.relative else 1.0)
        state = replace(
            state.visited(q, averages),
            residual=residual,
            path=(*state.path, (x, averages)),
            tolerance=Tolerance(allowed),
        )
        size = sum(i == j for i, j in state.free)
        if not moving.any() or recovered[:size].all():
            return replace(state, converged=True), x
        balance = problem.balance(state.free)
        # F' of the free entries.
        inner = np.eye(len(x)) + balance.pull(x) @ balance.slopes_from(slopes, x, g)
        if diagonal:
            moved = x.copy()
            step, moved[moving] = _logit_step(x[moving], fx[moving], inner[np.ix_(moving, moving)])
        else:
            step = _step(inner - np.eye(len(x)), fx - x, float(np.abs(x).max()))
            moved = self._trusted(state.free, x + step, fx)
        # Where the plain step is short, Newton's may be long.
        settled = bool(residual <= allowed and np.abs(step).max() <= _SETTLED)
        return replace(state, converged=settled), x if settled else moved

    def postprocess(self, state: State) -> Solution:
        """Fixed point with its error; it is solved for further where that matters."""
        return postprocess(self.problem, state)

    def _trusted(self, free: Entries, trial: Array, fx: Array) -> Array:
        """Go from the plain step to fx towards a trial as far as the eigenvalues of q stay in a range."""
        near = least_and_largest(self.problem.averages, free, fx)
        for _ in range(_HALVINGS):
            far = least_and_largest(self.problem.averages, free, trial)
            if far[0] >= _SHRINK * near[0] and 1 - far[1] >= _LEFT * (1 - near[1]):
                return trial
            trial = 0.5 * (trial + fx)
        return fx
