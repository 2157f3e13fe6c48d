"""Posteriors of deep softmax layers over two tokens, by nodes that solve for either of the last two layers."""

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp import gamp, make_data, teacher
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.charts.posterior import ChartPosterior
from attnlimits.numerics.posterior.choice import posterior
from attnlimits.numerics.posterior.data.deep import DeepPosterior
from attnlimits.numerics.posterior.data.deep_pair import DeepPairPosterior
from attnlimits.numerics.posterior.protocol import Settings
from attnlimits.numerics.posterior.readout import invert_readout

THREE = Network(3, 2)


def drawn(model, v, n, rng):
    """(y, omega, h) of n samples of the channel where the prior has the covariance v."""
    shape = (n, model.indices, model.tokens)
    omega = np.sqrt(1 - v.diagonal())[:, None] * rng.standard_normal(shape)
    h = omega + np.linalg.cholesky(v) @ rng.standard_normal(shape)
    return model.link(h), omega, h


def pair(model, y, nodes=None, seed=0):
    return DeepPairPosterior(model, y, Settings(1e-4, nodes, np.random.default_rng(seed)))


def covariance(variances, correlation=0.2):
    """Equal correlations between all layers."""
    sd = np.sqrt(np.asarray(variances))
    return np.outer(sd, sd) * (correlation + (1 - correlation) * np.eye(len(sd)))


@pytest.mark.parametrize(
    ("model", "variances"),
    [
        (THREE, (1.0, 1.0, 1.0)),
        pytest.param(THREE, (0.55, 0.67, 0.01), marks=pytest.mark.slow),
        pytest.param(Network(3, 2, skip=0.6, beta=1.4), (0.2, 0.3, 0.1), marks=pytest.mark.slow),
        (Network(4, 2), (0.9, 0.7, 0.5, 0.1)),
    ],
    ids=str,
)
def test_scores_and_densities_beside_those_on_the_chart(model, variances, rng):
    """The chart is solved for the last layer alone, by nodes around the indices that made the outputs."""
    n, v = 12, covariance(variances)
    y, omega, h = drawn(model, v, n, rng)
    output = pair(model, y)
    g, _ = output(omega, v, slice(0, n))
    known = ChartPosterior(model, 1 << 14, n, 1, np.random.default_rng(7))(h, omega, v, second=False)
    exact = np.linalg.solve(v, known.mean[2] @ output.modes - omega)
    # Nodes are worth 200: errors of 0.07 of the widths of the posteriors, which are those of the prior at most.
    assert np.median(np.abs(np.linalg.cholesky(v).T @ (g - exact))) < 0.07
    given = output.given(omega, v)
    log_z = np.array([output.weighed(row, given.means[row], given).log_z for row in range(n)])
    # Both are densities, of v up to its sign and of the logarithms of ratios of y; nodes are worth 200.
    apart = log_z - invert_readout(model, y)[1] + np.log(y).sum(axis=(1, 2)) - known.log_z[2]
    assert np.median(np.abs(apart)) < 0.15


def test_scores_without_a_direction_are_of_rounding(rng):
    """Nodes come with both signs: at zero overlap they leave no scatter of which an error could be compared."""
    v = covariance((1.0, 1.0, 1.0))
    y, omega, _ = drawn(THREE, v, 12, rng)
    # A sum of 1024 nodes, which are of order one.
    assert np.abs(pair(THREE, y)(omega, v, slice(0, 12))[0]).max() < 1024 * np.finfo(float).eps


@pytest.mark.slow_for("variances1")
@pytest.mark.parametrize("variances", [(0.9, 0.95, 0.8), (0.55, 0.67, 0.01)])
def test_errors_are_those_of_the_scatter(variances, rng):
    v = covariance(variances)
    y, omega, _ = drawn(THREE, v, 100, rng)
    outputs = [pair(THREE, y, seed=seed) for seed in range(3)]
    g = np.array([output(omega, v, slice(0, 100))[0] for output in outputs])
    scatter = g.var(axis=0, ddof=1).sum(axis=(0, 2))
    stated = np.mean([output.noise.diagonal() for output in outputs], axis=0)
    # A fifth of the sums is that of four outputs.
    assert (stated < 1.6 * scatter).all() and (scatter < 1.6 * stated).all()


