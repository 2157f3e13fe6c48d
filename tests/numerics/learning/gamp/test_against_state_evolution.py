"""Overlaps that GAMP reaches from nothing, against the fixed points of the state evolution."""

import math

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.learning.gamp import gamp, make_data, predicted_overlaps, teacher
from attnlimits.numerics.model.network import Network

# Means of 10 instances: 3 sigma of Student's law with 9 degrees of freedom, two-sided 0.27 %.
_STUDENT = 4.1


def instances(model, alpha, dimension, seeds, **settings):
    """Runs on teachers of unit norm per dimension, which theory has."""
    found = []
    for seed in range(seeds):
        weights = teacher(model, dimension, seed)
        weights *= np.sqrt(dimension / (weights**2).sum(axis=1, keepdims=True))
        x, y = make_data(model, weights, alpha, seed)
        found.append(gamp(x, y, model, teacher=weights, rng=seed, **settings))
    return found


def compare(model, alpha, dimension, seeds, student, **settings):
    """Check overlaps against the fixed point, and Nishimori's identities between overlaps and covariances."""
    runs = instances(model, alpha, dimension, seeds, **settings)
    theory = evolve(model, alpha)
    overlap = np.array([r.overlap.diagonal() for r in runs])
    sigma = overlap.std(axis=0, ddof=1) / math.sqrt(seeds)
    expected = theory.overlap.diagonal()
    # Overlaps of instances are O(1/sqrt(D)) where theory has 0, and as much below 1 where it has 1.
    allowed = (
        student * np.hypot(sigma, theory.overlap_error.diagonal()) + 2 / math.sqrt(dimension) * (1 - expected) ** 2
    )
    assert (np.abs(overlap.mean(axis=0) - expected) <= allowed + 1e-3).all(), (overlap, expected)
    for identity in (
        [r.self_overlap.diagonal() - r.overlap.diagonal() for r in runs],
        [(r.self_overlap + r.covariance).diagonal() - 1 for r in runs],
    ):
        values = np.array(identity)
        scatter = values.std(axis=0, ddof=1) / math.sqrt(seeds)
        assert (np.abs(values.mean(axis=0)) <= student * scatter + 2e-3 + 5 / dimension).all(), values
    return runs


@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        (Network(1, 2), 0.4),
        (Network(1, 3), 0.25),
        # Below, a run of two layers is compared with its prediction.
        pytest.param(Network(2, 2), 0.6, marks=pytest.mark.slow),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else f"{value}",
)
def test_fixed_points(model, alpha):
    # Of 6 instances: Student's law with 5 degrees of freedom at 3 sigma.
    compare(model, alpha, 600 if model.layers == 1 else 200, 6, 5.5, max_iter=80)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        *((Network(2, 2), alpha) for alpha in (0.3, 0.5, 0.9, 1.2)),
        (Network(1, 2), 0.3),
        (Network(1, 3), 0.2),
        (Network(1, 2, 1, activation="softmax", tied=False), 0.5),
        (Network(2, 2, activation="linear"), 1.2),
    ],
    ids=lambda value: value if isinstance(value, float) else value.describe(),
)
def test_fixed_points_at_dimension_4000(model, alpha):
    compare(model, alpha, 4000, 10, _STUDENT, max_iter=500)


def test_the_last_layer_is_learned_first():
    """alpha = 1.2: half of layer 2 is known before layer 1 has begun, in the runs and in the prediction."""
    model, alpha = Network(2, 2), 1.2
    (run,) = instances(model, alpha, 250, 1, damping=0.0)
    first, last = run.history[:, 0, 0], run.history[:, 1, 1]
    onset = int(np.argmax(last > 0.5))
    assert onset > 0 and first[onset] < 0.1
    assert first[-1] > 0.5 and int(np.argmax(first > 0.5)) > onset + 1
    predicted = predicted_overlaps(model, alpha, n_iter=25, start=1e-3, samples=128, replicas=2).overlap
    onset = int(np.argmax(predicted[:, 1, 1] > 0.5))
    assert onset > 0 and predicted[onset, 0, 0] < 0.1 and predicted[-1, 0, 0] > 0.5
