"""Outputs entry by entry, y_ab = f(beta h_ab) and Gaussian noise of variance Delta_n C_ab: scalar channels.

The entries a <= b are independent given omega, so that Z_out is a product of integrals over one variable, with
h = omega + (V C)^(1/2) t. A strictly monotone f without noise fixes every h_ab, as the linear output does.
"""

from functools import cache

import sympy as sp

from .noise import label_noise
from .symbols import variance

__all__ = ["entry_exponent", "entry_identities"]


def entry_exponent(t: sp.Expr, y: sp.Expr, value: sp.Expr, spread: sp.Expr) -> sp.Expr:
    """Logarithm of the weight of t given y, up to a constant; ``value`` is f(beta h) at that t.

    References
    ----------
    boncoraglio2025, (58).
    """
    return -(t**2) / 2 - (y - value) ** 2 / (2 * label_noise * spread)


@cache
def entry_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove (58).

    Two values of t stand for any number of them: sums over nodes are sums of such terms.

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.

    References
    ----------
    boncoraglio2025, (58).
    """
    omega, y, h = sp.symbols("omega y h", real=True)
    c = sp.Symbol("C", positive=True)
    f = sp.Function("f")
    root = sp.sqrt(variance * c)
    places = sp.symbols("h_1 h_2", real=True)
    weights = [
        sp.exp(-((at - omega) ** 2) / (2 * variance * c) - (y - f(at)) ** 2 / (2 * label_noise * c)) for at in places
    ]
    total = sum(weights, sp.S.Zero)
    mean = sum((w * at for w, at in zip(weights, places, strict=True)), sp.S.Zero) / total
    second = sum((w * at**2 for w, at in zip(weights, places, strict=True)), sp.S.Zero) / total
    t = (h - omega) / root
    law = -((h - omega) ** 2) / (2 * variance * c) - (y - f(h)) ** 2 / (2 * label_noise * c)
    score = sp.diff(sp.log(total), omega)
    # Given omega E (E[h | y] - omega)^2 = V C - E Var(h | y), the law of the total variance with E h = omega.
    left = sp.Symbol("E_Var_h", positive=True)
    return {
        "exponent": sp.expand(entry_exponent(t, y, f(h), c) - law),
        "score": sp.cancel(score - (mean - omega) / (variance * c)),
        "slope of the score": sp.cancel(
            sp.diff(score, omega) - ((second - mean**2) / (variance * c) - 1) / (variance * c)
        ),
        "F": sp.cancel(variance * c * (variance * c - left) / (variance * c) ** 2 - (1 - left / (variance * c))),
    }
