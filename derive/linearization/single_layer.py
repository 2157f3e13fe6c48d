"""The exact weak-recovery threshold of one layer, tied or untied, and the direction that becomes unstable."""

import sympy as sp

from .. import symbols
from ..architecture import ACTIVATIONS
from .tied import gram_eigenvalue, shift_loss
from .untied import untied_operator


def single_layer_eigenvalue(
    tokens: int | sp.Expr = symbols.tokens,
    rank: int | sp.Expr = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
    wide: bool | None = None,
) -> sp.Expr:
    """Derive the top eigenvalue of the operator (15) for one layer.

    Tied: `gram_eigenvalue` ``M (M + 1)/r``, less `shift_loss` ``2 (r - M + 1)/r^2`` for softmax with r >= M.
    Untied, rank 1: `untied_operator`; ``(M - 1)(M + sqrt(M^2 + 1))`` for softmax, one integral for linear.
    Neither the skip strength nor beta matters: both are known and undone.

    Parameters
    ----------
    tokens : int or sympy.Expr
        M >= 2; a symbol gives the formula.
    rank : int or sympy.Expr
        r >= 1; 1 if untied.
    activation : {"softmax", "linear"}
    tied : bool
        Whether keys equal queries.
    wide : bool, optional
        Whether r >= M, where tokens or rank is a symbol (default: no); numbers decide it themselves.

    Raises
    ------
    ValueError
        For numbers outside the domain, and for untied layers of rank above 1: there the fibre is GL(r), the
        moments are logarithmic derivatives of a Bessel function of a matrix, and no closed form is known.

    References
    ----------
    troiani2025, (15)-(16); the values are derived here.
    """
    number_of_tokens, r = sp.sympify(tokens), sp.sympify(rank)
    _check_single_layer(number_of_tokens, r, activation, tied)
    if not tied:
        return untied_operator(number_of_tokens, activation).top
    value = gram_eigenvalue(number_of_tokens, r)
    if number_of_tokens.is_number and r.is_number:
        wide = bool(r >= number_of_tokens)
    if activation == "softmax" and wide:
        value = sp.factor(value - shift_loss(number_of_tokens, r))
    return value


def _check_single_layer(tokens: sp.Expr, rank: sp.Expr, activation: str, tied: bool) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    for name, value, least in (("tokens", tokens, 2), ("rank", rank, 1)):
        if value.is_number and not (value.is_Integer and int(value) >= least):
            raise ValueError(f"{name} must be an integer >= {least}, got {value}")
    if not tied and rank != 1:
        raise ValueError(
            f"an untied layer has a closed form for rank 1, got {rank}: at higher rank the output leaves a matrix of "
            "GL(r) free; use rank 1 or tied=True"
        )


def single_layer_direction(
    tokens: int | sp.Expr = symbols.tokens,
    rank: int | sp.Expr = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
) -> sp.MatrixExpr | sp.Matrix:
    """Return the direction in S_P that becomes unstable at the threshold, Frobenius norm 1.

    Tied: every direction has the same eigenvalue, and I/sqrt(r) stands for them. Untied: diagonal in (k, q) with
    two positive entries; keys and queries are learned together, their cross overlap is not.

    Parameters
    ----------
    tokens, rank, activation, tied
        As `single_layer_eigenvalue`.

    Returns
    -------
    sympy.Matrix or sympy.MatrixExpr
        P x P.
    """
    number_of_tokens, r = sp.sympify(tokens), sp.sympify(rank)
    _check_single_layer(number_of_tokens, r, activation, tied)
    if not tied:
        return untied_operator(number_of_tokens, activation).direction
    return (sp.eye(int(r)) if r.is_Integer else sp.Identity(r)) / sp.sqrt(r)


def single_layer_threshold(
    tokens: int | sp.Expr = symbols.tokens,
    rank: int | sp.Expr = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
    wide: bool | None = None,
) -> sp.Expr:
    """Return the weak-recovery threshold of one layer, the inverse of `single_layer_eigenvalue`, exactly.

    Parameters
    ----------
    tokens, rank, activation, tied, wide
        As `single_layer_eigenvalue`.

    Returns
    -------
    sympy.Rational or sympy.Expr
        A number for integers, the formula for symbols.

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
    >>> single_layer_threshold(2, 2)
    2/5
    >>> single_layer_threshold(2, tied=False)
    -2 + sqrt(5)
    """
    value = single_layer_eigenvalue(tokens, rank, activation, tied=tied, wide=wide)
    if value.has(sp.Integral):
        return 1 / value
    return sp.Mul(*[sp.radsimp(1 / factor) for factor in sp.Mul.make_args(value)])
