"""Checks of the errata: each computes what holds and fails where the published value were right."""

import math

import numpy as np

from attnlimits.derive.aim import hardmax
from attnlimits.derive.registry import CheckOutcome
from attnlimits.papers.troiani2025.checks.tools import numeric

from . import plain


def _over(least: float, distance: float) -> float:
    """Residual that passes (<= 1) where a distance is at least the least one."""
    return least / distance if distance > 0.0 else math.inf


def hardmax_derivative() -> CheckOutcome:
    """Differentiate Phi2 numerically: the derivative is phi Phi, and the bivariate density is another function."""
    k1, k2, h = np.array([-0.7, 0.2, 1.1]), np.array([0.4, -0.9, 0.3]), 1e-3
    residuals = []
    for r in (1.0 / 3.0, -1.0 / 3.0):
        f = [plain.bivariate_cdf(k1 + n * h, k2, r) for n in (-2, -1, 1, 2)]
        slope = (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * h)
        residuals.append(float(np.max(np.abs(slope - plain.partial(k1, k2, r)))) / 1e-11)
        residuals.append(_over(0.005, float(np.min(np.abs(slope - plain.bivariate_density(k1, k2, r))))))
    ratio = plain.hardmax_information(1e-8, published=True) / plain.hardmax_information(1e-8)
    residuals.append(abs(ratio - 9 / (4 * math.pi)) / 1e-6)
    return numeric(
        residuals, 1.0, "dPhi2/dk1 is phi(k1) Phi(..); F(0) of the density in its place is 9/(4 pi) of the true one"
    )


def weak_recovery_line() -> CheckOutcome:
    """0.56345 belongs to the variant; at abar = 0.5, below it, the small-width equation has overlap."""
    exact = float(hardmax.weak_recovery_threshold())
    variant = 1.0 / (2.0 * plain.hardmax_information(1e-8, published=True))
    # t(q) of the closed equation at abar = 0.5: a solution between q = 1e-4 and q = 0.2 by a change of sign.
    gaps = []
    for q in (1e-4, 0.2):
        v = 1.0 - q
        t = v / (2.0 * 0.5 * plain.hardmax_information(q / v))
        gaps.append(max(1.0 - t, 0.0) ** 2 - q)
    residuals = [
        abs(exact - 0.4034106290376) / 1e-12,
        abs(variant / 0.5634517524 - 1.0) / 1e-3,
        abs(variant / exact / (4 * math.pi / 9) - 1.0) / 1e-6,
        _over(1e-3, gaps[0]),
        _over(1e-3, -gaps[1]),
    ]
    return numeric(residuals, 1.0, f"abar_w = {exact:.7f}; {variant:.5f} by the variant; overlap at abar = 0.5")


def hardmax_decay() -> CheckOutcome:
    """Exponent of the error in alpha at rho = 0.5: -2, and -1 for the variant."""
    exponents, gaps = [], []
    for published in (False, True):

        def information(c: float, published: bool = published) -> float:
            return plain.hardmax_information(c, published=published)

        errors = (2e-4, 1e-4)
        first, second = (plain.fixed_point(0.5, v, information) for v in errors)
        exponents.append(math.log(errors[1] / errors[0]) / math.log(second / first))
        if published:
            # Two points of the published curve, good to a few per cent by its own scatter.
            data = ((1.0026943807, 0.3145479907), (10.0, 0.0473341228))
            gaps = [abs(plain.fixed_point(0.5, error, information) / alpha - 1.0) / 0.04 for alpha, error in data]
    residuals = [abs(exponents[0] + 2.0) / 0.02, abs(exponents[1] + 1.0) / 0.02, *gaps]
    return numeric(
        residuals, 1.0, f"log-log slopes {exponents[0]:.3f} and, by the variant, {exponents[1]:.3f} at V = 1e-4"
    )


def small_width_scaling() -> CheckOutcome:
    """Overlap at rho = 1e-4 under both readings: Delta = t / rho gives (1 - t)^2, 1/qhat with qhat = t rho does not."""
    rho = 1e-4
    residuals = []
    for t in (0.5, 2.0):
        corollary = max(1.0 - t, 0.0) ** 2
        right, printed = (1.0 + rho - plain.mmse(rho, noise, 400) for noise in (t / rho, 1.0 / (t * rho)))
        # Corrections are of order sqrt(rho) next to t = 1 and of order rho away from it.
        residuals += [abs(right - corollary) / 2e-3, _over(0.2, abs(printed - corollary))]
    return numeric(
        residuals, 1.0, "q at t = 0.5 and t = 2: (1 - t)^2 for qhat = rho / t, off by 0.2 and more for t rho"
    )


def hardmax_labels() -> CheckOutcome:
    """Equal-variance indices give other labels: P(both tokens attend to themselves) by sampling, against both laws."""
    rng = np.random.default_rng(0)
    h = rng.standard_normal((1_000_000, 3)) * np.sqrt([2.0, 1.0, 2.0])
    error = 5.0 * math.sqrt(0.25 / len(h))
    both = [float(np.mean((h[:, 0] > s * h[:, 1]) & (h[:, 2] > s * h[:, 1]))) for s in (1.0, math.sqrt(2.0))]
    right = float(hardmax.quadrant(hardmax.correlation()))
    residuals = [abs(both[0] - right) / error, abs(both[1] - 1.0 / 3.0) / error, _over(0.02, both[1] - right)]
    return numeric(residuals, 1.0, f"{both[0]:.4f} with the model's indices, {both[1]:.4f} with h_12 scaled by sqrt(2)")
