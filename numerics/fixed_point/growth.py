"""Which layers are learned: those of zero overlap join as they turn unstable, others die out."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.results import Estimate
from ..core.standard_error import SIGMAS
from ..core.ties import first_largest
from ..model.network import Network
from ..model.routes import SAMPLED_LAYERS
from .known_rates import last_layer_norm
from .state import DEAD, Problem, State, Strategy

__all__ = ["MARGINAL", "at_rest", "grown", "known_rate", "rates", "released", "undecided", "unlearned"]

Array = NDArray[np.float64]

#: Growth rates this close to 1 are judged by averages at the overlap itself, with its error: the last step to it, of at
#: most .1 in t = logit q, moves them by less (three layers at alpha = .985: by .58 of the step of the last layer).
MARGINAL = 0.06


def grown(strategy: Strategy, state: State, q: Array) -> State:
    """Settle on the layers of q, then let unstable layers join until none is left."""
    problem = strategy.problem
    active = [int(i) for i in np.flatnonzero(q.diagonal())]
    # Averages of several accuracies need not agree on what is marginal: what has died out does not join again.
    state = replace(state, silent=frozenset(problem.averages.layers), dead=frozenset())
    # Where a layer that has just turned unstable starts.
    seed = 0.05
    while True:
        if active:
            before = set(active)
            state, active = released(problem, strategy.settle(state, q, active), active)
            state = replace(state, dead=state.dead | (before - set(active)))
        if not active:
            state = at_rest(problem, state)
        state, growth = _rates_where_it_has_led(problem, state, {*active, *state.dead})
        unstable = [i for i, rate in enumerate(growth) if rate > 1 and i not in {*active, *state.dead}]
        if not unstable or not state.converged:
            return state
        # The fastest direction first: it may change the stability of the others.
        joining = problem.group(unstable[first_largest(growth[unstable])])
        active = [*active, *joining]
        q = state.q.copy()
        q[joining, joining] = seed


def _rates_where_it_has_led(problem: Problem, state: State, settled: set[int]) -> tuple[State, Array]:
    """Growth rates at the overlap, also where the averages are those of before the last step to it.

    Those of before it had left a layer at zero that grows, with an error of zero.
    """
    growth = rates(problem, state)
    marginal = any(abs(rate - 1) < MARGINAL for i, rate in enumerate(growth) if i not in settled)
    if not marginal or not state.converged or np.array_equal(state.history[-1], state.q):
        return state, growth
    here = replace(state.beside(state.q), averages=problem.averages(state.q))
    return replace(here, averages=state.averages), rates(problem, here)


def at_rest(problem: Problem, state: State) -> State:
    """State at zero overlap."""
    q = problem.zero
    return replace(state.visited(q, problem.averages(q)), converged=True, residual=0.0, free=())


def released(problem: Problem, state: State, active: list[int], below: float = DEAD) -> tuple[State, list[int]]:
    """Set overlaps that have died out to zero, if they are known to be stable there; the state, and what is left."""
    for group in [g for g in problem.averages.groups if g[0] in active and all(state.q[i, i] < below for i in g)]:
        q = state.q.copy()
        for i in group:
            q[i, :] = q[:, i] = 0.0
        averages = problem.averages(q)
        state = replace(state, n_iter=state.n_iter + 1)
        # NaN where the averages have no growth rates.
        if problem.rising * averages.growth[:, group[0]].mean() <= 1:
            kept = [k for k, pair in enumerate(state.free) if not set(pair) & set(group)]
            free, path = tuple(state.free[k] for k in kept), tuple((x[kept], found) for x, found in state.path)
            state = replace(state, q=q, averages=averages, free=free, path=path, silent=state.silent | set(group))
            active = [i for i in active if i not in group]
    return state, active


def rates(problem: Problem, state: State) -> Array:
    """Growth rate of a small overlap in each direction of zero overlap; NaN elsewhere and where not computed."""
    growth: Array = problem.rising * state.known.growth.mean(axis=0)
    if (known := known_rate(problem, state)) is not None:
        growth[-1] = known.value
    return growth


def known_rate(problem: Problem, state: State) -> Estimate | None:
    """Growth rate of the last layer from zero overlap: the operator (15) has it to many digits, where computed.

    None, too, where the averages leave no doubt that it grows: their own rate does.
    """
    model = problem.averages.model
    if state.q.any() or not isinstance(model, Network) or not SAMPLED_LAYERS.serves(model):
        return None
    # A growth rate above this in every randomisation needs no digits: even rough averages are off by a few percent
    # only.
    certain = 1.5
    if problem.rising * state.known.growth[:, -1].min() > certain:
        return None
    norm = last_layer_norm(model)
    return None if norm is None else Estimate(problem.rising * norm.value, problem.rising * norm.error, norm.how)


def undecided(problem: Problem, state: State, growth: Array, sampled: bool) -> str:
    """What is stated of layers of zero overlap whose growth rates have these errors, in units of alpha."""
    rate, error = rates(problem, state), (SIGMAS if sampled else 1.0) * problem.rising * growth
    if (known := known_rate(problem, state)) is not None:
        error[-1] = known.error
    for i in sorted(state.silent & set(np.flatnonzero(state.q.diagonal() == 0).tolist())):
        if rate[i] + error[i] > 1 and (rate[i] - error[i] <= 1 or i in state.dead):
            return f"a small overlap q_{i + 1}{i + 1} grows by {rate[i]:.4g} +- {error[i] / SIGMAS:.1g} per iteration"
    return ""


def unlearned(problem: Problem, state: State) -> str:
    """What is stated of layers of zero overlap that grow by these averages, where coarser ones had left them there."""
    rate = rates(problem, state)
    for i in sorted(state.silent & set(np.flatnonzero(state.q.diagonal() == 0).tolist())):
        if rate[i] > 1:
            return f"a small overlap q_{i + 1}{i + 1} grows by {rate[i]:.4g} per iteration, by finer averages alone"
    return ""
