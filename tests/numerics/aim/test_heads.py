"""Heads whose scores are added: the channel of their sum, and message passing on data of several teachers."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import teacher
from attnlimits.numerics.aim.heads import evolve_heads, heads_channel, heads_teacher, heads_width, sum_of_heads
from attnlimits.numerics.aim.layers import joint_covariance
from attnlimits.numerics.aim.state_evolution import evolve, recovery
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.learning.blocks import stream
from attnlimits.papers.boncoraglio2025.figures import size_runs


@pytest.mark.parametrize("activation", ["softmax", "hardmax", "tanh(z)", "z"])
def test_one_head_is_the_model_itself(activation):
    alone = evolve(0.1, 0.5, channel(activation)).mmse
    found = evolve_heads(0.1, 0.5, activation, 1).head
    assert found.value == pytest.approx(alone.value, rel=1e-14) and found.error == alone.error


def test_errors_of_heads_are_between_their_limits():
    found = [evolve_heads(alpha, 0.3, "softmax", 2).head.value for alpha in (1e-4, 0.05, 0.1, 1.0)]
    assert found[0] == pytest.approx(1, abs=1e-3) and found[-1] == 0.5
    assert (np.diff(found) < 0).all()
    # The sum is recovered where its degrees of freedom are counted: those of the width of both.
    point = evolve_heads(1.01 * recovery(0.6) / 4, 0.3, "softmax", 2)
    assert point.sum.mmse.value == 0 and evolve_heads(0.99 * recovery(0.6) / 4, 0.3, "softmax", 2).sum.mmse.value > 0


@pytest.mark.parametrize("activation", ["softmax", "hardmax", "tanh(z)"])
def test_outputs_of_the_channel_are_those_of_the_sum(activation, rng):
    h = rng.standard_normal((3, 5, 2, 2))
    h = h + h.swapaxes(2, 3)
    whole = h.sum(axis=0)
    made = heads_channel(activation, 3, beta=1.3).observe(whole / math.sqrt(3))
    assert np.allclose(made, channel(activation, beta=1.3).observe(whole), atol=1e-12)


def test_noise_is_on_the_sum(rng):
    """Of variance 0.6 on the sum of three, hence 0.2 on h'."""
    output = heads_channel("softmax", 3, noise=0.6)
    assert output.noise == pytest.approx(0.2)


def test_the_sum_has_the_variance_of_all_overlaps():
    rho = (0.4, 0.4, 0.4)
    assert joint_covariance(rho).sum() == pytest.approx(3 * (1 + 3 * 0.4))
    S = heads_teacher(200, 0.4, 3, 0).sum(axis=0)
    # (r' + d + 1)/d over L for a finite d: Tr S'^2/d = 1 + rho' + 1/d.
    assert float((S**2).sum()) / 200 / 3 == pytest.approx(1 + 1.2 + 1 / 200, rel=0.05)


@pytest.mark.parametrize(("dimension", "heads"), [(30, 2), (17, 3)])
def test_the_sum_is_one_layer_as_wide_at_any_dimension(dimension, heads):
    """S' = W W^T/sqrt(L r d) with W of all columns: what finite d does to it, it does to that layer."""
    width = round(0.25 * dimension)
    draws = stream(3, 0)
    w = np.concatenate([draws.standard_normal((dimension, width)) for _ in range(heads)], axis=1)
    S = sum_of_heads(heads_teacher(dimension, 0.25, heads, 3))
    assert np.allclose(S, w @ w.T / math.sqrt(w.shape[1] * dimension), atol=1e-13)
    assert w.shape[1] / dimension == heads_width(heads, 0.25, dimension)
    assert np.array_equal(heads_teacher(dimension, 0.25, 1, 3)[0], teacher(dimension, 0.25, 3))


def means_agree(heads, alpha, noise, d, count):
    """Errors of instances of the sum and of one layer of the width of all, within three standard errors."""
    cases = [size_runs.Case(heads, alpha, noise, d, drawn) for drawn in ("sum", "one")]
    runs = [size_runs.run(case, range(count)) for case in cases]
    errors = [standard_error(np.array(run["mmse"])) for run in runs]
    means = [np.mean(run["mmse"]) for run in runs]
    return abs(means[0] - means[1]) < 3 * math.hypot(*errors), runs


def test_message_passing_at_40_dimensions():
    agree, runs = means_agree(2, 0.1, 0.0, 40, 3)
    # 0.39 in the limit, and 1 before there are data.
    assert agree and max(runs[0]["mmse"]) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "alpha", "noise"), [(2, 0.1, 0.0), (3, 0.15, 0.3)])
def test_message_passing_of_new_instances(heads, alpha, noise):
    """At d = 200 as one layer as wide; the excess over the state evolution vanishes as 1/d within three errors."""
    agree, large = means_agree(heads, alpha, noise, 200, 24)
    assert agree
    small = means_agree(heads, alpha, noise, 100, 40)[1]
    (_, at_100), (_, at_200) = size_runs.excess([*small, *large])
    error = math.hypot(2 * at_200.error, at_100.error)
    assert error < 0.015 and abs(2 * at_200.value - at_100.value) < 3 * error


@pytest.mark.parametrize("heads", [2, 3])
def test_the_excess_of_stored_instances_vanishes_as_one_over_d(heads):
    """c/d explains it within its errors, and d^(-1/2) does not."""
    runs = [r for r in size_runs.stored() if r["heads"] == heads]
    assert {(r["dimension"], r["drawn"]) for r in runs} >= {(d, k) for d in (50, 100, 200) for k in ("sum", "one")}
    for drawn in ("sum", "one"):
        assert len({r["dimension"] for r in runs if r["drawn"] == drawn}) >= 3
    found = [(d, e.value, e.error) for d, e in size_runs.excess(runs)]
    d, value, error = (np.array(part, np.float64) for part in zip(*found, strict=True))

    def left(power):
        design = d**-power / error
        c = float(design @ (value / error)) / float(design @ design)
        return float(np.sum((value / error - c * design) ** 2)), c

    # Three standard deviations of a normal law.
    rare = chi2.isf(0.0027, len(d) - 1)
    off, c = left(1.0)
    assert off < rare < left(0.5)[0]
    # Of c one is the spread of S, and another -d log V/d log alpha the number of its entries.
    assert 2.2 < c < 6


@pytest.mark.parametrize("heads", [2, 3])
def test_stored_instances_of_the_sum_and_of_one_layer_agree(heads):
    runs = [r for r in size_runs.stored() if r["heads"] == heads]
    parts = [size_runs.excess([r for r in runs if r["drawn"] == drawn]) for drawn in ("sum", "one")]
    for (_, one), (_, other) in zip(*parts, strict=True):
        assert abs(one.value - other.value) < 3 * math.hypot(one.error, other.error)


def test_refusals():
    with pytest.raises(KernelNotFoundError, match='the sum of the scores itself is "z"'):
        heads_channel("linear", 2)
    with pytest.raises(ValueError, match="heads must be an integer >= 1"):
        evolve_heads(0.1, 0.5, "softmax", 0)
