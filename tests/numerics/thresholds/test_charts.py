"""Thresholds of networks that only charts serve: limits that are known exactly, and a second route."""

import math

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.charts import chart_threshold
from attnlimits.numerics.thresholds.choice import layer_threshold


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        (Network(2, 2, tied=False, skip=1e3), math.sqrt(5) - 2),
        (Network(2, 3, 2, skip=1e3), 2 / 12),
        pytest.param(Network(3, 3, (1, 2, 1), skip=1e3), 1 / 12, marks=pytest.mark.slow),
        pytest.param(Network(2, 3, (1, 2), skip=1e3), 2 / 12, marks=pytest.mark.slow),
        pytest.param(Network(2, 3, 2, skip=1e3, activation="linear"), 2 / 12, marks=pytest.mark.slow),
        pytest.param(Network(2, 3, tied=False, skip=1e3), math.sqrt(10) / 2 - 1.5, marks=pytest.mark.slow),
        pytest.param(Network(3, 2, tied=False, skip=1e3), math.sqrt(5) - 2, marks=pytest.mark.slow),
    ],
    ids=["untied", "rank two", "three ranks", "two ranks", "linear", "untied, three tokens", "untied, three layers"],
)
def test_strong_skip_connections_leave_one_layer(model, limit):
    found = chart_threshold(model, samples=64, nodes=128)
    assert found.how == "monte-carlo" and found.converged
    assert abs(float(found.value) - limit) < 4 * found.error + 2e-3
    assert found.error < 0.05 * limit


def test_the_eigenvector_shares_queries_and_keys_alike():
    found = chart_threshold(Network(2, 2, tied=False), samples=64, nodes=256)
    vector = found.eigenvector
    np.testing.assert_allclose(np.linalg.norm(vector), 1.0)
    assert not vector[:2].any() and vector[2, 2] > 0 and vector[3, 3] > 0


def test_digits_beyond_the_samples_are_refused_with_the_value():
    found = layer_threshold(Network(2, 3, 2), digits=6, samples=16)
    assert not found.converged and "6 digits were not reached" in found.status
    assert 0.1 < float(found.value) < 0.3


def test_overlaps_grow_above_the_threshold_and_not_below():
    model = Network(2, 2, tied=False)
    threshold = chart_threshold(model, samples=32, nodes=128)
    value = float(threshold.value)
    below, above = (evolve(model, factor * value, samples=16, nodes=128, tol=1e-2) for factor in (0.7, 1.5))
    assert not below.overlap.any()
    assert above.overlap[2, 2] > 0.1 and above.overlap[3, 3] > 0.05 and not above.overlap[:2].any()


def test_rows_of_one_layer_have_one_overlap():
    found = evolve(Network(2, 2, 2), 1.0, samples=16, nodes=128, tol=1e-2)
    assert found.overlap[2, 2] == found.overlap[3, 3] > 0
    assert found.overlap_error[2, 2] == found.overlap_error[3, 3] > 0


def test_a_start_without_the_symmetries_is_refused():
    with pytest.raises(ValueError, match="entries that must be equal: q_11, q_22"):
        evolve(Network(2, 2, 2), 1.0, start=np.diag([0.1, 0.2, 0.3, 0.3]), samples=64)


RANK_TWO = Network(1, 3, 2, tied=False)


def test_one_untied_layer_of_rank_two_is_served_by_its_chart():
    found = layer_threshold(RANK_TWO, samples=64)
    assert found.how == "monte-carlo" and found.error < 0.2 * float(found.value)


# Of two layers there is the like above.
@pytest.mark.slow
def test_overlaps_of_one_untied_layer_of_rank_two_grow_above_its_threshold():
    model, found = RANK_TWO, layer_threshold(RANK_TWO, samples=64)
    below, above = (
        evolve(model, factor * float(found.value), samples=64, nodes=2048, tol=1e-2) for factor in (0.7, 2.0)
    )
    assert not below.overlap.any() and (above.overlap.diagonal() > 0.1).all()


def test_an_operator_within_its_error_of_zero_has_no_threshold():
    # The threshold approaches noise/6, and sampling errors of the eigenvalue do not fall with the noise: it was 40000
    # +- 20000, or a division by zero where the sample was negative.
    for seed in range(2):
        with pytest.raises(ConvergenceError, match=r"alpha is larger than [\d.e+]+; raise samples") as refused:
            chart_threshold(Network(1, 2, noise=1e6), samples=128, nodes=256, rng=seed)
        assert float(str(refused.value).split("larger than ")[1].split(";")[0]) < 1e6 / 6
