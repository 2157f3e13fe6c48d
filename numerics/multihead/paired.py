"""Paired comparison of two fits: the difference of their squared errors on each held-out example."""

import math
from typing import NamedTuple

from scipy.special import stdtr

from ..learning.blocks import Array

__all__ = ["Paired", "paired"]


class Paired(NamedTuple):
    """How much less a second fit leaves of held-out examples than a first one.

    Attributes
    ----------
    gain : float
        Mean over the examples of the squared error of the first minus that of the second.
    deviation : float
        Standard error of it; infinite for one example.
    p : float
        Probability of such a gain or a larger one where the second is no better.
    """

    gain: float
    deviation: float
    p: float


def paired(first: Array, second: Array) -> Paired:
    """Compare squared errors of two fits on the same examples, none of which either has seen.

    Parameters
    ----------
    first, second : ndarray, shape (n,)

    Notes
    -----
    Both fits are given, so that the differences are independent and equally distributed, and their mean over its
    standard error has Student's distribution to first order. What noise is common to both drops out: the test sees a
    difference far below the scatter of either error. A fit with more parameters has no advantage on such examples.
    """
    difference = first - second
    count = len(difference)
    gain = float(difference.mean())
    if count == 1:
        return Paired(gain, math.inf, 0.5)
    deviation = float(difference.std(ddof=1)) / math.sqrt(count)
    if deviation == 0:
        return Paired(gain, 0.0, 0.5 if gain == 0 else float(gain < 0))
    return Paired(gain, deviation, float(stdtr(count - 1, -gain / deviation)))
