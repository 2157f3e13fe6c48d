import math
from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import chi

from attnlimits.derive.flow import linear_flow, linear_fluctuations, pair_flow, time
from attnlimits.numerics.model.activations import activated
from attnlimits.numerics.thresholds import flow as module
from attnlimits.numerics.thresholds.flow import flow
from attnlimits.numerics.thresholds.flow_means import pair_means

ROTATION = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)


def random_networks(kappa, layers, samples, tokens=2, rank=1, activation="softmax", *, tied=True, beta=1.0, rng):
    """Mixing matrices of finite networks of L layers at c = L/kappa on random data (46)-(47), shape (samples, M, M).

    B_l = [I + sigma(B_{l-1} h_l^T h_l B_{l-1}^T)/c] B_{l-1} with standard Gaussian h_l.
    """
    generator = np.random.default_rng(rng)
    mixing = np.broadcast_to(np.eye(tokens), (samples, tokens, tokens)).copy()
    for _ in range(layers):
        key = mixing @ generator.standard_normal((samples, tokens, rank))
        query = key if tied else mixing @ generator.standard_normal((samples, tokens, rank))
        mixing += (kappa / layers) * (activated(key @ query.transpose(0, 2, 1), activation, beta) @ mixing)
    return mixing


@pytest.fixture(scope="module")
def softmax():
    return flow(1.0)


def test_finite_networks_converge_with_the_derived_rates(softmax):
    """Tied softmax, M = 2: fluctuations L^-1/2, means L^-1, both with the coefficients of the result."""
    depths, samples = [8, 16, 64], 10_000
    spread, bias, noise = [], [], []
    for depth in depths:
        mixing = ROTATION @ random_networks(1.0, depth, samples, rng=depth) @ ROTATION
        minus = mixing[:, 1, 1]
        spread.append(np.sqrt(((minus - softmax.minus) ** 2).mean()))
        bias.append(mixing[:, 1, 1].mean() - softmax.minus)
        noise.append(minus.std() / math.sqrt(samples))
        # The all-ones vector grows by 1 + 1/c in every layer, whatever the data.
        np.testing.assert_allclose(mixing[:, 0, 0], (1 + 1 / depth) ** depth, rtol=1e-12)
        assert np.abs(mixing[:, 1, 0]).max() < 1e-13
    slope, _ = np.polyfit(np.log(depths), np.log(spread), 1)
    # Corrections of relative order 1/L: 0.1 at L = 8 falls to 0.01 at 64, which tilts the fit by some 0.05.
    assert slope == pytest.approx(-0.5, abs=0.05)
    last = mixing[:, 1, 1].var() * 64, mixing[:, 0, 1].var() * 64
    # Next order at L = 64, some five over L, and the sampling error of a variance, sqrt(2/10000).
    assert last[0] == pytest.approx(softmax.variance_minus, rel=0.08)
    assert last[1] == pytest.approx(softmax.variance_cross, rel=0.12)
    for depth, value, sigma in zip(depths, bias, noise, strict=True):
        # The coefficient itself has a correction of order 1/L.
        assert abs(depth * value - softmax.bias_minus) < 4 * depth * sigma + 0.2 / depth


def test_means_converge_as_one_over_depth():
    """Rank 2, where the bias is large: slope of the mean error against depth."""
    limit = flow(1.0, rank=2, tol=1e-7)
    depths, sizes = [8, 32], [10_000, 60_000]
    error = []
    for depth, samples in zip(depths, sizes, strict=True):
        minus = (ROTATION @ random_networks(1.0, depth, samples, rank=2, rng=depth + 1) @ ROTATION)[:, 1, 1]
        error.append(minus.mean() - limit.minus)
        # Noise well below the error at every depth.
        assert minus.std() / math.sqrt(len(minus)) < 0.12 * abs(error[-1])
    slope, _ = np.polyfit(np.log(depths), np.log(np.abs(error)), 1)
    assert slope == pytest.approx(-1, abs=0.15)
    assert depths[-1] * error[-1] == pytest.approx(limit.bias_minus, rel=0.2)


