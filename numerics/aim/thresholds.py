"""Thresholds in closed form: perfect recovery, weak recovery at small width, and the tail of hardmax."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from mpmath import mpf
from mpmath.ctx_mp import MPContext

from ..core.errors import ConvergenceError
from ..core.results import Estimate, How, Result
from .channels import Channel, Entries, Noisy
from .checks import CITE, above_zero, count
from .hardmax_many import MOST_TOKENS as SUMMED_TOKENS
from .hardmax_sampled import MOST_TOKENS
from .precise import MAX_DIGITS, exact_number, rounded

__all__ = [
    "Threshold",
    "hardmax_tail",
    "noisy_tail",
    "perfect_recovery",
    "weak_recovery",
]


@dataclass(frozen=True, repr=False)
class Threshold(Result):
    """A threshold of the attention-indexed model.

    Attributes
    ----------
    value : str
        alpha = n/d^2, or alpha/rho at small width, in decimal; "inf" where no alpha is enough.
    exact : str or None
        The closed form, where one is known.
    error : float
        What rounding to `value` took.
    how : {"rigorous", "estimated", "monte-carlo"}
    quantity : str
        Which alpha it is.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    value: str
    exact: str | None
    error: float
    how: How
    quantity: str


def _context(digits: int) -> MPContext:
    if count("digits", digits, 1, "digits of the result") > MAX_DIGITS:
        raise ValueError(f"digits must be <= {MAX_DIGITS}, got {digits}")
    ctx = MPContext()
    guard = 10
    ctx.dps = digits + guard
    return ctx


def _closed(ctx: MPContext, value: mpf, exact: str, digits: int, quantity: str) -> Threshold:
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
        Infinite for hardmax, whose error falls as 1/alpha^2 (see `hardmax_tail`), and where there is noise.

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
    return _closed(ctx, _mp(ctx, value), str(value), digits, quantity)


def weak_recovery(output: Channel, *, digits: int | None = None) -> Threshold:
    """alpha/rho at which the overlap becomes positive, in the limit of small width: 1/(2 F(0)).

    Parameters
    ----------
    output : Channel
    digits : int, keyword-only
        1 to 200, 15 by default; at most 10 for hardmax of three to five tokens and functions with noise, 4 beyond.

    Returns
    -------
    Threshold
        1/(2 K) where an output fixes K functionals; in closed form for hardmax of two tokens, and from a sum over
        labels for more. Noise on the scores multiplies it by 1 + Delta_n. Infinite for even functions, of which F(0) =
        0: outputs that do not know the sign of h do not move a posterior mean of zero.

    References
    ----------
    boncoraglio2025, Corollary 4.2 and hardmax channel.
    """
    if digits is None:
        digits = min(15, _most_digits(output))
    ctx = _context(digits)
    quantity = "alpha/rho of weak recovery, rho -> 0"
    noise = Fraction(repr(output.noise))
    clean = output.clean if isinstance(output, Noisy) else output
    if clean.functionals is not None:
        value = (1 + noise) / (2 * clean.functionals)
        return _closed(ctx, _mp(ctx, value), str(value), digits, quantity)
    if isinstance(output, Entries) and output.function.even:
        return Threshold("inf", "inf", 0.0, "rigorous", quantity)
    if output.tokens != 2 or isinstance(output, Entries):
        return _summed(output, digits, quantity)
    angle = ctx.asin(ctx.mpf(1) / 3)
    # 3 pi/(2 (2/Z+ + 1/Z-)) with Z+- = 1/4 +- asin(1/3)/(2 pi).
    plus, minus = ctx.mpf(1) / 4 + angle / (2 * ctx.pi), ctx.mpf(1) / 4 - angle / (2 * ctx.pi)
    number = 3 * ctx.pi / (2 * (2 / plus + 1 / minus)) * _mp(ctx, 1 + noise)
    exact = "3*pi/(2*(2/(1/4 + asin(1/3)/(2*pi)) + 1/(1/4 - asin(1/3)/(2*pi))))"
    if noise:
        exact = f"{1 + noise} * {exact}"
    if output.name == "hardmax_published":
        number *= 4 * ctx.pi / 9
        exact = "4*pi/9 * " + exact
        quantity += ", by the published formula, which is not Bayes-optimal"
    return _closed(ctx, number, exact, digits, quantity)


def _most_digits(output: Channel) -> int:
    # Of a threshold that is a sum over labels, known to some 1e-11, and of one from sampled labels.
    sum_digits, sampled_digits = 10, 4
    if isinstance(output, Entries):
        return sum_digits
    if output.tokens == 2 or output.name != "hardmax":
        return MAX_DIGITS
    return sum_digits if output.tokens <= SUMMED_TOKENS else sampled_digits


def _summed(output: Channel, digits: int, quantity: str) -> Threshold:
    if digits > (most := _most_digits(output)):
        raise ValueError(
            f"digits must be <= {most} for weak recovery of hardmax of {output.tokens} tokens or of a function with "
            f"noise, a number in float64 ({CITE}, weak recovery), got {digits}"
        )
    F = output.information(0.0)
    if not F.value > F.error:
        raise ConvergenceError(
            f"F(0) of {output.name} is zero to within its error {F.error:.1e} ({CITE}, Corollary 4.2): weak recovery "
            f"is beyond alpha/rho = {1 / (2 * (F.value + F.error)):.3g}, if there is any; lower --noise"
        )
    value = 1 / (2 * F.value)
    text = f"{value:.{digits}g}"
    # 1/(2 F) is farthest at the lower end of F.
    error = value * F.error / (F.value - F.error) + abs(float(text) - value)
    return Threshold(text, None, error, F.how, quantity)


