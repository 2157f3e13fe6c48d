"""Mixing functions of deep attention: from the network (2)-(3) to its link function, for every architecture.

After l layers the tokens are ``X_l = B_l(h) X_0`` with a matrix B_l that depends on the data through the
indices h alone: M x M for one head, and H x H blocks of M x M for H heads, where block (a, b) says how the
coordinates of block a depend on those of block b.  This module builds B_l and the link for any depth, number of
tokens, ranks and heads.
"""

from collections.abc import Sequence

import sympy as sp

from .architecture import Architecture
from .primitives import softmax_rows

__all__ = [
    "activate",
    "activate_score",
    "added_blocks",
    "attention_matrices",
    "layer_matrix",
    "layer_matrix_of_readout",
    "link",
    "mix",
    "mixing_matrices",
    "score_matrices",
]


def activate(model: Architecture, scores: sp.Matrix) -> sp.Matrix:
    """Return the activation sigma(beta * scores): row-wise softmax, the identity, or the model's own function.

    Raises
    ------
    ValueError
        If the model's own function does not turn an expression into an expression.

    References
    ----------
    troiani2025, (2)-(3); the inverse temperature beta is an extension (beta = 1 there).
    """
    scaled = model.beta * scores
    if model.activation == "softmax":
        return softmax_rows(scaled)
    if model.activation == "linear":
        return scaled
    return scaled.applyfunc(lambda score: activate_score(model, score))


def activate_score(model: Architecture, score: sp.Expr) -> sp.Expr:
    """Return the model's own activation, which acts entry by entry, of beta times one score.

    Raises
    ------
    ValueError
        If the activation is the softmax, or no function from expressions to exact expressions.
    """
    if model.activation == "linear":
        return score
    if not callable(model.activation):
        raise ValueError("the softmax acts on rows of scores (3), not on one")
    try:
        value = sp.sympify(model.activation(score))
    except (TypeError, ValueError, AttributeError, sp.SympifyError) as error:
        raise ValueError(
            f"activation {model.activation_name} must take one SymPy expression and return one (3); it failed with "
            f"{type(error).__name__}: {error}; write it with SymPy functions, for example sympy.tanh"
        ) from error
    if not isinstance(value, sp.Expr):
        raise ValueError(f"activation {model.activation_name} must return an expression, got {type(value).__name__}")
    if value.has(sp.nan, sp.zoo, sp.oo) or (value.has(sp.Float) and not score.has(sp.Float)):
        raise ValueError(f"activation {model.activation_name} must be exact and finite (no floats), got {value}")
    return value


def _rows(model: Architecture, layer: int) -> int:
    return sum(block.rank for block in model.index_blocks if block.layer == layer)


def _check_indices(model: Architecture, h: Sequence[sp.Matrix], count: int) -> None:
    if len(h) < count:
        raise ValueError(f"need the indices of {count} layers, got {len(h)}")
    what = "rank" if model.tied and model.heads == 1 else "all index rows of the layer"
    for number, matrix in enumerate(h[:count], start=1):
        rows = _rows(model, number)
        if matrix.shape != (rows, model.tokens):
            got = f"{matrix.shape[0]} x {matrix.shape[1]}"
            raise ValueError(f"h_{number} must be {rows} x {model.tokens} ({what} x tokens), got {got}")


def _check_readouts(model: Architecture, readouts: Sequence[sp.Matrix] | None) -> tuple[sp.Matrix, ...]:
    if readouts is None:
        return model.readouts
    wanted = model.readouts
    if len(readouts) != len(wanted):
        raise ValueError(f"readouts must be {len(wanted)} matrices o (30) for {model.name}, got {len(readouts)}")
    for number, matrix in enumerate(readouts, start=1):
        if matrix.shape != (model.heads, model.heads):
            raise ValueError(
                f"o of layer {number} must be {model.heads} x {model.heads} (heads x heads), "
                f"got {matrix.shape[0]} x {matrix.shape[1]}"
            )
    return tuple(readouts)


