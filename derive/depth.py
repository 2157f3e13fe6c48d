"""Expansion of deep attention in the inverse strength of the skip connection.

Rescaling every layer by 1/c turns (5) into ``B_l = [I + (1/c) sigma(B_{l-1} h_l^T h_l B_{l-1}^T)] B_{l-1}``; the
factor c^{2(l-1)} goes into the argument of the activation.  The same for keys and queries, and for H heads, where
B_l is a matrix of H x H blocks and ``X^(a) <- X^(a) + (1/c) sum_b o_ab S^b X^b``.  Everything below is the power
series of this recursion in epsilon = 1/c, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy as sp

from . import symbols
from .architecture import Architecture
from .primitives import elementary, softmax_rows

__all__ = [
    "DepthExpansion",
    "committee",
    "expand",
    "first_order_output",
    "order_defect",
    "permuted",
    "rescaled_link",
    "rescaled_mixing",
]

Reduce = Callable[[sp.Matrix], sp.Matrix]
Readouts = Sequence[sp.Matrix]


# Of numbers that are no rationals.
_DIGITS = 50


def _keep(matrix: sp.Matrix) -> sp.Matrix:
    return matrix


def _evaluate(matrix: sp.Matrix) -> sp.Matrix:
    return matrix.applyfunc(lambda x: x if x.is_Rational else elementary(x).evalf(_DIGITS))


def _reducer(reduce: Reduce | None, model: Architecture, *given: sp.Matrix) -> Reduce:
    """Return what is applied to every matrix: the caller's function, or one that fits what is given.

    Nested exponentials of numbers grow without end unless they are evaluated as they are made.
    """
    if reduce is not None:
        # What evaluates SymPy's functions need not know own nodes.
        return lambda matrix: reduce(elementary(matrix))
    numeric = model.beta.is_number and not any(matrix.free_symbols for matrix in given)
    return _evaluate if numeric and model.activation != "linear" else _keep


def _activate(model: Architecture, scores: sp.Matrix) -> sp.Matrix:
    """Return sigma(beta * scores): row-wise softmax, the identity, or a function of each entry."""
    scaled = model.beta * scores
    if model.activation == "softmax":
        return softmax_rows(scaled)
    return scaled if isinstance(model.activation, str) else scaled.applyfunc(model.activation)


def _inputs(
    model: Architecture, h: Sequence[sp.Matrix] | None, readouts: Readouts | None
) -> tuple[tuple[sp.Matrix, ...], tuple[sp.Matrix, ...]]:
    matrices = model.index_matrices() if h is None else tuple(h)
    mixers = model.readouts if readouts is None else tuple(readouts)
    shapes = [matrix.shape for matrix in model.index_matrices()]
    if [matrix.shape for matrix in matrices] != shapes:
        raise ValueError(f"h needs one matrix per layer of shapes {shapes}, (7), got {[m.shape for m in matrices]}")
    if [matrix.shape for matrix in mixers] != [matrix.shape for matrix in model.readouts]:
        raise ValueError(
            f"readouts need {len(model.readouts)} matrices, {model.heads} x {model.heads}, (29)-(30), "
            f"got {[matrix.shape for matrix in mixers]}"
        )
    return matrices, mixers


def _projections(model: Architecture, layer: int, head: int, indices: sp.Matrix) -> tuple[sp.Matrix, sp.Matrix]:
    """Return the key and query indices of one head, each r x HM: block b is what the weights make of block b of x."""
    own = [block for block in model.index_blocks if block.layer == layer]
    start = own[0].start

    def row(role: str) -> sp.Matrix:
        parts = [b for b in own if b.head == head and b.role == role]
        return sp.Matrix.hstack(*[indices[b.start - start : b.start - start + b.rank, :] for b in parts])

    return (row("h"), row("h")) if model.tied else (row("k"), row("q"))


def _mix(model: Architecture, layer: int, readouts: Sequence[sp.Matrix], attention: Sequence[sp.Matrix]) -> sp.Matrix:
    """Return the HM x HM matrix of blocks o_ab S^b that the layer adds to the identity, times 1/c."""
    if model.heads == 1:
        return attention[0]
    o = readouts[layer - 1]
    rows = [[o[a, b] * attention[b] for b in range(model.heads)] for a in range(model.heads)]
    return sp.Matrix(sp.BlockMatrix(rows).as_explicit())


def _mixing_layers(model: Architecture) -> int:
    return model.layers if model.output == "sequence" else model.layers - 1


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
    matrices, mixers = _inputs(model, h, readouts)
    reduce = _reducer(reduce, model, *matrices, *mixers, sp.Matrix([epsilon]))
    mixing = [sp.eye(model.heads * model.tokens)]
    for layer in range(1, _mixing_layers(model) + 1):
        attention = _attention(model, layer, matrices[layer - 1], mixing[-1], reduce)
        added = _mix(model, layer, mixers, attention)
        mixing.append(reduce(mixing[-1] + epsilon * added * mixing[-1]))
    return tuple(mixing)


def _attention(
    model: Architecture, layer: int, indices: sp.Matrix, mixing: sp.Matrix, reduce: Reduce
) -> list[sp.Matrix]:
    made = []
    size = model.tokens
    for head in range(1, model.heads + 1):
        block = mixing[(head - 1) * size : head * size, :]
        key, query = (part * block.T for part in _projections(model, layer, head, indices))
        made.append(reduce(_activate(model, reduce(key.T * query))))
    return made


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
    matrices, mixers = _inputs(model, h, readouts)
    reduce = _reducer(reduce, model, *matrices, *mixers, sp.Matrix([epsilon]))
    mixing = rescaled_mixing(model, h, epsilon, readouts=readouts, reduce=reduce)[-1]
    if model.output == "sequence":
        return mixing
    return sp.Matrix.vstack(*_attention(model, model.layers, matrices[-1], mixing, reduce))


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
    matrices, mixers = _inputs(model, h, readouts)
    reduce = _reducer(reduce, model, *matrices, *mixers)
    size = model.heads * model.tokens
    mixing = [sp.eye(size), *[sp.zeros(size, size)] * order]
    for layer in range(1, _mixing_layers(model) + 1):
        # I + epsilon sigma: the activation enters one order later, so its last order is not needed.
        factor = [sp.eye(size)]
        if order > 0:
            heads = [
                _activate_series(model, scores, reduce)
                for scores in _scores(model, layer, matrices[layer - 1], mixing[:-1], reduce)
            ]
            factor += [_mix(model, layer, mixers, [series[k] for series in heads]) for k in range(order)]
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
        key, query = _projections(model, layer, head, indices)
        blocks = [term[(head - 1) * size : head * size, :] for term in mixing]
        readout = [query * block.T for block in blocks]
        made.append([reduce(term) for term in _product([block * key.T for block in blocks], readout)])
    return made


def committee(model: Architecture, h: Sequence[sp.Matrix] | None = None, readouts: Readouts | None = None) -> sp.Matrix:
    """Return the closed form (51) of the first order of the last mixing matrix.

    ``sum_l sigma(h_l^T h_l)`` over the layers that mix; with keys and queries ``sum_l sigma(k_l^T q_l)``; for H heads
    the matrix of blocks ``sum_l o_ab^l sigma(k_l^{bT} q_l^b)`` with the indices of head b on its own block. Layer l
    enters through its own indices and readouts alone, so the sum is symmetric under any permutation of the layers.
    """
    matrices, mixers = _inputs(model, h, readouts)
    size = model.heads * model.tokens
    total = sp.zeros(size, size)
    for layer in range(1, _mixing_layers(model) + 1):
        attention = _attention(model, layer, matrices[layer - 1], sp.eye(size), _keep)
        total += _mix(model, layer, mixers, attention)
    return total


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
        _activate(model, (scores[0] + epsilon * scores[1])[k * size : (k + 1) * size, :]) for k in range(model.heads)
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
