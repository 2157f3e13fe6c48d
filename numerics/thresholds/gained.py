"""A threshold from zero overlap for inputs with a spectrum: that for white inputs over E lambda^2.

The linearised iteration multiplies a small overlap by alpha E lambda^2 times the operator (15), whose channel does not
see the spectrum: of every threshold at which a direction of zero overlap is learned beside others that are zero, or
perfectly known.
"""

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, TypeVar

from ..core.results import ThresholdResult
from ..priors import Prior, as_setting
from ..priors.spectrum import Spectrum
from .link.result import LinkThreshold

__all__ = ["gained"]

Threshold = TypeVar("Threshold", ThresholdResult, LinkThreshold)

# Digits in which a quotient is taken, more than any threshold has.
_DIGITS = 240


def gained(result: Threshold, prior: Prior) -> Threshold:
    """The threshold over E lambda^2, with the status that says so; of other priors as it is.

    Parameters
    ----------
    result : ThresholdResult or LinkThreshold
        For white inputs.
    prior : Prior

    Examples
    --------
    >>> import attnlimits as al
    >>> gained(al.threshold(al.Network(layers=1)), al.free_energy.as_spectrum("mp:1")).exact
    '1/12'
    """
    if not isinstance(prior, Spectrum):
        return result
    square = prior.law.square
    changed: dict[str, Any] = {
        "status": f"{result.status}; {prior.describe()}: the threshold of white inputs over E lambda^2 = "
        f"{float(square):.10g}",
        "operator_norm": result.operator_norm * float(square),
        "origin": result.origin.with_settings(**as_setting(prior)),
    }
    at_least: float | None = getattr(result, "at_least", None)
    if at_least is not None:
        changed["at_least"] = at_least / float(square)
    if result.value is not None and result.error is not None and float(result.value) > 0:
        exact = _quotient(result.exact, square)
        closed = _fraction(exact)
        value, rounding = _divided(result.value, square, closed)
        changed |= {"value": value, "exact": exact}
        changed["error"] = rounding + (result.error / float(square) if closed is None else 0.0)
        if result.how == "rigorous" and exact is None:
            changed["how"] = "estimated"
    return replace(result, **changed)


def _quotient(exact: str | None, square: Fraction | float) -> str | None:
    """The closed form over E lambda^2, where both are exact."""
    if exact is None or not isinstance(square, Fraction):
        return None
    if square == 1:
        return exact
    closed = _fraction(exact)
    if closed is None:
        over = f"{square.numerator}" if square.denominator == 1 else f"({square})"
        return f"({exact})/{over}"
    return str(closed / square)


def _fraction(text: str | None) -> Fraction | None:
    """The number of a closed form that is a fraction."""
    try:
        return None if text is None else Fraction(text)
    except ValueError:
        return None


def _divided(text: str, square: Fraction | float, closed: Fraction | None = None) -> tuple[str, float]:
    """A decimal over E lambda^2 to one digit more than it has, and what its rounding and that of E lambda^2 add.

    Of a closed quotient, that.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        value, over = Decimal(text), Fraction(square)
        quotient = value * over.denominator / over.numerator
        if closed is not None:
            quotient = Decimal(closed.numerator) / closed.denominator
        digits = len(value.as_tuple().digits) + 1
        context.prec = digits
        rounded = +quotient
        context.prec = _DIGITS
        off = float(abs(rounded - quotient))
    own = 0.0 if isinstance(square, Fraction) else 1e-14 * float(quotient)
    return format(rounded, "f"), math.nextafter(off, math.inf) + own if off or own else 0.0