def test_scores_obey_nishimori(rng):
    """E g (V^{-1}(h - omega))^T = E g g^T, whose mean is that of the slopes."""
    v = covariance((0.6, 0.7, 0.05))
    n = 100
    y, omega, h = drawn(THREE, v, n, rng)
    _, slopes = pair(THREE, y)(omega, v, slice(0, n))
    g, _ = pair(THREE, y, seed=1)(omega, v, slice(0, n))
    crossed = np.einsum("nam,nbm->nab", g, np.linalg.solve(v, h - omega))
    # Of variances by nodes worth 200 at least; outputs take 64 sets of nodes in turn.
    scale = np.sqrt(np.outer(v.diagonal(), v.diagonal()))
    error = np.hypot(crossed.std(axis=0) * np.sqrt(n), 2 * n * np.sqrt(2 / 200 / 64) / scale)
    assert (np.abs(slopes - crossed.sum(axis=0)) < 4.5 * error).all()


def test_scores_are_smooth_where_the_prior_moves_little(rng):
    """Nodes stay: half of a small step changes the scores by half as much, and no step by nothing."""
    v = covariance((0.6, 0.7, 0.05))
    y, omega, _ = drawn(THREE, v, 16, rng)
    output, part = pair(THREE, y), slice(0, 16)
    first, _ = output(omega, v, part)
    np.testing.assert_array_equal(output(omega, v, part)[0], first)
    step = 1e-3 * rng.standard_normal(omega.shape) * np.sqrt(v.diagonal())[:, None]
    whole, half = output(omega + step, v, part)[0] - first, output(omega + 0.5 * step, v, part)[0] - first
    np.testing.assert_allclose(whole, 2 * half, atol=0.02 * np.abs(whole).max())


def test_scores_of_layers_of_which_nothing_is_known_have_no_noise(rng):
    """Nodes have both signs of every layer: noise would be amplified like a direction of the weights."""
    v = covariance((1.0, 1.0, 0.05), correlation=0.0)
    y, omega, _ = drawn(THREE, v, 32, rng)
    output = pair(THREE, y)
    g, _ = output(omega, v, slice(0, 32))
    assert np.abs(g[:, :2]).max() < 1e-12 < np.abs(g[:, 2]).min()
    assert output.noise.diagonal()[:2].max() < 1e-24 < output.noise[2, 2]
    # In proportion to what is known.
    step = 1e-3 * rng.standard_normal((32, 3, 2))
    moved, _ = output(omega + step, v, slice(0, 32))
    assert np.abs(moved[:, :2]).max() < 10 * np.abs(step).max()


def test_outputs_that_the_prior_finds_unlikely_have_more_nodes_and_are_not_lost(rng):
    y, omega, _ = drawn(THREE, np.eye(3), 32, rng)
    near = pair(THREE, y)
    g, slopes = near(np.zeros_like(omega), np.eye(3), slice(0, 32))
    far = pair(THREE, y, nodes=8192)
    g, slopes = far(3 * rng.standard_normal((32, 3, 2)), 0.01 * np.eye(3), slice(0, 32))
    assert np.isfinite(g).all() and np.isfinite(slopes).all()
    # Thirty widths away.
    assert np.trace(far.noise) / 100 > np.trace(near.noise)


def test_moments_given_outputs_alone(rng):
    y, _, _ = drawn(THREE, np.eye(3), 12, rng)
    second = pair(THREE, y).prior_moments()
    exact = DeepPosterior(THREE, y, Settings(1e-5, 4096, np.random.default_rng(3))).prior_moments()
    assert np.sqrt(((second - exact) ** 2).mean()) < 0.1


def test_gamp_of_three_layers_converges():
    weights = teacher(THREE, 120, 0)
    x, y = make_data(THREE, weights, 0.7, 0)
    assert isinstance(posterior(THREE, y), DeepPairPosterior)
    found = gamp(x, y, THREE, teacher=weights, rng=0)
    assert found.converged, found.status
    # Of one instance: the state evolution has 0.91, and |W_3|^2/D is 1 +- 0.1.
    assert found.overlap[2, 2] == pytest.approx(0.91, abs=0.25)
