"""Thresholds of links of sizes, sums and products of indices, at one token."""

import sympy as sp

from ..linearization import gram_eigenvalue, scale_mean_square
from .coordinates import ANGLE, CIRCLE, HALF, LINE, RADIUS, S, T, both_signs, column, gauss
from .level_sets import Branch, Output, Threshold, integrate, threshold_of_link

_LEVEL = sp.Symbol("t", positive=True)


def absolute() -> Threshold:
    """Derive the threshold of |h_1|."""
    return threshold_of_link([Output(both_signs(column(RADIUS)), ((RADIUS, *HALF),))])


def identity() -> Threshold:
    """Derive the threshold of h_1: any number of samples suffices."""
    return threshold_of_link([Output((Branch(column(T)),), ((T, *LINE),))])


def door() -> Threshold:
    """Derive the threshold of sign(|h_1| - t)."""
    inside = Output((Branch(column(T), ((T, -_LEVEL, _LEVEL),)),))
    outside = Output(both_signs(column(RADIUS), ((RADIUS, _LEVEL, sp.oo),)))
    return threshold_of_link([inside, outside], {_LEVEL: sp.S.One})


def maximum() -> Threshold:
    """Derive the threshold of max(h_1, h_2): its linear information is not zero."""
    # y = max(h_1, h_2): the smaller index lies anywhere below y; its truncated moments need erf, so the linear
    # information is shown by its sign, E[(h_1 + h_2) y] = E[(h_1 + h_2)|h_1 - h_2|]/2 + E[(h_1 + h_2)^2]/2 = 1 > 0.
    mean_square = integrate((S + T) ** 2 / 2 * gauss(S, T), ((S, *LINE), (T, *LINE)))
    odd = integrate(T * RADIUS * 2 * gauss(T, RADIUS), ((T, *LINE), (RADIUS, *HALF)))
    if not (mean_square + odd).is_positive:
        raise ValueError("the linear information of max(h_1, h_2) must be positive")
    return Threshold(sp.S.Zero, sp.ones(2, 2) / 2)


def radial_two() -> Threshold:
    """Derive the threshold of h_1^2 + h_2^2."""
    h = RADIUS * column(sp.cos(ANGLE), sp.sin(ANGLE))
    return threshold_of_link([Output((Branch(h, ((ANGLE, *CIRCLE),)),), ((RADIUS, *HALF),))])


def radial() -> Threshold:
    """Derive the threshold of h_1^2 + .. + h_P^2."""
    # h^T h is the token matrix of one token: a tied linear layer of rank P at M = 1.
    count = sp.Symbol("P", integer=True, positive=True)
    return Threshold(1 / gram_eigenvalue(sp.S.One, count), sp.MatrixSymbol("I", count, count) / sp.sqrt(count))


def product() -> Threshold:
    """Derive the threshold of h_1 h_2."""
    # The level set is (r, y/r): the two norms of an untied linear layer at M = 1.  In the direction I the operator
    # is E[(E[h_1^2|y] - 1)^2 + y^2] = E[a^2] - 1 + 1.
    return Threshold(1 / scale_mean_square(sp.S.One), sp.eye(2) / sp.sqrt(2))


def absolute_product() -> Threshold:
    """Derive the threshold of |h_1 h_2|."""
    # |h_1 h_2| loses E[h_1 h_2|y] = y.
    return Threshold(1 / (scale_mean_square(sp.S.One) - 1), sp.eye(2) / sp.sqrt(2))
