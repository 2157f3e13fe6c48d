"""Proofs of identities by exact reduction to zero.

An identity counts as proved only if its two sides, written as a rational function of symbols, exponentials
and logarithms over the rationals (with sqrt(2)), reduce to the literal zero.  Nothing here evaluates a float.
"""

import sympy as sp

from .primitives import elementary
from .rational import is_zero_of_variables

__all__ = ["ProofError", "prove_equal", "reduces_to_zero"]


class ProofError(AssertionError):
    """Raised where an identity does not reduce to zero."""


def _entries(value: sp.Expr | sp.MatrixBase) -> list[sp.Expr]:
    return list(value) if isinstance(value, sp.MatrixBase) else [sp.sympify(value)]


def _hyperbolic_to_exp(expr: sp.Expr) -> sp.Expr:
    return expr.rewrite(sp.exp) if expr.has(sp.sinh, sp.cosh, sp.tanh) else expr


def _reduce(expr: sp.Expr) -> sp.Expr:
    expr = _hyperbolic_to_exp(elementary(expr))
    if is_zero_of_variables(expr):
        return sp.S.Zero
    # Split exp(a + b) so that the polynomial layer sees one generator per exponent.
    expr = sp.expand(sp.expand_log(expr), power_exp=True, mul=True, multinomial=True)
    expr = sp.together(expr)
    return sp.cancel(expr, extension=True) if expr.has(sp.sqrt(2)) else sp.cancel(expr)


def reduces_to_zero(value: sp.Expr | sp.MatrixBase) -> bool:
    """Return True if the expression, or every entry of the matrix, reduces to the literal zero."""
    return all(_reduce(entry) == 0 for entry in _entries(value))


def prove_equal(left: sp.Expr | sp.MatrixBase, right: sp.Expr | sp.MatrixBase, what: str) -> None:
    """Prove that two expressions or two matrices of one shape are equal.

    Parameters
    ----------
    left, right : sympy.Expr or sympy.Matrix
        The two sides.
    what : str
        Name of the identity, for the message.

    Raises
    ------
    ProofError
        If an entry of the difference does not reduce to zero.
    """
    first, second = _entries(left), _entries(right)
    if len(first) != len(second):
        raise ProofError(f"{what}: the two sides have {len(first)} and {len(second)} entries")
    for number, (lhs, rhs) in enumerate(zip(first, second, strict=True)):
        rest = _reduce(lhs - rhs)
        if rest != 0:
            raise ProofError(f"{what}: entry {number} leaves {rest}")
