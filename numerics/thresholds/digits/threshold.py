"""Last-layer thresholds of two layers to fifty digits: refinement until the rounding is decided."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from flint import arb

from ...arithmetic.ball import working_bits
from ...arithmetic.balls import Ball, ball
from ...core.errors import ConvergenceError
from ...model.network import Network
from .linear import choose_linear, linear_norm
from .steps import choose

__all__ = ["MAX_DIGITS", "PreciseThreshold", "precise_threshold"]

MAX_DIGITS = 50
_LEVELS = 8

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PreciseThreshold:
    """A threshold whose every digit is right.

    Attributes
    ----------
    value : str
        alpha in decimal, correctly rounded.
    error : float
        Absolute error of `value`, its rounding included.
    norm : float
        1/alpha.
    levels : int
        Sums that were evaluated.
    """

    value: str
    error: float
    norm: float
    levels: int


def precise_threshold(model: Network, digits: int, progress: Progress | None = None) -> PreciseThreshold:
    """Threshold alpha_c of the last of two layers, to as many digits as asked for.

    Sums of increasing fineness and precision are compared; twice the last difference and the radius of the ball are
    taken for the error, and refinement goes on until the whole error interval rounds to one decimal.

    Parameters
    ----------
    model : Network
        Two layers of rank 1: softmax with two tokens, or linear. `skip` and `beta` count as the decimals that were
        written: 0.1 is one tenth.
    digits : int
        Significant digits, 1 to 50.
    progress : callable, optional
        Called with (done, total).

    Returns
    -------
    PreciseThreshold

    Raises
    ------
    ConvergenceError
        The digits were not reached, or the sums would grow out of bounds: extreme skip or beta.

    References
    ----------
    troiani2025, (15)-(16), (184)-(185).
    """

    def tick(share: float) -> None:
        if progress is not None:  # two sums as a rule
            progress(int(min(99.0, 50 * (level + share))), 100)

    previous: Ball = None
    fineness = 1.0
    # Digits aimed at beyond those asked for, by the first sum and by each one after it.
    guard, more = 2.5, 2.0
    for level in range(_LEVELS):
        aim = digits + guard + more * level
        norm, bits = _sum(model, aim, fineness, tick)
        with working_bits(bits):
            alpha = 1 / norm
            if previous is not None:
                gap = abs(alpha - previous).upper()
                error = 2 * gap + arb(alpha.rad())
                value = _rounded(alpha, error, digits)
                if value is not None:
                    off = abs(arb(value) - alpha.mid()) + error
                    return PreciseThreshold(value, float(off.upper()), float(norm), level + 1)
                # Digits grow in proportion to the fineness: what is missing of the last aim but one.
                reached = max(1.0, -float((gap / alpha).log()) / math.log(10.0))
                fineness *= min(1.6, max(1.05, (aim - more) / reached))
            previous = alpha.mid()
    raise ConvergenceError(
        f"{digits} digits were not reached in {_LEVELS} refinements for {model.describe()}, (184)-(185): "
        "ask for fewer digits"
    )


def _sum(model: Network, aim: float, fineness: float, tick: Callable[[float], None]) -> tuple[Ball, int]:
    """Operator norm by one sum, and its precision."""
    if model.activation == "linear":
        linear = choose_linear(model.skip, model.beta, model.tokens, aim, fineness)
        _check_size(model, linear.hidden.count * linear.output.count)
        with working_bits(linear.bits):
            return linear_norm(ball(model.skip), ball(model.beta), model.tokens, linear, tick), linear.bits
    from .softmax import softmax_norm  # its compiled loops take a while to load

    rules = choose(model.skip, model.beta, aim, fineness)
    _check_size(model, sum(line.count for line in rules.plane.w))
    # Decimals: the law is sensitive to them.
    with working_bits(rules.law_bits):
        skip, beta = ball(model.skip), ball(model.beta)
    try:
        with working_bits(rules.bits):
            return softmax_norm(skip, beta, rules, tick), rules.bits
    except OverflowError as error:
        raise ConvergenceError(
            f"the sums in fixed point do not hold {model.describe()}, (184)-(185): {error}; ask for fewer digits, at "
            "most 13, which sums in float64 give, or for a larger skip"
        ) from error


def _check_size(model: Network, nodes: int) -> None:
    # A sum of more nodes would take hours, and of softmax all memory.
    most_nodes = {"softmax": 400_000, "linear": 4_000_000}
    most = most_nodes[model.activation_name]
    if nodes > most:
        raise ConvergenceError(
            f"so many digits need {nodes} nodes for {model.describe()}, (184)-(185), more than {most}: ask for "
            "fewer digits, or for skip and beta closer to 1"
        )


def _rounded(value: Ball, error: Ball, digits: int) -> str | None:
    """Decimal of so many digits that every number within the error rounds to; None where there are two."""
    context = Context(prec=digits, rounding=ROUND_HALF_EVEN)
    ends = {context.plus(_decimal(end)) for end in (value.mid() - error, value.mid() + error)}
    if len(ends) > 1:
        return None
    found = ends.pop()
    # Trailing zeros are digits, too.
    places = digits - 1 - found.adjusted()
    return f"{found:.{places}f}" if places >= 0 else f"{found:f}"


def _decimal(value: Ball) -> Decimal:
    """Midpoint of a ball, exactly."""
    mantissa, exponent = (int(part) for part in value.mid().man_exp())
    exact = Context(prec=2000)
    if exponent >= 0:
        return Decimal(mantissa << exponent)
    # 2^-k = 5^k 10^-k
    return exact.scaleb(exact.multiply(Decimal(mantissa), Decimal(5**-exponent)), exponent)
