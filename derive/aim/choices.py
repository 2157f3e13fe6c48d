"""A row of softmax as a choice: the entry at which h_c + xi_c is largest, xi of Gumbel's law, in units of 1/beta.

With Gamma(s) = exp(-e^(-s)), the law of xi, P[choice = c | h] = int dt Gamma'(t - h_c) prod_(j != c) Gamma(t - h_j),
so that products of two outputs are averages of products of Gamma(t - h) Gamma(t' - h').
"""

from functools import cache

import sympy as sp

__all__ = ["choice_identities", "prediction_identities"]


@cache
def choice_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove (56).

    m = l h + (1 - l) h', t = tau + (1 - l) u, t' = tau - l u, x = u - (h - h'), p = 1/(1 + e^x).

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.

    References
    ----------
    boncoraglio2025, (56).
    """
    h, other, tau, u, share, s, rest = sp.symbols("h h' tau u l s r", real=True)
    total = sp.Symbol("total", positive=True)
    gamma = sp.exp(-sp.exp(-s))
    first, second = tau + (1 - share) * u - h, tau - share * u - other
    mean, x = share * h + (1 - share) * other, u - (h - other)
    falling = sp.exp(-(1 - share) * x) + sp.exp(share * x)
    a, b = sp.symbols("a b", positive=True)
    # a = e^-(t - h) and b = e^-(t' - h'), each its own derivative up to the sign.
    product = sp.exp(-a - b)
    mixed = sp.diff(product, a, b) * a * b
    p = 1 / (1 + b / a)
    slope = sp.diff(gamma, s)
    weight = sp.exp(rest) * sp.exp(-s * (sp.exp(rest) + total))
    return {
        "exponents": sp.exp(-first) + sp.exp(-second) - sp.exp(-(tau - mean)) * falling,
        "e^x": sp.exp(-second) - sp.exp(x) * sp.exp(-first),
        "Gamma'' + Gamma'": sp.diff(slope, s) + slope - sp.exp(-2 * s) * gamma,
        "density": mixed - p * (1 - p) * (a + b) ** 2 * product,
        "softmax": sp.diff(-weight / (sp.exp(rest) + total), s) - weight,
    }


def prediction_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove (55): outputs and posterior means as vectors of two numbers on three events.

    y takes three values with probabilities p given omega, and y' is independent of it with the same law.

    References
    ----------
    boncoraglio2025, (55).
    """
    first, second = sp.symbols("p_1 p_2", positive=True)
    law = (first, second, 1 - first - second)
    values = [sp.Matrix(sp.symbols(f"y_{i}1 y_{i}2", real=True)) for i in range(3)]
    guess = sp.Matrix(sp.symbols("w_1 w_2", real=True))
    mean = sum((p * y for p, y in zip(law, values, strict=True)), sp.zeros(2, 1))

    def average(of: object) -> sp.Expr:
        assert callable(of)
        return sum((p * of(y) for p, y in zip(law, values, strict=True)), sp.S.Zero)

    square = average(lambda y: y.dot(y))
    twice = average(lambda y: average(lambda z: y.dot(z)))
    return {
        "posterior mean": average(lambda y: (y - mean).dot(y - mean)) - square + twice,
        "plug-in": average(lambda y: (y - guess).dot(y - guess)) - square - guess.dot(guess) + 2 * average(guess.dot),
    }
