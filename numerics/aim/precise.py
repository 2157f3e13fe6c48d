"""The matrix denoiser to any number of digits, in mpmath: the formulas of `spectrum` in another arithmetic."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from mpmath import mpf
from mpmath.ctx_mp import MPContext

from ..core.decimals import check_size
from ..core.results import How, Result
from .checks import CITE, count

__all__ = ["MAX_DIGITS", "PreciseValue", "exact_number", "mmse_digits", "rounded"]

MAX_DIGITS = 200
_GUARD = 12
_LARGEST = 10**60


@dataclass(frozen=True, repr=False)
class PreciseValue(Result):
    """A number to many digits.

    Attributes
    ----------
    value : str
        Decimal, rounded to the requested digits.
    error : float
        Absolute error, estimated.
    how : {"rigorous", "estimated", "monte-carlo"}
    digits : int
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    value: str
    error: float
    how: How
    digits: int


def exact_number(name: str, value: object, where: str) -> Fraction:
    """Return a positive number exactly: an int, a Fraction, a decimal or a quotient as text, a float as it is stored.

    Raises
    ------
    ValueError
        Not a positive number, or one beyond 1e-60 to 1e60.
    """
    if isinstance(value, str):
        check_size(name, value)
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
            raise TypeError
        number = Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(
            f"{name} must be a positive number ({CITE}, {where}), got {value!r}; write it as 0.5 or 1/2"
        ) from None
    if not Fraction(1, _LARGEST) <= number <= _LARGEST:
        raise ValueError(f"{name} must be > 0, in [1e-60, 1e60] ({CITE}, {where}), got {value!r}")
    return number


def rounded(ctx: MPContext, value: mpf, error: mpf, digits: int) -> PreciseValue:
    """Round a value to so many significant digits; its error includes what that took, and rounding of the value."""
    text = ctx.nstr(value, digits, strip_zeros=False, min_fixed=-6, max_fixed=12)
    off = abs(error) + abs(ctx.mpf(text) - value)
    if off:
        off += 10 * ctx.eps * abs(value)
    return PreciseValue(text, math.nextafter(float(off), math.inf) if off else 0.0, "estimated", digits)


def mmse_digits(rho: object, delta: object, *, digits: int = 30) -> PreciseValue:
    """Minimal mean squared error of the matrix denoiser, to any number of digits; see `spectrum.mmse`.

    Parameters
    ----------
    rho, delta : int, float, Fraction or str
        Width and noise variance in [1e-60, 1e60]; text such as "0.1" or "1/3" is taken exactly.
    digits : int
        Significant digits, 1 to 200.

    Returns
    -------
    PreciseValue

    Raises
    ------
    ValueError
        An argument out of range.

    Notes
    -----
    The quadrature is refined until two rules agree. It is that of (rho, Delta) itself at every Delta: duality is not
    used, so that the tests can hold it against this.

    References
    ----------
    boncoraglio2025, matrix denoiser.
    """
    digits = count("digits", digits, 1, "digits of the result")
    if digits > MAX_DIGITS:
        raise ValueError(f"digits must be <= {MAX_DIGITS}, got {digits}")
    r, d = exact_number("rho", rho, "rho = r/d"), exact_number("Delta", delta, "noise of the matrix denoiser")
    ctx = MPContext()
    # 1 - I loses about log10 of Delta at large Delta, and of 1/rho at small rho; intervals of the width of Delta's root
    # lose half of its digits.
    size = max(len(str(int(x))) for x in (r, d, 1 / r, 1 / d))
    ctx.dps = digits + _GUARD + 3 * size
    rho_, delta_ = ctx.mpf(r.numerator) / r.denominator, ctx.mpf(d.numerator) / d.denominator
    loss, error = _loss(ctx, rho_, delta_, digits + 4 + 2 * size)
    value = delta_ * (1 - loss)
    return rounded(ctx, value, delta_ * error, digits)


def _loss(ctx: MPContext, rho: mpf, delta: mpf, digits: int) -> tuple[mpf, mpf]:
    s = ctx.sqrt(rho)
    m = ctx.sqrt(delta * s)

    def sides(log_e: mpf) -> tuple[mpf, mpf, mpf]:
        e = ctx.exp(log_e)
        return e, 1 / ctx.sqrt(s + e), s / ctx.sqrt(e)

    def integrand(log_e: mpf) -> mpf:
        e, a, b = sides(log_e)
        heron = (a + b + m) * (b + m - a) * (a + m - b) * (a + b - m)
        if heron <= 0:
            return ctx.zero
        return heron * ctx.sqrt(heron) * e * (b**4 / rho + delta - a**4)

    panels = _panels(ctx, s, m, sides)
    total = error = ctx.zero
    for left, right in panels:
        part, difference = _double_exponential(ctx, integrand, left, right, digits)
        total += part
        error += difference
    scale = 1 / (6 * ctx.pi * delta**2)
    return scale * total, scale * error


