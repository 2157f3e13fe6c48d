"""Layers of zero overlap that grow, or not, by less than the averages decide: finer ones until they do."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Refinable
from .error import growth_error
from .growth import MARGINAL, known_rate, rates, undecided, unlearned
from .state import Problem, State
from .stopping import CUT, ROUGH

__all__ = ["decided"]

Array = NDArray[np.float64]


def decided(problem: Problem, averages: Refinable, accuracy: float, state: State, error: Array) -> tuple[State, str]:
    """State with its growth rates as accurate as it takes, and what is stated of those that remain undecided.

    Parameters
    ----------
    problem : Problem
    averages : Refinable
    accuracy : float
        Of the averages that are taken first.
    state : State
        A fixed point.
    error : ndarray, shape (P, P)
        Of its overlaps.
    """
    growing = rates(problem, state)
    silent = [i for i in state.silent if abs(growing[i] - 1) < MARGINAL]
    if not silent or (known_rate(problem, state) is not None and silent == [len(growing) - 1]):
        return state, ""
    state, by_overlaps = _by_overlaps(averages, state, error)
    # So many finer averages are taken for a growth rate that is not decided, where these are served.
    finer = 2
    for level in (accuracy * CUT**n for n in range(finer + 1)):
        found = averages.with_error(state.q, level)
        state = replace(state, n_iter=state.n_iter + 1)
        # Those that are known may be of the overlaps before the last step, whose growth these errors do not cover.
        here = replace(state, averages=_with_growth(state.known, found))
        if level < accuracy:
            state = here
        doubt = undecided(problem, here, growth_error(found) + by_overlaps, found.sampled)
        # Finer averages decide nothing that the error of the overlaps leaves open.
        if not doubt or level <= averages.finest[found.sampled] or undecided(problem, here, by_overlaps, found.sampled):
            break
    return state, doubt or unlearned(problem, here)


def _with_growth(known: Averages, found: Averages) -> Averages:
    """The same averages with the growth rates of others."""
    growth = np.broadcast_to(found.growth.mean(axis=0), known.growth.shape)
    return replace(known, growth=growth, growth_bias=found.growth_bias)


def _by_overlaps(averages: Refinable, state: State, error: Array) -> tuple[State, Array]:
    """What the error of the overlaps makes of the growth rates over alpha, by rough averages."""
    here, out = _rough_growth(averages, state.q), np.zeros(len(state.q))
    uncertain = np.flatnonzero(error.diagonal()).tolist()
    # Step to another overlap for the slope of growth rates, relative to q or 1 - q.
    step = 0.05
    for k in uncertain:
        moved = state.q.copy()
        moved[k, k] -= min(step * min(state.q[k, k], 1 - state.q[k, k]), 0.1)
        slope = (_rough_growth(averages, moved) - here) / (moved[k, k] - state.q[k, k])
        out = out + np.abs(slope) * error[k, k]
    return replace(state, n_iter=state.n_iter + len(uncertain)), out


def _rough_growth(averages: Refinable, q: Array) -> Array:
    return np.asarray(averages.rough(q, ROUGH).growth.mean(axis=0))
