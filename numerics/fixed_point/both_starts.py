"""Fixed points of averages that are made already: zero overlap, and those that both starts lead to."""

from ..channel.averages import Channel
from ..priors import GAUSSIAN, Prior
from .evolve import from_above
from .growth import at_rest, grown, rates
from .iteration import Iteration
from .state import Problem, Solution, State, Tolerance

__all__ = ["fixed_points"]


def fixed_points(
    channel: Channel, alpha: float, *, tol: float = 1e-5, max_iter: int = 200, prior: Prior = GAUSSIAN
) -> tuple[Solution, ...]:
    """Zero overlap, the fixed point that the iteration leads to from there, and from just below I.

    Parameters
    ----------
    channel : Channel
    alpha : float
        Samples per dimension, > 0.
    tol : float, optional
        On max |F(q) - q|.
    max_iter : int, optional
        Evaluations for each.
    prior : Prior, optional
        Law of the weights.
    """
    problem = Problem(channel, alpha, Tolerance(tol), max_iter, prior=prior)
    strategy, begin = Iteration(problem), State.start(problem)
    zero = at_rest(problem, begin)
    states = [zero]
    if any(rate > 1 for rate in rates(problem, zero)):
        states.append(grown(strategy, begin, begin.q))
    states.append(from_above(strategy))
    return tuple(strategy.postprocess(state) for state in states)
