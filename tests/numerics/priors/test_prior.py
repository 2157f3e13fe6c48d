"""Priors of a row: against integrals done otherwise, each other, and what derivatives and infima must be."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.priors import Binary, GaussBernoulli, Gaussian, responses
from attnlimits.numerics.priors.rows import Mixture

PRIORS = [Gaussian(), Binary(), GaussBernoulli(0.3)]
TURN = np.array([[0.8, 0.6], [-0.6, 0.8]])


def one(value):
    return np.array([[float(value)]])


def normal(z):
    return math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("qhat", [0.1, 1.0, 10.0, 60.0])
def test_binary_entries_are_the_known_integral(qhat):
    """psi = -qhat/2 + E log cosh(qhat + sqrt(qhat) z), F = E tanh(qhat + sqrt(qhat) z)."""
    root = math.sqrt(qhat)
    knee = [min(-root, 0.0), 0.0]
    expected = quad(
        lambda z: normal(z) * np.logaddexp(qhat + root * z, -qhat - root * z), -9, 9, epsabs=1e-13, points=knee
    )[0]
    assert Binary().psi(one(qhat)) == pytest.approx(expected - math.log(2) - qhat / 2, abs=1e-11)
    overlap = quad(lambda z: normal(z) * math.tanh(qhat + root * z), -9, 9, epsabs=1e-13, points=knee)[0]
    assert 1 - Binary().mmse(one(qhat))[0, 0] == pytest.approx(overlap, abs=1e-11)


@pytest.mark.parametrize("qhat", [0.3, 5.0, 300.0])
def test_sparse_entries_are_the_integral_over_both_components(qhat):
    density = 0.2
    wide = 1 + qhat / density

    def log_ratio(y):
        spike, slab = math.log(1 - density), math.log(density / math.sqrt(wide))
        return float(np.logaddexp(spike, slab + 0.5 * y * y * (1 - 1 / wide)))

    total = 0.0
    for share, variance in ((1 - density, 1.0), (density, wide)):
        sd = math.sqrt(variance)
        edges = [0.0, *(x for x in (2.0, 4.0, 7.0) if x < 9 * sd), 9 * sd]
        for a, b in pairwise(edges):
            total += 2 * share * quad(lambda y, sd=sd: normal(y / sd) / sd * log_ratio(y), a, b, epsabs=1e-13)[0]
    # the tails beyond nine deviations are 1e-18
    assert GaussBernoulli(density).psi(one(qhat)) == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p.describe())
@pytest.mark.parametrize("qhat", [0.2, 2.0, 30.0])
def test_the_derivative_of_psi_is_half_the_overlap(prior, qhat):
    step = 1e-3 * qhat
    slope = (prior.psi(one(qhat + step)) - prior.psi(one(qhat - step))) / (2 * step)
    # the third derivative times step^2/6
    assert slope == pytest.approx(0.5 * (1 - prior.mmse(one(qhat))[0, 0]), abs=2e-7)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p.describe())
def test_coupled_rows_have_the_same_derivative(prior):
    qhat = TURN.T @ np.diag([0.7, 2.5]) @ TURN
    way = np.array([[0.3, -0.2], [-0.2, 0.5]])
    step = 1e-3
    slope = (prior.psi(qhat + step * way) - prior.psi(qhat - step * way)) / (2 * step)
    overlap = np.eye(2) - prior.mmse(qhat)
    assert slope == pytest.approx(0.5 * np.trace(overlap @ way), abs=1e-6)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p.describe())
@pytest.mark.parametrize("q", [np.diag([0.01, 0.6]), np.diag([0.999, 0.0]), TURN.T @ np.diag([0.3, 0.7]) @ TURN])
def test_the_inverse_inverts(prior, q):
    qhat = prior.inverse(q)
    assert np.eye(2) - prior.mmse(qhat) == pytest.approx(q, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p.describe())
def test_the_response_is_the_derivative_of_the_inverse(prior):
    for q in (0.2, 0.8):
        step = 1e-4
        slope = (prior.inverse(one(q + step)) - prior.inverse(one(q - step))) / (2 * step)
        assert responses(prior, one(q)) == pytest.approx(slope[0], rel=1e-5)


@settings(max_examples=30)
@given(q=st.floats(0.01, 0.95), log_qhat=st.floats(-3, 4), which=st.integers(0, 2))
def test_the_potential_is_an_infimum(q, log_qhat, which):
    prior, qhat = PRIORS[which], math.exp(log_qhat)
    assert prior.potential(one(q)) <= prior.psi(one(qhat)) - 0.5 * q * qhat + 1e-12


def test_a_mixture_of_one_normal_is_the_gaussian_prior():
    rows = Mixture.of_entries([1.0], [0.0], [1.0], 2)
    qhat = TURN.T @ np.diag([0.4, 3.0]) @ TURN
    found = rows.summary(qhat)
    assert found.psi == pytest.approx(Gaussian().psi(qhat), abs=1e-9)
    assert found.mmse == pytest.approx(Gaussian().mmse(qhat), abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS[1:], ids=lambda p: p.describe())
def test_a_diagonal_qhat_separates(prior):
    qhat = np.diag([0.5, 2.0, 3.0])
    # the rule over three entries is the coarsest
    assert prior._of(3).summary(qhat).psi == pytest.approx(prior.psi(qhat), abs=2e-6)
    assert prior._of(2).summary(qhat[:2, :2]).mmse == pytest.approx(prior.mmse(qhat[:2, :2]), abs=1e-8)


def test_towards_recovery_the_potential_goes_as_the_dimension_says():
    for prior in PRIORS:
        near, nearer = (prior.potential(one(1 - v)) for v in (1e-5, 1e-6))
        # a sparse prior's corrections are sqrt(v) log v
        assert (near - nearer) / (0.5 * math.log(10)) == pytest.approx(prior.dimension, abs=0.01)
    assert Binary().potential(one(1 - 1e-7)) == pytest.approx(-math.log(2), abs=1e-5)


@pytest.mark.parametrize("density", [0.0, 1.0, -1, math.nan, True, "x"])
def test_a_density_out_of_range_is_refused(density):
    with pytest.raises(ValueError, match="density must be"):
        GaussBernoulli(density)


def test_four_coupled_entries_are_refused():
    with pytest.raises(ValueError, match="up to 3 entries"):
        Binary().psi(np.eye(4) + 0.1)


@pytest.mark.parametrize("density", [0.05, 0.01, 1e-3, 1e-5])
def test_few_entries_that_are_not_zero(density):
    """F rises faster than qhat, so that its inverse was not found; and the rule was off by up to 1e-6 of the MMSE."""
    prior = GaussBernoulli(density)
    for ratio in (0.3, 8.0, 20.0, 300.0):
        wide = 1 + ratio
        # The same integral by Gauss-Legendre on panels that are short where both components meet; half of it.
        ends = np.unique([*np.linspace(0, 12, 240), *(14 * math.sqrt(wide) * np.linspace(0, 1, 200))])
        nodes, weights = np.polynomial.legendre.leggauss(20)
        y = (0.5 * np.diff(ends)[:, None] * nodes + 0.5 * (ends[1:] + ends[:-1])[:, None]).ravel()
        mass = (0.5 * np.diff(ends)[:, None] * weights).ravel() * 2 / math.sqrt(2 * math.pi)
        slab = math.log(density / math.sqrt(wide)) - y**2 / (2 * wide)
        total = np.logaddexp(slab, math.log1p(-density) - y**2 / 2)
        # E Var(w | y): 1 - E mean^2 loses no digits down to 1e-10 here, to which it is compared.
        overlap = float(mass @ (np.exp(2 * slab - total) * (ratio / density) * (y / wide) ** 2))
        qhat = one(ratio * density)
        assert 1 - prior.mmse(qhat)[0, 0] == pytest.approx(overlap, abs=1e-12)
        if 1e-6 < overlap < 1 - 1e-6:
            assert prior.inverse(one(overlap))[0, 0] == pytest.approx(ratio * density, rel=1e-9 / overlap)


def test_an_overlap_below_the_range_of_float64_is_refused():
    with pytest.raises(ConvergenceError, match="below 1e-300"):
        GaussBernoulli(1e-12).inverse(np.array([[1e-301]]))


def sparse_to_60_digits(density, qhat):
    """(F, psi) by Gauss-Legendre on panels: E <w>^2, and E log of p(y)/N(y; 0, 1) under p."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    ends = np.unique([*np.linspace(0, 22, 45), *(22 * math.sqrt(1 + qhat / density) * np.linspace(0, 1, 45))])
    with ctx.workdps(60):
        density, qhat = arb(density), arb(qhat)
        wide = 1 + qhat / density
        share, root, rate = density / wide.sqrt(), qhat.sqrt() / density / wide, (1 - 1 / wide) / 2
        overlap = psi = arb(0)
        for low, high in pairwise(ends):
            for node, w in zip(0.5 * (low + high + (high - low) * nodes), (high - low) * weights, strict=True):
                y = arb(node)
                slab = share * (y * y * rate).exp()
                ratio = 1 - density + slab
                law = w * (-y * y / 2).exp()
                overlap += law * (slab * root * y) ** 2 / ratio
                psi += law * (ratio * ratio.log() - ratio + 1)
        scale = (2 * arb.pi()).sqrt()
        return overlap / scale, psi / scale


