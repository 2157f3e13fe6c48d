"""Checks of the spectrum of Y and of the matrix denoiser."""

import math
from functools import partial

import numpy as np
import sympy as sp

from attnlimits.derive.aim import evolution, model, residues, series, spectrum
from attnlimits.derive.aim.symbols import g, noise, root, width, z
from attnlimits.derive.registry import CheckOutcome
from attnlimits.papers.troiani2025.checks.tools import numeric, symbolic

from . import plain
from .plain import Array, Complex

#: Widths on both sides of one, and noises that split the support and that do not.
_PLACES = ((0.3, 0.02), (0.5, 1.0), (1.0, 0.1), (2.0, 0.3), (0.1, 10.0))


def _power(n: int, x: Array, _: Complex) -> Array:
    return np.asarray(x**n)


def _squared_rule(delta: float, x: Array, value: Complex) -> Array:
    return np.asarray((x - 2 * delta * value.real) ** 2)


def check_4() -> CheckOutcome:
    """Moments of S from the cumulants, against Narayana's numbers."""
    narayana = [
        sum((sp.binomial(n, k) * sp.binomial(n, k - 1) / n * width**k for k in range(1, n + 1)), sp.S.Zero) / root**n
        for n in range(1, 7)
    ]
    pairs = zip(spectrum.moments(6, with_noise=False)[1:], narayana, strict=True)
    differences = {f"moment {n}": left - right for n, (left, right) in enumerate(pairs, 1)}
    differences["series of R"] = spectrum.r_transform().diff(g, 2).subs(g, 0) / 2 - spectrum.free_cumulant(3)
    return symbolic(differences, "moments 1 to 6 of the free Poisson law against Narayana's numbers")


def check_5() -> CheckOutcome:
    """E Tr S^2 / d by Wick's theorem at small d and r, and its limit from the free cumulants."""
    differences = {
        f"d = {d}, r = {r}": model.second_moment(d, (r,))
        - model.mean_square_trace().subs({model.dimension: d, model.rank: r})
        for d, r in ((1, 1), (1, 3), (2, 1), (2, 3), (3, 2))
    }
    differences["limit"] = model.overlap_limit() - spectrum.moments(2, with_noise=False)[2]
    return symbolic(differences, "E Tr S^2 / d at five pairs (d, r), and Q = 1 + rho")


def check_6() -> CheckOutcome:
    """Covariance of the indices at given S, d = 2 and 3."""
    found = {
        f"d = {d}": sp.Matrix.add(*(s * m for s, m in zip((1, -1), model.index_covariance(d), strict=True)))
        for d in (2, 3)
    }
    return symbolic({name: value.expand() for name, value in found.items()}, "h_11, h_12, h_22 at d = 2, 3, any S")


def check_11() -> CheckOutcome:
    """The matrix channel: its exponent, and the variance of the noise that many measurements make."""
    d, snr = sp.symbols("d qhat", positive=True)
    s, y = (
        sp.Matrix(3, 3, lambda i, j, name=name: sp.Symbol(f"{name}_{min(i, j)}{max(i, j)}", real=True)) for name in "SY"
    )
    off = sum(((y[i, j] - s[i, j]) ** 2 for i in range(3) for j in range(i)), sp.S.Zero)
    diagonal = sum(((y[i, i] - s[i, i]) ** 2 for i in range(3)), sp.S.Zero)
    # GOE noise of variance Delta = 1/qhat: entries of variance Delta/d off the diagonal, twice that on it.
    gaussian = -d * snr * (off / 2 + diagonal / 4)
    field = d * snr / 2 * y
    differences = {
        "exponent": gaussian - ((field * s).trace() - d * snr / 4 * ((s * s).trace() + (y * y).trace())),
        # n measurements, qhat = 2 alpha sum C E g^2: sum of n C E g^2 / (2d) is the variance of (d qhat / 2)
        # Delta^(1/2) Z.
        "noise": (d**2 * snr / 2) / (2 * d) - (d * snr / 2) ** 2 / (snr * d),
    }
    for same in (False, True):
        found, wanted = model.measurement_variance(3, same)
        differences[f"Z_ab, a = b is {same}"] = found - wanted
    return symbolic(differences, "exponent at d = 3; variance of Z_ab by Wick's theorem")


def check_12() -> CheckOutcome:
    """The cubic from the R-transform against that from subordination, and against the specification."""
    rho = width
    stated = noise * g**3 - (z + noise * root) * g**2 + (z * root + 1 - rho) * g - root
    cubic = spectrum.stieltjes_cubic().as_expr()
    differences = {"stated": cubic - stated, "subordinated": cubic - spectrum.subordinated_cubic().as_expr()}
    return symbolic(differences, "R-transform, subordination and the stated cubic")


