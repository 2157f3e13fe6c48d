"""Overlap of the last of three layers while the hidden ones are unknown, by sums far finer than those of the route.

At overlap q the fixed point is that of alpha = q/((1 - q) G(q)), an explicit function. G comes from several independent
sets of nodes of the hidden layers, and from two resolutions of the sums over outputs and omega; `evolve` has neither
these nodes nor these resolutions, and solves by other steps.
"""

import math

import numpy as np
from numpy.typing import NDArray

from attnlimits.numerics.channel.deep.given_omega import GivenOmega, Resolution
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.model.network import Network

__all__ = ["last_overlap"]

Array = NDArray[np.float64]

# Sets of nodes, each a power of two; and a seed that no route has.
_SETS, _LOG2_NODES, _SEED = 8, 17, 10**6
# Resolutions of the first steps, of the value, and of what the value is compared with; sums near recovery ask for
# coarser grids to be as accurate (tests/numerics/channel/test_deep_layers.py), and cost more.
_FIRST = Resolution(10.0, 1.2, 0.4)
_WIDE, _WIDE_BEFORE = Resolution(14.0, 1.6, 0.1), Resolution(13.0, 1.4, 0.14)
_NARROW, _NARROW_BEFORE, _FROM = Resolution(12.0, 1.2, 0.2), Resolution(11.0, 1.2, 0.28), 0.9
# Steps to the fixed point by the first resolution; length in t = log(q/(1 - q)) of a difference.
_STEPS, _LENGTH = 12, 0.1


def last_overlap(model: Network, alpha: float, guess: float) -> tuple[float, float]:
    """Overlap q of the last layer at which it is stationary, the others being unknown, and its error.

    Parameters
    ----------
    model : Network
        Three layers or more.
    alpha : float
        Above the threshold of the last layer, and below that of the others.
    guess : float
        Where the search begins.
    """
    sets = [GivenOmega(model, _LOG2_NODES, _SEED + k) for k in range(_SETS)]
    xi = np.zeros((model.layers - 1, 2))

    def average(which: int, t: float, resolution: Resolution, half: int | None = None) -> float:
        q = 1 / (1 + math.exp(-t))
        overlaps = np.append(np.zeros(model.layers - 1), q)
        return float(sets[which](overlaps, xi, 0, resolution, half=half)[-1]) / (1 - q) ** 2

    def imbalance(t: float, g: float) -> float:
        return math.log(alpha * g) - t

    t = math.log(guess / (1 - guess))
    for _ in range(_STEPS):
        here = imbalance(t, average(0, t, _FIRST))
        slope = (imbalance(t + _LENGTH, average(0, t + _LENGTH, _FIRST)) - here) / _LENGTH
        assert slope < 0, "the iteration leads away from this overlap"
        t += float(np.clip(-here / slope, -0.5, 0.5))
        if abs(here) < 1e-7:
            break
    finest, before = (_WIDE, _WIDE_BEFORE) if guess < _FROM else (_NARROW, _NARROW_BEFORE)
    for last in (False, True):
        # Half the nodes leave twice the bias of the ratios of sums.
        halves = [0.5 * sum(average(k, t, _FIRST, half) for half in (0, 1)) for k in range(_SETS)]
        biased = np.array([halves[k] - average(k, t, _FIRST) for k in range(_SETS)])
        values = np.array([average(k, t, finest) for k in range(_SETS if last else 1)])
        found = imbalance(t, float(values.mean() - biased[: len(values)].mean()))
        if not last:
            t -= found / slope
    resolved = abs(math.log(average(0, t, before) / values[0]))
    # Two standard errors of each: 95 % are to be inside.
    scatter = 2 * float(standard_error(np.log(values - biased)))
    q = 1 / (1 + math.exp(-(t - found / slope)))
    return q, q * (1 - q) * (scatter + resolved) / -slope