@pytest.mark.parametrize(
    ("density", "qhat"),
    [
        (0.9, 1e-18),
        (0.3, 1e-10),
        (0.01, 1e-15),
        (1e-6, 1e-18),
        (1e-6, 1e-6),
        (1e-12, 1e-12),
        (1e-12, 1e-10),
        (0.2, 1.0),
        (0.3, 300.0),
    ],
)
def test_the_potential_of_sparse_entries_is_within_its_error_of_60_digits(density, qhat):
    """Psi is a sum of positive terms, and F not 1 - MMSE: at q = 1e-10 the potential was 1.4e-17 for -2.5e-21."""
    prior = GaussBernoulli(density)
    overlap, psi = sparse_to_60_digits(density, qhat)
    # Gauss-Legendre in float64 has nodes and weights to some 1e-14.
    assert prior.overlap(one(qhat))[0, 0] == pytest.approx(float(overlap), rel=1e-13)
    assert prior.psi(one(qhat)) == pytest.approx(float(psi), rel=1e-13)
    # The potential is stationary in qhat: that of q rounded to float64 is this, but for (q - F)^2.
    q = float(overlap)
    if q < 0.999:
        with ctx.workdps(60):
            truth = psi - arb(q) * arb(qhat) / 2
        assert abs(prior.potential(one(q)) - float(truth)) <= prior.rounding(one(q)) + 1e-13 * float(psi)
        assert prior.inverse(one(q))[0, 0] == pytest.approx(qhat, rel=1e-11)


