"""The hardmax channel at two tokens: its likelihood, the gradient of its logarithm, and exact constants.

The label says the signs of h_11 - h_12 and h_22 - h_12, two Gaussian variables of variance 3V and covariance V. So
Z_out = Phi2(k_1, k_2; r), the probability of a quadrant, with k_i = s_i mean_i / sqrt(3V) and r = s_1 s_2 / 3. Its
derivative with respect to k_1 is phi(k_1) Phi((k_2 - r k_1) / sqrt(1 - r^2)), not the bivariate density.
"""

from functools import cache

import sympy as sp

from .channels import variances
from .symbols import variance

__all__ = [
    "correlation",
    "difference_covariance",
    "differences",
    "gradient_identities",
    "information_at_zero",
    "normal_cdf",
    "normal_density",
    "partial",
    "published_information_at_zero",
    "published_ratio",
    "quadrant",
    "tail_integral",
    "weak_recovery_threshold",
]

#: Differences h_11 - h_12 and h_22 - h_12 of the entries (11), (12), (22).
_DIFFERENCES = sp.ImmutableMatrix([[1, -1, 0], [0, -1, 1]])
_X, _Y, _T = sp.symbols("x y t", real=True)
_R = sp.Symbol("r", real=True)


def normal_density(x: sp.Expr) -> sp.Expr:
    """phi(x) = exp(-x^2 / 2) / sqrt(2 pi)."""
    return sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)


def normal_cdf(x: sp.Expr) -> sp.Expr:
    """Phi(x) = (1 + erf(x / sqrt 2)) / 2."""
    return (1 + sp.erf(x / sp.sqrt(2))) / 2


def differences() -> sp.Matrix:
    """Matrix that takes (h_11, h_12, h_22) to h_11 - h_12 and h_22 - h_12."""
    return _DIFFERENCES


def difference_covariance() -> sp.Matrix:
    """Covariance of the two differences: V [[3, 1], [1, 3]].

    References
    ----------
    boncoraglio2025, (33).
    """
    return variance * _DIFFERENCES * variances(2) * _DIFFERENCES.T


def correlation() -> sp.Rational:
    """Correlation 1/3 of the two differences."""
    covariance = difference_covariance()
    return covariance[0, 1] / covariance[0, 0]


def partial(first: sp.Expr, second: sp.Expr, r: sp.Expr) -> sp.Expr:
    """Derivative of Phi2(first, second; r) with respect to the first argument."""
    return normal_density(first) * normal_cdf((second - r * first) / sp.sqrt(1 - r**2))


def _bivariate_density(first: sp.Expr, second: sp.Expr, r: sp.Expr) -> sp.Expr:
    exponent = -(first**2 - 2 * r * first * second + second**2) / (2 * (1 - r**2))
    return sp.exp(exponent) / (2 * sp.pi * sp.sqrt(1 - r**2))


@cache
def gradient_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove the gradient of log Phi2 and its use in (34)-(35).

    Phi2(x, y; r) is the integral of phi(t) Phi((y - r t) / sqrt(1 - r^2)) over t < x.  Its derivative with respect to x
    is the integrand; that with respect to y follows from the symmetry of Phi2, which holds since both mixed derivatives
    are the bivariate density.  The published variant puts the latter in place of the former.

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.

    References
    ----------
    boncoraglio2025, (34)-(35).
    """
    r = correlation()
    integral = sp.Integral(partial(_T, _Y, r), (_T, -sp.oo, _X))
    first, second = partial(_X, _Y, r), partial(_Y, _X, r)
    density = _bivariate_density(_X, _Y, r)
    # g = P_1 s_1 / (sqrt(3V) Z) along h_11 - h_12 and likewise along h_22 - h_12, by the chain rule.
    p1, p2, s1, s2, z = sp.symbols("P1 P2 s1 s2 Z", real=True)
    along = sp.Matrix([s1 * p1, s2 * p2]) / (sp.sqrt(3 * variance) * z)
    g = _DIFFERENCES.T * along
    weighted = variance * (g.T * variances(2) * g)[0]
    wanted = (p1**2 + p2**2 + sp.Rational(2, 3) * s1 * s2 * p1 * p2) / z**2
    squares = {s1**2: 1, s2**2: 1}
    return {
        "derivative in x": sp.diff(integral, _X) - first,
        "mixed derivative, x first": sp.diff(first, _Y) - density,
        "mixed derivative, y first": sp.diff(second, _X) - density,
        "quadrants sum to one": _quadrant_sum() - 1,
        "g_12": g[1] + g[0] + g[2],
        "V sum C g^2": sp.expand(weighted).subs(squares) - wanted,
    }


def _quadrant_sum() -> sp.Expr:
    """P(+ +) + P(+ -) + P(- +) + P(- -) at zero mean."""
    return 2 * quadrant(correlation()) + 2 * quadrant(-correlation())


@cache
def quadrant(r: sp.Expr) -> sp.Expr:
    """Phi2(0, 0; r): 1/4 at r = 0, and its derivative with respect to r is the bivariate density at the origin."""
    density = _bivariate_density(sp.S.Zero, sp.S.Zero, _R)
    return sp.Rational(1, 4) + sp.integrate(density, (_R, 0, r))


def _information_at_origin(slope: sp.Expr) -> sp.Expr:
    """Sum over the labels of (P_1^2 + P_2^2 + (2/3) s_1 s_2 P_1 P_2) / Z at k = 0; `slope` is P as a function of r."""
    total = sp.S.Zero
    for sign in (1, -1):
        r = sign * correlation()
        value = slope.subs(_R, r)
        total += 2 * (2 + sp.Rational(2, 3) * sign) * value**2 / quadrant(r)
    return sp.together(total)


@cache
def information_at_zero() -> sp.Expr:
    """F(0), exactly.

    References
    ----------
    boncoraglio2025, (36).
    """
    return _information_at_origin(partial(sp.S.Zero, sp.S.Zero, _R))


@cache
def published_information_at_zero() -> sp.Expr:
    """F(0) of the published variant, which has the bivariate density for both derivatives."""
    return _information_at_origin(_bivariate_density(sp.S.Zero, sp.S.Zero, _R))


def published_ratio() -> sp.Expr:
    """Published over true F(0): 9 / (4 pi); the threshold of weak recovery is too large by its inverse."""
    return sp.cancel(sp.together(published_information_at_zero() / information_at_zero()))


def weak_recovery_threshold() -> sp.Expr:
    """Threshold abar_w = 1 / (2 F(0)) of small width, in alpha = abar rho.

    References
    ----------
    boncoraglio2025, (42).
    """
    return 1 / (2 * information_at_zero())


def tail_integral() -> sp.Integral:
    """I_0 = int phi^2 / (Phi (1 - Phi)), which has no closed form; F(c) ~ 2 I_0 / sqrt(2 pi c) for c -> infinity.

    A difference that is known up to noise of order one while the means are of order sqrt(c) matters only where its mean
    is of order one, which has density 1 / sqrt(2 pi c); the other difference is then certain. The two labels that share
    it add up to phi^2 / Phi + phi^2 / (1 - Phi).

    References
    ----------
    boncoraglio2025, (37).
    """
    label = normal_density(_X) ** 2 / normal_cdf(_X)
    return sp.Integral(sp.together(label + label.subs(_X, -_X)), (_X, -sp.oo, sp.oo))
