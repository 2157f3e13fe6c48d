"""Fixed points of sampled averages as accurate as asked: few points find them and the slopes, many their value."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Channel, pooled
from ..channel.corrected import Corrected
from ..core.accuracy import not_reached
from ..core.errors import ConvergenceError
from ..core.standard_error import standard_error
from .postprocess import outlined
from .reached import is_reached, missed
from .state import Solution, State, Strategy

__all__ = ["Fineness", "Ways", "as_accurate"]

Array = NDArray[np.float64]

# Most points for each of the randomisations asked for, and most nodes of one output.
_MOST, _MOST_NODES = 2**19, 2**13
# Points of one randomisation, whose posterior moments take a quarter of a GiB. Beyond, more of them share the points:
# quasi-random points gain little from there on, and Student's factor falls.
_EACH = 2**12
# Points of the next attempt in units of those of the last, which are kept, and the least; what is asked of them is a
# share of the accuracy, as an error of a few randomisations is itself known to a quarter.
_MOST_TIMES, _LEAST_TIMES, _SHARE = 4, 0.5, 0.8
# Points of all attempts in units of the most of one, at which the search ends: the last attempt may be repeated.
_ROUNDS = 2


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
    at = _begun(ways, accuracy, first, replicas)
    while (error := _error(at.solution, accuracy)) > accuracy and at.spent < at.limit and at.solution.converged:
        at = _refined(ways, accuracy, at)
    # What the averages are made of: the points of all attempts, or those of the search where there was none.
    return _noted(at.solution, error, accuracy, at.taken or at.coarse.samples), at.few


@dataclass(frozen=True)
class _Search:
    """Where a search stands.

    Attributes
    ----------
    solution : Solution
    few : Channel
        Averages of few points, by which those of many change.
    averages : Corrected
        Of all points so far; those of the solution.
    coarse, fineness : Fineness
        Of the few, and of the last attempt.
    spent, taken : int
        Points of all attempts, with and without those of the few.
    most : int
        Points of one attempt at most.
    limit : int
        Points of all attempts at which the search ends.
    steady : bool
        Whether averages change as more points than the few say.
    """

    solution: Solution
    few: Channel
    averages: Corrected
    coarse: Fineness
    fineness: Fineness
    spent: int
    taken: int
    most: int
    limit: int
    steady: bool = False


def _begun(ways: Ways, accuracy: float, first: Fineness, replicas: int) -> _Search:
    """Fixed point of few points, of more where what they settle is in doubt."""
    few, solution, coarse = _searched(ways, first)
    # An average of squares of unit spread is then known to a third of the accuracy, bias to as much: near thresholds no
    # effort is enough.
    most = min(_MOST, 2 ** math.floor(math.log2(8 / (replicas * accuracy**2))))
    # Points of a search.
    most_searched = 2**14
    largest = min(most, most_searched)
    while solution.doubt and solution.converged and coarse.samples < largest:
        # The iteration may have come past a fixed point: on its way more points are wanted, too.
        few, solution, coarse = _searched(ways, Fineness(min(largest, _MOST_TIMES * coarse.samples), coarse.nodes))
    averages = Corrected(few, ())
    if _error(solution, accuracy) <= accuracy or coarse.samples >= most:
        solution = _settled(ways, averages, solution, math.inf)
    limit = _limit(solution, accuracy, coarse.samples, _ROUNDS * most)
    return _Search(solution, few, averages, coarse, coarse, coarse.samples, 0, most, limit)


def _refined(ways: Ways, accuracy: float, at: _Search) -> _Search:
    """The search after another attempt, by more points."""
    averages, steady, total = at.averages, at.steady, _ROUNDS * at.most
    most = min(at.most, max(_EACH, at.limit - at.spent))
    known = _known(at, accuracy)
    fineness = _finer(at.fineness, known, at.coarse.nodes, most)
    if fineness.samples > _EACH and not steady:
        # What averages change by is to be known better, too; the bias of few nodes hardly changes.
        steady = True
        averages = averages.by(ways.channel(Fineness(_EACH, at.coarse.nodes)))
    many, points = _many(ways, fineness, at.solution.q)
    averages = averages.anchored(at.solution.q, many, points)
    spent = at.spent + fineness.samples
    # Where more points are to follow in any case, the error to first order is enough.
    final = spent >= total
    solution = _settled(ways, averages, at.solution, math.inf if final else accuracy)
    limit = _limit(solution, accuracy, spent, total)
    if not final and spent >= limit and _error(solution, accuracy) > accuracy:
        # What the iteration has left may have been the most of it.
        solution = _settled(ways, averages, solution, math.inf)
        limit = _limit(solution, accuracy, spent, total)
    return replace(
        at,
        solution=solution,
        averages=averages,
        fineness=fineness,
        spent=spent,
        taken=at.taken + points,
        limit=limit,
        steady=steady,
    )


def _searched(ways: Ways, fineness: Fineness) -> tuple[Channel, Solution, Fineness]:
    """Fixed point by few points, with as many nodes as it takes, and what these are; its error to first order."""
    while True:
        few = ways.channel(fineness)
        strategy = ways.strategy(few)
        try:
            return few, _stated(strategy, ways.begin(strategy, State.start(strategy.problem)), 0.0), fineness
        except ConvergenceError:
            if fineness.nodes >= _MOST_NODES:
                raise
            fineness = Fineness(fineness.samples, 4 * fineness.nodes)


def _settled(ways: Ways, averages: Channel, solution: Solution, enough: float) -> Solution:
    """Fixed point of averages near the last solution; its error, to first order where that exceeds what is enough."""
    strategy = ways.strategy(averages)
    state = replace(State.start(strategy.problem), n_iter=solution.n_iter, history=solution.history)
    state = ways.again(strategy, state.visited(solution.q, strategy.problem.averages(solution.q)))
    return _stated(strategy, state, enough)


def _stated(strategy: Strategy, state: State, enough: float) -> Solution:
    """Fixed point and its error, to first order where that exceeds what is enough and leaves nothing in doubt."""
    if math.isinf(enough):
        return strategy.postprocess(state)
    rough = outlined(strategy.problem, state)
    return rough if not rough.doubt and _error(rough, enough) > enough else strategy.postprocess(state)


def _error(solution: Solution, accuracy: float) -> float:
    """Largest error; where the interval does not close more points are wanted in any case."""
    error = float(solution.error.diagonal().max())
    return max(error, 2 * accuracy) if solution.doubt or not solution.converged else error


def _many(ways: Ways, fineness: Fineness, q: Array) -> tuple[Averages, int]:
    """Averages of so many points at one overlap, of more randomisations where one would have too many points.

    The number of points is with them: what is left of whole randomisations is not taken.
    """
    each = Fineness(min(_EACH, fineness.samples), fineness.nodes)
    found = [ways.channel(each)(q) for _ in range(fineness.samples // each.samples)]
    return pooled(found), each.samples * len(found)


def _limit(solution: Solution, accuracy: float, spent: int, most: int) -> int:
    """Points to be spent at most: fewer where an accuracy takes more than twice the most points."""
    enough = spent * (_error(solution, accuracy) / accuracy) ** 2 <= 2 * most and not solution.doubt
    # Points that are spent where more would not be enough, or where it is in doubt what they would settle.
    tried = 2**15
    return most if enough else min(most, tried)


class _Known(NamedTuple):
    """What is known of the averages at a fixed point, relative to them.

    Attributes
    ----------
    scatter : float
        Standard error by one point of each randomisation, without the factor of few randomisations.
    bias : float
        By one node, by the last attempt: it falls as the number of nodes, or faster, up to its square.
    nodes : int
        Those of that attempt.
    off : float
        The bias of all points so far.
    points : int
        Of all attempts.
    allowed : float
        What scatter and bias may add up to, if the fixed point is to be as accurate as asked.
    """

    scatter: float
    bias: float
    nodes: int
    off: float
    points: int
    allowed: float

    def missing(self, more: Fineness) -> float:
        """What is stated with so many more points, in units of what is allowed."""
        # Of fewer nodes as much as it may be.
        off = self.bias / more.nodes * max(1.0, self.nodes / more.nodes)
        # As `Corrected` weighs them.
        here, there = self._worth(self.points, self.off), self._worth(more.samples, off)
        before, after = here / (here + there), there / (here + there)
        scatter = math.sqrt(before**2 / max(self.points, 1) + after**2 / more.samples)
        return (self.scatter * scatter + before * self.off + after * off) / self.allowed

    def _worth(self, points: int, bias: float) -> float:
        """Points of mean square as large."""
        return points / (1 + points * (bias / self.scatter) ** 2)


def _known(at: _Search, accuracy: float) -> _Known:
    """What is known where a search stands."""
    q, anchors = at.solution.q, at.averages.anchors
    few, now = at.few(q), at.averages(q)
    points, error = at.taken, _error(at.solution, accuracy)
    g = few.g.mean(axis=0).diagonal()
    if not g.any():
        # Growth rates alone scatter.
        scatter = math.sqrt(points or at.coarse.samples)
        return _Known(scatter, 0.0, at.fineness.nodes, 0.0, points, accuracy / error)

    def relative(matrix: Array) -> float:
        return float((matrix.diagonal()[g > 0] / g[g > 0]).max())

    latest, fineness = (anchors[-1].many, at.fineness) if anchors else (few, at.coarse)
    off, noise = relative(now.bias), relative(standard_error(now.g))
    bias = relative(latest.bias) * fineness.nodes
    return _Known(
        relative(latest.g.std(axis=0, ddof=1)) * math.sqrt(fineness.samples / len(latest.g)),
        bias,
        fineness.nodes,
        off,
        points,
        accuracy / error * (noise + off),
    )


def _finer(now: Fineness, known: _Known, least: int, most: int) -> Fineness:
    """Points and nodes of the next attempt: those by which the accuracy is reached at the least cost.

    Errors of a few randomisations are themselves known to a quarter: an attempt has at most `_MOST_TIMES` the points
    and the nodes of the last one.

    Parameters
    ----------
    now : Fineness
        Of the last attempt.
    known : _Known
    least, most : int
        Nodes without which outputs may have none; points.
    """
    nodes = [least * 2**k for k in range(1 + int(math.log2(max(1.0, _MOST_NODES / least))))]
    choices = [Fineness(size, count) for size in _sizes(int(_LEAST_TIMES * now.samples), most) for count in nodes]
    enough = [one for one in choices if known.missing(one) <= _SHARE]
    best = min(enough, key=_cost) if enough else min(choices, key=known.missing)
    return Fineness(min(best.samples, _MOST_TIMES * now.samples), min(best.nodes, _MOST_TIMES * now.nodes))


def _cost(one: Fineness) -> float:
    """Nodes, with those that outputs take the time of."""
    # Nodes that take as long as what an output takes beside its nodes: 150 to 330 on charts, 330 of deep layers.
    beside = 256
    return one.samples * (one.nodes + beside)


def _sizes(least: int, most: int) -> list[int]:
    """Numbers of points of an attempt; beyond `_EACH` any number of randomisations will do."""
    powers = [2**k for k in range(int(math.log2(_EACH)) + 1) if least <= 2**k <= most]
    return powers + [_EACH * k for k in range(2, most // _EACH + 1) if _EACH * k >= least] or [most]


def _noted(solution: Solution, error: float, accuracy: float, points: int) -> Solution:
    """The same, with whether the accuracy was reached by so many points, and a sentence where it was not."""
    if is_reached(solution, accuracy):
        return solution
    why = f" with {points} points per randomisation"
    if not solution.doubt and solution.converged:
        # Scatter falls as the root of their number.
        why += f"; it would take about {max((error / accuracy) ** 2, 2.0):.0f} times as many"
    return missed(solution, not_reached(accuracy) + why)
