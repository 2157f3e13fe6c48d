"""State evolution of one layer: thresholds, the limit of small width, and the laws near perfect recovery.

The equations are q = Q - MMSE_rho(1/qhat), V = Q - q and qhat = (2 alpha / V) F(q / V), with Q = 1 + rho. A channel
that fixes K linear functionals has F = K, so that V / Delta = a with a = 2 alpha K, and everything depends on
rho and a alone.
"""

import sympy as sp

from .channels import functional_count
from .series import critical_coefficient, recovery_slope, small_noise_series
from .symbols import noise, root, width

__all__ = [
    "counting_threshold",
    "error_near_recovery",
    "hardmax_tail",
    "parameter_count",
    "small_width_error",
    "small_width_overlap",
    "weak_recovery",
]


def parameter_count(wide: bool) -> sp.Expr:
    """Dimension over d^2 of the symmetric d x d matrices of rank rho d, or of all where rho >= 1.

    References
    ----------
    boncoraglio2025, (39).
    """
    d, r = sp.symbols("d r", positive=True)
    # d x r factors, less the rotations of the r columns.
    count = d * (d + 1) / 2 if wide else d * r - r * (r - 1) / 2
    return sp.limit(sp.expand(count.subs(r, width * d) / d**2), d, sp.oo)


def counting_threshold(tokens: int, channel: str, wide: bool) -> sp.Expr:
    """alpha_c, where the measurements are as many as the parameters.

    Parameters
    ----------
    tokens : int or sympy.Symbol
    channel : {"linear", "softmax"}
    wide : bool
        Whether rho >= 1.

    References
    ----------
    boncoraglio2025, (39).
    """
    return parameter_count(wide) / functional_count(tokens, channel)


def error_near_recovery(fraction: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """Error just below perfect recovery as a function of a = 2 alpha K: leading term for rho > 1, and for rho = 1.

    a = V / Delta tends to 1 as Delta tends to 0; the first correction of MMSE_rho(Delta) / Delta gives Delta,
    and V = Delta.

    Parameters
    ----------
    fraction : sympy.Symbol
        a, below 1.

    References
    ----------
    boncoraglio2025, (41).
    """
    slope = sp.expand(small_noise_series(2, True) / noise)
    above = sp.solve(sp.Eq(slope, fraction), noise)[0]
    critical = ((1 - fraction) / critical_coefficient()) ** sp.Rational(3, 2)
    return sp.factor(above), critical


def small_width_overlap(t: sp.Symbol) -> sp.Expr:
    """Overlap q for rho -> 0 at Delta = t / rho and t < 1, from the duality: q = Q - Delta MMSE_t(rho / t).

    The second argument tends to zero, so that MMSE_t(rho / t) ~ (rho / t) D_t, and q = 1 - D_t = (1 - t)^2.  For t > 1,
    D_t = 1 and q = 0.

    References
    ----------
    boncoraglio2025, (23).
    """
    dual_noise = width / t
    error = (t / width) * dual_noise * recovery_slope(False).subs(root, sp.sqrt(t))
    return sp.factor(1 - sp.expand(error))


def small_width_error(ratio: sp.Symbol) -> sp.Expr:
    """MMSE of small width as a function of c = 2 abar K for a channel that fixes K functionals: c (2 - c), 1 <= c <= 2.

    t = rho / qhat = V / c with V = 1 - (1 - t)^2.

    References
    ----------
    boncoraglio2025, (43).
    """
    t = sp.Symbol("t", positive=True)
    error = sp.expand(1 - small_width_overlap(t))
    (found,) = sp.solve(sp.Eq(sp.cancel(error / t), ratio), t)
    return sp.factor(error.subs(t, found))


def weak_recovery(information: sp.Expr) -> sp.Expr:
    """abar_w where zero overlap loses stability at small width: t = V / (2 abar F) = 1 at V = 1.

    Parameters
    ----------
    information : sympy.Expr
        F(0).

    References
    ----------
    boncoraglio2025, (42).
    """
    rate = sp.Symbol("abar", positive=True)
    return sp.solve(sp.Eq(1 / (2 * rate * information), 1), rate)[0]


def hardmax_tail(alpha: sp.Symbol, slope: sp.Symbol, integral: sp.Symbol) -> sp.Expr:
    """Error of hardmax at T = 2 for alpha -> infinity.

    Near recovery V = D_rho / qhat and F(c) = 2 I_0 / sqrt(2 pi c), c = Q / V.

    Parameters
    ----------
    alpha : sympy.Symbol
    slope : sympy.Symbol
        D_rho of `recovery_slope`.
    integral : sympy.Symbol
        I_0 of `derive.aim.hardmax.tail_integral`.

    References
    ----------
    boncoraglio2025, (44).
    """
    v = sp.Symbol("v", positive=True)
    # v = sqrt(V); the error equals D / qhat.
    q_hat = 2 * alpha / v**2 * 2 * integral / sp.sqrt(2 * sp.pi * (1 + width) / v**2)
    (found,) = sp.solve(sp.Eq(v, sp.expand(slope / (q_hat * v))), v)
    return sp.factor(found**2)
