"""The standard error of a mean over few independent randomisations."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["SIGMAS", "standard_error", "student"]

#: What is decided is decided to so many stated errors.
SIGMAS = 3.0
# Three stated errors hold with this probability, that of three standard deviations of a normal law, however few the
# randomisations.
_LEVEL = math.erf(SIGMAS / math.sqrt(2))


@cache
def student(replicas: int) -> float:
    """Factor by which a standard error from so few randomisations grows, so that three of it hold in 99.73 %.

    Examples
    --------
    >>> print(f"{student(4):.2f} {student(8):.2f} {student(64):.2f}")
    3.07 1.51 1.04
    """
    from scipy.special import stdtrit

    return max(1.0, float(stdtrit(replicas - 1, 0.5 + 0.5 * _LEVEL)) / SIGMAS)


def standard_error(values: ArrayLike) -> NDArray[np.float64]:
    """Standard error of the mean over the first axis, with Student's factor.

    Parameters
    ----------
    values : array_like, shape (R, ...)
        R independent values.

    Returns
    -------
    ndarray, shape (...)
        NaN where R = 1.

    Examples
    --------
    >>> print(f"{standard_error([1.0, 2.0, 3.0, 4.0]):.3f}")
    1.984
    """
    found = np.asarray(values, np.float64)
    count = len(found)
    if count == 1:
        return np.full(found.shape[1:], math.nan)
    return np.asarray(student(count) / math.sqrt(count) * found.std(axis=0, ddof=1))
