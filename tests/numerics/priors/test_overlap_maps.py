"""F, its derivative, posteriors and draws of a prior: against differences, sums over all rows, and samples."""

from itertools import product

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.priors import Binary, GaussBernoulli, Gaussian, along
from attnlimits.numerics.priors.coupled import coupled_groups

PRIORS = [Gaussian(), Binary(), GaussBernoulli(0.3)]
TURN = np.array([[0.8, 0.6], [-0.6, 0.8]])
PAIR = np.array([[1.5, 0.6], [0.6, 0.9]])
# The third entry by itself.
THREE = np.array([[1.5, 0.6, 0.0], [0.6, 0.9, 0.0], [0.0, 0.0, 2.0]])


@pytest.fixture(params=PRIORS, ids=lambda prior: prior.describe())
def prior(request):
    return request.param


@pytest.mark.parametrize("qhat", [np.array([[0.7]]), np.diag([0.2, 3.0]), PAIR, THREE], ids=str)
def test_the_slope_is_that_of_differences(prior, qhat):
    rng = np.random.default_rng(0)
    moved = rng.standard_normal(qhat.shape)
    # Within groups: rules over three entries that are coupled are coarser.
    moved = np.where(qhat != 0, moved + moved.T, 0.0)
    step = 1e-5
    expected = (prior.overlap(qhat + step * moved) - prior.overlap(qhat - step * moved)) / (2 * step)
    assert np.abs(prior.slope(qhat, moved) - expected).max() < 1e-6


@pytest.mark.parametrize("prior", PRIORS[1:], ids=lambda prior: prior.describe())
def test_the_slope_towards_a_coupling(prior):
    """dF_12 = E C_11 E C_22 dqhat_12 beside a diagonal qhat, by the rule over pairs."""
    qhat, moved, step = np.diag([0.2, 3.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), 1e-3
    expected = (prior.overlap(qhat + step * moved) - prior.overlap(qhat - step * moved)) / (2 * step)
    assert np.abs(prior.slope(qhat, moved) - expected).max() < 2e-6


def test_groups_of_entries_that_know_nothing_of_each_other(prior):
    found = prior.overlap(THREE)
    assert np.abs(found[:2, :2] - prior.overlap(PAIR)).max() < 1e-14
    assert abs(found[2, 2] - prior.overlap(np.array([[2.0]]))[0, 0]) < 1e-14 and found[0, 2] == 0
    assert coupled_groups(THREE) == [[0, 1], [2]]
    assert np.array_equal(prior.overlap(np.array([THREE, np.eye(3)]))[0], found)


def test_along_turned_axes():
    """Along turned axes F of the Gaussian prior is the same, and that of others differs."""
    for prior in PRIORS:
        turned = along(prior, TURN)
        expected = TURN.T @ prior.overlap(TURN @ PAIR @ TURN.T) @ TURN
        assert np.abs(turned.overlap(PAIR) - expected).max() < 1e-14
        assert (np.abs(prior.overlap(PAIR) - expected).max() < 1e-14) == prior.isotropic
        q = turned.overlap(PAIR)
        assert np.abs(turned.inverse(q) - PAIR).max() < 1e-5


def test_binary_rows_are_summed_over():
    rng = np.random.default_rng(1)
    field = rng.standard_normal((3, 50))
    rows = np.array(list(product([-1.0, 1.0], repeat=3)))
    weight = np.exp(rows @ field - 0.5 * np.einsum("ki,ij,kj->k", rows, THREE, rows)[:, None])
    weight /= weight.sum(axis=0)
    mean = rows.T @ weight
    second = np.einsum("kn,ki,kj->ij", weight, rows, rows) / 50
    found, covariance = Binary().posterior(THREE, field)
    assert np.abs(found - mean).max() < 1e-14
    inside = THREE != 0
    # Means of groups that are independent given the field have a covariance over fields, which is no part of it.
    assert np.abs((covariance - (second - mean @ mean.T / 50))[inside]).max() < 1e-14


def test_posterior_means_of_draws_have_the_overlap(prior):
    """b = qhat w + qhat^{1/2} z: E <w> w^T = E <w><w>^T = F, and the mean covariance is I - F."""
    rng = np.random.default_rng(2)
    w = prior.draw((2, 100_000), rng)
    b = PAIR @ w + np.linalg.cholesky(PAIR) @ rng.standard_normal(w.shape)
    mean, covariance = prior.posterior(PAIR, b)
    for product_ in (mean @ w.T, mean @ mean.T):
        assert np.abs(product_ / 100_000 - prior.overlap(PAIR)).max() < 0.02
    assert np.abs(covariance + prior.overlap(PAIR) - np.eye(2)).max() < 0.02
    assert abs(np.mean(w**4) - prior.fourth_moment) < 0.02 * prior.fourth_moment**2


def test_no_posterior():
    for prior in (Gaussian(), GaussBernoulli(0.3)):
        with pytest.raises(ConvergenceError, match="posterior precision I \\+ A has the eigenvalue"):
            prior.posterior(np.array([[-2.0]]), np.zeros((1, 4)))


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_errors_of_pairs_cover_finer_rules(scale):
    """F of a sum of two entries by a rule of one dimension."""
    prior = Binary()
    u = np.full((2, 2), 0.5) * scale
    x = np.linspace(-9, 9, 3601)
    gauss = np.exp(-0.5 * x * x) * 0.005 / np.sqrt(2 * np.pi)
    total = 0.0
    values, shares = np.array([-1.0, 0.0, 1.0]) * np.sqrt(2), np.array([0.25, 0.5, 0.25])
    for value, share in zip(values, shares, strict=True):
        y = np.sqrt(scale) * value + x
        log = np.log(shares)[:, None] + np.sqrt(scale) * values[:, None] * y - 0.5 * scale * values[:, None] ** 2
        weight = np.exp(log - log.max(axis=0))
        mean = values @ weight / weight.sum(axis=0)
        total += share * gauss @ mean**2
    found = prior.overlap(u)
    assert np.abs(found - total / 2).max() <= prior.overlap_error(u).max() + 1e-13
