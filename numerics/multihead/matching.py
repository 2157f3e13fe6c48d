"""Heads of one layer matched with those of another, and how far apart they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

__all__ = ["match_heads", "parameter_error"]

# Least norm that is divided by.
_TINY = float(np.finfo(float).tiny)


def match_heads(theta: ArrayLike, w: ArrayLike, theta_true: ArrayLike, w_true: ArrayLike) -> NDArray[np.intp]:
    """The order of heads that brings a layer closest to another one, whose numbering is as arbitrary.

    Parameters
    ----------
    theta, w : array_like, shape (m, d, d)
        What was learned.
    theta_true, w_true : array_like, shape (m, d, d)

    Returns
    -------
    ndarray, shape (m,)
        `theta[order]` corresponds to `theta_true`.

    Raises
    ------
    ValueError
        The numbers of heads or the dimensions differ.

    Notes
    -----
    The assignment of least total squared distance, Theta and W each in units of the size of the truth.
    """
    stacks = [np.asarray(part, dtype=np.float64) for part in (theta, w, theta_true, w_true)]
    if len({part.shape for part in stacks}) != 1:
        raise ValueError(
            "theta, w, theta_true and w_true must have the same shape (m, d, d) (chen2024), got "
            + ", ".join(str(part.shape) for part in stacks)
        )
    cost = sum(
        (np.linalg.norm(true[:, None] - learned, axis=(2, 3)) / max(float(np.linalg.norm(true)), _TINY)) ** 2
        for learned, true in zip(stacks[:2], stacks[2:], strict=True)
    )
    return np.asarray(linear_sum_assignment(cost)[1])


def parameter_error(theta: ArrayLike, w: ArrayLike, theta_true: ArrayLike, w_true: ArrayLike) -> float:
    """Largest relative error of any Theta_i or W_i, after matching; arguments and errors as in `match_heads`."""
    order = match_heads(theta, w, theta_true, w_true)
    worst = 0.0
    for learned, true in ((theta, theta_true), (w, w_true)):
        off = np.asarray(learned, dtype=np.float64)[order] - np.asarray(true, dtype=np.float64)
        size = np.linalg.norm(np.asarray(true, dtype=np.float64), axis=(1, 2))
        worst = max(worst, float((np.linalg.norm(off, axis=(1, 2)) / np.maximum(size, _TINY)).max()))
    return worst
