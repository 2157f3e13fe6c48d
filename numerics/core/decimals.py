"""Numbers as text: to their error, to significant digits; and what text is too large a number."""

import math
import re

import numpy as np

__all__ = ["check_size", "pm", "recorded", "significant", "to_error"]

# float64 has no more; and no number of the command is known to more digits unless it was asked for with --digits.
_MOST = 10
# Fixed notation from here up to here; scientific outside.
_SMALL, _LARGE = 1e-4, 1e10
_NUMBER = re.compile(r"[-+]?[\d_]*\.?[\d_]*(?:[eE]([-+]?[\d_]+))?")


def significant(value: float, digits: int) -> str:
    """Return a decimal with exactly that many significant digits, trailing zeros included, never in exponents.

    Examples
    --------
    >>> significant(0.17203, 6), significant(1e-7, 3)
    ('0.172030', '0.000000100')
    """
    if not math.isfinite(value):
        return str(value)
    leading = int(f"{value:.{digits - 1}e}".partition("e")[2]) if value else 0
    text = np.format_float_positional(value, precision=digits, unique=False, fractional=False, trim="k")
    # NumPy rounds to that many digits, and leaves out zeros at the end.
    whole, _, decimals = text.partition(".")
    places = max(0, digits - 1 - leading)
    return f"{whole}.{decimals.ljust(places, '0')[:places]}" if places else whole


def to_error(value: float, error: float, *, digits: int = _MOST) -> str:
    """Return a value to the second digit of its error, in at most `digits` significant digits.

    Small and large values come with an exponent, so that none is shown as zero that is not zero to its error.

    Examples
    --------
    >>> to_error(0.486012, 0.00291), to_error(3.2e-9, 1.1e-11), to_error(0.5, 0.0)
    ('0.4860', '3.200e-09', '0.5000000000')
    """
    if not math.isfinite(value) or value == 0:
        return "0" if value == 0 else str(value)
    size = _exponent(value)
    last = _exponent(error) - 1 if error > 0 and math.isfinite(error) else -math.inf
    last = max(last, size - digits + 1)
    if last > size:
        # Zero to its error: as many decimals as the error has.
        return f"{value:.{max(0, int(-last))}f}" if last > -_MOST else f"{value:.0e}"
    if _SMALL <= abs(value) < _LARGE:
        return f"{value:.{max(0, int(-last))}f}"
    return f"{value:.{int(size - last)}e}"


def pm(value: float, error: float | None, *, digits: int = _MOST) -> str:
    """Return "value +- error": the error to two significant digits, the value to the same place.

    Parameters
    ----------
    value : float
    error : float or None
        None or NaN, where there is none, such as of a mean over one instance: the value alone, to six digits.
    digits : int, keyword-only
        Most significant digits of the value.

    Examples
    --------
    >>> pm(0.486012, 0.00291), pm(3.2e-9, 1.1e-11), pm(8.81, 1.74), pm(0.0, 0.0)
    ('0.4860 +- 0.0029', '3.200e-09 +- 1.1e-11', '8.8 +- 1.7', '0 +- 0')
    """
    if error is None or math.isnan(error):
        return to_error(value, 0.0, digits=min(digits, 6))
    shown = to_error(value, error, digits=digits)
    if error == 0:
        return f"{shown} +- 0"
    if _SMALL <= error < 100 and "e" not in shown:
        return f"{shown} +- {error:.{max(0, 1 - _exponent(error))}f}"
    return f"{shown} +- {error:.1e}"


def recorded(value: float, error: float | None) -> str:
    """Return the text of a value in a record: to the fifth digit of its error, so that its rounding adds nothing.

    Where float64 has no such digits, or the error is zero, it is the shortest text that is read as the same number. Of
    a value without an error it has twelve digits.

    Examples
    --------
    >>> recorded(0.4860123, 0.00291), recorded(1.25e-8, 0.0), recorded(1 / 3, 1e-15), recorded(1 / 3, None)
    ('0.4860123', '1.25e-08', '0.3333333333333333', '0.333333333333')
    """
    # Digits of a record: those of every float64, and of a value that has no error.
    of_float, unknown = 15, 12
    if error is None or not math.isfinite(error):
        return to_error(value, 0.0, digits=unknown)
    if value and math.isfinite(value) and (not error or _exponent(value) - _exponent(error / 1000) + 2 > of_float):
        return repr(float(value))
    return to_error(value, error / 1000, digits=of_float)


def _exponent(value: float) -> int:
    """Of the leading digit, after rounding to two digits."""
    return int(f"{value:.1e}".partition("e")[2])


def check_size(name: str, text: str) -> None:
    """Refuse a number whose exact arithmetic would take minutes and gigabytes, before it is read.

    Raises
    ------
    ValueError
        More than 2000 digits, or beyond 1e5000.
    """
    # What a number may take as a quotient of integers: arithmetic with millions of digits is minutes and gigabytes.
    most_digits, most_exponent = 2000, 5000
    for part in text.split("/"):
        match = _NUMBER.fullmatch(part.strip())
        exponent = match[1] if match else None
        if len(part) > most_digits or (exponent and (len(exponent) > 6 or abs(int(exponent)) > most_exponent)):
            raise ValueError(
                f"{name} must have at most {most_digits} digits and lie in [1e-{most_exponent}, "
                f"1e{most_exponent}], got {_shown(text)}"
            )


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:30]!r}... ({len(text)} characters)"
