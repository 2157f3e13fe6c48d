"""Mixing functions of tied attention: from the network (2)-(3) to its link function (5)-(7).

After l layers the tokens are ``X_l = B_l(h) X_0`` with an M x M matrix B_l that depends on the data through
the indices h alone.  This module builds B_l and the link for any depth, number of tokens and ranks, and
derives the triangular structure that the softmax has at M = 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from . import symbols
from .architecture import Architecture
from .primitives import softmax_rows
from .proof import prove_equal

__all__ = [
    "PairLayer",
    "activate",
    "layer_matrix",
    "layer_matrix_of_readout",
    "link",
    "mixing_matrices",
    "pair_chain",
    "pair_layer",
    "to_modes",
]


def activate(model: Architecture, scores: sp.Matrix) -> sp.Matrix:
    """Return the activation sigma(beta * scores), row-wise softmax or the identity.

    References
    ----------
    troiani2025, (2)-(3); the inverse temperature beta is an extension (beta = 1 there).
    """
    scaled = model.beta * scores
    return softmax_rows(scaled) if model.activation == "softmax" else scaled


def _check_indices(model: Architecture, h: Sequence[sp.Matrix], count: int) -> None:
    if len(h) < count:
        raise ValueError(f"need the indices of {count} layers, got {len(h)}")
    for number, (matrix, rank) in enumerate(zip(h[:count], model.rank_vector, strict=False), start=1):
        if matrix.shape != (rank, model.tokens):
            raise ValueError(
                f"h_{number} must be {rank} x {model.tokens} (rank x tokens), got {matrix.shape[0]} x {matrix.shape[1]}"
            )


def layer_matrix_of_readout(model: Architecture, readout: sp.Matrix) -> sp.Matrix:
    """Return A = c I + sigma(readout^T readout), the matrix that one layer applies to the tokens.

    Parameters
    ----------
    model : Architecture
    readout : sympy.Matrix
        The indices seen through the earlier layers, h_l B_{l-1}^T, shape r_l x M.

    Returns
    -------
    sympy.Matrix
        Shape M x M, so that B_l = A B_{l-1}.

    References
    ----------
    troiani2025, (5).
    """
    return model.skip * sp.eye(model.tokens) + activate(model, readout.T * readout)


def layer_matrix(model: Architecture, previous: sp.Matrix, h: sp.Matrix) -> sp.Matrix:
    """Return the factor c I + sigma(B h^T h B^T) that turns B = B_{l-1} into B_l, (5)."""
    return layer_matrix_of_readout(model, h * previous.T)


def mixing_matrices(model: Architecture, h: Sequence[sp.Matrix] | None = None) -> tuple[sp.Matrix, ...]:
    """Return the mixing matrices B_0 .. B_{L-1}.

    ``B_l = [c I + sigma(B_{l-1} h_l^T h_l B_{l-1}^T)] B_{l-1}`` with B_0 = I.

    Parameters
    ----------
    model : Architecture
    h : sequence of sympy.Matrix, optional
        Index matrices h_1 .. h_{L-1} (more are ignored), matrix l of shape r_l x M. Default: the symbols of
        `model`.

    Returns
    -------
    tuple of sympy.Matrix
        L matrices of shape M x M.

    Raises
    ------
    ValueError
        If an index matrix is missing or has another shape.

    References
    ----------
    troiani2025, (4)-(5).
    """
    matrices = model.index_matrices() if h is None else tuple(h)
    _check_indices(model, matrices, model.layers - 1)
    mixing = [sp.eye(model.tokens)]
    for indices in matrices[: model.layers - 1]:
        mixing.append(layer_matrix(model, mixing[-1], indices) * mixing[-1])
    return tuple(mixing)


def link(model: Architecture, h: Sequence[sp.Matrix] | None = None) -> sp.Matrix:
    """Return the link function y = g(h) = sigma(B_{L-1} h_L^T h_L B_{L-1}^T).

    Parameters
    ----------
    model : Architecture
    h : sequence of sympy.Matrix, optional
        Index matrices h_1 .. h_L, matrix l of shape r_l x M. Default: the symbols of `model`.

    Returns
    -------
    sympy.Matrix
        The output y, shape M x M.

    Raises
    ------
    ValueError
        If an index matrix is missing or has another shape.

    References
    ----------
    troiani2025, (6)-(7).
    """
    matrices = model.index_matrices() if h is None else tuple(h)
    _check_indices(model, matrices, model.layers)
    readout = matrices[model.layers - 1] * mixing_matrices(model, matrices)[-1].T
    return activate(model, readout.T * readout)


def to_modes(matrix: sp.Matrix) -> sp.Matrix:
    """Return a 2 x 2 token matrix in the basis (e_p, e_m) = ((1, 1), (1, -1))/sqrt(2)."""
    if matrix.shape != (2, 2):
        raise ValueError(f"modes need a 2 x 2 matrix, got {matrix.shape[0]} x {matrix.shape[1]}")
    rotation = symbols.mode_rotation()
    return (rotation.T * matrix * rotation).applyfunc(sp.expand)


@dataclass(frozen=True)
class PairLayer:
    """One softmax layer at M = 2 in modes: ``[[1 + c, s], [0, c + tau]]``.

    Attributes
    ----------
    s : sympy.Expr
        sinh(w)/(cosh u + cosh w) = y_11 - y_22, in (-1, 1).
    tau : sympy.Expr
        sinh(u)/(cosh u + cosh w) = y_11 + y_22 - 1, in [0, 1).
    u, w : sympy.Expr
        beta v_m^2 >= 0 and beta v_p v_m.
    skip : sympy.Expr
        c.
    """

    s: sp.Expr
    tau: sp.Expr
    u: sp.Expr
    w: sp.Expr
    skip: sp.Expr

    @property
    def matrix(self) -> sp.Matrix:
        """The layer matrix, rows and columns in the order (plus, minus)."""
        return sp.Matrix([[1 + self.skip, self.s], [0, self.skip + self.tau]])


def pair_layer(model: Architecture, plus: sp.Expr, minus: sp.Expr) -> PairLayer:
    """Derive and prove the triangular form of one softmax layer at M = 2.

    The all-ones vector is an eigenvector of a row-stochastic matrix, so the first column is (1 + c, 0); the
    rest follows from y_11 = expit(u + w), y_22 = expit(u - w).

    Parameters
    ----------
    model : Architecture
        M = 2, softmax.
    plus, minus : sympy.Expr
        Modes of the readout row v = h_l B_{l-1}^T (rank 1).

    Returns
    -------
    PairLayer

    Raises
    ------
    ValueError
        If the model is not softmax at M = 2.
    ProofError
        If the identity does not reduce to zero.

    References
    ----------
    troiani2025, (5) and (176); the triangular form is derived here.
    """
    if model.tokens != 2 or model.activation != "softmax":
        raise ValueError(f"the triangular form needs softmax and 2 tokens, got {model.activation} and {model.tokens}")
    u, w = model.beta * minus**2, model.beta * plus * minus
    weight = sp.cosh(u) + sp.cosh(w)
    layer = PairLayer(s=sp.sinh(w) / weight, tau=sp.sinh(u) / weight, u=u, w=w, skip=model.skip)
    direct = to_modes(layer_matrix_of_readout(model, symbols.token_pair(plus, minus)))
    prove_equal(direct, layer.matrix, "triangular form of a softmax layer at M = 2")
    return layer


def pair_chain(skip: sp.Expr, s: Sequence[sp.Expr], tau: Sequence[sp.Expr]) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Return (K, S, T) of the mixing matrix B_l = [[K, S], [0, T]] of l softmax layers at M = 2.

    ``K = (1 + c)^l``, ``S_l = (1 + c) S_{l-1} + s_l T_{l-1}``, ``T_l = (c + tau_l) T_{l-1}``, so that
    ``det B_l = K T``.

    Parameters
    ----------
    skip : sympy.Expr
        c.
    s, tau : sequences of sympy.Expr
        One entry per layer, first layer first, as in `PairLayer`; equal lengths, which may be zero.

    Returns
    -------
    tuple of sympy.Expr
        K, S, T.

    References
    ----------
    troiani2025, (5); derived.
    """
    if len(s) != len(tau):
        raise ValueError(f"s and tau need one entry per layer each, got {len(s)} and {len(tau)}")
    k, upper, lower = sp.S.One, sp.S.Zero, sp.S.One
    for s_l, tau_l in zip(s, tau, strict=True):
        k, upper, lower = (1 + skip) * k, (1 + skip) * upper + s_l * lower, (skip + tau_l) * lower
    return k, upper, lower
