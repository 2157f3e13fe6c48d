"""Heads whose scores are added: the channel of their sum, and message passing on data of several teachers."""

import math

import numpy as np
import pytest

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data
from attnlimits.numerics.aim.heads import evolve_heads, heads_channel, heads_teacher
from attnlimits.numerics.aim.instances import amp_instances
from attnlimits.numerics.aim.layers import joint_covariance
from attnlimits.numerics.aim.state_evolution import evolve, recovery
from attnlimits.numerics.core.errors import KernelNotFoundError


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


def errors(activation, heads, rho, alpha, d, seeds, noise=0.0):
    """Errors of S' and of each head, with its estimate L^{-1/2} Shat'."""
    output, found = heads_channel(activation, heads, noise=noise), []
    for seed in range(seeds):
        each = heads_teacher(d, rho, heads, seed)
        x, y = make_data(each.sum(axis=0) / math.sqrt(heads), alpha, output, seed)
        shared = amp(x, y, output, heads * rho, tol=1e-6, max_iter=200).estimate
        off = ((each.sum(axis=0) / math.sqrt(heads) - shared) ** 2).sum() / d
        single = ((each - shared / math.sqrt(heads)) ** 2).sum() / d / heads
        found.append((off, single))
    return np.array(found)


def test_message_passing_at_40_dimensions():
    """Within three standard errors of the limit and a bias of finite size of up to 14 per cent."""
    found = errors("softmax", 2, 0.25, 0.1, 40, 4)
    expected = evolve_heads(0.1, 0.25, "softmax", 2)
    spread = found.std(axis=0, ddof=1) / 2
    for mean, limit, error in zip(found.mean(axis=0), (expected.sum.mmse, expected.head), spread, strict=True):
        assert 0.95 * limit.value - 3 * error < mean < 1.14 * limit.value + 3 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "heads", "alpha", "noise"), [("softmax", 2, 0.1, 0.0), ("softmax", 3, 0.15, 0.3)]
)
def test_message_passing_at_200_dimensions(activation, heads, alpha, noise):
    """Six instances: the error of a head within three standard errors of the state evolution.

    That of the sum has the bias of one layer at finite d, up to 4 per cent there; it is that of six instances of one
    layer of the width of all within three standard errors.
    """
    found = errors(activation, heads, 0.25, alpha, 200, 6, noise)
    expected = evolve_heads(alpha, 0.25, activation, heads, noise=noise)
    (whole, one), spread = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(6)
    assert abs(one - expected.head.value) < 3 * spread[1]
    limit = expected.sum.mmse.value
    assert limit - 3 * spread[0] < whole < 1.04 * limit + 3 * spread[0]
    output = heads_channel(activation, heads, noise=noise)
    alone = amp_instances(alpha, heads * 0.25, 200, output, count=6, seed=100, tol=1e-6, max_iter=200)
    assert abs(whole - alone.error) < 3 * math.hypot(spread[0], alone.error_of_error)


def test_refusals():
    with pytest.raises(KernelNotFoundError, match='the sum of the scores itself is "z"'):
        heads_channel("linear", 2)
    with pytest.raises(ValueError, match="heads must be an integer >= 1"):
        evolve_heads(0.1, 0.5, "softmax", 0)
