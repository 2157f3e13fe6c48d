"""Thresholds of networks whose outputs have noise: weak noise, strong noise, and posteriors on a plain grid."""

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.charts import chart_threshold
from attnlimits.numerics.thresholds.last_layer import last_layer


def _strong(model, draws=200_000):
    """alpha/Delta at strong noise, where E[h h^T | y] is linear in y: 1/sum of squared covariances with the data."""
    h = np.random.default_rng(5).standard_normal((draws, 1, model.tokens))
    if model.activation == "linear":
        seen = model.link(h).reshape(draws, -1)
    else:
        y = np.log(model.link(h))
        seen = (y - y.mean(axis=2, keepdims=True)).reshape(draws, -1)
    products = (h[:, 0, :, None] * h[:, 0, None, :]).reshape(draws, -1)
    covariance = (products - products.mean(axis=0)).T @ (seen - seen.mean(axis=0)) / draws
    return 1 / np.sum(covariance**2)


@pytest.mark.parametrize("model", [Network(1, 2, noise=300), Network(1, 3, activation="linear", noise=2000)])
def test_strong_noise_leaves_the_covariance_with_the_scores(model):
    found = chart_threshold(model, samples=128, nodes=128)
    expected = model.noise * _strong(model)
    assert abs(float(found.value) - expected) < 4 * found.error + 0.03 * expected
    if model.activation == "linear":
        assert expected == pytest.approx(2000 / 24, rel=0.03)


def test_weak_noise_leaves_the_threshold_without_noise():
    model = Network(1, 2, 1)
    exact = float(last_layer(model).value)
    weak, weaker = (chart_threshold(Network(1, 2, noise=x), samples=64, nodes=256) for x in (1e-2, 1e-4))
    assert exact < float(weaker.value) < float(weak.value)
    assert abs(float(weaker.value) - exact) < 4 * weaker.error + 0.01


@pytest.mark.parametrize("beta", [pytest.param(1.0, marks=pytest.mark.slow), 3.0])
def test_posteriors_on_a_grid_give_the_same_threshold(beta):
    model = Network(1, 2, beta=beta, noise=0.4)
    rng = np.random.default_rng(7)
    h = rng.standard_normal((1500, 1, 2))
    y = model.observed(model.link(h), rng.standard_normal((1500, 2, 2)))
    seen = (np.log(y[..., 0]) - np.log(y[..., 1])) / np.sqrt(2)
    # Half of the plane: h and -h have one output. No node is at zero.
    axis = np.linspace(-5.5, 5.5, 110)
    grid = np.stack(np.meshgrid(axis[55:], axis, indexing="ij"), axis=-1).reshape(-1, 1, 2)
    scores = beta * grid[:, 0, :] * (grid[:, :, 0] - grid[:, :, 1]) / np.sqrt(2)
    prior = -0.5 * (grid**2).sum(axis=(1, 2))
    products = (grid[:, 0, :, None] * grid[:, 0, None, :]).reshape(-1, 4)
    rates = []
    for data in seen:
        weight = np.exp(prior - ((data - scores) ** 2).sum(axis=1) / (2 * model.noise))
        moments = weight @ products / weight.sum() - np.eye(2).ravel()
        rates.append(np.sum(moments**2))
    expected, error = np.mean(rates), np.std(rates) / np.sqrt(len(rates))
    found = chart_threshold(model, samples=64, nodes=512)
    assert abs(found.operator_norm - expected) < 4 * np.hypot(error, found.error * expected**2)


def test_overlaps_grow_above_the_threshold_and_not_below():
    model = Network(1, 2, tied=False, noise=0.5)
    value = float(chart_threshold(model, samples=128, nodes=64).value)
    below, above = (evolve(model, factor * value, samples=64, nodes=64, tol=1e-2) for factor in (0.7, 2.5))
    assert not below.overlap.any()
    assert (above.overlap.diagonal() > 5 * above.overlap_error.diagonal()).all()


def test_an_output_with_noise_is_a_stochastic_matrix():
    model = Network(2, 3, noise=2.0)
    rng = np.random.default_rng(1)
    y = model.link(rng.standard_normal((50, 2, 3)))
    seen = model.observed(y, rng.standard_normal(y.shape))
    np.testing.assert_allclose(seen.sum(axis=2), 1, rtol=1e-12)
    assert (seen > 0).all() and np.abs(seen - y).max() > 0.1


def test_sequences_with_noise_are_served_where_without_they_are_not():
    found = chart_threshold(Network(2, 3, output="sequence", noise=1.0), samples=128, nodes=128)
    assert found.error < 0.3 * float(found.value)
    assert "noise 1" in Network(2, 3, output="sequence", noise=1.0).describe()


def test_the_fixed_point_of_one_layer_has_the_noise_in_it():
    # Without noise this layer is recovered at alpha = 2.
    found = evolve(Network(1, 2, noise=0.3), 2.0, samples=16, nodes=256)
    assert 0.4 < found.overlap[0, 0] < 0.95 and found.overlap_error[0, 0] < 0.1
