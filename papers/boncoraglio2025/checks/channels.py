"""Checks of the output channels."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import sympy as sp

from attnlimits.derive.aim import channels, choices, entrywise, hardmax, noise
from attnlimits.derive.aim.symbols import beta, variance
from attnlimits.derive.registry import CheckOutcome
from attnlimits.papers.troiani2025.checks.tools import numeric, symbolic

from . import plain
from .plain import Array

_TOKENS = (2, 3, 4)


def check_10() -> CheckOutcome:
    """F does not depend on the scale: V sum C E g^2 of every channel is free of V at given q / V."""
    differences = {"hardmax": sp.diff(hardmax.difference_covariance() / variance, variance)}
    for tokens in _TOKENS:
        error = channels.residual(tokens)
        differences[f"softmax, T = {tokens}"] = sp.diff(
            channels.information(channels.softmax_gradient(tokens, error), error), variance
        )
    return symbolic(differences, "softmax at T = 2, 3, 4; the arguments k of hardmax depend on mean / sqrt(V) only")


def check_25() -> CheckOutcome:
    """A channel that fixes K functionals has F = K, and its g is orthogonal to what it does not fix."""
    differences = {}
    general = sp.Matrix([[1, 2, -1], [0, 3, 1]])
    for name, functionals in (
        ("K = 2, T = 2", general),
        *((f"T = {t}", channels.shift_functionals(t)) for t in _TOKENS),
    ):
        tokens = 2 if functionals is general else int(name[4:])
        error = channels.residual(tokens)
        gradient = channels.functional_gradient(functionals, error)
        differences[name] = channels.information(gradient, error) - functionals.rows
        # The posterior mean omega + V C g must give the observed M h.
        mean = variance * channels.variances(tokens) * gradient
        differences[f"{name}, data"] = functionals * (mean - error)
    return symbolic(differences, "F = K and M E[h|y] = M h, for four sets of functionals")


def check_26() -> CheckOutcome:
    """The linear channel: all functionals, g = e / (V C)."""
    differences = {}
    for tokens in _TOKENS:
        error, spread = channels.residual(tokens), channels.variances(tokens)
        gradient = channels.functional_gradient(sp.eye(len(error)), error)
        differences[f"g, T = {tokens}"] = gradient - spread.inv() * error / variance
        differences[f"F, T = {tokens}"] = channels.information(gradient, error) - channels.functional_count(
            tokens, "linear"
        )
    return symbolic(differences, "g and F = T (T + 1) / 2 at T = 2, 3, 4")


def check_27() -> CheckOutcome:
    """Noise of variance Dn C on the linear output: V -> V + Dn in g, by convolving the Gaussians."""
    h, y, omega, c, extra = sp.symbols("h y omega C Dn", positive=True)
    exponent = sp.expand(-((h - omega) ** 2) / (2 * variance * c) - (y - h) ** 2 / (2 * extra * c))
    quadratic, linear, constant = (exponent.coeff(h, k) for k in (2, 1, 0))
    log_z = constant - linear**2 / (4 * quadratic)
    gradient = sp.diff(log_z, omega)
    return symbolic({"g": gradient - (y - omega) / ((variance + extra) * c)}, "one entry; the entries are independent")


def check_28() -> CheckOutcome:
    """Check phi from the logarithms of a softmax output is h less h_TT."""
    differences = {}
    for tokens in _TOKENS:
        h = sp.Matrix(tokens, tokens, lambda i, j: sp.Symbol(f"h_{min(i, j)}{max(i, j)}", real=True))
        sums = sp.symbols(f"Z:{tokens}", positive=True)
        output = sp.Matrix(tokens, tokens, lambda i, j, h=h, sums=sums: sp.exp(beta * h[i, j]) / sums[i])
        phi = channels.softmax_indices(output)
        differences[f"T = {tokens}"] = phi - (h - h[tokens - 1, tokens - 1] * sp.ones(tokens))
        differences[f"symmetric, T = {tokens}"] = phi - phi.T
    return symbolic(differences, "rows of y with any normalisation, T = 2, 3, 4")


@cache
def _integrated(tokens: int) -> tuple[sp.Expr, sp.Matrix]:
    return channels.softmax_gradient_by_integration(tokens)


def check_29() -> CheckOutcome:
    """The most likely shift is the mean of omega - phi over all T^2 entries."""
    differences = {}
    for tokens in _TOKENS:
        error = channels.residual(tokens)
        matrix = sp.zeros(tokens)
        for e, (a, b) in zip(error, channels.entries(tokens), strict=True):
            matrix[a, b] = matrix[b, a] = e
        differences[f"T = {tokens}"] = _integrated(tokens)[0] + sum(matrix) / tokens**2
    return symbolic(differences, "maximiser over the shift, T = 2, 3, 4")


def check_30() -> CheckOutcome:
    """Three ways to g of softmax: integrating the shift, the stated formula, and the formula of K functionals."""
    differences = {}
    for tokens in _TOKENS:
        error = channels.residual(tokens)
        gradient = channels.softmax_gradient(tokens, error)
        differences[f"integral, T = {tokens}"] = _integrated(tokens)[1] - gradient
        functional = channels.functional_gradient(channels.shift_functionals(tokens), error)
        differences[f"functionals, T = {tokens}"] = functional - gradient
    return symbolic(differences, "three ways to g, T = 2, 3, 4; the argument for any T is in derive/aim/channels.py")


def check_31() -> CheckOutcome:
    """Softmax has F = K, hence qhat = alpha (T^2 + T - 2) / V."""
    tokens = sp.Symbol("T", positive=True)
    differences = {"count": 2 * channels.functional_count(tokens, "softmax") - (tokens**2 + tokens - 2)}
    for t in _TOKENS:
        error = channels.residual(t)
        found = channels.information(channels.softmax_gradient(t, error), error)
        differences[f"T = {t}"] = found - channels.functional_count(tokens, "softmax").subs(tokens, t)
    return symbolic(differences, "F = (T^2 + T - 2) / 2 at T = 2, 3, 4")


def check_32() -> CheckOutcome:
    """The denoiser g is the posterior mean of h less omega over V C, for any likelihood."""
    h, omega, c = sp.symbols("h omega C", positive=True)
    weight = sp.exp(-((h - omega) ** 2) / (2 * variance * c))
    return symbolic(
        {"score": sp.diff(sp.log(weight), omega) - (h - omega) / (variance * c)},
        "the derivative acts on the Gaussian weight alone",
    )


def check_33() -> CheckOutcome:
    """The two differences of hardmax."""
    wanted = variance * sp.Matrix([[3, 1], [1, 3]])
    return symbolic(
        {"covariance": hardmax.difference_covariance() - wanted, "r": hardmax.correlation() - sp.Rational(1, 3)},
        "variance 3V and correlation 1/3",
    )


def check_34() -> CheckOutcome:
    """The derivatives of Phi2 and the sum of squares."""
    return symbolic(hardmax.gradient_identities(), "derivatives of Phi2, their symmetry, sum of squares of g")


def check_35() -> CheckOutcome:
    """F(c) against sampling from the model: V sum C g^2, and the identity E[(h - omega) g] = V sum C E g^2."""
    rng = np.random.default_rng(0)
    samples, c = 400_000, 1.0
    spread = np.array([2.0, 1.0, 2.0])
    omega = rng.standard_normal((samples, 3)) * np.sqrt(c * spread)
    step = rng.standard_normal((samples, 3)) * np.sqrt(spread)
    h = omega + step  # V = 1
    s1, s2 = np.sign(h[:, 0] - h[:, 1]), np.sign(h[:, 2] - h[:, 1])
    k1, k2 = s1 * (omega[:, 0] - omega[:, 1]) / math.sqrt(3.0), s2 * (omega[:, 2] - omega[:, 1]) / math.sqrt(3.0)
    same = s1 * s2 > 0

    def by_label(function: Callable[[Array, Array, float], Array], first: Array, second: Array) -> Array:
        return np.where(same, function(first, second, 1 / 3), function(first, second, -1 / 3))

    scale = math.sqrt(3.0) * by_label(plain.bivariate_cdf, k1, k2)
    g1, g2 = s1 * by_label(plain.partial, k1, k2) / scale, s2 * by_label(plain.partial, k2, k1) / scale
    g = np.stack([g1, -(g1 + g2), g2], axis=1)
    squares, products = (g**2 * spread).sum(axis=1), (g * step).sum(axis=1)
    value = plain.hardmax_information(c)
    residuals = [abs(v.mean() - value) / (5.0 * v.std() / math.sqrt(samples)) for v in (squares, products)]
    stated = {1.0: 0.9376750, 10.0: 0.4247897, 100.0: 0.1426449}
    residuals += [abs(plain.hardmax_information(c) - v) / 6e-8 for c, v in stated.items()]
    return numeric(residuals, 1.0, f"F(1) = {value:.7f} by plain sums and by sampling; stated values")


def check_36() -> CheckOutcome:
    """F(0), exactly, as stated and as the limit of plain sums."""
    plus, minus = (sp.Rational(1, 4) + sign * sp.asin(sp.Rational(1, 3)) / (2 * sp.pi) for sign in (1, -1))
    stated = (2 / plus + 1 / minus) / (3 * sp.pi)
    exact = hardmax.information_at_zero()
    residual = symbolic({"stated": sp.cancel(sp.together(exact - stated))}, "")
    # F is smooth at zero: the difference is of order c.
    near = [plain.hardmax_information(c) for c in (2e-5, 1e-5)]
    limit = 2.0 * near[1] - near[0]
    value = float(exact)
    return numeric([residual.residual, abs(limit / value - 1.0) / 1e-8], 1.0, f"{value:.12f} exactly and by plain sums")


def check_37() -> CheckOutcome:
    """The tail of F: I_0 by a plain sum, and sqrt(c) F(c) for large c."""
    integral = hardmax.tail_integral()
    (variable, *_) = integral.limits[0]
    axis, step = np.linspace(-8.0, 8.0, 401, retstep=True)
    i_0 = float(np.sum(sp.lambdify(variable, integral.function, ["scipy", "numpy"])(axis[40:-40])) * step)
    limit = 2.0 * i_0 / math.sqrt(2.0 * math.pi)
    sizes = np.array([1e3, 4e3, 16e3])
    values = np.array([math.sqrt(c) * plain.hardmax_information(c) for c in sizes])
    # Corrections are powers of 1/sqrt(c).
    found = np.polynomial.Polynomial.fit(1 / np.sqrt(sizes), values, 2)(0.0)
    residuals = [abs(i_0 - 1.8063946) / 1e-7, abs(limit - 1.4412943) / 1e-7, abs(found / limit - 1.0) / 1e-4]
    return numeric(residuals, 1.0, f"I_0 = {i_0:.7f}; sqrt(c) F(c) tends to {found:.5f}")


def check_38() -> CheckOutcome:
    """The published variant: its F(0) over the true one is 9 / (4 pi), and it falls like 1 / c."""
    ratio = symbolic({"ratio": hardmax.published_ratio() - 9 / (4 * sp.pi)}, "")
    at_zero = plain.hardmax_information(1e-8, published=True)
    tail = plain.published_tail()
    large = 1e5 * plain.hardmax_information(1e5, published=True)
    residuals = [
        ratio.residual,
        abs(at_zero / float(hardmax.published_information_at_zero()) - 1.0) / 1e-6,
        abs(tail - 1.12190) / 1e-5,
        abs(large / tail - 1.0) / 1e-3,
    ]
    return numeric(residuals, 1.0, f"ratio 9/(4 pi); c F tends to {tail:.5f}")


def check_55() -> CheckOutcome:
    """Errors of prediction as means of products of outputs."""
    return symbolic(choices.prediction_identities(), "a discrete law of outputs given omega")


def check_56() -> CheckOutcome:
    """Softmax as a choice: its law, the product of two of its factors, and the density of that."""
    return symbolic(choices.choice_identities(), "exponents, density and the integral over t, in units of 1/beta")


def check_57() -> CheckOutcome:
    """Noise on the scores: the law of h + z, and F at V + Delta_n."""
    return symbolic(noise.noise_identities(), "one entry; Z_out and F without noise are functions of h + z alone")


def check_58() -> CheckOutcome:
    """Outputs entry by entry: the score is a posterior mean, and F what is left of the variance."""
    return symbolic(entrywise.entry_identities(), "two values of h stand for any number of them")