def _check_one_tied_head(model: Architecture, what: str) -> None:
    if not model.tied or model.heads != 1:
        raise ValueError(f"{what} is that of tied attention with one head (5), got {model.name}")


def score_matrices(model: Architecture, layer: int, mixing: sp.Matrix, indices: sp.Matrix) -> tuple[sp.Matrix, ...]:
    """Return the scores ``K_a^T Q_a`` of one layer, one matrix per head.

    The keys ``K_a = sum_b k^(a,b) B^{(ab)T}`` of head a meet every block b; the queries Q_a likewise, and Q_a = K_a
    if tied.

    Parameters
    ----------
    model : Architecture
    layer : int
        Number of the layer, from 1.
    mixing : sympy.Matrix
        B_{l-1}, HM x HM.
    indices : sympy.Matrix
        All index rows of the layer, in the order of `Architecture.index_blocks`.

    Returns
    -------
    tuple of sympy.Matrix
        H matrices of shape M x M.

    References
    ----------
    troiani2025, (5)-(6), (23), (44).
    """
    tokens, offset = model.tokens, min(b.start for b in model.index_blocks if b.layer == layer)
    scores = []
    for head in range(1, model.heads + 1):
        rows = mixing[(head - 1) * tokens : head * tokens, :]
        seen: dict[str, sp.Matrix] = {}
        for block in model.index_blocks:
            if (block.layer, block.head) == (layer, head):
                start = block.start - offset
                weights = indices[start : start + block.rank, :]
                part = weights * rows[:, (block.block - 1) * tokens : block.block * tokens].T
                seen[block.role] = seen[block.role] + part if block.role in seen else part
        keys, queries = (seen["h"], seen["h"]) if model.tied else (seen["k"], seen["q"])
        scores.append(keys.T * queries)
    return tuple(scores)


def attention_matrices(model: Architecture, layer: int, mixing: sp.Matrix, indices: sp.Matrix) -> tuple[sp.Matrix, ...]:
    """Return the attention matrices ``S^(a) = sigma(beta K_a^T Q_a)`` of one layer, from `score_matrices`."""
    return tuple(activate(model, scores) for scores in score_matrices(model, layer, mixing, indices))


def mix(
    model: Architecture, mixing: sp.Matrix, attentions: Sequence[sp.Matrix], readout: sp.Matrix | None = None
) -> sp.Matrix:
    """Return B_l of B_{l-1} and the attention matrices of layer l.

    ``B_l = (c I + S) B_{l-1}`` for one head; ``B_l^{(ab)} = c B_{l-1}^{(ab)} + sum_e o_ae S^(e) B_{l-1}^{(eb)}`` for
    more, with the readout weights o of the layer (H x H).

    References
    ----------
    troiani2025, (5), (30)-(32).
    """
    added = added_blocks(model, attentions, readout)
    return (model.skip * sp.eye(model.heads * model.tokens) + added) * mixing


def added_blocks(model: Architecture, attentions: Sequence[sp.Matrix], readout: sp.Matrix | None = None) -> sp.Matrix:
    """Return what a layer adds to c I: S for one head, the blocks o_ab S^(b), HM x HM, for more, (30)."""
    if model.heads == 1:
        return attentions[0]
    if readout is None:
        raise ValueError("a layer of more than one head needs its readout weights o (30)")
    grid = [[readout[a, b] * attentions[b] for b in range(model.heads)] for a in range(model.heads)]
    return sp.Matrix(sp.BlockMatrix(grid))


def layer_matrix_of_readout(model: Architecture, readout: sp.Matrix) -> sp.Matrix:
    """Return A = c I + sigma(readout^T readout), the matrix that one layer applies to the tokens.

    Parameters
    ----------
    model : Architecture
        Tied, one head.
    readout : sympy.Matrix
        The indices seen through the earlier layers, h_l B_{l-1}^T, shape r_l x M.

    Returns
    -------
    sympy.Matrix
        Shape M x M, so that B_l = A B_{l-1}.

    Raises
    ------
    ValueError
        If the model is untied or has more than one head.

    References
    ----------
    troiani2025, (5).
    """
    _check_one_tied_head(model, "the layer matrix of one readout")
    return model.skip * sp.eye(model.tokens) + activate(model, readout.T * readout)


