"""Fixed points of links as accurate as asked: the quadrature as it is, and as many samples as it takes."""

import math
from collections.abc import Callable

from ..channel.link.channel import LinkChannel
from .reached import is_reached, missed, times_asked
from .state import Solution

__all__ = ["as_accurate_link"]

# Most points per randomisation, and times the nodes of a posterior. Points of the next attempt in units of the last.
_MOST, _MOST_INNER = 2**16, 16
_LEAST_TIMES, _MOST_TIMES = 2, 16
# Errors are asked to be smaller by this, as they are known to a quarter.
_SHARE = 0.8
# Four times the points halve what scatters; what falls by less than this is a bias that more nodes diminish.
_FALLS = 0.75

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
    found, channel = solve(samples, inner)
    while channel.sampled and found.converged and not is_reached(found, accuracy) and samples < _MOST:
        before = times_asked(found, accuracy)
        times = 2 ** math.ceil(math.log2(min(max((before / _SHARE) ** 2, _LEAST_TIMES), _MOST_TIMES)))
        times = min(times, _MOST // samples)
        samples *= times
        found, channel = solve(samples, inner)
        if times_asked(found, accuracy) > _FALLS ** (0.5 * math.log2(times)) * before and inner < _MOST_INNER:
            inner *= 2
    if is_reached(found, accuracy):
        return found, channel
    return missed(found, accuracy, _why(found, channel, times_asked(found, accuracy), samples)), channel


def _why(found: Solution, channel: LinkChannel, times: float, samples: int) -> str:
    """What it would take."""
    error = f"{float(found.error.diagonal().max()):.1g}"
    if not channel.sampled:
        return f": the finest quadrature leaves {error}"
    wanted = samples * max(2.0, (times / _SHARE) ** 2)
    return f": {samples} points leave {error}, about 2^{math.ceil(math.log2(wanted))} would reach it (samples)"
