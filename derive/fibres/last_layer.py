"""The fibre of the last layer of a model, for any rank, tied or untied, and its dimension."""

from collections.abc import Callable, Sequence

import sympy as sp

from .. import symbols
from ..architecture import Architecture
from .level_set import Fibre, Observed
from .tied import tied_fibre
from .untied import untied_fibre


def _check(model: Architecture) -> None:
    if model.heads != 1:
        raise ValueError(
            f"fibres are derived for one head, got {model.heads} heads: each head's output is the product of a sum "
            "over blocks of coordinates, (40)-(45); use a model with heads=1"
        )
    if model.output != "last":
        raise ValueError(
            "fibres are those of the attention matrix of the last layer, got output 'sequence'; see "
            "derive.sequence_inversion"
        )


def fibre_dimension(model: Architecture) -> int:
    """Return how many continuous variables the output leaves free in the last layer's readout.

    Tied, with m = min(r, M) (linear) or min(r, M - 1) (softmax): ``r M - m (m + 1)/2 - m (M - m)``.  Untied, with N = M
    or M - 1 columns and m = min(r, N): ``2 r M - m (M + N - m)``; for rank 1 that is one scale if linear, the scale and
    the common shift of q if softmax.

    Raises
    ------
    ValueError
        For several heads or a sequence output.

    References
    ----------
    troiani2025, (6), (23); derived.
    """
    _check(model)
    rank, tokens = model.rank_vector[-1], model.tokens
    columns = tokens - 1 if model.activation == "softmax" else tokens
    pivots = min(rank, columns)
    if model.tied:
        return rank * tokens - pivots * (pivots + 1) // 2 - pivots * (tokens - pivots)
    return 2 * rank * tokens - pivots * (tokens + columns - pivots)


def pivot_tokens(model: Architecture, pivots: Sequence[int] | None, reference: int | None) -> tuple[list[int], int]:
    """Return the pivot tokens and the reference token (-1 if there is none), checked."""
    rank, tokens = model.rank_vector[-1], model.tokens
    softmax = model.activation == "softmax"
    if not softmax and reference is not None:
        raise ValueError("reference is a token of softmax outputs; other activations fix the scores themselves")
    origin = (tokens - 1 if reference is None else reference) if softmax else -1
    if softmax and not 0 <= origin < tokens:
        raise ValueError(f"reference must be a token out of 0..{tokens - 1}, got {reference}")
    count = min(rank, tokens - 1 if softmax else tokens)
    chosen = [t for t in range(tokens) if t != origin][:count] if pivots is None else list(pivots)
    if len(chosen) != count or len(set(chosen)) != count or not set(chosen) <= set(range(tokens)) - {origin}:
        raise ValueError(
            f"pivots must be {count} different tokens out of 0..{tokens - 1}, without the reference, got {pivots}"
        )
    return chosen, origin


def _output_symbols(model: Architecture) -> sp.Matrix:
    if model.activation == "softmax":
        return symbols.readout_symbols(model.tokens)[1]
    # Of either sign, so not the positive symbols that a softmax output has.
    return sp.Matrix(model.tokens, model.tokens, lambda a, b: sp.Symbol(f"y{a + 1}{b + 1}", real=True))


def fibre(
    model: Architecture,
    pivots: Sequence[int] | None = None,
    reference: int | None = None,
    inverse: Callable[[sp.Expr], sp.Expr] | None = None,
) -> Fibre:
    """Derive the fibre of the last layer of a model.

    Parameters
    ----------
    model : Architecture
        One head, output "last"; any depth, rank and number of tokens, tied or untied.
    pivots : sequence of int, optional
        Tokens, counted from 0, whose vectors span the readout: min(r, M) of them, for softmax min(r, M - 1). The
        best conditioned choice makes det C (untied: det T on the pivots) largest. Default: the first ones.
    reference : int, optional
        Softmax: the token z that differences are taken from, none of the pivots. Default: the last one.
    inverse : callable, optional
        For an activation given as a function: its inverse on one expression. The coordinates are then the scores
        beta K_ab = inverse(y_ab).

    Raises
    ------
    ValueError
        For several heads, a sequence output, an activation that has no known inverse, or pivots that do not fit.

    References
    ----------
    troiani2025, (163)-(183) for rank 1 at M = 2; the rest is derived here.
    """
    _check(model)
    if model.activation not in ("softmax", "linear") and inverse is None:
        raise ValueError(
            f"the activation {model.activation_name} is a function without a known inverse; pass inverse=, a function "
            "that undoes it, to derive its fibres"
        )
    chosen, origin = pivot_tokens(model, pivots, reference)
    y = _output_symbols(model)

    def coordinate(a: int, b: int) -> sp.Expr:
        if model.activation == "softmax":
            return sp.log(y[a, b] / y[a, origin])
        return y[a, b] if inverse is None else sp.sympify(inverse(y[a, b]))

    observed = Observed(model, y, coordinate, chosen, origin)
    return tied_fibre(observed) if model.tied else untied_fibre(observed)