def test_linear_networks_converge_to_the_closed_form():
    kappa, tokens = 0.1, 3
    limit = flow(kappa, tokens, activation="linear")
    assert limit.minus == pytest.approx(float(linear_flow(beta=sp.S.One).minus.subs(time, kappa)), rel=1e-15)
    depths, spread = [24, 96, 288], []
    for depth in depths:
        mixing = random_networks(kappa, depth, 5_000, tokens, activation="linear", rng=depth)
        spread.append(np.sqrt(((mixing - limit.matrix) ** 2).mean()))
    slope, _ = np.polyfit(np.log(depths), np.log(spread), 1)
    # Corrections of relative order ten over L: cubic growth gives heavy tails at small depth, which steepen the fit.
    assert slope == pytest.approx(-0.5, abs=0.08)
    c = depths[-1] / kappa
    # Variances at L = 288 up to a relative correction of order ten over L and 2% of sampling error.
    assert c * mixing[:, 0, 0].var() == pytest.approx(limit.variance_minus, rel=0.1)
    assert c * mixing[:, 0, 1].var() == pytest.approx(limit.variance_cross, rel=0.1)
    sigma = mixing[:, 0, 0].std() / math.sqrt(5_000)
    diagonal = np.trace(mixing, axis1=1, axis2=2).mean() / tokens
    assert abs(c * (diagonal - limit.minus) - limit.bias_minus) < 4 * c * sigma + 0.1 * abs(limit.bias_minus)


def test_linear_coefficients_are_those_of_the_derivation():
    beta = sp.Rational(1, 3)
    made = linear_fluctuations(sp.Integer(4), sp.Integer(2), beta)
    limit = flow(0.5, 4, 2, "linear", beta=1 / 3)
    at = {time: sp.Rational(1, 2)}
    assert limit.variance_minus == pytest.approx(float(made.diagonal.subs(at)), rel=1e-13)
    assert limit.variance_cross == pytest.approx(float(made.off_diagonal.subs(at)), rel=1e-13)
    assert limit.bias_minus == pytest.approx(float(made.bias.subs(at)), rel=1e-12)


@pytest.mark.slow_for("1e-300-3", "1e-100-3", "1e-07-1", "1e-100-1")
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("beta", [1e-7, 1e-100, 1e-300])
def test_coefficients_of_a_flat_softmax(beta, rank):
    """Small beta: y = 1/2 + scores/4 gives beta^2 r kappa/2, beta^2 r kappa e^{2 kappa}/4, -3 beta^2 r^2 kappa/8."""
    kappa = 0.75
    made = flow(kappa, rank=rank, beta=beta)
    wanted = rank * kappa / 2, rank * kappa * math.exp(2 * kappa) / 4, -0.375 * rank**2 * kappa
    for value, number in zip((made.variance_minus, made.variance_cross, made.bias_minus), wanted, strict=True):
        exact = beta * number * beta
        # The next order is relative beta; the solver's relative tolerance is 1e-9.
        assert value == pytest.approx(exact, rel=1e-6, abs=0.0)
        assert abs(value - exact) <= made.coefficient_error + 20 * beta * abs(exact)


def test_means_of_a_layer_are_those_of_the_derivation(monkeypatch):
    """Every integrand of the derivation, averaged over one sample, against the quadrature."""
    # What the derivation proves on the way takes a second: tests/derive/test_flow.py has it.
    monkeypatch.setattr("attnlimits.derive.flow.prove_equal", lambda *sides: None)
    a, b, beta, rank = 1.7, 1.2, 1.0, 3
    made = pair_flow(sp.S.One)
    rng = np.random.default_rng(5)
    count = 20_000
    values = (a, b, 0.0, np.sqrt(rng.chisquare(rank, count)), rng.normal(size=count))
    names = (made.plus, made.minus, made.cross, made.radius, made.angle)
    means = pair_means(a, b, rank, beta, 0)
    drawn = {
        name: sp.lambdify(names, getattr(made, name), "numpy")(*values)
        for name in ("tau", "tau_t", "tau_tt", "tau_a", "tau_ss", "s_s", "s")
    }
    drawn["s_square"] = drawn.pop("s") ** 2
    drawn["tau_variance"] = (drawn["tau"] - means.tau) ** 2
    for name, sample in drawn.items():
        assert abs(sample.mean() - getattr(means, name)) < 4 * sample.std() / math.sqrt(count), name


def test_quadrature_levels_agree():
    coarse, fine = (pair_means(2.5, 1.3, 1, 1.0, level) for level in (0, 4))
    for name in ("tau", "tau_variance", "s_square", "tau_t", "tau_tt", "tau_a", "tau_ss", "s_s"):
        assert getattr(coarse, name) == pytest.approx(getattr(fine, name), abs=1e-11)


