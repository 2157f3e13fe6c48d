"""Thresholds of one layer of attention, and of entrywise and hard activations of its scores."""

from collections.abc import Callable

import sympy as sp

from .. import symbols
from ..linearization import single_layer_direction, single_layer_threshold
from .coordinates import ANGLE, HALF, LINE, RADIUS, T, U, both_signs, gauss
from .level_sets import Output, Threshold, integrate, threshold_of_link

#: Rank symbol of the tied formulas.
pair_rank = sp.Symbol("r", integer=True, positive=True)


def single_layer(tied: bool, activation: str, wide: bool = False) -> Callable[[], Threshold]:
    """Return what derives the threshold of one layer, tied at any rank or untied at rank 1."""
    rank = pair_rank if tied else 1

    def derive() -> Threshold:
        alpha = single_layer_threshold(symbols.tokens, rank, activation, tied=tied, wide=wide)
        return Threshold(alpha, single_layer_direction(symbols.tokens, rank, activation, tied=tied))

    return derive


def _sector(lower: sp.Expr, upper: sp.Expr) -> Output:
    """Return one output of a link of one index on two tokens that is constant between two lines through zero."""
    h = sp.Matrix([[RADIUS * sp.cos(ANGLE), RADIUS * sp.sin(ANGLE)]])
    return Output(both_signs(h, ((RADIUS, *HALF), (ANGLE, lower, upper))))


def hard_attention() -> Threshold:
    """Derive the threshold of softmax attention at infinite beta, two tokens."""
    # At infinite beta row m of the attention matrix points at the token n with the largest h_m h_n.  Both tokens
    # attend to themselves where h_1 h_2 < 0; else both attend to the larger one.
    quarter = sp.pi / 4
    return threshold_of_link([_sector(-2 * quarter, 0), _sector(0, quarter), _sector(quarter, 2 * quarter)])


def sign_attention() -> Threshold:
    """Derive the threshold of the signs of the scores."""
    # y_mn = sign(h_m h_n): E[h_m h_n|y] = y_mn E|z|^2 off the diagonal and 1 on it.
    product = integrate(2 * U * gauss(U), ((U, *HALF),)) ** 2
    return Threshold(1 / (symbols.tokens * (symbols.tokens - 1) * product**2), sp.eye(1))


def even_attention() -> Threshold:
    """Derive the threshold of an even function of the scores."""
    # y fixes (h_m h_n)^2, hence every |h_m| and no sign: only the diagonal of h^T h - I is left.
    variance = integrate((T**2 - 1) ** 2 * gauss(T), ((T, *LINE),))
    return Threshold(1 / (symbols.tokens * variance), sp.eye(1))
