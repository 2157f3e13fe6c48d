"""Thresholds in closed form: perfect recovery, weak recovery at small width, and the tail of hardmax."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mpmath.ctx_mp import MPContext

from ..results import How
from .channels import Channel, channel
from .checks import CITE, count
from .precise import MAX_DIGITS, exact_number, rounded

__all__ = ["Threshold", "hardmax_information_at_zero", "hardmax_tail", "perfect_recovery", "weak_recovery"]

_GUARD = 10


@dataclass(frozen=True)
class Threshold:
    """A threshold of the attention-indexed model.

    Attributes
    ----------
    value : str
        alpha = n/d^2, or alpha/rho at small width, in decimal; "inf" where no alpha is enough.
    exact : str
        The closed form.
    error : float
        What rounding to `value` took.
    how : {"rigorous", "estimated", "monte-carlo"}
    quantity : str
        Which alpha it is.
    """

    value: str
    exact: str
    error: float
    how: How
    quantity: str


def _context(digits: int) -> MPContext:
    if count("digits", digits, 1, "digits of the result") > MAX_DIGITS:
        raise ValueError(f"digits must be <= {MAX_DIGITS}, got {digits}")
    ctx = MPContext()
    ctx.dps = digits + _GUARD
    return ctx


def _closed(ctx: MPContext, value: Any, exact: str, digits: int, quantity: str) -> Threshold:
    found = rounded(ctx, value, 0, digits)
    return Threshold(found.value, exact, found.error, "rigorous", quantity)


def perfect_recovery(rho: object, output: Channel, *, digits: int = 15) -> Threshold:
    """Alpha at which the error vanishes: the degrees of freedom of S over the functionals that a sample fixes.

    (rho - rho^2/2)/K below rho = 1 and 1/(2 K) from there on, K = T (T + 1)/2 (linear) or T (T + 1)/2 - 1 (softmax).

    Parameters
    ----------
    rho : int, float, Fraction or str
        Width; text such as "0.1" or "1/3" is taken exactly.
    output : Channel
    digits : int, keyword-only
        1 to 200.

    Returns
    -------
    Threshold
        Infinite for hardmax, whose error falls as 1/alpha^2; see `hardmax_tail`.

    References
    ----------
    boncoraglio2025, thresholds.
    """
    width = exact_number("rho", rho, "rho = r/d")
    ctx = _context(digits)
    quantity = "alpha = n/d^2 of perfect recovery"
    if output.functionals is None:
        return Threshold("inf", "inf", 0.0, "rigorous", quantity)
    freedom = width - width**2 / 2 if width < 1 else Fraction(1, 2)
    value = freedom / output.functionals
    return _closed(ctx, ctx.mpf(value.numerator) / value.denominator, str(value), digits, quantity)


def weak_recovery(output: Channel, *, digits: int = 15) -> Threshold:
    """alpha/rho at which the overlap becomes positive, in the limit of small width: 1/(2 F(0)).

    Parameters
    ----------
    output : Channel
    digits : int, keyword-only
        1 to 200.

    Returns
    -------
    Threshold
        1/(2 K) where an output fixes K functionals; 3 pi/(4 (1/Z_+ + ..)) for hardmax in the form that `exact` has.

    References
    ----------
    boncoraglio2025, Corollary 4.2 and hardmax channel.
    """
    ctx = _context(digits)
    quantity = "alpha/rho of weak recovery, rho -> 0"
    if output.functionals is not None:
        value = Fraction(1, 2 * output.functionals)
        return _closed(ctx, ctx.mpf(value.numerator) / value.denominator, str(value), digits, quantity)
    if output.tokens != 2:
        raise ValueError(f"the closed form of hardmax is for T = 2 ({CITE}, hardmax channel), got T = {output.tokens}")
    angle = ctx.asin(ctx.mpf(1) / 3)
    # 3 pi/(2 (2/Z+ + 1/Z-)) with Z+- = 1/4 +- asin(1/3)/(2 pi).
    plus, minus = ctx.mpf(1) / 4 + angle / (2 * ctx.pi), ctx.mpf(1) / 4 - angle / (2 * ctx.pi)
    value = 3 * ctx.pi / (2 * (2 / plus + 1 / minus))
    exact = "3*pi/(2*(2/(1/4 + asin(1/3)/(2*pi)) + 1/(1/4 - asin(1/3)/(2*pi))))"
    if output.name == "hardmax_published":
        value *= 4 * ctx.pi / 9
        exact = "4*pi/9 * " + exact
        quantity += ", by the published formula, which is not Bayes-optimal"
    return _closed(ctx, value, exact, digits, quantity)


def hardmax_information_at_zero(*, digits: int = 15) -> str:
    """F(0) of hardmax, (2/Z_+ + 1/Z_-)/(3 pi)."""
    ctx = _context(digits)
    small = weak_recovery(channel("hardmax"), digits=digits + 5)
    return rounded(ctx, 1 / (2 * ctx.mpf(small.value)), 0, digits).value


def hardmax_tail(rho: float, *, digits: int = 15) -> str:
    """Limit of alpha^2 times the error of hardmax with two tokens: pi D^2 (1 + rho)/(8 I0^2).

    D = min(2 rho - rho^2, 1) and I0 the integral of phi^2/(Phi (1 - Phi)) over the line.

    Parameters
    ----------
    rho : int, float, Fraction or str
    digits : int, keyword-only
        1 to 50.

    References
    ----------
    boncoraglio2025, thresholds.
    """
    if count("digits", digits, 1, "digits of the result") > 50:
        raise ValueError(f"digits must be <= 50 for the integral, got {digits}")
    width = exact_number("rho", rho, "rho = r/d")
    ctx = _context(digits)
    # The trapezoid converges as exp(-2 pi 2/h): the integrand is analytic in a strip of half-width 2 and falls as
    # |x| phi(x).
    reach = math.sqrt(2 * math.log(10) * ctx.dps) + 1
    step = ctx.mpf(4 * math.pi / (math.log(10) * ctx.dps))
    nodes = [step * k for k in range(1, int(reach / step) + 1)]

    def integrand(x: Any) -> Any:
        tail = ctx.erfc(x / ctx.sqrt(2)) / 2
        return ctx.exp(-x * x) / (2 * ctx.pi) / (tail * (1 - tail))

    integral = step * (integrand(ctx.zero) + 2 * ctx.fsum(integrand(x) for x in nodes))
    freedom = 2 * width - width**2 if width < 1 else Fraction(1)
    factor = freedom**2 * (1 + width)
    value = ctx.pi * factor.numerator / factor.denominator / (8 * integral**2)
    return rounded(ctx, value, 0, digits).value
