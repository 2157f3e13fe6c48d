"""Fixed points of links as accurate as asked: the quadrature as it is, and as many samples as it takes."""

from collections.abc import Callable

from ..channel.link.channel import LinkChannel
from ..core.accuracy import Attempt, Effort, as_accurate
from .reached import missed
from .state import Solution

__all__ = ["as_accurate_link"]

Solve = Callable[[int, int], tuple[Solution, LinkChannel]]


def as_accurate_link(solve: Solve, accuracy: float, samples: int, inner: int) -> tuple[Solution, LinkChannel]:
    """Fixed point whose stated error is at most `accuracy` where a bounded number of points can reach it.

    Parameters
    ----------
    solve : callable
        From points per randomisation, and the factor of the nodes of a posterior, to the fixed point.
    accuracy : float
        Of each overlap, absolute.
    samples, inner : int
        Of the first attempt.

    Returns
    -------
    Solution, LinkChannel
        `reached` of the solution is false where it is not, and its note says what it would take.
    """

    def attempt(effort: Effort) -> Attempt[tuple[Solution, LinkChannel]]:
        solution, channel = solve(effort.samples, effort.inner)
        error = float(solution.error.diagonal().max())
        found, sure = (solution, channel), not solution.doubt
        return Attempt(found, error, accuracy, solution.converged, sure, "samples" if channel.sampled else "all")

    at, effort = as_accurate(attempt, Effort(samples, inner))
    solution, channel = at.found
    return (solution if at.reached else missed(solution, at.missed(effort))), channel
