"""Several heads of one width whose scores are added before the activation: one model of the width of all together.

sum_l W_l W_l^T = W W^T with W all W_l side by side, of L r columns, so that sum_l S_l = L^(1/2) S' with S' of width
L rho. Outputs depend on the sum alone, and given it all heads have the same law: E[S_l | data] = L^(-1/2) E[S' | data].
"""

from functools import cache

import sympy as sp

from .symbols import variance, width

__all__ = ["head_error", "head_identities"]

_HEADS = sp.Symbol("L", positive=True)


def head_error(error: sp.Expr, heads: sp.Expr) -> sp.Expr:
    """Error of each S_l where that of S' is ``error``: 1 - (1 - V')/L.

    References
    ----------
    boncoraglio2025, (59).
    """
    return 1 - (1 - error) / heads


@cache
def head_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove (59).

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.

    References
    ----------
    boncoraglio2025, (59).
    """
    rank, dimension = sp.symbols("r d", positive=True)
    whole = 1 + _HEADS * width
    # Q_ll' = delta_ll' + rho between heads of one width, summed over both.
    joint = _HEADS * (1 + width) + _HEADS * (_HEADS - 1) * width
    # E Tr(S_l Shat_l)/d with Shat_l = L^(-1/2) Shat', by the symmetry of heads that of Tr(S' Shat')/(L d).
    overlap = (whole - variance) / _HEADS
    return {
        "scale": 1 / sp.sqrt(rank * dimension) - sp.sqrt(_HEADS) / sp.sqrt(_HEADS * rank * dimension),
        "Q": sp.expand(joint - _HEADS * whole),
        "error": sp.expand(1 + width - overlap - head_error(variance, _HEADS)),
    }
