"""Checks of the numbers that models are made of."""

import math
import sys
from collections.abc import Sequence
from numbers import Complex, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UnreachableOutputError
from .memory import refuse_memory

__all__ = [
    "RANGES",
    "Range",
    "check_nodes",
    "choice",
    "finite",
    "flag",
    "not_negative",
    "numbers",
    "plain",
    "positive",
    "precision",
    "softmax_rows",
    "whole",
    "within",
]


class Range(NamedTuple):
    """Smallest and largest value that makes sense, both allowed."""

    least: float
    most: float


# Of a model: beyond, limits in closed form hold to all digits of float64. Of a learning rate and the like: squares stay
# in the range of float64. Of repetitions: a lifetime.
_MODEL, _SIZE, _TIMES = Range(0.0, 1e12), Range(0.0, 1e30), Range(0, 10**9)
#: What numbers may be, by their names as arguments of functions and as flags of the command, `max_iter` or --max-iter;
#: who takes them may ask for more.
RANGES: dict[str, Range] = {
    **dict.fromkeys(("alpha", "skip", "beta", "noise", "first", "last"), _MODEL),
    **dict.fromkeys(("rate", "weight_decay", "noise_std", "scale", "spread", "tol"), _SIZE),
    **dict.fromkeys(("replicas", "seeds", "starts", "students", "max_iter", "epochs", "reuse", "batch"), _TIMES),
    **dict.fromkeys(("steps", "limit", "workers", "max_nodes"), _TIMES),
}


def within(name: str, value: float, label: str = "") -> None:
    """Refuse a number beyond the range of its name, if it has one.

    Parameters
    ----------
    name : str
        Of an argument.
    value : float
    label : str, optional
        How it is called in the message, a flag for instance.

    Raises
    ------
    ValueError
        With the range.

    Examples
    --------
    >>> within("alpha", 1e300)
    Traceback (most recent call last):
    ValueError: alpha must be in [0, 1e+12], got 1e+300
    """
    allowed = RANGES.get(name)
    if allowed is not None and not allowed.least <= value <= allowed.most:
        shown = f"{value:.6g}" if abs(value) <= sys.float_info.max else "more than 1e308"
        raise ValueError(f"{label or name} must be in [{allowed.least:g}, {allowed.most:g}], got {shown}")


def whole(name: str, value: object, least: int, equation: str) -> int:
    """Return an integer that is at least `least`, or raise ValueError naming it and its equation."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least} (troiani2025 {equation}), got {value!r}")
    within(name, int(value))
    return int(value)


def check_nodes(nodes: int) -> None:
    """Refuse numbers of nodes that are not a power of two, or less than 64.

    Raises
    ------
    ValueError
        The message has the number.
    """
    if isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or nodes < 64 or nodes & (nodes - 1):
        raise ValueError(f"nodes must be a power of two >= 64, got {nodes!r}")


def _number(name: str, value: object, kind: str, equation: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name} must be a {kind} number (troiani2025 {equation}), got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def positive(name: str, value: object, equation: str) -> float:
    """Return a finite number above zero, or raise ValueError naming it and its equation."""
    number = _number(name, value, "positive", equation)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be finite and > 0 (troiani2025 {equation}), got {number!r}")
    within(name, number)
    return number


def not_negative(name: str, value: object, equation: str) -> float:
    """Return a finite number from zero on, or raise ValueError naming it and its equation."""
    number = _number(name, value, "finite", equation)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be finite and >= 0 (troiani2025 {equation}), got {number!r}")
    within(name, number)
    return number


def flag(name: str, value: object, yes: str, no: str) -> bool:
    """Return True or False as it is, or raise ValueError with what both mean."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True ({yes}) or False ({no}), got {value!r}")
    return bool(value)


def choice(name: str, value: object, allowed: Sequence[str], equation: str) -> str:
    """Return one of the allowed words, or raise ValueError that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)} (troiani2025 {equation}), got {value!r}")
    return value


def numbers(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return an array of float64, or raise ValueError if the value is none of real numbers.

    Truth values, text, dates, complex numbers and masked entries are none: NumPy would convert or drop them silently.
    """
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must be an array of numbers without masked entries; fill them, or leave them out")
    # Characters of a wrong value that a message repeats.
    shown = 80
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if array.dtype.kind in "iuf" or (array.dtype.kind == "O" and all(map(_is_real, array.flat))):
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        text = repr(value)
        raise ValueError(
            f"{name} must be an array of numbers, got {text if len(text) <= shown else type(value).__name__}"
        ) from None
    remedy = "take .real if the imaginary part is rounding" if array.dtype.kind == "c" else "convert by .astype(float)"
    raise ValueError(f"{name} must be an array of numbers, all of them real, got {str(array.dtype)[:shown]}; {remedy}")


def finite(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return an array of finite float64, or raise ValueError."""
    array = numbers(name, value)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array


def plain(name: str, value: object) -> NDArray[Any]:
    """Return an array as it is, memory-mapped or not, in the byte order of this machine; refuse masked entries.

    Its numbers are looked at by whoever uses them: there may be too many to read twice.
    """
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must be an array of numbers without masked entries; fill them, or leave them out")
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__} of unequal rows") from None
    if array.dtype.isnative or array.dtype.kind != "f":
        return array
    refuse_memory(f"{name} in the byte order of this machine", array.nbytes, "store it in that order")
    return array.astype(array.dtype.newbyteorder("="))


def _is_real(entry: object) -> bool:
    """Whether an entry of an array of objects may be a real number: of Python, of mpmath, of python-flint."""
    unlike = str | bytes | bool | np.bool_ | np.datetime64 | np.timedelta64
    return not isinstance(entry, unlike) and (isinstance(entry, Real) or not isinstance(entry, Complex))


def softmax_rows(y: NDArray[np.float64], where: str = "troiani2025 (175)", underflow: str = "") -> NDArray[np.float64]:
    """Return rows of a softmax, or raise UnreachableOutputError: entries in (0, 1], of sum one (175).

    Parameters
    ----------
    y : ndarray, shape (..., M)
    where : str
        Cited in messages.
    underflow : str
        What to try where entries are zero.

    Notes
    -----
    A sum may be off by 1e-9, and the rows stay as they are. Where all entries are float32 (or float16) numbers it may
    be off by the rounding of that type, 4 M eps, and rows are divided by their sums.
    """
    # Rows of a softmax computed in float64 sum to one within this.
    row_sum = 1e-9
    rounding = row_sum
    sums = y.sum(axis=-1)
    worst = float(np.abs(sums - 1).max(initial=0.0))
    if worst > rounding:
        rounding = max(rounding, 4 * y.shape[-1] * precision(y))
    if (y <= 0).any() or (y > 1 + rounding).any():
        raise UnreachableOutputError(
            f"y must have entries in (0, 1], the range of a softmax ({where}); got [{y.min():.3g}, "
            f"{y.max():.3g}]{underflow}"
        )
    if worst > rounding:
        raise UnreachableOutputError(
            f"each row of y must sum to 1 ({where}); the worst is off by {worst:.3g}; pass y in full precision"
        )
    return y if rounding == row_sum else np.asarray(y / sums[..., None])


def precision(y: NDArray[np.float64]) -> float:
    """Relative rounding of the narrowest floating type that holds all entries exactly."""
    with np.errstate(over="ignore"):
        for kind in (np.float16, np.float32):
            if (y.astype(kind) == y).all():
                return float(np.finfo(kind).eps)
    return float(np.finfo(np.float64).eps)
