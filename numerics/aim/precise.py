"""The matrix denoiser to any number of digits: the formulas of `spectrum` in another arithmetic.

Triangles are computed by python-flint, of whose balls the midpoints count, some ten times faster than by mpmath.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

from flint import arb
from mpmath import mpf
from mpmath.ctx_mp import MPContext

from ..arithmetic.ball import ball, to_mpf, working_bits
from ..core.decimals import check_size
from ..core.results import How, Result
from .checks import CITE, count

__all__ = ["MAX_DIGITS", "PreciseValue", "exact_number", "mmse_digits", "rounded"]

MAX_DIGITS = 200


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
    largest = 10**60
    if not Fraction(1, largest) <= number <= largest:
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
    guard = 12
    ctx.dps = digits + guard + 3 * size
    rho_, delta_ = ctx.mpf(r.numerator) / r.denominator, ctx.mpf(d.numerator) / d.denominator
    loss, error = _loss(ctx, rho_, delta_, digits + 4 + 2 * size)
    value = delta_ * (1 - loss)
    return rounded(ctx, value, delta_ * error, digits)


def _loss(ctx: MPContext, rho: mpf, delta: mpf, digits: int) -> tuple[mpf, mpf]:
    total = error = ctx.zero
    with working_bits(ctx.prec):
        triangles = _Triangles(*(ball(x) for x in (rho, delta, ctx.sqrt(rho), ctx.sqrt(delta * ctx.sqrt(rho)))))
        for left, right in _panels(ctx, triangles):
            part, difference = _double_exponential(ctx, triangles.integrand, left, right, digits)
            total += part
            error += difference
    scale = 1 / (6 * ctx.pi * delta**2)
    return scale * total, scale * error


class _Triangles(NamedTuple):
    """Triangles of sides a, b and m, at e of which the logarithm is given."""

    rho: arb
    delta: arb
    s: arb
    m: arb

    def sides(self, log_e: arb) -> tuple[arb, arb, arb]:
        """Return e, a and b."""
        e = log_e.exp()
        return e, (self.s + e).rsqrt(), self.s * e.rsqrt()

    def off(self, signs: tuple[int, int], log_e: arb) -> arb:
        """How far the triangle is from a flat one, of the sides with these signs."""
        _, a, b = self.sides(log_e)
        return (signs[0] * a + signs[1] * b - self.m).mid()

    def integrand(self, log_e: arb) -> arb:
        """Cube of the area, times what makes it an integral over x."""
        e, a, b = self.sides(log_e)
        m = self.m
        heron = ((a + b + m) * (b + m - a) * (a + m - b) * (a + b - m)).mid()
        if heron <= 0:
            return arb(0)
        return heron * heron.sqrt() * e * (b**4 / self.rho + self.delta - a**4)


def _panels(ctx: MPContext, triangles: _Triangles) -> list[tuple[mpf, mpf]]:
    """Intervals of log e, cut where two branch points may come close."""
    s, m = (to_mpf(ctx, x) for x in (triangles.s, triangles.m))

    def root(signs: tuple[int, int], left: mpf, right: mpf) -> mpf:
        return to_mpf(ctx, _bracketed(partial(triangles.off, signs), ball(left), ball(right), ctx.prec))

    tiny = ctx.mpf(10) ** -6
    middle = 2 * ctx.log(s / m)
    first = root((-1, 1), 2 * ctx.log(s / (m + 1 / ctx.sqrt(s))) - tiny, middle + tiny)
    last = root((1, 1), middle - tiny, 2 * ctx.log((1 + s) / m) + tiny)
    if s >= 1:
        return [(first, last)]
    top = ctx.log(s / (s ** (-ctx.mpf(2) / 3) - 1))
    if triangles.off((1, -1), ball(top)) <= 0:
        return [(first, top), (top, last)] if first < top < last else [(first, last)]
    second = root((1, -1), ctx.log(s**3 / (1 - s * s)), top)
    third = root((1, -1), top, -2 * ctx.log(m) + tiny)
    return [(first, second), (third, last)]


def _bracketed(f: Callable[[arb], arb], left: arb, right: arb, bits: int) -> arb:
    """Root between two points of different sign: secants inside the bracket (Illinois), halved where they stall."""
    low, high = f(left), f(right)
    eps = arb(2) ** (4 - bits)
    for step in range(20 * bits):
        halved = step % 4 == 3
        middle = ((left + right) / 2 if halved else (left * high - right * low) / (high - low)).mid()
        if not left < middle < right:
            break
        value = f(middle)
        if value == 0:
            return middle
        if (value > 0) == (high > 0):
            right, high, low = middle, value, low / 2
        else:
            left, low, high = middle, value, high / 2
        if right - left <= eps * (1 + abs(left)):
            break
    return ((left + right) / 2).mid()


def _double_exponential(ctx: MPContext, f: Callable[[arb], arb], left: mpf, right: mpf, digits: int) -> tuple[mpf, mpf]:
    """Integral over (left, right) by the tanh-sinh rule, its step halved until two sums agree; and their difference."""
    half, middle = (right - left) / 2, (right + left) / 2
    scaled, centre = ball(half), ball(middle)

    def added(level: int) -> mpf:
        total = arb(0)
        for at, weight in _added_nodes(ctx.prec, level):
            total += (f((centre + scaled * at).mid()) * weight).mid()
        return to_mpf(ctx, total)

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
def _added_nodes(prec: int, level: int) -> tuple[tuple[arb, arb], ...]:
    """Nodes of the tanh-sinh rule of step 2^(-2 - level) on (-1, 1) that no coarser one has, and their weights."""
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
    return tuple((ball(at), ball(weight)) for at, weight in nodes)
