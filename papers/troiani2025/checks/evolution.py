"""State evolution, its thresholds and its linearisation: (13), (17)-(18), (73)-(75)."""

from itertools import pairwise

import numpy as np
import sympy as sp

from attnlimits.derive import linearization
from attnlimits.derive.registry import CheckOutcome
from attnlimits.numerics.fixed_point.evolve import evolve as numerics_evolve
from attnlimits.numerics.model.network import Network

from .message_passing import overlap_differences
from .plain import PlainChannel, readout_grid
from .single_layer import conjugate_overlap, evolve, prior_map
from .tools import numeric, symbolic, symmetric


def check_13() -> CheckOutcome:
    """Overlap of the estimate with the target and with itself coincide, and both are F(qhat)."""
    return symbolic(
        overlap_differences(sp.S.Zero), "overlaps of the estimate under the Gaussian field b against F(qhat), P = 2"
    )


def plain_conjugate(q: float, step: float = 0.65) -> float:
    """Sum qhat_22 / alpha of (14) at q = diag(0, q) for two softmax layers, c = 1, plainly.

    The trapezoid over xi of the second layer uses the symmetries under a common sign and a swap of the
    tokens; over labels it runs over v, and over h_1 inside the plain channel. Finer steps of both change
    5e-5 of it.
    """
    reach = int(5.2 / step)
    axis = np.arange(-reach, reach + 1) * step
    gauss = np.exp(-axis * axis / 2.0) * step / np.sqrt(2.0 * np.pi)
    readouts, cell = readout_grid(1.0, 0.35, 5.0)
    variance = np.diag([1.0, 1.0 - q])
    total, size = 0.0, len(axis)
    for i in range(size):
        for j in range(size):
            orbit = {(i, j), (j, i), (size - 1 - i, size - 1 - j), (size - 1 - j, size - 1 - i)}
            weight = sum(gauss[a] * gauss[b] for a, b in orbit)
            if (i, j) != max(orbit) or weight < 1e-6:
                continue
            omega = np.array([[0.0, 0.0], [axis[i], axis[j]]]) * np.sqrt(q)
            found = PlainChannel(omega, variance, step=0.5, reach=6.5).moments(readouts)
            g = (found.mean[:, 1] - omega[1]) / (1.0 - q)
            total += weight * float(found.density @ np.sum(g * g, axis=1)) * cell
    return total


def check_14() -> CheckOutcome:
    """Compare fixed points with independent maps: one layer in closed form, two by plain sums."""
    residuals = []
    for tokens, alpha in ((2, 0.3), (3, 0.2)):
        own = evolve(alpha, 0.1, tokens, 200)[-1]
        found = numerics_evolve(Network(layers=1, tokens=tokens), alpha, workers=1)
        residuals.append(abs(float(found.overlap[0, 0]) - own) / max(4.0 * float(found.overlap_error[0, 0]), 1e-3))
    alpha = 0.4
    found = numerics_evolve(Network(layers=2, tokens=2), alpha, workers=1)
    q = float(found.overlap[1, 1])
    image = prior_map(alpha * plain_conjugate(q))
    # The map contracts towards the fixed point, so that an error of q shows in the image by less than itself.
    residuals.append(abs(image - q) / max(4.0 * float(found.overlap_error[1, 1]), 1e-3))
    residuals.append(float(np.abs(found.overlap - np.diag([0.0, q])).max()) / 1e-12)
    # In units of four standard errors, or of 1e-3, which the plain sums over xi and over labels may miss.
    return numeric(residuals, 1.0, "fixed points of the state evolution against a closed form and plain sums")


def check_17() -> CheckOutcome:
    """One layer: an arbitrarily small start grows above the derived threshold and dies below it."""
    residuals = []
    for tokens in (2, 4):
        threshold = float(linearization.single_layer_threshold(tokens))
        limits = {}
        for side in (-1, 1):
            # 300 iterations at 5 % from the threshold: (1.05)^300 = 2e6 and (0.95)^300 = 2e-7.
            limits[side] = [evolve(threshold * (1.0 + 0.05 * side), start, tokens, 300)[-1] for start in (1e-5, 1e-6)]
        residuals.append(max(limits[-1]) / 1e-5)  # below: less than the start itself
        residuals.append(0.005 / min(limits[1]))  # above: of order alpha / alpha_c - 1, whatever the start
        residuals.append(abs(limits[1][0] - limits[1][1]) / 1e-4)
    return numeric(residuals, 1.0, "one layer, M = 2, 4: limit of the iterates 5 % below and above 1/(M(M+1))")


def check_18() -> CheckOutcome:
    """Side information kept in the map, or in the start only: the same limit as delta -> 0."""
    residuals = []
    for factor in (1.2, 2.0):
        alpha = factor * float(linearization.single_layer_threshold(2))
        free = evolve(alpha, 1e-6, 2, 300)[-1]
        # The limit moves in proportion to delta: two deltas extrapolate to zero.
        kept = [evolve(alpha, delta, 2, 300, side_information=delta)[-1] for delta in (1e-6, 2e-6)]
        residuals.append(abs(2.0 * kept[0] - kept[1] - free))
    # Left over: the second order in delta, 1e-12 times a curvature of order (factor - 1)^{-3}.
    return numeric(residuals, 1e-8, "one layer: limits with side information in the map and in the start, delta -> 0")


def check_73() -> CheckOutcome:
    """Compare the slope of the map at zero overlap with alpha times the eigenvalue of the operator."""
    residuals = []
    for tokens in (2, 3, 5):
        eigenvalue = float(linearization.single_layer_eigenvalue(tokens))
        for alpha, rate in ((0.1, 0.0), (0.3, 1e-5)):
            slopes = [
                (prior_map(alpha * conjugate_overlap(q, tokens) + rate) - prior_map(rate)) / q for q in (2e-4, 1e-4)
            ]
            residuals.append(abs((2.0 * slopes[1] - slopes[0]) / (alpha * eigenvalue) - 1.0))
    # The extrapolation leaves the second order in q, whose coefficient is a few hundred at M = 5: 1e-5.
    return numeric(residuals, 1e-4, "slope of the one-layer map at q = 0 against alpha M (M + 1), M = 2, 3, 5")


def check_74() -> CheckOutcome:
    """F(qhat + lambda I) - lambda/(1 + lambda) I = S C S / (1 + lambda) with qhat = S^2: PSD."""
    rate = sp.Symbol("lambda", positive=True)
    root = symmetric("S", 2)
    conjugate = root * root
    one = sp.eye(2)
    spread = ((1 + rate) * one + conjugate).inv()
    after = (conjugate + rate * one) * spread
    gap = after - rate / (1 + rate) * one
    return symbolic(
        {"gap": gap - root * spread * root / (1 + rate)},
        "F(qhat + lambda I) - lambda/(1 + lambda) I against a PSD square, P = 2",
    )


def check_75() -> CheckOutcome:
    """Above the threshold every step of a small overlap grows it by a fixed factor; below it shrinks."""
    residuals = []
    for tokens in (2, 3):
        threshold = float(linearization.single_layer_threshold(tokens))
        for factor in (0.8, 1.25):
            history = evolve(factor * threshold, 1e-6, tokens, 20)
            growth = [after / before for before, after in pairwise(history)]
            # While q stays below 1e-4 the factor is alpha / alpha_c up to a relative O(q).
            residuals.append(max(abs(g / factor - 1.0) for g in growth))
    return numeric(residuals, 5e-3, "growth per step of a small overlap against alpha / alpha_c, one layer, M = 2, 3")
