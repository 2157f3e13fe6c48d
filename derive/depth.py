"""Expansion of deep attention in the inverse strength of the skip connection.

Rescaling every layer by 1/c turns (5) into ``B_l = [I + (1/c) sigma(B_{l-1} h_l^T h_l B_{l-1}^T)]
B_{l-1}``; the factor c^{2(l-1)} goes into the argument of the activation.  Everything below is obtained by
differentiating this recursion in epsilon = 1/c, to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from . import symbols
from .architecture import Architecture
from .mixing import activate

__all__ = ["DepthExpansion", "committee", "expand", "first_order_output", "rescaled_link", "rescaled_mixing"]


def rescaled_mixing(
    model: Architecture, h: Sequence[sp.Matrix] | None = None, epsilon: sp.Expr = symbols.inverse_skip
) -> tuple[sp.Matrix, ...]:
    """Return the rescaled mixing matrices B_0 .. B_{L-1} for epsilon = 1/c, exactly.

    Parameters
    ----------
    model : Architecture
        Its ``skip`` is not used.
    h : sequence of sympy.Matrix, optional
        Index matrices, matrix l of shape r_l x M. Default: symbols.
    epsilon : sympy.Expr
        1/c.

    Returns
    -------
    tuple of sympy.Matrix
        L matrices, M x M.

    References
    ----------
    troiani2025, (46)-(47).
    """
    matrices = model.index_matrices() if h is None else tuple(h)
    mixing = [sp.eye(model.tokens)]
    for indices in matrices[: model.layers - 1]:
        readout = indices * mixing[-1].T
        mixing.append((sp.eye(model.tokens) + epsilon * activate(model, readout.T * readout)) * mixing[-1])
    return tuple(mixing)


def rescaled_link(
    model: Architecture, h: Sequence[sp.Matrix] | None = None, epsilon: sp.Expr = symbols.inverse_skip
) -> sp.Matrix:
    """Return the output of the rescaled network, M x M, as `rescaled_mixing`, (46)-(47)."""
    matrices = model.index_matrices() if h is None else tuple(h)
    readout = matrices[model.layers - 1] * rescaled_mixing(model, matrices, epsilon)[-1].T
    return activate(model, readout.T * readout)


@dataclass(frozen=True)
class DepthExpansion:
    """Coefficients of the powers of 1/c.

    Attributes
    ----------
    mixing : tuple of sympy.Matrix
        Of B_{L-1}: order 0, 1, .., each M x M. Order 0 is I, order 1 is the committee (51).
    scores : tuple of sympy.Matrix
        Of the argument B_{L-1} h_L^T h_L B_{L-1}^T of the last activation, without beta.
    output : tuple of sympy.Matrix
        Of y.
    """

    mixing: tuple[sp.Matrix, ...]
    scores: tuple[sp.Matrix, ...]
    output: tuple[sp.Matrix, ...]


def _product(left: Sequence[sp.Matrix], right: Sequence[sp.Matrix]) -> list[sp.Matrix]:
    """Return the product of two series, truncated at their order."""
    order = len(left)
    zero = sp.zeros(left[0].rows, right[0].cols)
    return [sum((left[j] * right[k - j] for j in range(k + 1)), zero) for k in range(order)]


def _activate_series(model: Architecture, scores: Sequence[sp.Matrix]) -> list[sp.Matrix]:
    """Return the series of sigma(sum_k epsilon^k scores_k), by differentiating in epsilon."""
    epsilon = symbols.inverse_skip
    argument = sum((epsilon**k * term for k, term in enumerate(scores)), sp.zeros(*scores[0].shape))
    value = activate(model, argument)
    series = []
    for k in range(len(scores)):
        if k > 0:
            value = value.diff(epsilon)
        series.append(value.subs(epsilon, 0) / sp.factorial(k))
    return series


def expand(model: Architecture, order: int = 1, h: Sequence[sp.Matrix] | None = None) -> DepthExpansion:
    """Expand the rescaled network in 1/c by differentiation, layer by layer.

    Parameters
    ----------
    model : Architecture
        Any depth, number of tokens, ranks and activation.
    order : int
        Highest power of 1/c, >= 0.
    h : sequence of sympy.Matrix, optional
        Index matrices h_1 .. h_L. Default: symbols.

    Returns
    -------
    DepthExpansion
        ``order + 1`` coefficients of each quantity.

    Raises
    ------
    ValueError
        If ``order`` is negative.

    References
    ----------
    troiani2025, (46)-(52) for order 1; higher orders are an extension.
    """
    if order < 0:
        raise ValueError(f"order must be >= 0, got {order}")
    matrices = model.index_matrices() if h is None else tuple(h)
    zero = sp.zeros(model.tokens, model.tokens)
    mixing = [sp.eye(model.tokens), *[zero] * order]
    for indices in matrices[: model.layers - 1]:
        # I + epsilon sigma: the activation enters one order later, so its last order is not needed.
        sigma = _activate_series(model, _scores(mixing[:-1], indices)) if order > 0 else []
        factor = [sp.eye(model.tokens), *sigma]
        mixing = _product(factor, mixing)
    scores = _scores(mixing, matrices[model.layers - 1])
    return DepthExpansion(tuple(mixing), tuple(scores), tuple(_activate_series(model, scores)))


def _scores(mixing: Sequence[sp.Matrix], indices: sp.Matrix) -> list[sp.Matrix]:
    readout = [indices * term.T for term in mixing]
    return _product([term.T for term in readout], readout)


def committee(model: Architecture, h: Sequence[sp.Matrix] | None = None) -> sp.Matrix:
    """Return sum_{l < L} sigma(h_l^T h_l), the closed form (51) of the first order of B_{L-1}.

    It is symmetric under any permutation of the first L - 1 layers.
    """
    matrices = model.index_matrices() if h is None else tuple(h)
    terms = (activate(model, indices.T * indices) for indices in matrices[: model.layers - 1])
    return sum(terms, sp.zeros(model.tokens, model.tokens))


def first_order_output(
    model: Architecture, h: Sequence[sp.Matrix] | None = None, epsilon: sp.Expr = symbols.inverse_skip
) -> sp.Matrix:
    """Return ``sigma(h_L^T h_L + (1/c)[C h_L^T h_L + h_L^T h_L C^T])`` with the committee C, (52).

    The argument of the activation is the series of `expand` up to order 1, so the error is O(1/c^2).
    """
    scores = expand(model, order=1, h=h).scores
    return activate(model, scores[0] + epsilon * scores[1])
