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

from ..channel.averages import Averages
from .balance import AT_RECOVERY, RECOVERED, Entries, free_entries, least_and_largest
from .newton import broyden
from .postprocess import postprocess
from .state import Problem, Solution, State, Tolerance

__all__ = ["Steered"]

Array = NDArray[np.float64]

# What is left to recovery of all, and of one, where its steps are in proportion to it; the share that it loses in each.
_NEXT, _NEAREST, _SHRINKS = 1e-3, 1e-5, 0.02


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
    # Where the largest slope of F stays below this, Newton's step is taken.
    contracts = 1 - 1e-9
    if float(np.linalg.eigvals(slopes).real.max()) < contracts - 1:
        step = -np.linalg.solve(slopes, move)
    else:
        step = move * max(1.0, longest / plain)
    return np.asarray(step * min(1.0, max(longest, plain) / float(np.abs(step).max())))


def _logit_step(x: Array, fx: Array, inner: Array) -> Array:
    """Step of logit x."""
    image = np.clip(fx, 1e-300, 1 - 1e-16)
    slopes = inner * (x * (1 - x)) / (image * (1 - image))[:, None] - np.eye(len(x))
    # Longest step of logit q, unless the plain step is longer.
    longest = math.log(8.0)
    return _step(slopes, np.log(image / (1 - image)) - np.log(x / (1 - x)), longest)


