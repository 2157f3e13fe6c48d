"""Derivations of the attention-indexed model: each result by a second route, and each proof can fail."""

import math

import mpmath
import numpy as np
import pytest
import sympy as sp
from mpmath.ctx_mp import MPContext

from attnlimits.derive.aim import (
    channels,
    evolution,
    free_energy,
    hardmax,
    laurent,
    model,
    residues,
    series,
    spectrum,
)
from attnlimits.derive.aim.symbols import g, noise, root, variance, width, z
from attnlimits.papers.boncoraglio2025.checks import plain
from attnlimits.papers.troiani2025.checks.tools import vanishes

IDENTITIES = {
    "modulus": residues.modulus_identities,
    "duality": residues.duality_identities,
    "information": free_energy.information_identities,
    "hardmax": hardmax.gradient_identities,
}


def _at(expr, **values):
    return float(expr.subs({root: math.sqrt(values["rho"]), noise: values["delta"]}))


COEFFICIENTS = sp.lambdify((z, root, noise), spectrum.stieltjes_cubic().all_coeffs())


def _physical(x, rho, delta):
    """Root of the derived cubic with the most negative imaginary part."""
    roots = np.roots(COEFFICIENTS(x, math.sqrt(rho), delta))
    return roots[np.argmin(roots.imag)]


@pytest.mark.parametrize("name", IDENTITIES)
def test_every_identity_reduces_to_zero(name):
    for step, difference in IDENTITIES[name]().items():
        assert vanishes(difference), step


def test_no_float_in_any_derivation():
    t = sp.Symbol("t", positive=True)
    for expr in (
        spectrum.discriminant().as_expr(),
        series.large_noise_series(2),
        series.small_noise_series(2, True),
        series.critical_coefficient(),
        hardmax.weak_recovery_threshold(),
        evolution.small_width_error(t),
        free_energy.potential(),
    ):
        assert not expr.atoms(sp.Float)


def test_eigenvalues_of_a_sample_lie_in_the_support():
    """One matrix of the model at d = 800: moments and the largest eigenvalues, two routes to the spectrum."""
    rng = np.random.default_rng(0)
    d, rho, delta = 800, 0.5, 0.3
    w = rng.standard_normal((d, int(rho * d)))
    gauss = rng.standard_normal((d, d))
    y = w @ w.T / math.sqrt(rho * d * d) + math.sqrt(delta / (2 * d)) * (gauss + gauss.T)
    found = np.linalg.eigvalsh(y)
    for n, moment in enumerate(spectrum.moments(3)):
        # Fluctuations of traces are of order n / d.
        assert np.mean(found**n) == pytest.approx(_at(moment, rho=rho, delta=delta), rel=0.02)
    limits = plain.edges(rho, delta)
    # Edges fluctuate by d^(-2/3), 0.012.
    assert found[-1] == pytest.approx(limits[-1], abs=0.05)
    assert found[0] == pytest.approx(limits[0], abs=0.05)


def test_the_estimator_reaches_its_error_on_a_sample():
    rng = np.random.default_rng(1)
    d, rho, delta = 500, 0.5, 0.3
    w = rng.standard_normal((d, int(rho * d)))
    gauss = rng.standard_normal((d, d))
    signal = w @ w.T / math.sqrt(rho * d * d)
    values, vectors = np.linalg.eigh(signal + math.sqrt(delta / (2 * d)) * (gauss + gauss.T))
    a = sp.Symbol("a", real=True)
    rule = sp.lambdify((z, a), spectrum.rie(a).subs(noise, delta))
    real = np.array([_physical(x, rho, delta).real for x in values])
    estimate = (vectors * rule(values, real)) @ vectors.T
    error = float(np.sum((estimate - signal) ** 2)) / d
    assert error == pytest.approx(plain.mmse(rho, delta), rel=0.02)  # 1/d effects


def test_slope_of_the_estimator_is_its_derivative():
    rho, delta, x, h = 0.5, 0.4, 1.3, 1e-4
    near = [_physical(x + n * h, rho, delta) for n in (-1, 0, 1)]
    difference = 1 - 2 * delta * (near[2] - near[0]).real / (2 * h)
    slope = sp.lambdify(g, spectrum.rie_slope().subs({root: math.sqrt(rho), noise: delta}))
    assert slope(near[1]).real == pytest.approx(difference, abs=1e-6)  # h^2


@pytest.mark.slow_for("0.5-1.5")
@pytest.mark.parametrize(("rho", "delta"), [("0.5", "1.5"), ("2", "0.4")])
def test_duality_in_arbitrary_precision(rho, delta):
    ctx = MPContext()
    ctx.dps = 40
    rho, delta = ctx.mpf(rho), ctx.mpf(delta)
    left = plain.mmse_digits(ctx, rho, delta, 110)
    right = delta * plain.mmse_digits(ctx, rho * delta, 1 / delta, 110)
    assert abs(left - right) < ctx.mpf(10) ** -35
    # It is no symmetry of another form: without the factor, or without the change of width, nothing agrees.
    assert abs(left - right / delta) > 0.01
    assert abs(left - delta * ctx.mpf(plain.mmse(float(rho), float(1 / delta)))) > 0.001


