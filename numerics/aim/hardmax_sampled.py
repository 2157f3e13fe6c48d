r"""F(c) of hardmax labels of six to ten tokens, from sampled labels: too many to be summed.

In x = (1 + c)^{-1/2} the ratio of F to that of two tokens is end + (start - end) x + k x (1 - x). Its end, where c is
large, is known (`hardmax_many.ties`); the start, c = 0, is the mean over labels drawn at omega = 0 of the squares of
their scores, and k follows from the entropy of these labels, the mean of -log P and the integral of F/x over x. Of
three to five tokens, where F is known by other means, the last term covers what this leaves out. The error stated is
that term, and three standard errors of the means.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..core.results import Estimate
from ..core.standard_error import standard_error
from . import hardmax
from .entries import pairs, variances
from .hardmax_entropy import two_tokens
from .hardmax_many import ties
from .label_chains import label_chains

__all__ = ["MOST_TOKENS", "information", "ratio_from"]

#: Beyond, a label takes too long.
MOST_TOKENS = 10


class Ratio(NamedTuple):
    """F over that of two tokens: its value at x = 0, what is linear, and k, with standard errors."""

    end: float
    slope: float
    bend: float
    error_of_slope: float
    error_of_bend: float

    def at(self, x: float) -> tuple[float, float]:
        """Value and error."""
        last = x * (1 - x)
        left = abs(self.bend) * last + 3 * (self.error_of_slope * x + self.error_of_bend * last)
        return self.end + self.slope * x + self.bend * last, left


def ratio_from(start: Estimate, entropy: Estimate, tokens: int) -> Ratio:
    """The ratio from F(0) and the entropy of labels at omega = 0, both with standard errors."""
    x, weights, two = two_tokens()
    base = hardmax.information(0.0).value
    end = ties(tokens) / 2
    slope = start.value / base - end
    # Of the integral of F/x: from 1, x and x (1 - x).
    whole, linear, bent = (float((weights * two) @ power) for power in (1 / x, np.ones_like(x), 1 - x))
    bend = (entropy.value - end * whole - slope * linear) / bent
    error = start.error / base
    return Ratio(end, slope, bend, error, (entropy.error + error * linear) / bent)


@lru_cache
def _ratio(tokens: int) -> Ratio:
    return ratio_from(*_sampled(tokens), tokens)


def _sampled(tokens: int) -> tuple[Estimate, Estimate]:
    """F(0) and the entropy of labels at omega = 0, by labels of random scores."""
    spread = np.sqrt(variances(tokens))
    labels, seed = 2000, 20250602
    entries = spread * np.random.default_rng([seed, tokens]).standard_normal((labels, len(spread)))
    h = np.empty((labels, tokens, tokens))
    rows, columns = pairs(tokens)
    h[:, rows, columns] = h[:, columns, rows] = entries
    log_z, _, g = label_chains(h.argmax(axis=2), np.zeros_like(entries), np.broadcast_to(spread, entries.shape))
    squares = g**2 @ variances(tokens)
    return (
        Estimate(float(squares.mean()), float(standard_error(squares)), "monte-carlo"),
        Estimate(-float(log_z.mean()), float(standard_error(log_z)), "monte-carlo"),
    )


def information(c: float, tokens: int) -> Estimate:
    """F(c).

    Parameters
    ----------
    c : float
        q/V, >= 0.
    tokens : int
        6 to 10; the first call takes seconds (T = 10: half a minute).

    References
    ----------
    boncoraglio2025, hardmax channel.
    """
    two = hardmax.information_between(c)
    value, error = _ratio(tokens).at((1 + c) ** -0.5)
    return Estimate(two.value * value, two.value * error + two.error * value, "monte-carlo")
