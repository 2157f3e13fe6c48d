"""Roots of decreasing functions whose slopes are known."""

from collections.abc import Callable

__all__ = ["decreasing_root"]

# Width of what is left, relative to the root where that is above one, and steps after which bisection alone is done.
_ENOUGH, _MOST = 1e-13, 200


def decreasing_root(f: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Root by Newton's steps, halving the interval where these leave it or do not shrink.

    Parameters
    ----------
    f : callable
        Value and slope; positive or zero at `low`, negative or zero at `high`, where it is not called.
    low, high : float

    Examples
    --------
    >>> round(decreasing_root(lambda x: (2 - x * x, -2 * x), 0.1, 8.0) ** 2, 12)
    2.0
    """
    at, before = low, high - low
    for _ in range(_MOST):
        value, slope = f(at)
        if value == 0:
            break
        low, high = (at, high) if value > 0 else (low, at)
        step = -value / slope if slope < 0 else 2 * (high - low)
        if not low < at + step < high or abs(step) > 0.5 * before:
            step = 0.5 * (low + high) - at
        at, before = at + step, abs(step)
        if before <= _ENOUGH * max(1.0, abs(at)):
            break
    return at
