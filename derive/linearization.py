"""The linear operator of weak recovery, its diagonal form for tied layers, and the exact one-layer threshold.

Near zero overlap the state evolution of an even model is linear: q -> alpha F(q) with the operator F of (15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from . import symbols
from .architecture import ACTIVATIONS, Architecture
from .channel import ReducedChannel, denoiser_from_moments, reduced_channel
from .proof import prove_equal

__all__ = [
    "LayerTerm",
    "apply_operator",
    "curvature_blocks",
    "layer_multipliers",
    "layer_term",
    "prove_parity",
    "single_layer_eigenvalue",
    "single_layer_threshold",
]


def curvature_blocks(second_moment: sp.Matrix, indices: int, tokens: int) -> list[list[sp.Matrix]]:
    """Return the P x P blocks G_{mm'} of d g_out(y, 0, I) = E[h h^T|y] - I.

    Parameters
    ----------
    second_moment : sympy.Matrix
        E[h h^T|y] of the stacked indices, PM x PM, token by token.
    indices, tokens : int
        P and M.

    Returns
    -------
    list of list of sympy.Matrix
        Entry [m][m'] of shape P x P.

    References
    ----------
    troiani2025, (12), (15).
    """
    zero = sp.zeros(indices, tokens)
    full = denoiser_from_moments(zero, second_moment, zero, sp.eye(indices)).d_g_out
    return [
        [full[m * indices : (m + 1) * indices, n * indices : (n + 1) * indices] for n in range(tokens)]
        for m in range(tokens)
    ]


def apply_operator(blocks: Sequence[Sequence[sp.Matrix]], overlap: sp.Matrix) -> sp.Matrix:
    """Return ``sum_{mm'} G_{mm'} M G_{mm'}^T`` for one output y; the operator (15) is its mean over y.

    Parameters
    ----------
    blocks : M x M nested sequence of sympy.Matrix
        G_{mm'}, each P x P, as `curvature_blocks` returns them.
    overlap : sympy.Matrix
        Direction M, symmetric P x P.

    Returns
    -------
    sympy.Matrix
        Shape P x P.

    References
    ----------
    troiani2025, (15).
    """
    total = sp.zeros(*overlap.shape)
    for row in blocks:
        for block in row:
            total += block * overlap * block.T
    return total


def prove_parity(model: Architecture, layer: int) -> None:
    """Prove that the link does not change when the indices of one tied layer change sign.

    The scores (5)-(6) of layer l are ``B_{l-1} (h_l^T h_l) B_{l-1}^T``, and h_l enters nowhere else. It
    follows that under N(0, I) the posterior has E[h_l h_{l'}^T|y] = 0 for l != l', hence that all blocks
    G_{mm'} are block-diagonal in the layers, (184).

    Parameters
    ----------
    model : Architecture
    layer : int
        Layer whose indices are reflected, 1 .. L.

    Raises
    ------
    ProofError
        If the scores are not a function of h_l^T h_l.
    ValueError
        If there is no such layer.
    """
    if not 1 <= layer <= model.layers:
        raise ValueError(f"layer must be 1 .. {model.layers}, got {layer}")
    h = model.index_matrices()[layer - 1]
    size = model.tokens
    # The earlier layers' matrix does not depend on h_l, so a generic one stands for it.
    earlier = sp.Matrix(size, size, lambda i, j: sp.Symbol(f"B_{i + 1}_{j + 1}", real=True))
    readout = h * earlier.T
    prove_equal(
        readout.T * readout,
        earlier * (h.T * h) * earlier.T,
        f"scores of layer {layer} as a function of h_l^T h_l",
    )
    prove_equal((-h).T * (-h), h.T * h, f"evenness of layer {layer}")


def layer_multipliers(model: Architecture) -> sp.Matrix:
    """Derive how the operator acts on rank-1 layers: entry by entry, ``F(M)_{ll'} = Lambda_{ll'} M_{ll'}``.

    By parity G_{mm'} = diag_l(G^l_{mm'}), so that Lambda_{ll'} = E sum_{mm'} G^l_{mm'} G^{l'}_{mm'}.  The
    largest multiplier lies on the diagonal (Cauchy-Schwarz): alpha_c = 1/max_l Lambda_ll.

    Parameters
    ----------
    model : Architecture
        All ranks 1.

    Returns
    -------
    sympy.Matrix
        L x L; the multipliers before the mean over y, in the symbols ``G<l>_<m>_<m'>``.

    Raises
    ------
    ValueError
        If a rank is larger than 1.
    ProofError
        If parity or the entrywise form fails.

    References
    ----------
    troiani2025, (184)-(185).
    """
    if set(model.rank_vector) != {1}:
        raise ValueError(f"entrywise multipliers need rank 1 in every layer, got ranks {model.rank_vector}")
    for layer in range(1, model.layers + 1):
        prove_parity(model, layer)
    size, tokens = model.layers, model.tokens

    def entry(layer: int, m: int, n: int) -> sp.Symbol:
        # G^l is symmetric in the tokens.
        return sp.Symbol(f"G{layer + 1}_{min(m, n) + 1}_{max(m, n) + 1}", real=True)

    blocks = [[sp.diag(*[entry(layer, m, n) for layer in range(size)]) for n in range(tokens)] for m in range(tokens)]
    overlap = sp.Matrix(size, size, lambda i, j: sp.Symbol(f"M_{min(i, j) + 1}_{max(i, j) + 1}", real=True))
    multipliers = sp.Matrix(
        size,
        size,
        lambda i, j: sp.Add(*[entry(i, m, n) * entry(j, m, n) for m in range(tokens) for n in range(tokens)]),
    )
    wanted = multipliers.multiply_elementwise(overlap)
    prove_equal(apply_operator(blocks, overlap), wanted, "operator of tied layers, (185)")
    return multipliers


@dataclass(frozen=True)
class LayerTerm:
    """Integrands of one layer's multiplier ``E_y ||E[h_l h_l^T|y] - I||_F^2`` at omega = 0, V = I.

    Attributes
    ----------
    channel : ReducedChannel
        With omega = 0 and V = I; its ``log_integrand`` weighs everything.
    quadratic : sympy.Matrix
        M x M matrix h_l^T h_l - I (averaged over the rank): its posterior mean is the token matrix G^l.
    """

    channel: ReducedChannel
    quadratic: sp.Matrix


def layer_term(model: Architecture, layer: int) -> LayerTerm:
    """Return the integrands of (184)-(185) for one rank-1 layer of a model.

    Parameters
    ----------
    model : Architecture
        Rank 1 in every layer.
    layer : int
        1 .. L.

    Returns
    -------
    LayerTerm

    Raises
    ------
    ValueError
        If there is no such layer or a rank is larger than 1.

    References
    ----------
    troiani2025, (184)-(185).
    """
    if not 1 <= layer <= model.layers:
        raise ValueError(f"layer must be 1 .. {model.layers}, got {layer}")
    if set(model.rank_vector) != {1}:
        raise ValueError(f"the terms need rank 1 in every layer, got ranks {model.rank_vector}")
    channel = reduced_channel(model).at(sp.zeros(model.indices, model.tokens), sp.eye(model.indices))
    row = channel.h[layer - 1, :]
    return LayerTerm(channel, row.T * row - sp.eye(model.tokens))


def _moment(polynomial: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return the mean of a polynomial over independent standard normal variables, by integration."""
    value = sp.expand(polynomial)
    for variable in variables:
        weight = sp.exp(-(variable**2) / 2) / sp.sqrt(2 * sp.pi)
        powers = sp.Poly(value, variable).all_terms()
        value = sp.expand(
            sp.Add(
                *[c * sp.integrate(variable ** k[0] * weight, (variable, -sp.oo, sp.oo)) for k, c in powers if c != 0]
            )
        )
    return value


def single_layer_eigenvalue(
    tokens: int | sp.Expr = symbols.tokens, rank: int | sp.Expr = 1, activation: str = "softmax"
) -> sp.Expr:
    """Derive the top eigenvalue of the operator (15) for one tied layer, ``M (M + 1)/r``.

    The output fixes the token matrix K = h^T h, and a Haar rotation of h leaves K alone, so
    E[h_m h_{m'}^T|y] = (K_{mm'}/r) I and G_{mm'} = (K_{mm'}/r - delta_{mm'}) I.  The operator is a multiple
    of the identity, ``sum_{mm'} E (K_{mm'}/r - delta_{mm'})^2``: M diagonal and M (M - 1) other terms,
    whose means are those of a sum of r independent products.

    Parameters
    ----------
    tokens : int or sympy.Expr
        M >= 2; a symbol gives the formula.
    rank : int or sympy.Expr
        r >= 1.
    activation : {"softmax", "linear"}
        With softmax and r >= M the output leaves a multiple of the all-ones matrix free in K.

    Returns
    -------
    sympy.Expr

    Raises
    ------
    ValueError
        For numbers outside the domain.

    References
    ----------
    troiani2025, (15)-(16); the value is derived here.
    """
    number_of_tokens, r = sp.sympify(tokens), sp.sympify(rank)
    _check_single_layer(number_of_tokens, r, activation)
    first, second = sp.symbols("z_1 z_2", real=True)
    # Mean and variance of the two kinds of product, summed over r independent rows.
    square_mean = _moment(first**2, [first])
    square_variance = _moment(first**4, [first]) - square_mean**2
    product_mean = _moment(first * second, [first, second])
    product_variance = _moment(first**2 * second**2, [first, second]) - product_mean**2
    diagonal = r * square_variance / r**2 + (r * square_mean / r - 1) ** 2
    other = r * product_variance / r**2 + (r * product_mean / r) ** 2
    return sp.factor(number_of_tokens * diagonal + number_of_tokens * (number_of_tokens - 1) * other)


def _check_single_layer(tokens: sp.Expr, rank: sp.Expr, activation: str) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    for name, value, least in (("tokens", tokens, 2), ("rank", rank, 1)):
        if value.is_number and not (value.is_Integer and int(value) >= least):
            raise ValueError(f"{name} must be an integer >= {least}, got {value}")
    if activation == "softmax" and tokens.is_number and rank.is_number and rank >= tokens:
        raise ValueError(
            f"with softmax and rank {rank} >= tokens {tokens} the output does not fix h^T h: no closed form here"
        )


def single_layer_threshold(
    tokens: int | sp.Expr = symbols.tokens, rank: int | sp.Expr = 1, activation: str = "softmax"
) -> sp.Expr:
    """Return the weak-recovery threshold of one tied layer, ``r/(M (M + 1))``, exactly.

    Parameters
    ----------
    tokens : int or sympy.Expr
        M >= 2.
    rank : int or sympy.Expr
        r >= 1; r < M for softmax.
    activation : {"softmax", "linear"}

    Returns
    -------
    sympy.Rational or sympy.Expr
        A Rational for integers, the formula for symbols.

    Raises
    ------
    ValueError
        For numbers outside the domain.

    References
    ----------
    troiani2025, (16).

    Examples
    --------
    >>> single_layer_threshold(2)
    1/6
    """
    return 1 / single_layer_eigenvalue(tokens, rank, activation)
