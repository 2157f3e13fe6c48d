"""Posteriors of data on charts: scores beside a rule, and nodes that stay where they are."""

import numpy as np
import pytest

from attnlimits.numerics.core.errors import UnreachableOutputError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.charts.posterior import ChartPosterior
from attnlimits.numerics.posterior.choice import posterior
from attnlimits.numerics.posterior.data.chart import ChartedPosterior
from attnlimits.numerics.posterior.protocol import Sampled, Settings


def drawn(model, q, n, rng):
    """(y, omega, V, h) of n samples of the channel at overlaps q."""
    v = np.diag(1 - np.asarray(q))
    omega = np.sqrt(np.asarray(q))[:, None] * rng.standard_normal((n, model.indices, model.tokens))
    h = omega + np.sqrt(np.diag(v))[:, None] * rng.standard_normal(omega.shape)
    return model.link(h), omega, v, h


def charted(model, y, nodes=2048, seed=0):
    return ChartedPosterior(model, y, Settings(1e-4, nodes, np.random.default_rng(seed)))


@pytest.mark.slow_for("q1")
@pytest.mark.parametrize("q", [(0.0, 0.0), (0.3, 0.6), (0.6, 0.98)])
def test_scores_and_slopes_beside_the_integral(q, rng):
    model = Network(2, 2, skip=0.8, beta=1.3)
    y, omega, v, _ = drawn(model, q, 200, rng)
    output = charted(model, y)
    g, slopes = output(omega, v, slice(0, 200))
    wanted, exact = posterior(model, y, tol=1e-8)(omega, v, slice(0, 200))
    # The stated errors are those of the scores: sums of 400 squares.
    assert isinstance(output, Sampled)
    stated, true = np.diag(output.noise), ((g - wanted) ** 2).sum(axis=(0, 2))
    assert (true < 2 * stated).all() and (true > 0.4 * stated).all()
    scale = np.sqrt(np.outer(np.diag(v), np.diag(v)))
    assert np.abs((slopes - exact) * scale).max() < 0.03 * 400


def test_outputs_alone_serve_as_well_as_the_indices_that_made_them(rng):
    model = Network(3, 2)
    y, omega, v, h = drawn(model, (0.45, 0.33, 0.99), 24, rng)
    output = charted(model, y)
    output(omega, v, slice(0, 24))
    g, _ = output(omega, v, slice(0, 24))
    known = ChartPosterior(model, 1 << 13, 24, 1, np.random.default_rng(7))(h, omega, v, second=False)
    modes = output.layout.modes
    exact = np.linalg.solve(v, known.mean[2] @ modes - omega)
    true = ((g - exact) ** 2).sum(axis=(0, 2))
    assert (true < 3 * np.diag(output.noise)).all()


def test_scores_are_smooth_where_the_prior_moves_little(rng):
    """Nodes stay: half of a small step changes the scores by half as much, and no step by nothing."""
    model = Network(2, 2, tied=False)
    y, omega, v, _ = drawn(model, (0.1, 0.1, 0.3, 0.3), 16, rng)
    output = charted(model, y, nodes=256)
    part = slice(0, 16)
    first, _ = output(omega, v, part)
    again, _ = output(omega, v, part)
    np.testing.assert_array_equal(again, first)
    step = 1e-3 * rng.standard_normal(omega.shape)
    whole, half = output(omega + step, v, part)[0] - first, output(omega + 0.5 * step, v, part)[0] - first
    np.testing.assert_allclose(whole, 2 * half, atol=0.02 * np.abs(whole).max())


def test_nodes_become_more_where_steps_are_smaller_than_errors(rng):
    model, part, ratios = Network(2, 2, tied=False), slice(0, 64), []
    for _ in range(5):
        y, omega, v, _ = drawn(model, (0.1, 0.1, 0.3, 0.3), 64, rng)
        output = charted(model, y)
        output(omega, v, part)
        before = np.trace(output.noise)
        for _ in range(4):
            output(omega, v, part)
        ratios.append(np.trace(output.noise) / before)
    # Four times as many; a few outputs, whose nodes are worth little, hold most of what is left in some draws.
    assert np.median(ratios) < 0.75 and max(ratios) < 1


def test_outputs_that_the_prior_finds_unlikely_are_not_lost(rng):
    """Omega is off by thirty of its widths."""
    model = Network(3, 2)
    y, _, _, _ = drawn(model, (0.0, 0.0, 0.0), 32, rng)
    omega = 3 * rng.standard_normal((32, 3, 2))
    g, slopes = charted(model, y)(omega, 0.01 * np.eye(3), slice(0, 32))
    assert np.isfinite(g).all() and np.isfinite(slopes).all()


@pytest.mark.parametrize(
    "model",
    [
        Network(2, 2, 2, tied=False),
        Network(2, 3, (1, 2)),
        pytest.param(Network(2, 2, heads=2, readouts=[((1.0, 0.3), (-0.4, 0.8))]), marks=pytest.mark.slow),
        Network(2, 2, 2, activation="linear"),
    ],
    ids=lambda model: model.describe(),
)
def test_scores_obey_nishimori(model, rng):
    """E g = 0, E g (V^{-1}(h - omega))^T = E g g^T, whose mean is that of the slopes."""
    n = 100
    y, omega, v, h = drawn(model, np.linspace(0.1, 0.5, model.indices), n, rng)
    g, slopes = charted(model, y, nodes=512)(omega, v, slice(0, n))
    u = (h - omega) / np.diag(v)[:, None]
    # As many sets of nodes as outputs: their errors are independent.
    assert (np.abs(g.mean(axis=0)) < 4.5 * g.std(axis=0) / np.sqrt(n)).all()
    crossed = np.einsum("nam,nbm->nab", g, u)
    # Of variances by nodes worth 200 at least; the widths of the prior are its units.
    sampled = model.tokens * n * np.sqrt(2 / 200 / n) / np.sqrt(np.outer(np.diag(v), np.diag(v)))
    error = np.hypot(crossed.std(axis=0) * np.sqrt(n), sampled)
    assert (np.abs(slopes - crossed.sum(axis=0)) < 4.5 * error).all()


def test_moments_given_outputs_alone(rng):
    """Those of two layers that have a rule, and rows that add up to the prior's in the mean."""
    model = Network(2, 2)
    y, _, _, _ = drawn(model, (0.0, 0.0), 100, rng)
    second = charted(model, y).prior_moments()
    g = posterior(model, y, tol=1e-8).moments(np.zeros((100, 2, 2)), np.eye(2), slice(0, 100)).dg
    exact = g + np.einsum("pq,mn->pmqn", np.eye(2), np.eye(2))
    assert np.sqrt(((second - exact) ** 2).mean()) < 0.05


def test_what_no_indices_give_is_named(rng):
    model = Network(2, 2, 2)
    y = model.link(rng.standard_normal((5, 4, 2)))
    y[3] = [[0.2, 0.8], [0.9, 0.1]]
    with pytest.raises(UnreachableOutputError, match="Y, sample 3: no indices of tied softmax attention"):
        posterior(model, y)