@dataclass(frozen=True)
class _Place:
    """Free entries, averages there, where the plain step leads, its slopes, and whether all are on the diagonal."""

    x: Array
    averages: Averages
    fx: Array
    inner: Array
    diagonal: bool

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Entries that have died out."""
        # What falls below this on its way to zero has died out.
        dead = 1e-8
        return np.asarray((np.abs(self.x) < dead) & (self.fx < self.x))

    @property
    def recovered(self) -> NDArray[np.bool_]:
        """Entries that stay at the last overlap that is resolved."""
        return np.asarray((self.x >= AT_RECOVERY) & (self.fx > RECOVERED))

    @property
    def moving(self) -> NDArray[np.bool_]:
        """Entries that do not stay where they are."""
        return ~(self.ended | self.recovered) if self.diagonal else np.ones(len(self.x), dtype=bool)

    @property
    def residual(self) -> float:
        """Length of the plain step."""
        return float(np.abs(self.fx - self.x)[self.moving].max(initial=0.0))

    def step(self, fx: Array | None = None) -> Array:
        """Step of the entries that move, of their logits on the diagonal alone; also to where others would lead."""
        fx = self.fx if fx is None else fx
        if not self.diagonal:
            return _step(self.inner - np.eye(len(self.x)), fx - self.x, float(np.abs(self.x).max()))
        moving = self.moving
        return _logit_step(self.x[moving], fx[moving], self.inner[np.ix_(moving, moving)])

    @property
    def moved(self) -> Array:
        """Where steps of logits lead."""
        x, moving = self.x.copy(), self.moving
        logit = np.log(x[moving] / (1 - x[moving])) + self.step()
        x[moving] = np.minimum(1 / (1 + np.exp(-logit)), RECOVERED)
        return x


@dataclass(frozen=True)
class Steered:
    """Newton's method with plain steps where F does not contract.

    Attributes
    ----------
    problem : Problem
        Of averages that have their derivative.
    """

    problem: Problem

    # Beyond the plain step, overlaps may shrink by this factor, and what is left to 1 by that one.
    _shrink, _left = 0.25, 0.1

    def settle(self, state: State, q: Array, active: list[int], pairs: Entries = ()) -> State:
        """Solve from q with the diagonal over the active layers free, and these entries off it."""
        free = free_entries(self.problem.averages, active, pairs)
        state = replace(
            state, q=q.copy(), free=free, converged=False, residual=math.inf, path=(), error=None, recovered=False
        )
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
        at = self._led(state, q, x)
        sure = at is not None
        if at is None:
            # The slopes first: averages with them give those without.
            slopes = problem.averages.derivative(q)
            assert slopes is not None
            at = self._at(state, x, problem.averages(q), slopes)
        known = x[at.moving].max(initial=0.0) if at.diagonal else float(np.linalg.eigvalsh(q)[-1])
        allowed = problem.tolerance.value * (1 - known if problem.relative else 1.0)
        state = replace(
            state.visited(q, at.averages),
            residual=at.residual,
            path=(*state.path, (x, at.averages)),
            tolerance=Tolerance(allowed),
        )
        if self._recovered(state, q, at.averages):
            learned = np.zeros(len(q))
            learned[_learned(state)] = RECOVERED
            return replace(state, q=np.diag(learned), recovered=True, residual=0.0, converged=True), x
        size = sum(i == j for i, j in state.free)
        if not at.moving.any() or at.recovered[:size].all():
            return replace(state, converged=True), x
        if sure:
            return state, self._next(state, at)
        # Step, of q or its logit, that is short: the next one would be as its square.
        # Where the plain step is short, Newton's may be long.
        settled = bool(at.residual <= allowed and np.abs(at.step()).max() <= 1e-5)
        return replace(state, converged=settled), x if settled else self._next(state, at)

    def _recovered(self, state: State, q: Array, averages: Averages) -> bool:
        """Whether the iteration leads to recovery of several indices.

        Next to recovery what is left, V = I - q, is a multiple of V at the next step if it is one, and less if it is
        less: F rises with q. So it vanishes if I - F < V, whatever is left of one direction beside another. Once one of
        them is at the last overlap that is resolved, the next steps of the others are not those of the iteration.
        """
        block = _learned(state)
        known = np.linalg.eigvalsh(q[np.ix_(block, block)])
        if len(block) < 2 or known[-1] < 1 - _NEAREST or known[0] < 1 - _NEXT:
            return False
        return max(_kept(q, image, block) for image in self.problem.image(averages.g)) <= 1 - _SHRINKS

    def _led(self, state: State, q: Array, x: Array) -> "_Place | None":
        """What averages of few digits give at q, where they decide the step; None where more digits are needed."""
        found = self.problem.averages.coarse(q)
        if found is None:
            return None
        at, ends = self._at(state, x, *found), self.problem.image(found[0].g)[:, *state.entries]
        if at.recovered.any() or not at.moving.any():
            # All of it beyond doubt, or more digits say.
            return at if at.diagonal and all(replace(at, fx=end).recovered.all() for end in ends) else None
        # Each entry may be off by itself.
        step, away = at.step(), np.abs(ends - at.fx).max(axis=0)
        off = sum(float(np.abs(at.step(at.fx + one) - step).max()) for one in np.diag(away))
        # Share of a step that averages of few digits may be short by, to take it.
        led = 0.25
        return at if off <= led * float(np.abs(step).max()) else None

    def _at(self, state: State, x: Array, averages: Averages, slopes: Array) -> "_Place":
        """Plain steps at x, and their slopes."""
        problem, g = self.problem, averages.g.mean(axis=0)
        balance = problem.balance(state.free)
        inner = np.eye(len(x)) + balance.pull(x) @ balance.slopes_from(slopes, x, g)
        fx = problem.image(g)[state.entries]
        # Distance of two points, over that to the ends of the range, from which on the slope between them is used.
        near = 0.05
        if not averages.method:
            # Slopes are known to few digits; those between points that are near each other are better.
            for before, known in state.path:
                way = x - before
                if not known.method and 0 < np.abs(way).max() <= near * balance.room(x).min():
                    inner = broyden(inner, way, fx - problem.image(known.g.mean(axis=0))[state.entries])
        return _Place(x, averages, fx, inner, all(i == j for i, j in state.free))

    def _next(self, state: State, at: "_Place") -> Array:
        """The next point."""
        if at.diagonal:
            return at.moved
        return self._trusted(state, at.x + at.step(), at)

    def postprocess(self, state: State) -> Solution:
        """Fixed point with its error; it is solved for further where that matters."""
        return postprocess(self.problem, state)

    def _trusted(self, state: State, trial: Array, at: "_Place") -> Array:
        """Go from the plain step to fx towards a trial as far as the eigenvalues of q stay in a range."""
        averages, free, fx = self.problem.averages, state.free, at.fx
        near = least_and_largest(averages, free, fx)
        # What is left to recovery of all from which on no step leads further than the plain one.
        close = 1e-2
        halvings = 40
        for _ in range(halvings):
            far = least_and_largest(averages, free, trial)
            if far[0] >= self._shrink * near[0] and 1 - far[1] >= self._left * (1 - near[1]):
                return trial
            if 1 - near[0] < close:
                return self._towards_recovery(state, at, 1 - near[1])
            trial = 0.5 * (trial + fx)
        return fx

    def _towards_recovery(self, state: State, at: "_Place", least: float) -> Array:
        """The plain step, which finds in which ratios it is left; where it shrinks as a whole, to less of it all.

        Not beyond where it is decided that all of it vanishes, with `least` left of one direction by the plain step.
        """
        q = self.problem.overlap(state.free, at.x)
        image = self.problem.image(at.averages.g.mean(axis=0))
        if _kept(q, image, _learned(state)) > 1 - _SHRINKS:
            return at.fx
        recovered = np.array([float(i == j) for i, j in state.free])
        share = max(self._left, min(0.5 * _NEAREST / max(least, _NEAREST), 1.0))
        return np.asarray(recovered - share * (recovered - at.fx))


def _learned(state: State) -> list[int]:
    """Indices that have free entries."""
    return sorted({i for entry in state.free for i in entry})


def _kept(q: Array, image: Array, block: list[int]) -> float:
    """Largest share of what is left to recovery, I - q, that a step to the image leaves, in any direction."""
    inside, one = np.ix_(block, block), np.eye(len(block))
    inverse = np.linalg.inv(np.linalg.cholesky(one - q[inside]))
    return float(np.linalg.eigvalsh(inverse @ (one - image[inside]) @ inverse.T)[-1])