def layer_matrix(model: Architecture, previous: sp.Matrix, h: sp.Matrix) -> sp.Matrix:
    """Return the factor c I + sigma(B h^T h B^T) that turns B = B_{l-1} into B_l, (5); tied, one head."""
    return layer_matrix_of_readout(model, h * previous.T)


def mixing_matrices(
    model: Architecture,
    h: Sequence[sp.Matrix] | None = None,
    readouts: Sequence[sp.Matrix] | None = None,
) -> tuple[sp.Matrix, ...]:
    """Return the mixing matrices B_0 .. B_{L-1}, and B_L too where the sequence is the output.

    ``B_l = [c I + sigma(beta K_l^T Q_l)] B_{l-1}`` with ``K_l = k_l B_{l-1}^T``, ``Q_l = q_l B_{l-1}^T``, B_0 = I, and
    k_l = q_l = h_l if tied; with several heads see `attention_matrices` and `mix`.

    Parameters
    ----------
    model : Architecture
    h : sequence of sympy.Matrix, optional
        Index matrices of the layers (more than needed are ignored), matrix l with all rows of layer l in the order
        of `Architecture.index_blocks`: r_l x M if tied with one head. Default: the symbols of `model`.
    readouts : sequence of sympy.Matrix, optional
        Readout weights o of the layers that mix heads, H x H each, as `Architecture.readouts`, the default.

    Returns
    -------
    tuple of sympy.Matrix
        L matrices of shape HM x HM, or L + 1 for a sequence output.

    Raises
    ------
    ValueError
        If an index or readout matrix is missing or has another shape.

    References
    ----------
    troiani2025, (4)-(5), (21)-(22), (25), (31)-(32).
    """
    count = model.layers if model.output == "sequence" else model.layers - 1
    matrices = model.index_matrices() if h is None else tuple(h)
    _check_indices(model, matrices, count)
    weights = _check_readouts(model, readouts)
    mixing = [sp.eye(model.heads * model.tokens)]
    for layer in range(1, count + 1):
        attentions = attention_matrices(model, layer, mixing[-1], matrices[layer - 1])
        mixing.append(mix(model, mixing[-1], attentions, weights[layer - 1] if weights else None))
    return tuple(mixing)


def link(
    model: Architecture,
    h: Sequence[sp.Matrix] | None = None,
    readouts: Sequence[sp.Matrix] | None = None,
) -> sp.Matrix:
    """Return the link function y = g(h).

    The attention matrix of the last layer, ``y = sigma(beta B_{L-1} k_L^T q_L B_{L-1}^T)``; that of every head, one
    below the other, if there are several; B_L itself for a sequence output.

    Parameters
    ----------
    model : Architecture
    h : sequence of sympy.Matrix, optional
        Index matrices of the L layers, matrix l with all rows of layer l in the order of
        `Architecture.index_blocks`: r_l x M if tied with one head. Default: the symbols of `model`.
    readouts : sequence of sympy.Matrix, optional
        Readout weights o, known constants of the link; default the symbols of `model`.

    Returns
    -------
    sympy.Matrix
        The output y: M x M for one head, HM x M for H heads, HM x HM for a sequence output.

    Raises
    ------
    ValueError
        If an index or readout matrix is missing or has another shape.

    References
    ----------
    troiani2025, (6)-(7), (23)-(26), (44)-(45).
    """
    matrices = model.index_matrices() if h is None else tuple(h)
    _check_indices(model, matrices, model.layers)
    mixing = mixing_matrices(model, matrices, readouts)
    if model.output == "sequence":
        return mixing[-1]
    return sp.Matrix.vstack(*attention_matrices(model, model.layers, mixing[-1], matrices[model.layers - 1]))
