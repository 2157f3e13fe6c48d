"""Thresholds that are known exactly, of one attention layer and of some links: the formula beside the value."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from mpmath import mpf
from mpmath.ctx_mp import MPContext

from attnlimits.generated import exact as _printed

from ..core.validation import whole

__all__ = ["MAX_DIGITS", "ExactThreshold", "link", "single_layer"]

# The one integral takes some seconds at 40 digits.
MAX_DIGITS = 40


@dataclass(frozen=True)
class ExactThreshold:
    """A threshold that is known exactly.

    Attributes
    ----------
    exact : str
        The threshold as an expression that SymPy parses, such as ``-2 + sqrt(5)``.
    value : str or None
        Its value, rounded to the digits asked for; None if it is infinite.
    closed : bool
        False if `exact` holds one integral of known functions.
    direction : tuple of float
        Diagonal of the unit eigenvector of the operator (15) that it belongs to; empty for links.
    error : float
        What rounding to `value` took.
    """

    exact: str
    value: str | None
    closed: bool
    direction: tuple[float, ...] = ()
    error: float = 0.0


def single_layer(
    tokens: int, rank: int = 1, activation: str = "softmax", tied: bool = True, *, heads: int = 1, digits: int = 15
) -> ExactThreshold | None:
    """Weak-recovery threshold alpha_c of one attention layer, exactly.

    Tied: r/(M (M + 1)); r^2/((M - 1)((M + 2) r + 2)) for softmax with r >= M. Untied, rank 1:
    (sqrt(M^2 + 1) - M)/(M - 1) for softmax, one integral for linear. Skip strength and beta do not matter. H heads lie
    side by side: each is one head on D/H coordinates with the same N samples, so that alpha = N/D is smaller by H.

    Parameters
    ----------
    tokens : int
        2 <= M <= 10^6; to 32 for the integral.
    rank : int, optional
        1 <= r <= 1000.
    activation : {"softmax", "linear"}, optional
        Others have no entry here.
    tied : bool, optional
        Whether keys equal queries.
    heads : int, keyword-only, optional
        1 <= H <= 1000.
    digits : int, keyword-only, optional
        Significant digits of the value, 1 to 40.

    Returns
    -------
    ExactThreshold or None
        `direction` is that of one head. None where no exact form is known: untied layers of rank above 1, other
        activations.

    Raises
    ------
    ValueError
        tokens, rank, heads or digits out of range.

    References
    ----------
    troiani2025, (15)-(16); the formulas are derived in ``attnlimits.derive.linearization``.

    Examples
    --------
    >>> single_layer(2, tied=False, digits=6).exact
    '-2 + sqrt(5)'
    """
    context = _context(digits)
    # The theory is one of few tokens and rows; these keep closed forms within a second, the
    # integral within some.
    most_tokens = 1_000_000
    most_tokens_of_integral = 32
    most_rows = 1000
    tokens = _bounded("tokens", tokens, 2, most_tokens, "(1)")
    rank = _bounded("rank", rank, 1, most_rows, "(2)")
    heads = _bounded("heads", heads, 1, most_rows, "(27)")
    entry = _entry(tokens, rank, activation, tied)
    if entry is None:
        return None
    arguments = (tokens, rank) if tied else (tokens,)
    text = getattr(_printed, f"{entry}_formula")(*arguments)
    if "Integral" in text:
        _bounded("tokens", tokens, 2, most_tokens_of_integral, "(19)")
    value = getattr(_printed, f"{entry}_value")(context, *arguments) / heads
    text = _divided(text, heads)
    if tied:
        direction: tuple[float, ...] = (rank**-0.5,) * rank
    else:
        direction = tuple(map(float, getattr(_printed, f"{entry}_direction")(context, *arguments)))
    shown = _decimal(context, value, digits)
    return ExactThreshold(text, shown, "Integral" not in text, direction, _rounding(context, shown, value))


def _rounding(context: MPContext, shown: str, value: mpf) -> float:
    """Bound of what rounding took: with that of the value itself, and never below in float64."""
    off = abs(context.mpf(shown) - value)
    return math.nextafter(float(off + 10 * context.eps * abs(value)), math.inf) if off else 0.0


def _bounded(name: str, value: object, least: int, most: int, equation: str) -> int:
    number = whole(name, value, least, equation)
    if number > most:
        raise ValueError(f"{name} must be at most {most} for the exact threshold (16), got {number}")
    return number


def _divided(text: str, heads: int) -> str:
    if heads == 1:
        return text
    if re.fullmatch(r"\d+(/\d+)?", text):
        return str(Fraction(text) / heads)
    return f"1/({heads}*{text[2:]})" if text.startswith("1/(") else f"({text})/{heads}"


def _decimal(context: MPContext, value: mpf, digits: int) -> str:
    return str(context.nstr(value, digits, strip_zeros=False, min_fixed=-context.inf, max_fixed=context.inf))


def _entry(tokens: int, rank: int, activation: str, tied: bool) -> str | None:
    if activation not in ("softmax", "linear") or (not tied and rank > 1):
        return None
    if not tied:
        return f"untied_{activation}"
    return "tied_softmax_wide" if activation == "softmax" and rank >= tokens else f"tied_{activation}"


def link(expression: str, *, digits: int = 15) -> ExactThreshold | None:
    """Weak-recovery threshold of a link of one token, if its expression is in the table.

    Parameters
    ----------
    expression : str
        In the indices h[p] (also h_p or h[p, 1]), p counted from 1; only the spelling of the table is recognised, up
        to spaces.
    digits : int, keyword-only, optional
        Significant digits of the value, 1 to 40.

    Returns
    -------
    ExactThreshold or None
        ``exact`` is "0" if E[h|y] does not vanish, so that every alpha > 0 suffices, and "oo", with no value, if the
        output has no quadratic information. None if the expression is not in the table.

    Raises
    ------
    ValueError
        digits out of range.

    References
    ----------
    troiani2025, (15)-(16); the formulas are derived in ``attnlimits.derive.closed_forms``.

    Examples
    --------
    >>> link("sign(h[1]*h[2])", digits=6).exact
    'pi**2/4'
    """
    context = _context(digits)
    text = re.sub(r"h_(\d+)", r"h[\1]", re.sub(r"\s", "", expression))
    text = re.sub(r"h\[(\d+),1\]", r"h[\1]", text)
    if text not in _printed.LINKS:
        return None
    name, formula = _printed.LINKS[text]
    if formula in ("0", "oo"):
        return ExactThreshold(formula, "0" if formula == "0" else None, True)
    evaluate: Callable[[MPContext], mpf] = _printed.VALUES[name]
    value = context.nstr(context.mpf(evaluate(context)), digits, strip_zeros=False)
    return ExactThreshold(formula, value, "Integral" not in formula)


def _context(digits: int) -> MPContext:
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= MAX_DIGITS:
        raise ValueError(f"digits must be an integer from 1 to {MAX_DIGITS}, got {digits!r}")
    context = MPContext()
    guard = 10
    context.dps = digits + guard
    return context
