"""The triangular structure of softmax layers at two tokens, in the modes (1, 1) and (1, -1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from . import symbols
from .architecture import Architecture
from .mixing import layer_matrix_of_readout
from .proof import prove_equal

__all__ = ["PairLayer", "layer_of_scores", "pair_chain", "pair_layer", "to_modes"]


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
        beta v_m^2 >= 0 and beta v_p v_m; with keys and queries beta k_m.q_m and beta k_p.q_m.
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


def layer_of_scores(skip: sp.Expr, u: sp.Expr, w: sp.Expr) -> PairLayer:
    """Return the layer with y_11 = expit(u + w) and y_22 = expit(u - w)."""
    weight = sp.cosh(u) + sp.cosh(w)
    return PairLayer(s=sp.sinh(w) / weight, tau=sp.sinh(u) / weight, u=u, w=w, skip=skip)


def pair_layer(model: Architecture, plus: sp.Expr, minus: sp.Expr) -> PairLayer:
    """Derive and prove the triangular form of one softmax layer at M = 2.

    The all-ones vector is an eigenvector of a row-stochastic matrix, so the first column is (1 + c, 0); the
    rest follows from y_11 = expit(u + w), y_22 = expit(u - w).

    Parameters
    ----------
    model : Architecture
        M = 2, softmax, tied, one head.
    plus, minus : sympy.Expr
        Modes of the readout row v = h_l B_{l-1}^T (rank 1).

    Raises
    ------
    ValueError
        If the model is not softmax at M = 2, tied and with one head.
    ProofError
        If the identity does not reduce to zero.

    References
    ----------
    troiani2025, (5) and (176); the triangular form is derived here.
    """
    if model.tokens != 2 or model.activation != "softmax":
        raise ValueError(
            f"the triangular form needs softmax and 2 tokens, got {model.activation_name} and {model.tokens}"
        )
    layer = layer_of_scores(model.skip, model.beta * minus**2, model.beta * plus * minus)
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
