"""The rescaled network as a power series in 1/c, layer by layer, and how its orders depend on the order of layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy as sp

from .. import symbols
from ..architecture import Architecture
from ..mixing import activate
from ..primitives import softmax_rows
from .layer import (
    Readouts,
    Reduce,
    checked_inputs,
    mix_heads,
    mixing_layers,
    projections,
    reducer,
)


@dataclass(frozen=True)
class DepthExpansion:
    """Coefficients of the powers of 1/c.

    Attributes
    ----------
    mixing : tuple of sympy.Matrix
        Of the last mixing matrix, HM x HM: order 0, 1, ... Order 0 is I, order 1 is the committee (51).
    scores : tuple of sympy.Matrix
        Of the argument of the last activation without beta, the heads stacked, HM x M; empty for a sequence output.
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


def _entrywise(left: Sequence[sp.Matrix], right: Sequence[sp.Matrix], order: int) -> sp.Matrix:
    """Return one coefficient of the entrywise product of two series."""
    zero = sp.zeros(*left[0].shape)
    return sum((left[j].multiply_elementwise(right[order - j]) for j in range(order + 1)), zero)


def _softmax_series(scores: Sequence[sp.Matrix], reduce: Reduce) -> list[sp.Matrix]:
    """Return the series of the row softmax, from S' = S o (z' - row sums of S o z').

    The coefficient k S_k of S' needs S_0 .. S_{k-1} only, so the one transcendental function is S_0.
    """
    series = [reduce(softmax_rows(scores[0]))]
    ones = sp.ones(scores[0].cols, scores[0].cols)
    slopes: list[sp.Matrix] = []
    for k in range(1, len(scores)):
        derivative = [(j + 1) * scores[j + 1] for j in range(k)]
        slopes.append(reduce(derivative[-1] - _entrywise(series, derivative, k - 1) * ones))
        series.append(reduce(_entrywise(series, slopes, k - 1) / k))
    return series


def _function_series(
    function: Callable[[sp.Expr], sp.Expr], scores: Sequence[sp.Matrix], reduce: Reduce
) -> list[sp.Matrix]:
    """Return the series of a function of each entry: its Taylor coefficients at z_0 times the powers of z - z_0."""
    order = len(scores) - 1
    point = sp.Dummy("z", real=True)
    value = sp.sympify(function(point))
    zero = sp.zeros(*scores[0].shape)
    rest = [zero, *scores[1:]]
    power = [sp.ones(*scores[0].shape), *[zero] * order]
    series = [zero] * (order + 1)
    for k in range(order + 1):
        taylor = reduce(scores[0].applyfunc(lambda z, v=value, n=k: v.subs(point, z) / sp.factorial(n)))
        series = [old + taylor.multiply_elementwise(term) for old, term in zip(series, power, strict=True)]
        power = [reduce(_entrywise(power, rest, n)) for n in range(order + 1)]
        value = value.diff(point)
    return [reduce(term) for term in series]


def _activate_series(model: Architecture, scores: Sequence[sp.Matrix], reduce: Reduce) -> list[sp.Matrix]:
    """Return the series of sigma(beta sum_k epsilon^k scores_k)."""
    scaled = [model.beta * term for term in scores]
    if model.activation == "softmax":
        return _softmax_series(scaled, reduce)
    return scaled if isinstance(model.activation, str) else _function_series(model.activation, scaled, reduce)