def test_moduli_on_the_support_obey_the_first_step():
    """A/|u|^2 = B/|1-u|^2 + C and the map w = u/(u-1), on nodes."""
    rho, delta = 0.7, 0.6
    s = math.sqrt(rho)
    x, value, _ = plain.spectrum(rho, delta, 50)
    u = value / s
    np.testing.assert_allclose(1 / s / np.abs(u) ** 2, s / np.abs(1 - u) ** 2 + delta * s, rtol=1e-10)
    w = u / (u - 1)
    place = (1 / s) / w + delta * s / (1 - w) + s * w
    np.testing.assert_allclose(place, 1 / s + s + delta * s - x, atol=1e-10)


def test_tail_coefficients_are_those_of_the_root():
    """Coefficients of 1/x at infinity against the cubic solved at large x."""
    a, b, c = 0.8, 1.1, 0.5
    values = dict(zip(sp.symbols("A B C", positive=True), (a, b, c), strict=True))
    x = mpmath.mpf(10) ** 5
    # x u (1 - u) = a (1 - u) + b u + c u^2 (1 - u); the physical root is the one that vanishes.
    u = min(mpmath.polyroots([-c, c + x, b - a - x, a], maxsteps=200, extraprec=200), key=abs)
    # The next terms are of relative order 1/x.
    assert float(residues.tail_coefficient(1).subs(values)) == pytest.approx(float(u * x), rel=1e-4)
    rest = (1 / u - x / a + b / a) * x
    assert float(residues.tail_coefficient(-1).subs(values)) == pytest.approx(float(rest), rel=1e-3)
    assert residues.tail_coefficient(2) == residues.tail_coefficient(3) == 0


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 60.0), (1.0, 60.0), (3.0, 60.0)])
def test_large_noise_series_improves_with_its_order(rho, delta):
    gaps = [abs(_at(series.large_noise_series(n), rho=rho, delta=delta) - plain.mmse(rho, delta)) for n in (1, 2, 3)]
    for order, gap in enumerate(gaps, 1):
        # The next coefficient: polynomials in 1/rho, below 30 at these widths.
        assert gap < 30 / delta ** (order + 1)


def test_infinite_width_is_the_scalar_channel():
    assert vanishes(series.infinite_width() - noise / (1 + noise))
    # Corrections of order 1/rho.
    for rho in (1e3, 1e4):
        assert plain.mmse(rho, 0.7) == pytest.approx(0.7 / 1.7, abs=0.2 / rho)


def test_large_noise_series_at_infinite_width_is_scalar():
    u = sp.Symbol("u", positive=True)
    limit = sp.limit(series.large_noise_series(3), root, sp.oo)
    scalar = sp.series(1 / (1 + u), u, 0, 4).removeO().subs(u, 1 / noise)
    assert sp.expand(limit - scalar) == 0


@pytest.mark.parametrize("rho", [0.3, 2.5])
def test_small_noise_series_has_the_remainder_of_its_order(rho):
    delta = 0.002
    for order in (1, 2):
        rest = [
            plain.mmse(rho, d, 400) - _at(series.small_noise_series(order, rho > 1), rho=rho, delta=d)
            for d in (2 * delta, delta)
        ]
        assert rest[0] / rest[1] == pytest.approx(2.0 ** (order + 1), rel=0.1)


def test_third_root_gives_the_error():
    """MMSE = Delta (1 - sqrt(rho) int rho / v) on nodes, v from the product of the roots."""
    rho, delta = 0.4, 0.7
    s = math.sqrt(rho)
    mean = plain.mean(rho, delta, lambda x, value: delta * np.abs(value) ** 2 / s)
    assert delta * (1 - s * mean) == pytest.approx(plain.mmse(rho, delta), abs=1e-12)


def test_critical_coefficient_is_the_integral_of_its_curve():
    """int P Im G dX by mpmath, with X = 1/P - P^2 and Im G = sqrt(P - P^4/4), in place of Euler's integral."""
    value = mpmath.quad(lambda p: p * mpmath.sqrt(p - p**4 / 4) * (1 / p**2 + 2 * p), [0, mpmath.mpf(4) ** (1 / 3)])
    assert float(series.critical_coefficient()) == pytest.approx(float(value / mpmath.pi), rel=1e-7)


def test_laurent_products_are_those_of_expressions():
    x, y = sp.symbols("x y")
    first = {(0, -1): laurent.element(1 / (1 - width)), (1, 2): laurent.element(root)}
    second = {(0, 1): laurent.element(3), (2, -1): laurent.element(-1 / root)}

    def expression(terms):
        return sum(laurent.expression(c) * x**i * y**j for (i, j), c in terms.items())

    product = laurent.multiply(first, second, (9, 9))
    assert vanishes(expression(product) - expression(first) * expression(second))
    assert set(laurent.multiply(first, second, (1, 0))) == {(0, 0)}
    assert vanishes(expression(laurent.derivative(first)) - sp.diff(expression(first), y))


