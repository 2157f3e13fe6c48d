"""One tied layer: every direction of S_P has the same eigenvalue of the operator (15)."""

from collections.abc import Sequence
from functools import cache

import sympy as sp


@cache
def _normal_moment(power: int) -> sp.Expr:
    z = sp.Symbol("z", real=True)
    return sp.integrate(z**power * sp.exp(-(z**2) / 2) / sp.sqrt(2 * sp.pi), (z, -sp.oo, sp.oo))


def gaussian_mean(polynomial: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return the mean of a polynomial over independent standard normal variables, by integration."""
    value = sp.expand(polynomial)
    for variable in variables:
        powers = sp.Poly(value, variable).terms()
        value = sp.expand(sp.Add(*[c * _normal_moment(k) for (k,), c in powers if c != 0]))
    return value


def gram_eigenvalue(tokens: sp.Expr, rank: sp.Expr) -> sp.Expr:
    """Derive the eigenvalue of the operator (15) for a link that fixes K = h^T h, ``M (M + 1)/r``.

    A Haar rotation of h leaves K alone, so E[h_m h_{m'}^T|y] = (K_{mm'}/r) I and G_{mm'} = (K_{mm'}/r -
    delta_{mm'}) I.  The operator is a multiple of the identity, ``sum_{mm'} E (K_{mm'}/r - delta_{mm'})^2``: M
    diagonal and M (M - 1) other terms, whose means are those of a sum of r independent products.

    Parameters
    ----------
    tokens, rank : sympy.Expr
        M >= 1 and r >= 1.

    References
    ----------
    troiani2025, (15); derived here.
    """
    first, second = sp.symbols("z_1 z_2", real=True)
    # Mean and variance of the two kinds of product, summed over r independent rows.
    square_mean = gaussian_mean(first**2, [first])
    square_variance = gaussian_mean(first**4, [first]) - square_mean**2
    product_mean = gaussian_mean(first * second, [first, second])
    product_variance = gaussian_mean(first**2 * second**2, [first, second]) - product_mean**2
    diagonal = rank * square_variance / rank**2 + (rank * square_mean / rank - 1) ** 2
    other = rank * product_variance / rank**2 + (rank * product_mean / rank) ** 2
    return sp.factor(tokens * diagonal + tokens * (tokens - 1) * other)


def shift_loss(tokens: sp.Expr, rank: sp.Expr) -> sp.Expr:
    """Derive what a softmax output of rank r >= M misses of `gram_eigenvalue`, ``2 (r - M + 1)/r^2``.

    The output fixes K = h^T h up to K + s 1 1^T: in an orthonormal basis of the tokens that starts with
    e = 1/sqrt(M), all entries but K_ee.  K is a Wishart matrix, with density proportional to
    ``det(K)^{(r - M - 1)/2} e^{-tr(K)/2}``, and det(K) is linear in the Schur complement u of K_ee, so that given
    the rest u has density ``u^{(r - M - 1)/2} e^{-u/2}``, a chi-squared law of r - M + 1 degrees of freedom.
    Its variance is lost: E ||E[K|y]||^2 = E ||K||^2 - E Var[u].

    Parameters
    ----------
    tokens, rank : sympy.Expr
        M >= 2 and r >= M.

    References
    ----------
    Derived here.
    """
    u, freedom = sp.symbols("u n", positive=True)
    power = [sp.integrate(u ** (freedom / 2 - 1 + k) * sp.exp(-u / 2), (u, 0, sp.oo), conds="none") for k in range(3)]
    variance = sp.gammasimp(power[2] / power[0]) - sp.gammasimp(power[1] / power[0]) ** 2
    return sp.factor(sp.expand(variance).subs(freedom, rank - tokens + 1) / rank**2)
