"""The rescaled network, exactly at any 1/c, and the committee of its layers."""

from collections.abc import Sequence

import sympy as sp

from .. import symbols
from ..architecture import Architecture
from .layer import (
    Readouts,
    Reduce,
    attention_matrices,
    checked_inputs,
    keep,
    mix_heads,
    mixing_layers,
    reducer,
)


def rescaled_mixing(
    model: Architecture,
    h: Sequence[sp.Matrix] | None = None,
    epsilon: sp.Expr = symbols.inverse_skip,
    *,
    readouts: Readouts | None = None,
    reduce: Reduce | None = None,
) -> tuple[sp.Matrix, ...]:
    """Return the rescaled mixing matrices B_0 .. B_{L-1} for epsilon = 1/c, exactly; B_0 .. B_L of a sequence output.

    Parameters
    ----------
    model : Architecture
        Its ``skip`` is not used.
    h : sequence of sympy.Matrix, optional
        Index matrices, one per layer, as `Architecture.index_matrices` shapes them. Default: symbols.
    epsilon : sympy.Expr
        1/c.
    readouts : sequence of sympy.Matrix, optional
        Readout weights of several heads, H x H. Default: symbols.
    reduce : callable, optional
        Applied to every matrix as it is made, in plain SymPy functions (`derive.primitives.elementary`). Default: if
        h, readouts, ``epsilon`` and beta of the model are numbers, numbers that are not rational are evaluated to 50
        digits, ``elementary(x).evalf(50)``; otherwise, and for linear attention, expressions are kept as they are.
        ``lambda x: x.evalf(n)`` takes other digits; ``lambda x: x`` keeps expressions, which nest a layer of
        exponentials per layer.

    Returns
    -------
    tuple of sympy.Matrix
        HM x HM each.

    Raises
    ------
    ValueError
        If the indices or readouts do not have the shapes of the model.

    References
    ----------
    troiani2025, (46)-(47).
    """
    matrices, mixers = checked_inputs(model, h, readouts)
    reduce = reducer(reduce, model, *matrices, *mixers, sp.Matrix([epsilon]))
    mixing = [sp.eye(model.heads * model.tokens)]
    for layer in range(1, mixing_layers(model) + 1):
        attention = attention_matrices(model, layer, matrices[layer - 1], mixing[-1], reduce)
        added = mix_heads(model, layer, mixers, attention)
        mixing.append(reduce(mixing[-1] + epsilon * added * mixing[-1]))
    return tuple(mixing)


def rescaled_link(
    model: Architecture,
    h: Sequence[sp.Matrix] | None = None,
    epsilon: sp.Expr = symbols.inverse_skip,
    *,
    readouts: Readouts | None = None,
    reduce: Reduce | None = None,
) -> sp.Matrix:
    """Return the output of the rescaled network, as `rescaled_mixing`, (46)-(47).

    Returns
    -------
    sympy.Matrix
        The attention matrices of the last layer's heads, stacked: HM x M; B_L, HM x HM, for a sequence output.
    """
    matrices, mixers = checked_inputs(model, h, readouts)
    reduce = reducer(reduce, model, *matrices, *mixers, sp.Matrix([epsilon]))
    mixing = rescaled_mixing(model, h, epsilon, readouts=readouts, reduce=reduce)[-1]
    if model.output == "sequence":
        return mixing
    return sp.Matrix.vstack(*attention_matrices(model, model.layers, matrices[-1], mixing, reduce))


def committee(model: Architecture, h: Sequence[sp.Matrix] | None = None, readouts: Readouts | None = None) -> sp.Matrix:
    """Return the closed form (51) of the first order of the last mixing matrix.

    ``sum_l sigma(h_l^T h_l)`` over the layers that mix; with keys and queries ``sum_l sigma(k_l^T q_l)``; for H heads
    the matrix of blocks ``sum_l o_ab^l sigma(k_l^{bT} q_l^b)`` with the indices of head b on its own block. Layer l
    enters through its own indices and readouts alone, so the sum is symmetric under any permutation of the layers.
    """
    matrices, mixers = checked_inputs(model, h, readouts)
    size = model.heads * model.tokens
    total = sp.zeros(size, size)
    for layer in range(1, mixing_layers(model) + 1):
        attention = attention_matrices(model, layer, matrices[layer - 1], sp.eye(size), keep)
        total += mix_heads(model, layer, mixers, attention)
    return total