@pytest.mark.parametrize("q", [1e-30, 1e-18, 1e-15, 1e-10, 1e-5])
def test_small_overlaps_of_binary_entries_are_their_series(q):
    """F = x - x^2 + 5 x^3/3 - .. and psi = x^2/4 - x^3/6 + ..: the potential is -q^2/4 - q^3/6."""
    potential = -(q**2) / 4 - q**3 / 6
    # The next term is of order q^4.
    assert abs(Binary().potential(one(q)) - potential) <= Binary().rounding(one(q)) + q**4
    assert Binary().inverse(one(q))[0, 0] == pytest.approx(q + q * q, rel=q * q + 1e-12)


# Small overlaps and large ones, and both priors, are each in one of those that stay.
@pytest.mark.slow_for("0.0001", "1.0-Gauss-Bernoulli prior of density 0.3", "1e-12-binary prior")
@pytest.mark.parametrize("prior", PRIORS[1:], ids=lambda p: p.describe())
@pytest.mark.parametrize("size", [1e-12, 1e-4, 1.0])
def test_coupled_overlaps_keep_their_digits_and_state_what_their_rule_leaves(prior, size):
    q = size * TURN.T @ np.diag([0.3, 0.7]) @ TURN
    q = 0.5 * (q + q.T)
    qhat = prior.inverse(q)
    finer = prior._of(2).summary(qhat, 0.6)
    assert finer.overlap == pytest.approx(q, rel=1e-6)
    truth = finer.psi - 0.5 * np.trace(q @ qhat)
    assert abs(prior.potential(q) - truth) <= prior.rounding(q)


# F(qhat) = q solved, and psi - q qhat/2 there, by integrals of mpmath on panels with 30 digits.
@pytest.mark.parametrize(
    ("prior", "q", "qhat", "potential"),
    [
        (GaussBernoulli(0.05), 0.9998, "298.941935916578404623718", "-0.374138507068106951841038"),
        (GaussBernoulli(0.01), 0.2, "0.0249707473034280790877278", "-0.00162700363077824206248791"),
        (GaussBernoulli(0.001), 0.9999, "12.6723104902996323645492", "-0.0116943440027138420305434"),
        (GaussBernoulli(0.3), 0.6, "0.983380903957043252044778", "-0.115825514586304031017673"),
        (GaussBernoulli(0.01), 1e-6, "1.00000098529950043420931e-6", "-2.50000164829104184012463e-13"),
        (Binary(), 1e-3, "0.00100100033433154363202627", "-2.50166708433184078376178e-7"),
        (Binary(), 0.3, "0.405910593049179178251226", "-0.0275443941585168197959787"),
        (Binary(), 0.97, "5.43591852661994667347807", "-0.584617281834107184869221"),
    ],
)
def test_errors_of_an_entry_are_of_rounding_alone(prior, q, qhat, potential):
    """Bounds hold, and are a few dozen roundings of terms, of which the sum keeps a tenth or more."""
    found, error = prior.inverse(one(q))[0, 0], prior.uncertainty(one(q))[0, 0]
    assert abs(Fraction(found) - Fraction(qhat)) <= error < 3e-14 * found
    value, rounding = prior.potential(one(q)), prior.rounding(one(q))
    assert abs(Fraction(value) - Fraction(potential)) <= rounding < 3e-13 * abs(value)


def test_the_error_of_coupled_entries_is_that_of_their_rule():
    q = TURN.T @ np.diag([0.3, 0.7]) @ TURN
    for prior in PRIORS[1:]:
        finer = prior._of(2).summary(prior.inverse(q), 0.5)
        slope = np.linalg.norm(np.linalg.inv(finer.mmse), 2) ** 2
        assert slope * np.linalg.norm(finer.overlap - q) < np.linalg.norm(prior.uncertainty(q)) < 1e-5