@pytest.mark.parametrize("tokens", [2, 3, 5])
def test_softmax_denoiser_on_outputs_of_a_network(tokens):
    """phi from y, then g, against a numerical derivative of the integral over the shift."""
    rng = np.random.default_rng(tokens)
    beta, v = 1.7, 0.6
    h = rng.standard_normal((tokens, tokens))
    h = h + h.T
    y = np.exp(beta * h)
    y /= y.sum(axis=1, keepdims=True)
    logs = np.log(y) / beta
    phi = logs - logs[:, -1:] + logs[-1][:, None] - logs[-1, -1]
    np.testing.assert_allclose(phi, h - h[-1, -1], atol=1e-12)
    pairs = channels.entries(tokens)
    spread = np.array([1.0 + (a == b) for a, b in pairs])
    omega = rng.standard_normal(len(pairs))
    known = np.array([phi[a, b] for a, b in pairs])
    shift, step = np.linspace(-30, 30, 4001, retstep=True)

    def log_z(mean):
        exponent = -((known[:, None] + shift - mean[:, None]) ** 2) / (2 * v * spread[:, None])
        total = exponent.sum(axis=0)
        return total.max() + math.log(np.exp(total - total.max()).sum() * step)

    h_step = 1e-4
    numeric = [(log_z(omega + h_step * e) - log_z(omega - h_step * e)) / (2 * h_step) for e in np.eye(len(pairs))]
    error = channels.residual(tokens)
    derived = channels.softmax_gradient(tokens, error).subs(variance, v)
    values = dict(zip(error, known - omega, strict=True))
    np.testing.assert_allclose([float(e.subs(values)) for e in derived], numeric, atol=1e-6)


def test_no_count_of_functionals_for_other_channels():
    with pytest.raises(ValueError, match=r"channel must be 'linear' or 'softmax' .* got 'hardmax'"):
        channels.functional_count(2, "hardmax")
    with pytest.raises(ValueError, match="order must be >= 1"):
        spectrum.free_cumulant(0)


@pytest.mark.parametrize("sign", [1, -1])
def test_quadrant_probability_by_sampling(sign):
    rng = np.random.default_rng(3)
    h = rng.standard_normal((200_000, 3)) * np.sqrt([2.0, 1.0, 2.0])
    first, second = h[:, 0] - h[:, 1], sign * (h[:, 2] - h[:, 1])
    found = np.mean((first > 0) & (second > 0))
    exact = float(hardmax.quadrant(sign * hardmax.correlation()))
    assert abs(found - exact) < 5 * math.sqrt(exact * (1 - exact) / len(h))


def test_published_variant_is_another_function():
    ratio = hardmax.published_ratio()
    assert ratio == 9 / (4 * sp.pi)
    assert float(hardmax.weak_recovery_threshold() / ratio) == pytest.approx(0.5632675, abs=1e-7)
    assert float(hardmax.weak_recovery_threshold()) == pytest.approx(0.4034106, abs=1e-7)


def test_tail_integral_by_mpmath():
    integral = hardmax.tail_integral()
    (variable, *_) = integral.limits[0]
    function = sp.lambdify(variable, integral.function, "mpmath")
    # The integrand is even, and below 1e-30 beyond 8 (phi^2 / (1 - Phi) ~ x phi).
    value = 2 * mpmath.quad(function, [0, 2, 4, 6, 8])
    assert float(value) == pytest.approx(1.8063946, abs=1e-7)


def test_counting_thresholds_as_numbers():
    for tokens, channel, rho, value in (
        (2, "softmax", sp.Rational(1, 10), 0.0475),
        (2, "softmax", sp.Rational(1, 2), 0.1875),
        (2, "softmax", sp.Integer(3), 0.25),
        (2, "linear", sp.Rational(1, 2), 0.125),
    ):
        found = evolution.counting_threshold(tokens, channel, rho >= 1).subs(root, sp.sqrt(rho))
        assert float(found) == pytest.approx(value, abs=1e-15)


def test_weak_recovery_of_softmax():
    assert evolution.weak_recovery(channels.functional_count(2, "softmax")) == sp.Rational(1, 4)


def test_index_covariance_is_not_an_accident_of_the_diagonal():
    found, stated = model.index_covariance(2)
    assert (found - stated).expand() == sp.zeros(3)
    assert (found - 2 * stated).expand() != sp.zeros(3)


@pytest.mark.parametrize("point", [0.7 + 0.4j, -1.3 + 0.2j, 2.5 + 1.0j])
def test_potential_is_the_integral_of_the_logarithm(point):
    """The closed form against a sum over the density, off the axis."""
    rho, delta = 0.6, 0.5
    x, value, dx = plain.spectrum(rho, delta, 400)
    density = -value.imag / math.pi * dx
    direct = np.sum(density * np.log(point - x))
    stieltjes = np.sum(density / (point - x))
    closed = complex(free_energy.potential().subs({root: math.sqrt(rho), noise: delta, g: sp.sympify(stieltjes)}))
    assert closed == pytest.approx(complex(direct), abs=1e-10)