def test_many_tokens_against_pair_quadrature_and_networks(softmax):
    sampled = module._many(1.0, 2, 1, 1.0, np.random.default_rng(0))
    assert abs(sampled.minus - softmax.minus) < 5 * sampled.error
    three = flow(0.5, 3)
    networks = random_networks(0.5, 64, 8_000, 3, rng=1)
    minus = (np.trace(networks, axis1=1, axis2=2) - networks.sum(axis=(1, 2)) / 3) / 2
    sigma = minus.std() / math.sqrt(len(minus))
    # The mean of finite networks is off by a coefficient of order one over c = 128.
    assert abs(minus.mean() - three.minus) < 4 * sigma + 1 / 128
    assert three.error < 1e-4


def test_untied_networks_mix_uniformly():
    limit = flow(1.0, 3, tied=False)
    np.testing.assert_allclose(limit.matrix, np.eye(3) + math.expm1(1.0) / 3, rtol=1e-15)
    networks = random_networks(1.0, 128, 4_000, 3, tied=False, rng=3)
    sigma = networks.std(axis=0) / math.sqrt(len(networks))
    # (1 + 1/c)^L - 1 falls short of e - 1 by e/(2 c), spread over the three tokens.
    shift = ((1 + 1 / 128) ** 128 - math.e) / 3
    assert (np.abs(networks.mean(axis=0) - limit.matrix - shift) < 4 * sigma + 1e-12).all()


def test_no_depth_is_the_identity():
    assert np.array_equal(flow(0.0).matrix, np.eye(2))
    assert flow(0.0, 3, activation="linear").minus == 1


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((-1.0,), {}, "kappa = L/c must be finite and >= 0"),
        ((math.nan,), {}, "kappa = L/c must be finite"),
        (
            (0.5,),
            {"activation": "linear"},
            "below 1/\\(2 beta r\\) = 0.5, where tied linear attention diverges",
        ),
        ((2.5,), {}, "kappa must be at most 2 for tied softmax"),
        ((1.0, 1), {}, "tokens must be an integer >= 2"),
        ((1.0, 2, 0), {}, "rank must be an integer >= 1"),
        ((1.0,), {"beta": 0.0}, "beta must be finite and > 0"),
        ((1.0,), {"activation": "tanh"}, "activation must be one of softmax, linear"),
        ((1.0,), {"activation": 3}, "activation must be one of softmax, linear"),
        ((1.0,), {"tol": 0.5}, "tol must be from 1e-12"),
        ((1.0,), {"tol": "small"}, "tol must be a positive number"),
        (("a",), {}, "kappa = L/c must be a finite number"),
        ((True,), {}, "kappa = L/c must be a finite number"),
        ((10**400,), {}, "kappa = L/c must be finite"),
        ((1.0,), {"tied": "no"}, "tied must be True"),
        ((1.0,), {"beta": 1e5}, "beta must be at most 1000 for tied softmax"),
        ((1.0, 2, 20_000), {}, "rank must be at most 10000"),
        ((1.0, 200), {}, "tokens must be at most 128"),
        ((1.0, 100, 1000), {}, "rank times tokens must be at most 21201"),
        ((1000.0,), {"tied": False}, "kappa must be at most 354 for untied softmax"),
    ],
)
def test_bad_arguments_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        flow(*arguments, **options)


def test_numpy_numbers_are_numbers():
    made = flow(np.float64(0.3), np.int64(3), np.int64(2), "linear", beta=np.float32(0.5))
    assert made.minus == flow(0.3, 3, 2, "linear", beta=0.5).minus
    assert flow(0.3, np.int64(4), tied=np.bool_(False)).plus == math.exp(0.3)


