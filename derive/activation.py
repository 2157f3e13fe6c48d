"""Activations of the user's own in the form that is printed: stable where they saturate, with their derivative."""

from functools import cache

import sympy as sp

from .architecture import Architecture
from .mixing import activate_score
from .nodes import Erfc, printable
from .primitives import Expit, LogExpit, stable

__all__ = ["SCORE", "logistic", "printed_activation"]

#: Stands for beta times one score.
SCORE = sp.Dummy("score", real=True)


def _exponent(expr: sp.Expr) -> sp.Expr | None:
    """Return u of 1 + exp(u), None for anything else."""
    rest = expr - 1 if isinstance(expr, sp.Add) else sp.S.Zero
    return rest.args[0] if isinstance(rest, sp.exp) else None


def _tail(expr: sp.Add) -> sp.Expr:
    """Return a sum with c erfc(-u) for c + c erf(u) and c erfc(u) for c - c erf(u), which cancel as they stand."""
    for term in expr.args:
        for factor in sp.Mul.make_args(term):
            if isinstance(factor, sp.erf):
                c, u = term / factor, factor.args[0]
                for sign in (1, -1):
                    if sign * c in expr.args:
                        rest = expr - term - sign * c
                        return sign * c * Erfc(-sign * u) + (_tail(rest) if isinstance(rest, sp.Add) else rest)
    return expr


def logistic(expr: sp.Expr) -> sp.Expr:
    """Return ``expr`` with nodes for what overflows or cancels as it stands.

    These are powers of 1/(1 + exp(u)), times powers of exp(-u) or not, log(1 + exp(u)), and 1 + erf(u).
    """
    if not expr.args:
        return expr
    expr = expr.func(*[logistic(argument) for argument in expr.args])
    if isinstance(expr, sp.Add):
        return _tail(expr)
    if isinstance(expr, sp.log) and (u := _exponent(expr.args[0])) is not None:
        return -LogExpit(-u)
    if isinstance(expr, sp.Pow) and expr.exp.is_negative and expr.exp.is_Integer:
        u = _exponent(expr.base)
        return expr if u is None else Expit(-u) ** -expr.exp
    if isinstance(expr, sp.Mul):
        # exp(u) Expit(-u) = Expit(u), which neither overflows nor is infinity times zero.
        for factor in expr.args:
            if isinstance(factor, sp.exp) and Expit(-factor.args[0]) in (power.as_base_exp()[0] for power in expr.args):
                u = factor.args[0]
                return logistic(expr / factor / Expit(-u) * Expit(u))
    return expr


@cache
def printed_activation(model: Architecture) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Return an activation that acts entry by entry, as a function of `SCORE`, and what is printed of it.

    Parameters
    ----------
    model : Architecture
        Its activation is a function of one expression.

    Returns
    -------
    form : sympy.Expr
        The activation with logistic nodes, equal to `derive.mixing.activate_score`.
    value, rate : sympy.Expr
        ``form`` and its derivative in basic nodes.

    Raises
    ------
    ValueError
        If the activation is no expression.
    TypeError
        If a condition of the activation is no comparison.

    References
    ----------
    troiani2025, (3).
    """
    form = logistic(activate_score(model, SCORE))
    rate = sp.diff(form, SCORE)
    # 1 - tanh^2 has no digit left where tanh is near one.
    slopes = {1 - sp.tanh(u) ** 2: 4 * Expit(2 * u) * Expit(-2 * u) for (u,) in (t.args for t in form.atoms(sp.tanh))}
    return form, stable(printable(form)), stable(printable(rate.xreplace(slopes)))
