"""Edges of the support of Y = S + sqrt(Delta) Z, in the parameter e of `spectrum`: where its triangle is flat."""

import math
from collections.abc import Callable

from scipy.optimize import brentq

from ..core.errors import ConvergenceError
from .checks import CITE

__all__ = ["support"]


def support(rho: float, delta: float) -> tuple[tuple[tuple[float, float], ...], float | None]:
    """Intervals of log e, and the place inside one of them where a gap is about to open, if it is.

    Raises
    ------
    ConvergenceError
        Edges that agree in float64.
    """
    s = math.sqrt(rho)
    m = math.sqrt(delta * s)

    def sides(log_e: float) -> tuple[float, float]:
        e = math.exp(log_e)
        return 1 / math.sqrt(s + e), s / math.sqrt(e)

    def low(log_e: float) -> float:
        a, b = sides(log_e)
        return (b - a) - m

    def high(log_e: float) -> float:
        a, b = sides(log_e)
        return (a + b) - m

    def gap(log_e: float) -> float:
        a, b = sides(log_e)
        return (a - b) - m

    def root(f: Callable[[float], float], left: float, right: float) -> float:
        if f(left) * f(right) > 0:
            raise ConvergenceError(
                f"two edges of the support agree in float64 at rho = {rho:g}, Delta = {delta:g} ({CITE}, matrix "
                "denoiser); precise.mmse_digits has more digits"
            )
        return float(brentq(f, left, right, xtol=1e-300, rtol=8.9e-16))

    # b = m parts the lowest edge from the highest; the brackets are a little wider than the bounds.
    middle = 2 * math.log(s / m)
    first = root(low, 2 * math.log(s / (m + 1 / math.sqrt(s))) - 1e-9, middle + 1e-9)
    last = root(high, middle - 1e-9, 2 * math.log((1 + s) / m) + 1e-9)
    if s >= 1:
        return ((first, last),), None
    # a - b is largest at e = s/(s^{-2/3} - 1), where it is ((1 - s^{2/3})^3/s)^{1/2}.
    top = math.log(s) - math.log(math.expm1(-2 / 3 * math.log(s)))
    if gap(top) <= 0:
        return ((first, last),), top if first < top < last else None
    zero = math.log(s**3 / (1 - s * s))
    second = root(gap, zero, top)
    third = root(gap, top, -2 * math.log(m) + 1e-9)
    return ((first, second), (third, last)), None
