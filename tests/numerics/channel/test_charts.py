"""Averages on charts, against the routes of models that have others."""

import math

import numpy as np
import pytest

from attnlimits.numerics.channel.charts import ChartChannel
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.structure import structure
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc


def averages(model, q, *, samples=128, nodes=512, seed=0):
    """Averages at an overlap by the chart."""
    rng = np.random.default_rng(seed)
    points = [normal_qmc(2 * model.indices * model.tokens, int(math.log2(samples)), s) for s in rng.spawn(8)]
    return ChartChannel(model, points, nodes=nodes, rng=rng)(np.asarray(q, dtype=float))


def test_structure_of_the_overlap():
    assert structure(Network(2, 2, (1, 2))).shared == (((0, 0),), ((1, 1), (2, 2)))
    untied = structure(Network(2, 2, tied=False))
    assert untied.groups == ((0, 1), (2, 3))
    # Keys and queries of a layer before the last are correlated.
    assert untied.shared == (((0, 0),), ((1, 1),), ((0, 1),), ((2, 2),), ((3, 3),))
    heads = structure(Network(2, 2, heads=2, readouts=[np.eye(2)]))
    assert heads.groups == ((0, 1), (2, 3), (4, 5), (6, 7))


@pytest.mark.slow_for("two layers")
@pytest.mark.parametrize(
    ("model", "exact"),
    [
        (Network(1, 2, tied=False), math.sqrt(5) - 2),
        (Network(1, 3, 2), 1 / 6),
        (Network(2, 2), 0.1854778),
    ],
    ids=["untied", "rank two", "two layers"],
)
def test_growth_from_nothing_against_exact_thresholds(model, exact):
    found = averages(model, np.zeros((model.indices,) * 2)).growth[:, -1]
    assert standard_error(found) < 0.05 * found.mean()
    assert abs(found.mean() - 1 / exact) < 4 * standard_error(found)


@pytest.mark.parametrize(
    ("model", "q"),
    [
        (Network(2, 2), (0.3, 0.6)),
        # Against integrals: tests of the posteriors on charts.
        pytest.param(Network(2, 2, activation="linear"), (0.3, 0.7), marks=pytest.mark.slow),
        pytest.param(Network(2, 2, skip=2.0, beta=0.7), (0.7, 0.9), marks=pytest.mark.slow),
        pytest.param(Network(3, 2), (0.2, 0.5, 0.8), marks=pytest.mark.slow),
        pytest.param(Network(2, 3), (0.3, 0.7), marks=pytest.mark.slow),
        pytest.param(Network(1, 2, tied=False), (0.5, 0.5), marks=pytest.mark.slow),
        (Network(1, 3, 2), (0.5, 0.5)),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else str(value),
)
def test_scores_against_other_routes(model, q):
    found = averages(model, np.diag(q), samples=64)
    other = channel(model, samples=512, replicas=8, rng=np.random.default_rng(5))(np.diag(q))
    for i in range(model.indices):
        both = math.hypot(standard_error(found.g[:, i, i]), standard_error(other.g[:, i, i]))
        assert abs(found.g[:, i, i].mean() - other.g[:, i, i].mean()) < 4 * both + found.bias[i, i]


def test_heads_side_by_side_are_models_of_their_own():
    # Without mixing each head is the two-layer network on half of the coordinates: alpha counts N over all of them.
    model = Network(2, 2, heads=2, readouts=[np.eye(2)])
    found = averages(model, np.zeros((8, 8)), samples=64, nodes=256).growth[:, [4, 6]]
    for head in range(2):
        assert abs(found[:, head].mean() - 2 / 0.1854778) < 4 * standard_error(found[:, head])


def test_keys_and_queries_before_the_last_layer_are_correlated():
    found = averages(Network(2, 2, tied=False), np.diag([0.5, 0.5, 0.9, 0.9]), samples=512, nodes=256)
    assert found.g[:, 0, 1].mean() < -4 * standard_error(found.g[:, 0, 1])
    # Those of the last layer are not, whatever is known.
    assert not found.g[:, 2, 3].any()