def _direct_means(a, b, rank, beta):
    """E[tau] and E[(y_11 - y_22)^2] by SciPy's adaptive quadrature over rho and, split at the step, over z."""

    def inner(function, rho):
        centre = b * rho / a
        at = sorted({0.0, min(centre, 9.0), min(max(centre - 30 / (beta * a * b * rho), 0.0), 9.0), 9.0})
        total = 0.0
        for lower, upper in pairwise(at):
            total += quad(lambda z: function(rho, z) * np.exp(-(z**2) / 2), lower, upper, epsabs=1e-13, limit=200)[0]
        return 2 * total / math.sqrt(2 * math.pi)

    def tau(rho, z):
        rise, step = beta * b**2 * rho**2, beta * a * b * rho * z
        return expit(rise + step) + expit(rise - step) - 1

    def square(rho, z):
        rise, step = beta * b**2 * rho**2, beta * a * b * rho * z
        return (expit(rise + step) - expit(rise - step)) ** 2

    law = chi(rank)
    cuts = [0.0, 1e-3, 1e-2, 0.1, 1.0, 4.0, 9.0]
    return [
        sum(
            quad(lambda rho, f=f: inner(f, rho) * law.pdf(rho), lower, upper, epsabs=1e-11, limit=200)[0]
            for lower, upper in pairwise(cuts)
        )
        for f in (tau, square)
    ]


def test_steep_softmax_against_adaptive_quadrature():
    made = pair_means(1.6, 1.2, 1, 300.0, 0)
    tau, square = _direct_means(1.6, 1.2, 1, 300.0)
    # What the adaptive rule promises, summed over its panels.
    assert made.tau == pytest.approx(tau, abs=1e-9)
    assert made.s_square == pytest.approx(square, abs=1e-9)


@pytest.mark.parametrize(("a", "b", "rank", "beta"), [(7.0, 7.0, 1, 1e3), (2.5, 1.5, 2, 1e2), (3.0, 2.9, 500, 1.0)])
def test_quadrature_levels_agree_where_the_softmax_is_a_step(a, b, rank, beta):
    coarse, fine = (pair_means(a, b, rank, beta, level) for level in (0, 3))
    for name in ("tau", "tau_variance", "s_square", "tau_t", "tau_tt", "tau_a", "tau_ss", "s_s"):
        # Second derivatives are sums of terms beta times larger.
        assert getattr(coarse, name) == pytest.approx(getattr(fine, name), rel=1e-11, abs=1e-12 * beta)


def test_steep_softmax_approaches_hard_attention():
    """At beta -> oo, tau is 1 where |z| < b rho/a and 0 elsewhere: E[tau] = (2/pi) atan(b/a) at rank 1."""
    a, b = 2.0, 1.3
    steep = [abs(pair_means(a, b, 1, beta, 0).tau - 2 / math.pi * math.atan(b / a)) for beta in (10, 100, 1000)]
    assert steep[2] < 1e-4
    assert steep[1] < steep[0] / 5 and steep[2] < steep[1] / 5


@pytest.mark.slow_for("1000.0")
@pytest.mark.parametrize("beta", [10.0, 1000.0])
def test_steep_flows_against_networks(beta):
    limit = flow(0.5, beta=beta, tol=1e-5)
    mixing = ROTATION @ random_networks(0.5, 128, 5_000, beta=beta, rng=4) @ ROTATION
    c, minus = 256, mixing[:, 1, 1]
    assert abs(minus.mean() - limit.minus - limit.bias_minus / c) < 4 * minus.std() / math.sqrt(5_000) + 1 / c**2
    # Relative corrections of order five over L, and 2% of sampling error.
    assert c * minus.var() == pytest.approx(limit.variance_minus, rel=0.1)
    assert c * mixing[:, 0, 1].var() == pytest.approx(limit.variance_cross, rel=0.1)


def test_wide_layers_attend_to_themselves():
    """At large rank every token attends to itself: B = e^kappa I, without fluctuations."""
    limit = flow(1.0, rank=500, tol=1e-7)
    assert abs(limit.minus - math.e) <= limit.error
    assert limit.variance_minus >= 0 and limit.variance_cross >= 0
    assert max(limit.variance_minus, limit.variance_cross) <= limit.coefficient_error
    # (1 + 1/c)^L falls short of e by e/(2 c).
    assert abs(limit.bias_minus + math.e / 2) <= 10 * limit.coefficient_error


def test_steep_many_tokens_end():
    steep = flow(0.5, 3, beta=1e3)
    networks = random_networks(0.5, 64, 5_000, 3, beta=1e3, rng=5)
    minus = (np.trace(networks, axis1=1, axis2=2) - networks.sum(axis=(1, 2)) / 3) / 2
    assert abs(minus.mean() - steep.minus) < 4 * minus.std() / math.sqrt(5_000) + 1 / 128 + 5 * steep.error
