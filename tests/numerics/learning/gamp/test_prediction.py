"""Predicted overlaps: against the Bayes-optimal recursion, and against runs with damping."""

import numpy as np
import pytest

from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.learning.gamp import gamp, informed_start, make_data, predicted_overlaps, teacher
from attnlimits.numerics.model.network import Network


def recursion(model, alpha, q, n_iter, strength, samples):
    """q -> F(alpha G(q)) with the averages that fixed points are computed from."""
    averages = channel(model, samples=samples, replicas=8, rng=np.random.default_rng(7))
    out = [q]
    for _ in range(n_iter):
        q_hat = alpha * averages(q).g.mean(axis=0) + strength * np.eye(len(q))
        q = q_hat @ np.linalg.inv(np.eye(len(q)) + q_hat)
        out.append(q)
    return np.array(out)


@pytest.mark.parametrize(
    ("model", "alpha", "q", "strength"),
    [
        (Network(1, 3), 0.2, np.array([[0.1]]), 0.0),
        (Network(2, 2), 0.9, np.diag([0.05, 0.3]), 0.0),
        (Network(1, 2), 0.3, np.array([[0.1]]), 0.2),
        (Network(1, 2, 1, activation="softmax", tied=False), 0.6, np.array([[0.3, 0.15], [0.15, 0.2]]), 0.0),
    ],
    ids=["L=1", "L=2", "side information", "untied"],
)
def test_undamped_it_is_the_bayes_optimal_recursion(model, alpha, q, strength):
    n = 4
    settings = {
        "n_iter": n,
        "start": q,
        "side_strength": strength,
        "samples": 512 if model.layers == 1 and model.tied else 64,
    }
    found = predicted_overlaps(model, alpha, **settings, self_start=q)
    assert found.how == "population"
    wanted = recursion(model, alpha, q, n, strength, settings["samples"])
    for overlap, error in ((found.overlap, found.overlap_error), (found.self_overlap, found.self_overlap_error)):
        # Means of 8 replicas: Student's law with 7 degrees of freedom at 3 sigma; the recursion has an error, too.
        assert (np.abs(overlap - wanted) < 4.5 * error + 2e-3).all()
    plain = predicted_overlaps(model, alpha, **settings)
    assert plain.how == "channel averages"
    assert plain.overlap == pytest.approx(wanted, abs=4 * plain.overlap_error.max() + 1e-9)


@pytest.mark.slow_for("L=2")
@pytest.mark.parametrize(
    ("model", "alpha", "q"),
    [(Network(1, 2), 0.5, np.array([[0.1]])), (Network(2, 2), 0.9, np.diag([0.2, 0.2]))],
    ids=["L=1", "L=2"],
)
def test_damped_runs_follow_it_and_not_the_recursion(model, alpha, q):
    """What is then no posterior mean: its overlap with the teacher is not that with itself."""
    share, n, dimension, seeds = 0.5, 8, 250, 8
    histories, selves = [], []
    for seed in range(seeds):
        weights = teacher(model, dimension, seed)
        weights *= np.sqrt(dimension / (weights**2).sum(axis=1, keepdims=True))
        x, y = make_data(model, weights, alpha, seed)
        start = informed_start(weights, q, seed)
        run = gamp(x, y, model, start=start, teacher=weights, damping=share, max_iter=n, tol=0.0)
        histories.append(run.history)
        selves.append(run.self_history)
    found = predicted_overlaps(model, alpha, n_iter=n, start=q, damping=share, samples=512)
    for runs, overlap, error in (
        (histories, found.overlap, found.overlap_error),
        (selves, found.self_overlap, found.self_overlap_error),
    ):
        mean, sigma = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(seeds)
        sigma = np.hypot(sigma, error)
        for i in range(model.indices):
            # Student's law with 7 degrees of freedom at 3 sigma; means over instances are off by O(1/D), too.
            assert (np.abs(mean - overlap)[:, i, i] < 4.5 * sigma[:, i, i] + 5 / dimension).all()
    gap = (found.overlap - found.self_overlap)[1:4, -1, -1]
    assert (gap > 10 * found.overlap_error[1:4, -1, -1]).all()


def test_a_start_that_knows_nothing():
    """Self-overlap without overlap with the teacher: none comes up, whatever alpha."""
    found = predicted_overlaps(Network(1, 2), 0.4, n_iter=3, start=0.0, self_start=[[1e-3]], samples=512, replicas=4)
    assert np.abs(found.overlap[:, 0, 0]).max() < 1e-12
    assert found.self_overlap[3, 0, 0] > 5e-3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"damping": "adaptive"}, "damping must be a number"),
        ({"damping": 1.5}, "damping must be"),
        ({"start": 1.0}, "q must satisfy 0 <= q < I"),
        ({"start": 0.5, "self_start": [[0.1]]}, "self_start must be at least"),
        ({"n_iter": 0}, "n_iter must be an integer >= 1"),
        ({"replicas": 1}, "replicas must be an integer >= 2"),
        ({"side_strength": -1.0}, "side_strength"),
    ],
)
def test_bad_arguments_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        predicted_overlaps(Network(1, 2), 0.4, **({"n_iter": 2} | settings))
