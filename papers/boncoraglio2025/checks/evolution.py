"""Checks of the state evolution: thresholds, small width, laws near recovery, free energy, stated values."""

import math
from functools import partial

import numpy as np
import sympy as sp

from attnlimits.derive.aim import channels, evolution, free_energy, hardmax, heads, model, series
from attnlimits.derive.aim.symbols import g, root, width
from attnlimits.derive.aim.symbols import noise as delta
from attnlimits.derive.registry import CheckOutcome
from attnlimits.papers.troiani2025.checks.tools import numeric, symbolic

from . import plain


def _slope(rho: float) -> float:
    return float(series.recovery_slope(rho > 1.0).subs(root, math.sqrt(rho)))


def check_39() -> CheckOutcome:
    """Counting thresholds as stated, and the same from the denoiser's slope at zero noise: a = 2 alpha K = D_rho."""
    tokens = sp.Symbol("T", positive=True)
    stated = {
        ("softmax", False): (2 * width - width**2) / (tokens**2 + tokens - 2),
        ("softmax", True): 1 / (tokens**2 + tokens - 2),
        ("linear", False): (2 * width - width**2) / (tokens**2 + tokens),
        ("linear", True): 1 / (tokens**2 + tokens),
    }
    differences = {}
    for (channel, wide), value in stated.items():
        found = evolution.counting_threshold(tokens, channel, wide)
        differences[f"{channel}, wide {wide}"] = found - value
        count = channels.functional_count(tokens, channel)
        differences[f"{channel}, wide {wide}, slope"] = 2 * found * count - series.recovery_slope(wide)
    return symbolic(differences, "parameters over functionals for any T, and the slope of the denoiser")


def check_40() -> CheckOutcome:
    """MMSE / Delta decreases from D_rho to 0: one fixed point for every a below D_rho, none above but V = 0."""
    residuals = []
    for rho in (0.1, 0.5, 1.0, 2.0, 5.0):
        noises = np.geomspace(1e-4, 1e4, 60)
        ratio = np.array([plain.mmse(rho, d, 800 if d < 0.01 else 200) / d for d in noises])
        residuals.append(float(np.any(np.diff(ratio) >= 0.0)))
        residuals.append(float(ratio.max() > _slope(rho)))
        residuals.append(ratio[-1] / 1e-3)
    return numeric(residuals, 0.5, "MMSE / Delta on sixty noises from 1e-4 to 1e4, five widths")


def check_41() -> CheckOutcome:
    """Error just below perfect recovery, rho = 2 and rho = 1."""
    a = sp.Symbol("a", positive=True)
    wide, critical = evolution.error_near_recovery(a)
    residuals = []
    for rho, formula, nodes in ((2.0, wide.subs(root, sp.sqrt(2)), 400), (1.0, critical, 3000)):
        gaps = []
        for noise in (1e-4, 1e-5):
            value = plain.mmse(rho, noise, nodes)
            gaps.append(abs(float(formula.subs(a, value / noise)) / value - 1.0))
        # The relative error of the leading term falls: with Delta for rho = 2, with Delta^(1/3) for rho = 1.
        residuals += [gaps[1] / gaps[0] / (0.2 if rho > 1.0 else 0.6), gaps[1] / (1e-3 if rho > 1.0 else 0.05)]
    return numeric(residuals, 1.0, "leading terms at Delta = 1e-4 and 1e-5")


def _small_width(error: float) -> float:
    """Return abar at which the small-width equation of hardmax has the given error."""
    q = 1.0 - error
    return error / (2.0 * (1.0 - math.sqrt(q)) * plain.hardmax_information(q / error))


def check_42() -> CheckOutcome:
    """Weak recovery at small width: the exact value, the closed equation next to zero overlap, stated values."""
    exact = hardmax.weak_recovery_threshold()
    agree = symbolic({"condition": evolution.weak_recovery(hardmax.information_at_zero()) - exact}, "")
    residuals = [agree.residual, abs(float(exact) - 0.4034106) / 5e-8]
    # At overlap q the equation gives abar_w (1 + sqrt(q) / 2 + ..): extrapolate in sqrt(q).
    near = [_small_width(1.0 - q) for q in (4e-6, 1e-6)]
    residuals.append(abs((2.0 * near[1] - near[0]) / float(exact) - 1.0) / 1e-5)
    for abar, error in ((0.5, 0.95269), (1.0, 0.42959), (5.0, 0.01938)):
        # Half a unit of the last digit of the error, through the slope of the curve.
        allowed = abs(_small_width(error + 6e-6) - _small_width(error - 6e-6)) / 2.0
        residuals.append(abs(_small_width(error) - abar) / allowed)
    return numeric(residuals, 1.0, f"abar_w = {float(exact):.10f}; stated errors at abar = 0.5, 1, 5")