def _below(ctx: MPContext, common: Fraction, own: list[int]) -> mpf:
    """P[independent Gaussians of variances `own` are below one of variance `common`], by the arcsine laws."""
    pairs = [
        ctx.asin(_mp(ctx, common) / ctx.sqrt(_mp(ctx, a + common) * _mp(ctx, b + common)))
        for i, a in enumerate(own)
        for b in own[:i]
    ]
    return ctx.mpf(1) / 2 ** len(own) + ctx.fsum(pairs) / (2 ** (len(own) - 1) * ctx.pi)


def _ties(ctx: MPContext, tokens: int) -> mpf:
    """Sum over rows and pairs of their entries of the probability that the others are below, given the two are equal.

    Equal entries of variances v and w are N(0, v w/(v + w)).
    """
    if tokens > SUMMED_TOKENS:
        return _integrated_ties(ctx, tokens)
    with_own = _below(ctx, Fraction(2, 3), [1] * (tokens - 2))
    total = (tokens - 1) * with_own
    if tokens > 2:
        total += math.comb(tokens - 1, 2) * _below(ctx, Fraction(1, 2), [2] + [1] * (tokens - 3))
    return tokens * total


def _integrated_ties(ctx: MPContext, tokens: int) -> mpf:
    """The same by a trapezoid over the value at the tie: orthants of more than three variables have no closed form."""
    reach = math.sqrt(2 * math.log(10) * ctx.dps) + 1
    step = ctx.mpf(1) / (2 + ctx.dps // 6)

    def average(power: int, spread: mpf, more: mpf) -> mpf:
        """E Phi(spread x)^power Phi(more x)."""
        count = int(reach / step) + 1
        values = (
            ctx.npdf(step * k) * ctx.ncdf(spread * step * k) ** power * ctx.ncdf(more * step * k)
            for k in range(-count, count + 1)
        )
        return step * ctx.fsum(values)

    own, other = ctx.sqrt(ctx.mpf(2) / 3), ctx.sqrt(ctx.mpf(1) / 2)
    with_own = average(tokens - 3, own, own)
    return tokens * ((tokens - 1) * with_own + math.comb(tokens - 1, 2) * average(tokens - 3, other, ctx.mpf(1) / 2))


def _mp(ctx: MPContext, value: Fraction) -> mpf:
    return ctx.mpf(value.numerator) / value.denominator


def hardmax_tail(rho: object, *, tokens: int = 2, digits: int = 15) -> str:
    """Limit of alpha^2 times the error of hardmax: pi D^2 (1 + rho)/(2 N^2 I0^2), N = 2 for two tokens.

    D = min(2 rho - rho^2, 1), I0 the integral of phi^2/(Phi (1 - Phi)) over the line, and N the sum over rows and pairs
    of their entries of the probability that the others are below the two, given these are equal.

    Parameters
    ----------
    rho : int, float, Fraction or str
    tokens : int, keyword-only
        2 to 10.
    digits : int, keyword-only
        1 to 50.

    References
    ----------
    boncoraglio2025, thresholds.
    """
    if count("tokens", tokens, 2, "T") > MOST_TOKENS:
        raise ValueError(f"tokens must be <= {MOST_TOKENS} for the closed form of the tail ({CITE}), got {tokens}")
    if count("digits", digits, 1, "digits of the result") > 50:
        raise ValueError(f"digits must be <= 50 for the integral, got {digits}")
    width = exact_number("rho", rho, "rho = r/d")
    ctx = _context(digits)
    # The trapezoid converges as exp(-2 pi 2/h): the integrand is analytic in a strip of half-width 2 and falls as
    # |x| phi(x).
    reach = math.sqrt(2 * math.log(10) * ctx.dps) + 1
    step = ctx.mpf(4 * math.pi / (math.log(10) * ctx.dps))
    nodes = [step * k for k in range(1, int(reach / step) + 1)]

    def integrand(x: mpf) -> mpf:
        tail = ctx.erfc(x / ctx.sqrt(2)) / 2
        return ctx.exp(-x * x) / (2 * ctx.pi) / (tail * (1 - tail))

    integral = step * (integrand(ctx.zero) + 2 * ctx.fsum(integrand(x) for x in nodes))
    freedom = 2 * width - width**2 if width < 1 else Fraction(1)
    factor = freedom**2 * (1 + width)
    value = ctx.pi * _mp(ctx, factor) / (2 * _ties(ctx, tokens) ** 2 * integral**2)
    return rounded(ctx, value, 0, digits).value


def noisy_tail(rho: float, output: Noisy) -> Estimate:
    """Limit of alpha times the error at large alpha where there is noise: D Delta_n/(2 F(Q/Delta_n)).

    As V vanishes qhat = 2 alpha F/V approaches (2 alpha/Delta_n) F(Q/Delta_n), F without noise, and the error of the
    matrix denoiser D/qhat, D = min(2 rho - rho^2, 1).

    Parameters
    ----------
    rho : float
    output : Noisy

    References
    ----------
    boncoraglio2025, (20) and (57).
    """
    rho = above_zero("rho", rho, "rho = r/d")
    rate = output.information_per_variance(1 + rho)
    value = (rho * (2 - rho) if rho < 1 else 1.0) / (2 * rate.value)
    return Estimate(value, value * (rate.error / rate.value + 1e-15), "estimated")
