"""State evolution where y fixes h up to its sign: one tied layer of rank 1 with M tokens, and h**2 with M = 1.

Given y, h = s h_0 with s = +-1, and tanh of half the log-odds is its mean: everything is an average over |h_0| and one
normal variable. No part of it is shared with the numerics.
"""

import math
from functools import cache

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import chi

__all__ = ["alpha_at", "fixed_point", "fold", "from_above"]

Array = np.ndarray
STEPS = (0.04, 0.055)


@cache
def _rule(tokens: int, step: float) -> tuple[Array, Array, Array, Array]:
    """Trapezoid in y, r = |h| = exp(y - exp(-y)), and in z."""
    # Multiples of the step: np.arange(-11, 11, 0.04) has steps that are off by 2e-14 of themselves.
    y = step * np.arange(round(-4.5 / step), round(2.9 / step))
    r = np.exp(y - np.exp(-y))
    z = step * np.arange(round(-11 / step), round(11 / step))
    weights = step * chi.pdf(r, tokens) * r * (1 + np.exp(-y))
    return r, weights, z, step * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def alpha_at(q: float, tokens: int, step: float = STEPS[0]) -> float:
    """alpha at which q is a fixed point, q/((1 - q) G(q))."""
    r, weights, z, gaussian = _rule(tokens, step)
    x = q / (1 - q) * (r * r)[:, None]
    # E[E[h|y]^2] = E |h|^2 tanh(x + sqrt(x) z); of 1 - tanh where that is the smaller one.
    mean = np.tanh(x + np.sqrt(x) * z)
    if q < 0.5:
        excess = float((weights * r * r) @ (mean @ gaussian)) / tokens - q
    else:
        excess = (1 - q) - float((weights * r * r) @ ((1 - mean) @ gaussian)) / tokens
    g = excess / (1 - q) ** 2 * tokens
    return q / ((1 - q) * g)


def _at_logit(logit: float, tokens: int, step: float) -> float:
    return alpha_at(float(1 / (1 + np.exp(-logit))), tokens, step)


@cache
def _branch(tokens: int, step: float) -> tuple[Array, Array]:
    """Logits of the overlap, the tops and bottoms of alpha among them, and alpha there."""
    logits = list(np.arange(-12.0, 14.0, 0.1))
    values = [_at_logit(x, tokens, step) for x in logits]
    for k in range(1, len(values) - 1):
        ahead, behind = values[k + 1] - values[k], values[k] - values[k - 1]
        # Towards recovery alpha(q) is level to rounding.
        if ahead * behind < 0 and logits[k] < 10:
            sign = math.copysign(1.0, ahead)
            bounds = (logits[k - 1], logits[k + 1])
            turn = minimize_scalar(
                lambda x, sign=sign: sign * _at_logit(x, tokens, step),
                bounds=bounds,
                method="bounded",
                options={"xatol": 1e-8},
            )
            logits[k], values[k] = float(turn.x), sign * float(turn.fun)
    return np.array(logits), np.array(values)


def _uninformed(alpha: float, tokens: int, step: float) -> float:
    if alpha <= 1 / (tokens * (tokens + 1)):
        return 0.0
    # The smallest overlap: where alpha(q), which starts at the threshold, first exceeds alpha.
    logits, values = _branch(tokens, step)
    above = np.flatnonzero(values > alpha)
    if not above.size:
        return 1.0
    if above[0] == 0:
        return float(1 / (1 + np.exp(-logits[0])))
    return _between(alpha, tokens, step, logits[above[0] - 1], logits[above[0]])


def _informed(alpha: float, tokens: int, step: float, start: float) -> float:
    logits, values = _branch(tokens, step)
    begin = math.log(start / (1 - start))
    if alpha >= _at_logit(begin, tokens, step):
        # Upwards to where alpha(q) exceeds alpha.
        above = np.flatnonzero((values > alpha) & (logits > begin))
        return _between(alpha, tokens, step, max(begin, logits[above[0] - 1]), logits[above[0]]) if above.size else 1.0
    below = np.flatnonzero((values <= alpha) & (logits < begin))
    if not below.size:
        return 0.0
    return _between(alpha, tokens, step, logits[below[-1]], min(begin, logits[below[-1] + 1]))


def _between(alpha: float, tokens: int, step: float, low: float, high: float) -> float:
    logit = brentq(lambda x: np.log(_at_logit(x, tokens, step) / alpha), low, high, xtol=1e-13, rtol=1e-14)
    return float(1 / (1 + np.exp(-logit)))


def fixed_point(alpha: float, tokens: int) -> tuple[float, float]:
    """Overlap from the uninformed start, and its error."""
    fine, coarse = (_uninformed(alpha, tokens, step) for step in STEPS)
    return fine, abs(fine - coarse) + 1e-12 * fine


def from_above(alpha: float, tokens: int, start: float) -> tuple[float, float]:
    """Overlap from a start close to recovery, and its error."""
    fine, coarse = (_informed(alpha, tokens, step, start) for step in STEPS)
    return fine, abs(fine - coarse) + 1e-12 * fine


def fold(tokens: int) -> tuple[float, float]:
    """Largest alpha of the branch that starts at the threshold, and its error."""
    fine, coarse = (float(_branch(tokens, step)[1].max()) for step in STEPS)
    return fine, abs(fine - coarse) + 1e-12 * fine