def check_13() -> CheckOutcome:
    """Mass and moments of the density on the nodes, and the sign of the discriminant on the support and outside."""
    residuals = []
    for rho, delta in _PLACES:
        at = {root: math.sqrt(rho), noise: delta}
        values = [float(m.subs(at)) for m in spectrum.moments(3)]
        for n, value in enumerate(values):
            residuals.append(abs(plain.mean(rho, delta, partial(_power, n)) / value - 1.0))
        sign = sp.lambdify(z, spectrum.discriminant().as_expr().subs(at))
        limits = plain.edges(rho, delta)
        outside = [*(limits[[0, -1]] + [-0.1, 0.1]), *(limits[1:-1:2] + limits[2:-1:2]) / 2]
        residuals.append(float(np.any(sign(plain.spectrum(rho, delta)[0]) >= 0.0)))
        residuals.append(float(min(sign(x) for x in outside) <= 0.0))
    # Rounding; the rule itself is converged.
    return numeric(residuals, 1e-12, "moments 0 to 3 of the density at five (rho, Delta), sign of the discriminant")


def check_14() -> CheckOutcome:
    """The edges: the quartic as stated, and its common roots with the cubic where the discriminant vanishes."""
    quartic = spectrum.edge_quartic()
    rho = width
    stated = noise * g**4 - 2 * noise * root * g**3 + (noise * rho + rho - 1) * g**2 + 2 * root * g - rho
    common = sp.Poly(sp.resultant(quartic, spectrum.stieltjes_cubic(), g), z)
    discriminant = spectrum.discriminant()
    proportional = common.as_expr() * discriminant.LC() - discriminant.as_expr() * common.LC()
    return symbolic(
        {"stated": quartic.as_expr() - stated, "discriminant": proportional},
        "dz/dg = 0 as stated; its resultant with the cubic is the discriminant",
    )


def check_15() -> CheckOutcome:
    """Error Q - tau(f^2) of the rotation-invariant estimator, with the mixed moment from residues."""
    cube = sp.Symbol("cube", positive=True)
    # int rho x Re g = (1/2) (coefficient of 1/x in x g^2) = 1/2; int rho (Re g)^2 = (1/3) int rho (Im g)^2 as in (16).
    square_of_real = (root**3 / sp.pi) * cube / 3
    second = spectrum.moments(2)[2]
    x, a = z, sp.Symbol("a", real=True)
    f = sp.Poly(sp.expand(spectrum.rie(a) ** 2), x, a)
    integrals = {(2, 0): second, (1, 1): sp.Rational(1, 2), (0, 2): square_of_real}
    norm = sum((c * integrals[powers] for powers, c in f.terms()), sp.S.Zero)
    difference = (1 + width) - norm - residues.mmse_from_cube(cube)
    residual = symbolic({"error": difference}, "")
    values = {(0.5, 1.0): 0.39694864, (0.5, 0.1): 0.06654149, (1.0, 0.1): 0.08054567, (2.0, 1.0): 0.47049641}
    gaps = [abs(plain.mmse(*place) - value) / 5e-9 for place, value in values.items()]
    norms = [abs(plain.mean(r, d, partial(_squared_rule, d)) + plain.mmse(r, d) - 1 - r) / 1e-10 for r, d in _PLACES]
    return numeric([residual.residual, *gaps, *norms], 1.0, "Q - tau(f^2), symbolically and on nodes; stated values")


def check_16() -> CheckOutcome:
    """The two other forms of the error."""
    return symbolic(residues.modulus_identities(), "cube, modulus and third root")


def check_17() -> CheckOutcome:
    """The rule f = x - 2 Delta Re g from subordination, and its slope."""
    a = sp.Symbol("a", real=True)
    slope = spectrum.rie_slope()
    # Differentiate the cubic implicitly: the same slope on its curve.
    cubic = spectrum.stieltjes_cubic().as_expr()
    implicit = 1 + 2 * noise * sp.diff(cubic, z) / sp.diff(cubic, g)
    return symbolic(
        {"f": spectrum.rie(a) - (z - 2 * noise * a), "slope": (slope - implicit).subs(z, spectrum.position())},
        "conditional expectation by subordination; slope from z(g) and from the cubic",
    )