def check_43() -> CheckOutcome:
    """Small width with K functionals: MMSE = c (2 - c), and weak recovery at c = 1."""
    c, k, t = sp.symbols("c K t", positive=True)
    error = evolution.small_width_error(c)
    return symbolic(
        {
            "error": error - c * (2 - c),
            "overlap": evolution.small_width_overlap(t) - (1 - t) ** 2,
            "threshold": 2 * evolution.weak_recovery(k) * k - 1,
            "continuous there": error.subs(c, 1) - 1,
        },
        "solved exactly; c = 2 abar K",
    )


def check_44() -> CheckOutcome:
    """Power law of hardmax: the coefficient as stated, and alpha^2 V on the curve, extrapolated."""
    alpha, slope, integral = sp.symbols("alpha D I0", positive=True)
    law = evolution.hardmax_tail(alpha, slope, integral)
    stated = sp.pi * slope**2 * (1 + width) / (8 * integral**2 * alpha**2)
    residuals = [symbolic({"law": law - stated}, "").residual]
    for rho, value in ((0.5, 0.10154), (2.0, 0.3610)):
        coefficient = float((law * alpha**2).subs({root: math.sqrt(rho), slope: _slope(rho), integral: 1.8063946}))
        residuals.append(abs(coefficient / value - 1.0) / 2e-4)
        # V = Delta D (1 + O(Delta)) with F at c = Q / V: corrections fall like sqrt(V).
        errors = np.array([4e-5, 1e-5])
        found = [v * plain.fixed_point(rho, v, plain.hardmax_information) ** 2 for v in errors]
        residuals.append(abs((2.0 * found[1] - found[0]) / coefficient - 1.0) / 1e-3)
    return numeric(residuals, 1.0, "coefficient of 1/alpha^2, and alpha^2 V at V = 4e-5, 1e-5")


def check_46() -> CheckOutcome:
    """dPsi_out/dq = F / (2V): hardmax by differences of its entropy, K functionals exactly."""
    k, v, q, big = sp.symbols("K V q Q", positive=True)
    exact = symbolic({"K": sp.diff(-k / 2 * sp.log(big - q), q).subs(q, big - v) - k / (2 * v)}, "")
    residuals = [exact.residual]
    for c in (0.3, 1.0, 5.0):
        # V = Q - q: at Q = 1 + c and V = 1, dc/dq = 1 + c.
        h = 1e-3 * c
        f = [plain.hardmax_entropy(c + n * h) for n in (-2, -1, 1, 2)]
        slope = (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * h) * (1.0 + c)
        residuals.append(abs(slope / (plain.hardmax_information(c) / 2.0) - 1.0) / 1e-8)
    return numeric(residuals, 1.0, "fourth-order differences of the entropy of hardmax against F at c = 0.3, 1, 5")


def check_45() -> CheckOutcome:
    """The conditions of stationarity of the free energy are the two equations of the state evolution."""
    q, snr, big, alpha, mmse = sp.symbols("q qhat Q alpha mmse", positive=True)
    information, energy = (sp.Function(name) for name in ("I", "Psi"))
    total = alpha * energy(q) + big * snr / 4 - information(snr) - q * snr / 4
    squares = sp.Symbol("sum_C_g2")
    by_snr = sp.diff(total, snr).subs(sp.diff(information(snr), snr), mmse / 4)
    by_q = sp.diff(total, q).subs(sp.diff(energy(q), q), squares / 2)
    return symbolic(
        {
            "prior": 4 * by_snr - (big - mmse - q),
            "channel": 4 * by_q - (2 * alpha * squares - snr),
        },
        "with dI/dqhat = MMSE/4, (47), and dPsi_out/dq = (1/2) sum C E g^2, (46)",
    )


def check_47() -> CheckOutcome:
    """The potential and dI/dqhat = MMSE / 4."""
    return symbolic(free_energy.information_identities(), "potential, its constant, the flow with the noise")


def _information(rho: float, noise: float) -> float:
    """I(S; Y) / d^2 by the potential on the support."""
    potential = sp.lambdify((g, root, delta), free_energy.potential(), "numpy")
    log_energy = plain.mean(rho, noise, lambda x, value: potential(value, math.sqrt(rho), noise).real)
    return log_energy / 2.0 - math.log(noise) / 4.0 + 0.125