def expand(
    model: Architecture,
    order: int = 1,
    h: Sequence[sp.Matrix] | None = None,
    *,
    readouts: Readouts | None = None,
    reduce: Reduce | None = None,
) -> DepthExpansion:
    """Expand the rescaled network in 1/c, layer by layer.

    Parameters
    ----------
    model : Architecture
        Any: depth, tokens, ranks, heads, tied or not, activation, output.
    order : int
        Highest power of 1/c, >= 0.
    h : sequence of sympy.Matrix, optional
        Index matrices, one per layer. Default: symbols.
    readouts : sequence of sympy.Matrix, optional
        Readout weights of several heads. Default: symbols.
    reduce : callable, optional
        As in `rescaled_mixing`, without ``epsilon``: of numbers any order costs a few matrix products.

    Returns
    -------
    DepthExpansion
        ``order + 1`` coefficients of each quantity.

    Raises
    ------
    ValueError
        If ``order`` is negative, or the indices or readouts do not have the shapes of the model.

    References
    ----------
    troiani2025, (46)-(52) for order 1; higher orders, untied layers and several heads are an extension.
    """
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise ValueError(f"order must be >= 0, got {order}: it is the highest power of 1/c")
    matrices, mixers = checked_inputs(model, h, readouts)
    reduce = reducer(reduce, model, *matrices, *mixers)
    size = model.heads * model.tokens
    mixing = [sp.eye(size), *[sp.zeros(size, size)] * order]
    for layer in range(1, mixing_layers(model) + 1):
        # I + epsilon sigma: the activation enters one order later, so its last order is not needed.
        factor = [sp.eye(size)]
        if order > 0:
            heads = [
                _activate_series(model, scores, reduce)
                for scores in _scores(model, layer, matrices[layer - 1], mixing[:-1], reduce)
            ]
            factor += [mix_heads(model, layer, mixers, [series[k] for series in heads]) for k in range(order)]
        mixing = [reduce(term) for term in _product(factor, mixing)]
    if model.output == "sequence":
        return DepthExpansion(tuple(mixing), (), tuple(mixing))
    last = _scores(model, model.layers, matrices[-1], mixing, reduce)
    output = [_activate_series(model, scores, reduce) for scores in last]
    stack = sp.Matrix.vstack
    return DepthExpansion(
        tuple(mixing),
        tuple(stack(*[scores[k] for scores in last]) for k in range(order + 1)),
        tuple(stack(*[series[k] for series in output]) for k in range(order + 1)),
    )


def _scores(
    model: Architecture, layer: int, indices: sp.Matrix, mixing: Sequence[sp.Matrix], reduce: Reduce
) -> list[list[sp.Matrix]]:
    """Return, head by head, the series of the scores."""
    made = []
    size = model.tokens
    for head in range(1, model.heads + 1):
        key, query = projections(model, layer, head, indices)
        blocks = [term[(head - 1) * size : head * size, :] for term in mixing]
        readout = [query * block.T for block in blocks]
        made.append([reduce(term) for term in _product([block * key.T for block in blocks], readout)])
    return made


def first_order_output(
    model: Architecture, h: Sequence[sp.Matrix] | None = None, epsilon: sp.Expr = symbols.inverse_skip
) -> sp.Matrix:
    """Return ``sigma(h_L^T h_L + (1/c)[C h_L^T h_L + h_L^T h_L C^T])`` with the committee C, (52).

    The argument of the activation is the series of `expand` up to order 1, so the error is O(1/c^2).

    Raises
    ------
    ValueError
        For a sequence output, which has no last activation.
    """
    if model.output == "sequence":
        raise ValueError("(52) is about the attention matrix of the last layer; a sequence output is I + committee/c")
    scores = expand(model, order=1, h=h).scores
    size = model.tokens
    heads = [
        activate(model, (scores[0] + epsilon * scores[1])[k * size : (k + 1) * size, :]) for k in range(model.heads)
    ]
    return sp.Matrix.vstack(*heads)


def permuted(model: Architecture, order: Sequence[int]) -> tuple[tuple[sp.Matrix, ...], tuple[sp.Matrix, ...]]:
    """Return the symbolic indices and readouts with the layers before the last in another order.

    Parameters
    ----------
    model : Architecture
        Equal ranks in the layers that change places.
    order : sequence of int
        A permutation of 1 .. L - 1: which layer comes at each place.

    Returns
    -------
    tuple of tuple of sympy.Matrix
        Indices h_1 .. h_L and readouts.

    Raises
    ------
    ValueError
        If it is no permutation.
    """
    if sorted(order) != list(range(1, model.layers)):
        raise ValueError(f"order must be a permutation of 1 .. {model.layers - 1}, got {tuple(order)}")
    h, o = model.index_matrices(), model.readouts
    moved = tuple(h[k - 1] for k in order) + h[model.layers - 1 :]
    return moved, tuple(o[k - 1] for k in order) + o[model.layers - 1 :] if o else ()


def order_defect(model: Architecture, order: Sequence[int], power: int = 2) -> sp.Matrix:
    """Return what a coefficient of the last mixing matrix changes by if the layers before the last are permuted.

    Zero at power 1, for every architecture: the committee. At power 2 it is not: with the linear activation, three
    layers and K_l = beta h_l^T h_l the coefficient is ``2 K_2 K_1 + K_1 K_2`` and a swap changes it by the
    commutator K_1 K_2 - K_2 K_1.

    Parameters
    ----------
    model : Architecture
    order : sequence of int
        As in `permuted`.
    power : int
        Power of 1/c.

    Returns
    -------
    sympy.Matrix
        HM x HM, permuted minus original.
    """
    h, o = permuted(model, order)
    return expand(model, power, h, readouts=o).mixing[power] - expand(model, power).mixing[power]