def check_18() -> CheckOutcome:
    """The divergence of the estimator, Delta times the double integral of (f(x) - f(y)) / (x - y), is the error."""
    residuals = []
    for rho, delta in _PLACES:
        # Two rules without a common node; the difference quotient is smooth where the support is one interval.
        (x, gx, dx), (y, gy, dy) = (plain.spectrum(rho, delta, n) for n in (240, 241))
        quotient = (x - 2 * delta * gx.real)[:, None] - (y - 2 * delta * gy.real)
        quotient /= x[:, None] - y
        double = float((gx.imag * dx) @ quotient @ (gy.imag * dy)) / math.pi**2
        residuals.append(abs(delta * double / plain.mmse(rho, delta) - 1.0))
    return numeric(residuals, 1e-7, "double integral against (15) at five (rho, Delta)")


def check_19() -> CheckOutcome:
    """Large noise: the third root against the projection on polynomials, and against quadrature."""
    place = sp.Rational(2, 3)
    found = series.large_noise_series(3).subs(root, place)
    residuals = [0.0 if sp.expand(found - series.projection_series(3, place)) == 0 else math.inf]
    scalar = series.infinite_width() - noise / (1 + noise)
    wide = sp.limit(series.large_noise_series(3), root, sp.oo) - sp.series(1 / (1 + z), z, 0, 4).removeO().subs(
        z, 1 / noise
    )
    residuals.append(symbolic({"infinite width": scalar, "its series": sp.expand(wide)}, "").residual)
    for rho in (0.5, 2.0):
        value = float(series.large_noise_series(3).subs({root: math.sqrt(rho), noise: 100.0}))
        # The next term is of order Delta^-4, with a coefficient below 20 here.
        residuals.append(abs(value - plain.mmse(rho, 100.0)) / 2e-7)
    return numeric(residuals, 1.0, "three orders: third root, polynomials, quadrature at Delta = 100; rho = oo")


def check_20() -> CheckOutcome:
    """The slope at zero noise is twice the number of parameters of S."""
    return symbolic(
        {f"wide: {wide}": series.recovery_slope(wide) - 2 * evolution.parameter_count(wide) for wide in (False, True)},
        "residues of the third root against the count of parameters",
    )


def check_21() -> CheckOutcome:
    """Small noise to second order: the remainder falls as the cube of the noise."""
    residuals = []
    for rho in (0.3, 0.5, 2.0, 3.0):
        expansion = series.small_noise_series(2, rho > 1.0).subs(root, math.sqrt(rho))
        rest = [plain.mmse(rho, d) - float(expansion.subs(noise, d)) for d in (0.004, 0.002)]
        residuals.append(abs(rest[0] / rest[1] / 8.0 - 1.0))
    # Relative size of the next order at Delta = 0.004.
    return numeric(residuals, 0.1, "remainder at Delta = 0.004 over that at 0.002: eight, for four widths")


def check_22() -> CheckOutcome:
    """Width one: the exact coefficient against (1 - MMSE/Delta) / Delta^(2/3), extrapolated."""
    exact = float(series.critical_coefficient())
    noises = 1e-2 / 8.0 ** np.arange(5)
    values = np.array([(1.0 - plain.mmse(1.0, d, 2000) / d) / d ** (2.0 / 3.0) for d in noises])
    # Corrections are powers of Delta^(1/3): a polynomial through the five points at zero.
    limit = np.polynomial.Polynomial.fit(np.cbrt(noises), values, 4)(0.0)
    return numeric([abs(limit / exact - 1.0)], 1e-5, f"{exact:.10f} exactly, {limit:.7f} by extrapolation")


def check_23() -> CheckOutcome:
    """Small width: the exact limit from the duality, and q at rho -> 0 with Delta = t / rho, extrapolated."""
    t = sp.Symbol("t", positive=True)
    exact = symbolic({"limit": evolution.small_width_overlap(t) - (1 - t) ** 2}, "")
    residuals = [exact.residual]
    for value in (0.3, 0.6):
        widths = np.array([4e-4, 2e-4, 1e-4])
        q = np.array([1.0 + r - plain.mmse(r, value / r, 400) for r in widths])
        limit = np.polynomial.Polynomial.fit(widths, q, 2)(0.0)
        residuals.append(abs(limit - (1.0 - value) ** 2) / 1e-5)
    beyond = [1.0 + r - plain.mmse(r, 1.5 / r, 400) for r in (4e-4, 1e-4)]
    residuals += [abs(beyond[1]) / 1e-3, abs(beyond[1] / beyond[0])]
    return numeric(residuals, 1.0, "q = (1 - t)^2 exactly; extrapolated in rho at t = 0.3, 0.6; q -> 0 at t = 1.5")


def check_24() -> CheckOutcome:
    """The duality, step by step."""
    return symbolic(residues.duality_identities(), "five steps of the Moebius map u -> u / (u - 1)")
