"""Thresholds of heads that do not mix: those of one head over H, at any depth."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.thresholds.charts import chart_threshold


def unmixed(heads: int, count: int = 1, **model):
    return al.Network(2, 2, heads=heads, readouts=[np.eye(heads)] * count, **model)


@pytest.mark.parametrize(
    ("model", "one"),
    [
        (unmixed(2), al.Network(2, 2)),
        (unmixed(3, skip=2.0, rank=(1, 2)), al.Network(2, 2, skip=2.0, rank=(1, 2))),
        pytest.param(unmixed(2, tied=False), al.Network(2, 2, tied=False), marks=pytest.mark.slow),
    ],
)
def test_the_last_layer(model, one):
    found, single = al.threshold(model), al.threshold(one)
    assert abs(model.heads * float(found.value) - float(single.value)) <= model.heads * found.error
    assert 0 < found.error < single.error and found.converged
    assert found.operator_norm == model.heads * single.operator_norm
    assert found.eigenvector.shape == (model.indices, model.indices)
    assert np.linalg.norm(found.eigenvector) == pytest.approx(1)
    assert f"D/{model.heads} coordinates" in found.status and found.origin.model["heads"] == model.heads


def test_the_direction_is_that_of_the_chart():
    """Of the chart one of the heads is learned: the direction of all of them lies along it."""
    model = unmixed(2)
    found, sampled = al.threshold(model), chart_threshold(model, samples=32, replicas=4)
    mine, other = found.eigenvector, sampled.eigenvector
    assert set(np.flatnonzero(other.diagonal())) <= set(np.flatnonzero(mine.diagonal()))
    # All entries of a head are alike.
    assert np.ptp(other.diagonal()[np.flatnonzero(other.diagonal())]) == pytest.approx(0, abs=1e-12)


def test_heads_that_mix_are_sampled():
    mixed = al.Network(2, 2, heads=2, readouts=[[[1.0, 0.5], [0.5, 1.0]]])
    assert not mixed.side_by_side and unmixed(2).side_by_side and not al.Network(2, 2).side_by_side
    assert al.threshold(mixed, samples=16).how == "monte-carlo"
