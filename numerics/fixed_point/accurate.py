"""Fixed points of sampled averages as accurate as asked: few points find them and the slopes, many their value."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..channel.averages import Averages, Channel
from ..channel.corrected import Corrected
from ..core.errors import ConvergenceError
from ..core.standard_error import standard_error
from .state import Solution, State, Strategy

__all__ = ["Fineness", "Ways", "as_accurate"]

# Most points of a randomisation, whose posterior moments take 1 GiB, and most nodes of one output.
_MOST, _MOST_NODES = 2**14, 2**13
# Points of the next attempt in units of those of the last; what is asked of them is a share of the accuracy, as an
# error of a few randomisations is itself known to a quarter.
_LEAST_TIMES, _MOST_TIMES, _SHARE = 2, 64, 0.8
# Where the search has to begin anew.
_DOUBTED = 4
# Largest bias of an average beside its standard error, which it adds to, before nodes are doubled.
_BIAS = 0.5
# Evaluations of many points in one attempt: the next one is where few points see the fixed point from the last, until
# there |F(q) - q| is this share of the accuracy.
_ANCHORS, _CLOSE = 6, 0.1


class Fineness(NamedTuple):
    """Points of each randomisation, and nodes of the posterior of each output."""

    samples: int
    nodes: int


class Ways(NamedTuple):
    """What a search is made of.

    Attributes
    ----------
    channel : callable
        Averages of that fineness.
    strategy : callable
        For averages.
    begin : callable
        From a state of zero overlap to the fixed point.
    again : callable
        The same from an overlap near it.
    """

    channel: Callable[[Fineness], Channel]
    strategy: Callable[[Channel], Strategy]
    begin: Callable[[Strategy, State], State]
    again: Callable[[Strategy, State], State]


def as_accurate(ways: Ways, accuracy: float, first: Fineness, replicas: int) -> tuple[Solution, Channel]:
    """Fixed point whose stated error is at most `accuracy` where a bounded number of points can reach it.

    Parameters
    ----------
    ways : Ways
    accuracy : float
        Of each overlap, one standard error.
    first : Fineness
        Of the search.
    replicas : int

    Raises
    ------
    ConvergenceError
        The posteriors are worth too little at the most nodes.
    """
    few, solution, coarse = _searched(ways, first)
    fineness = coarse
    # An average of squares of unit spread is then known to half the accuracy: near thresholds no effort is enough.
    most = min(_MOST, 2 ** math.floor(math.log2(4 / (replicas * accuracy**2))))
    while (error := _error(solution, accuracy)) > accuracy and fineness.samples < most and solution.converged:
        scatter = _Scatter(few(solution.q), coarse.samples)
        fineness = _finer(fineness, scatter, solution.doubt, error / (_SHARE * accuracy), most)
        many = ways.channel(fineness)
        if solution.doubt:
            # Few points may see another fixed point than many do.
            solution = _solved(ways, many)
        else:
            solution = _anchored(ways, few, many, solution, _CLOSE * accuracy)
    return _noted(solution, error, accuracy, fineness), few


def _searched(ways: Ways, fineness: Fineness) -> tuple[Channel, Solution, Fineness]:
    """Fixed point by few points, with as many nodes as it takes, and what these are."""
    while True:
        few = ways.channel(fineness)
        try:
            return few, _solved(ways, few), fineness
        except ConvergenceError:
            if fineness.nodes >= _MOST_NODES:
                raise
            fineness = Fineness(fineness.samples, 4 * fineness.nodes)


def _solved(ways: Ways, averages: Channel) -> Solution:
    strategy = ways.strategy(averages)
    return strategy.postprocess(ways.begin(strategy, State.start(strategy.problem)))


def _anchored(ways: Ways, few: Channel, many: Channel, solution: Solution, close: float) -> Solution:
    """Fixed point of many points, by evaluations at those that few points see from the last of them."""
    q = solution.q
    for left in reversed(range(_ANCHORS)):
        averages = many(q)
        strategy = ways.strategy(Corrected(few, averages, q))
        problem = strategy.problem
        state = replace(State.start(problem), n_iter=solution.n_iter, history=solution.history)
        state = ways.again(strategy, state.visited(q, averages))
        known = q > 0
        wrong = np.abs(problem.image(averages.g.mean(axis=0)) - q)[known].max(initial=0.0)
        same = ((state.q > 0) == known).all()
        if not left or (same and wrong <= close):
            break
        q = state.q
    return strategy.postprocess(state)


def _error(solution: Solution, accuracy: float) -> float:
    """Largest error; where the interval does not close more points are wanted in any case."""
    error = float(solution.error.diagonal().max())
    return max(error, 2 * accuracy) if solution.doubt or not solution.converged else error


class _Scatter(NamedTuple):
    """Averages at a fixed point, and the points of each of their randomisations."""

    averages: Averages
    samples: int


def _finer(now: Fineness, known: _Scatter, doubt: str, times: float, most: int) -> Fineness:
    """Points for errors so many times smaller, and nodes whose bias stays below them."""
    more = int(np.clip(2 ** math.ceil(math.log2(times**2)), _LEAST_TIMES, _DOUBTED if doubt else _MOST_TIMES))
    samples = min(most, more * now.samples)
    scatter = standard_error(known.averages.g) * math.sqrt(known.samples / samples)
    biased = bool((known.averages.bias > _BIAS * scatter).any())
    return Fineness(samples, min(_MOST_NODES, (2 if biased else 1) * now.nodes))


def _noted(solution: Solution, error: float, accuracy: float, fineness: Fineness) -> Solution:
    """The same, with a sentence where the accuracy was not reached."""
    if error <= accuracy:
        return solution
    why = f"the accuracy of {accuracy:g} is not reached with {fineness.samples} points per randomisation"
    if not solution.doubt and solution.converged:
        # Scatter falls as the root of their number.
        why += f"; it would take about {max((error / accuracy) ** 2, 2.0):.0f} times as many"
    return replace(solution, note="; ".join(part for part in (solution.note, why) if part))
