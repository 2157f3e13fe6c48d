"""The linear operator of weak recovery (15), and its diagonal form for tied layers (184)-(185)."""

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from ..architecture import Architecture
from ..channel import ReducedChannel, reduced_channel
from ..denoiser import denoiser_from_moments
from ..proof import prove_equal


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


def _check_single(model: Architecture, what: str) -> None:
    if not model.single:
        raise ValueError(
            f"{what} needs the model of (2)-(7): tied, one head, output 'last'; got tied={model.tied}, "
            f"heads={model.heads}, output={model.output!r}. Use operator_matrix of a link's level sets for others"
        )


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
        If there is no such layer, or the model is not that of (2)-(7).
    """
    _check_single(model, "the parity of a layer")
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
        If a rank is larger than 1, or the model is not that of (2)-(7).
    ProofError
        If parity or the entrywise form fails.

    References
    ----------
    troiani2025, (184)-(185).
    """
    _check_single(model, "the diagonal form (184)-(185)")
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

    Raises
    ------
    ValueError
        If there is no such layer, a rank is larger than 1, or the model is not that of (2)-(7).

    References
    ----------
    troiani2025, (184)-(185).
    """
    _check_single(model, "a layer's multiplier (184)-(185)")
    if not 1 <= layer <= model.layers:
        raise ValueError(f"layer must be 1 .. {model.layers}, got {layer}")
    if set(model.rank_vector) != {1}:
        raise ValueError(f"the terms need rank 1 in every layer, got ranks {model.rank_vector}")
    channel = reduced_channel(model).at(sp.zeros(model.indices, model.tokens), sp.eye(model.indices))
    row = channel.h[layer - 1, :]
    return LayerTerm(channel, row.T * row - sp.eye(model.tokens))