def _panels(ctx: MPContext, s: mpf, m: mpf, sides: Callable[[mpf], tuple[mpf, mpf, mpf]]) -> list[tuple[mpf, mpf]]:
    """Intervals of log e, cut where two branch points may come close."""

    def root(signs: tuple[int, int], left: mpf, right: mpf) -> mpf:
        def f(log_e: mpf) -> mpf:
            _, a, b = sides(log_e)
            return signs[0] * a + signs[1] * b - m

        return _bracketed(ctx, f, left, right)

    tiny = ctx.mpf(10) ** -6
    middle = 2 * ctx.log(s / m)
    first = root((-1, 1), 2 * ctx.log(s / (m + 1 / ctx.sqrt(s))) - tiny, middle + tiny)
    last = root((1, 1), middle - tiny, 2 * ctx.log((1 + s) / m) + tiny)
    if s >= 1:
        return [(first, last)]
    top = ctx.log(s / (s ** (-ctx.mpf(2) / 3) - 1))
    _, a, b = sides(top)
    if a - b <= m:
        return [(first, top), (top, last)] if first < top < last else [(first, last)]
    second = root((1, -1), ctx.log(s**3 / (1 - s * s)), top)
    third = root((1, -1), top, -2 * ctx.log(m) + tiny)
    return [(first, second), (third, last)]


def _bracketed(ctx: MPContext, f: Callable[[mpf], mpf], left: mpf, right: mpf) -> mpf:
    """Root between two points of different sign: secants inside the bracket (Illinois), halved where they stall."""
    low, high = f(left), f(right)
    eps = ctx.mpf(2) ** (4 - ctx.prec)
    for step in range(20 * ctx.prec):
        middle = (left + right) / 2 if step % 4 == 3 else (left * high - right * low) / (high - low)
        if not left < middle < right:
            break
        value = f(middle)
        if not value:
            return middle
        if (value > 0) == (high > 0):
            right, high, low = middle, value, low / 2
        else:
            left, low, high = middle, value, high / 2
        if right - left <= eps * (1 + abs(left)):
            break
    return (left + right) / 2


def _double_exponential(ctx: MPContext, f: Callable[[mpf], mpf], left: mpf, right: mpf, digits: int) -> tuple[mpf, mpf]:
    """Integral over (left, right) by the tanh-sinh rule, its step halved until two sums agree; and their difference."""
    half, middle = (right - left) / 2, (right + left) / 2

    def added(level: int) -> mpf:
        nodes = ((ctx.mpf(at), ctx.mpf(weight)) for at, weight in _added_nodes(ctx.prec, level))
        return ctx.fsum(f(middle + half * at) * weight for at, weight in nodes)

    step = ctx.mpf(1) / 4
    total = added(0)
    value, difference = total * step, ctx.inf
    for level in range(1, 13):
        step /= 2
        total += added(level)
        previous, value = value, total * step
        difference = abs(value - previous)
        if difference <= abs(value) * ctx.mpf(10) ** -digits:
            break
    scale = half * ctx.pi / 2
    return scale * value, scale * difference


@lru_cache(maxsize=64)
def _added_nodes(prec: int, level: int) -> tuple[tuple[mpf, mpf], ...]:
    """Nodes of the tanh-sinh rule of step 2^(-2 - level) on (-1, 1) that no coarser one has, and their weights.

    Numbers of a context of their own.
    """
    ctx = MPContext()
    ctx.prec = prec
    # The weights fall below the precision there.
    reach = ctx.asinh(2 * (ctx.prec * ctx.log(2) + 2) / ctx.pi)
    step = ctx.mpf(1) / (4 << level)
    last = int(reach / step)
    nodes = [(ctx.zero, ctx.one)] if level == 0 else []
    for k in range(1, last + 1):
        if k % 2 or level == 0:
            z = ctx.pi / 2 * ctx.sinh(k * step)
            at, weight = ctx.tanh(z), ctx.cosh(k * step) / ctx.cosh(z) ** 2
            nodes += [(at, weight), (-at, weight)]
    return tuple(nodes)
