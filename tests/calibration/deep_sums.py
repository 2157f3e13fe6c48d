"""Overlap of the last of three layers while the hidden ones are unknown, by sums far finer than those of the route.

At overlap q the fixed point is that of alpha = q/((1 - q) G(q)), an explicit function. G(q)/q is known at q = 0 to many
digits: it is one over the threshold of the layer. What is summed up to q = .2 is its ratio to that, with the same nodes
of the hidden layers and the same sums, whose errors at small overlaps are nearly the same; near the threshold q hangs
on the fourth digit of G. There are several independent sets of nodes, and two resolutions of the sums over outputs and
omega; `evolve` has neither these nodes nor these resolutions nor the ratio, and solves by other steps.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from attnlimits.numerics.channel.deep.given_omega import GivenOmega, Resolution
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer

__all__ = ["last_overlap"]

Array = NDArray[np.float64]

# Sets of nodes, each a power of two, up to an overlap of .2 and beyond it: of 2^13 nodes the ratios scatter by 1e-5 at
# q = .005, 1e-4 at .15 and 8e-4 at .83. And a seed that no route has.
_NEAR, _FEW, _MANY, _SEED = 0.2, (4, 15), (8, 17), 10**6
# Resolutions of the value, and of the first steps and what the value is compared with; sums near recovery ask for
# coarser grids to be as accurate (tests/numerics/channel/test_deep_layers.py), and cost more. Of ratios to the limit of
# small overlaps sums that leave out exp(-14) miss 4e-5.
_CLOSE, _CLOSE_BEFORE = Resolution(19.0, 1.6, 0.1), Resolution(17.0, 1.6, 0.14)
_WIDE, _WIDE_BEFORE = Resolution(14.0, 1.6, 0.1), Resolution(13.0, 1.4, 0.14)
_NARROW, _NARROW_BEFORE, _FROM = Resolution(12.0, 1.2, 0.2), Resolution(11.0, 1.2, 0.28), 0.9
# Overlaps from which G(q)/q is continued to zero by a parabola: cubic terms (5000 q^3) leave 5e-7 of it, and noise of
# the sums is raised by 1.7 only. Digits of the threshold.
_SMALL, _DIGITS = (1e-4, 5e-4, 2e-3), 10
# Steps to the fixed point by the coarser resolution; length in t = log(q/(1 - q)) of a difference.
_STEPS, _LENGTH = 12, 0.1


class _Sums:
    """Averages of the last layer of one model by sets of nodes: near the threshold, by the ratio to small overlaps."""

    def __init__(self, model: Network, near: bool) -> None:
        self.number, log2_nodes = _FEW if near else _MANY
        self._hidden = model.layers - 1
        self._sets = [GivenOmega(model, log2_nodes, _SEED + k) for k in range(self.number)]
        self._threshold = float(last_layer(model, digits=_DIGITS).value) if near else None
        self._at_zero = cache(self._continued)

    def __call__(self, which: int, t: float, resolution: Resolution, half: int | None = None) -> float:
        """G at t = log(q/(1 - q)) by one set of nodes, or by half of it."""
        q = 1 / (1 + math.exp(-t))
        value = q * self._rate(which, q, resolution, half)
        if self._threshold is None:
            return value
        return value / (self._at_zero(which, resolution, half) * self._threshold)

    def _rate(self, which: int, q: float, resolution: Resolution, half: int | None) -> float:
        overlaps, xi = np.append(np.zeros(self._hidden), q), np.zeros((self._hidden, 2))
        return float(self._sets[which](overlaps, xi, 0, resolution, half=half)[-1]) / (1 - q) ** 2 / q

    def _continued(self, which: int, resolution: Resolution, half: int | None) -> float:
        """G(q)/q at q = 0."""
        rates = [self._rate(which, q, resolution, half) for q in _SMALL]
        return float(np.linalg.solve(np.vander(_SMALL), rates)[-1])

    def without_bias(self, which: int, t: float, resolution: Resolution) -> float:
        """G by one set of nodes; half the nodes leave twice the bias of the ratios of sums."""
        halves = [self(which, t, resolution, half) for half in (0, 1)]
        return 2 * self(which, t, resolution) - 0.5 * sum(halves)


_sums_of = cache(_Sums)


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
    near = guess < _NEAR
    sums = _sums_of(model, near)

    def imbalance(t: float, g: float) -> float:
        return math.log(alpha * g) - t

    finest, before = (_WIDE, _WIDE_BEFORE) if guess < _FROM else (_NARROW, _NARROW_BEFORE)
    if near:
        finest, before = _CLOSE, _CLOSE_BEFORE
    t = math.log(guess / (1 - guess))
    for _ in range(_STEPS):
        here = imbalance(t, sums(0, t, before))
        slope = (imbalance(t + _LENGTH, sums(0, t + _LENGTH, before)) - here) / _LENGTH
        assert slope < 0, "the iteration leads away from this overlap"
        t += float(np.clip(-here / slope, -0.5, 0.5))
        if abs(here) < 1e-7:
            break
    t -= imbalance(t, sums.without_bias(0, t, finest)) / slope
    values = np.array([sums.without_bias(k, t, finest) for k in range(sums.number)])
    found = imbalance(t, float(values.mean()))
    resolved = abs(math.log(sums.without_bias(0, t, before) / values[0]))
    # Two standard errors of each: 95 % are to be inside.
    scatter = 2 * float(standard_error(np.log(values)))
    q = 1 / (1 + math.exp(-(t - found / slope)))
    return q, q * (1 - q) * (scatter + resolved) / -slope