def check_48() -> CheckOutcome:
    """I as stated at three places, its zero at large noise, and the integral of MMSE / 4 over qhat."""
    stated = {(0.5, 0.5): 0.232312, (1.0, 0.2): 0.401311, (2.0, 1.0): 0.168230}
    residuals = [abs(_information(*place) - value) / 6e-7 for place, value in stated.items()]
    residuals.append(abs(_information(0.5, 1e6)) / 1e-6)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    for rho, noise in stated:
        snr = (nodes + 1.0) / (2.0 * noise)
        total = sum(w * plain.mmse(rho, 1.0 / s) for s, w in zip(snr, weights, strict=True)) / (8.0 * noise)
        residuals.append(abs(total / _information(rho, noise) - 1.0) / 1e-8)
    return numeric(residuals, 1.0, "three stated values; the integral of MMSE / 4 over qhat")


def check_49() -> CheckOutcome:
    """Overlap of independent layers by Wick's theorem, and its limit."""
    differences = {}
    for size, ranks in ((2, (1, 2)), (2, (3, 1)), (3, (1, 1))):
        found = model.second_moment(size, ranks)
        differences[f"d = {size}, r = {ranks}"] = found - model.independent_overlap(*map(sp.Integer, ranks)).subs(
            model.dimension, size
        )
    first, second = sp.symbols("rho1 rho2", positive=True)
    limit = model.independent_overlap(first * model.dimension, second * model.dimension)
    differences["limit"] = limit - sp.sqrt(first * second)
    return symbolic(differences, "E Tr(S_l S_m) / d at three (d, r_l, r_m); free of d at fixed widths")


def _relative_error(rho: float, noise: float) -> float:
    return plain.mmse(rho, noise, 150) / noise


def check_52() -> CheckOutcome:
    """Stated errors of channels that fix K functionals, at a = x D_rho."""
    rows = {
        0.5: ((0.1, 0.913255), (0.3, 0.681885), (0.5, 0.431612), (0.7, 0.214845), (0.9, 0.058648)),
        1.0: ((0.1, 0.890322), (0.3, 0.632056), (0.5, 0.374823), (0.7, 0.163507), (0.9, 0.027370)),
    }
    residuals = []
    for rho, row in rows.items():
        for x, error in row:
            a = x * _slope(rho)
            noise = plain.bisect(partial(_relative_error, rho), a, 1e-3, 1e4)
            residuals.append(abs(a * noise - error) / 6e-7)
    return numeric(residuals, 1.0, "ten stated errors, to their last digit")


def check_53() -> CheckOutcome:
    """Stated errors of hardmax at T = 2, and of its published variant, on the curves alpha(V)."""
    rows = {
        (0.5, False): ((0.05, 0.87873), (0.3, 0.37415), (1.0, 0.07893), (10.0, 0.00102)),
        (1.0, False): ((0.1, 0.80325), (1.0, 0.13447), (5.0, 0.00876)),
        (0.5, True): ((0.1, 0.86044), (1.0, 0.31559), (10.0, 0.04647)),
        (1.0, True): ((0.3, 0.72993), (5.0, 0.13301)),
    }
    residuals = []
    for (rho, published), row in rows.items():

        def information(c: float, published: bool = published) -> float:
            return plain.hardmax_information(c, published=published, nodes=80)

        for alpha, error in row:
            # A unit of the last digit of the error, through the slope of the curve.
            found, beside = (plain.fixed_point(rho, v, information) for v in (error, error + 1e-5))
            residuals.append(abs(found - alpha) / abs(beside - found))
    return numeric(
        residuals, 1.0, "seven stated errors, and five of the published variant, to a unit of the last digit"
    )


def check_54() -> CheckOutcome:
    """Weak signals at finite width: V = 1 - 2 alpha F(rho) + O(alpha^2)."""
    residuals = []
    for rho in (0.5, 2.0):
        for information in (plain.hardmax_information, lambda c: 2.0):
            slopes = [
                (1.0 - v) / (2.0 * plain.fixed_point(rho, v, information)) / information(rho) for v in (0.998, 0.999)
            ]
            residuals.append(abs(2.0 * slopes[1] - slopes[0] - 1.0))
    # What is left after one extrapolation in alpha is of its second order.
    return numeric(residuals, 1e-4, "(1 - V) / (2 alpha F(rho)) as alpha -> 0, hardmax and softmax at T = 2")


def check_59() -> CheckOutcome:
    """Heads whose scores are added: the scale of their sum, its Q, and the error of each head."""
    return symbolic(heads.head_identities(), "L heads of one width; the symmetry of heads gives their estimates")
