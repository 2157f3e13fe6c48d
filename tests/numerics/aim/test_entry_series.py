"""Outputs entry by entry: F along V has a true error, and fixed points that are not the only ones are refused."""

import math

import numpy as np
import pytest

from attnlimits.numerics.aim import scalar
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.entry_series import information_series
from attnlimits.numerics.aim.state_evolution import alpha_at, evolve
from attnlimits.numerics.aim.thresholds import weak_recovery
from attnlimits.numerics.core.errors import ConvergenceError


def plain_F(f, noise, tokens=2):
    """F(0) by sums of equal steps over h and y, whose errors fall exponentially; the noise has 4 steps of h."""
    total = 0.0
    for kind, number in ((2.0, tokens), (1.0, tokens * (tokens - 1) // 2)):
        deviation = math.sqrt(noise * kind)
        t = np.arange(-9, 9, deviation / 4)
        law = np.exp(-0.5 * t**2) / math.sqrt(2 * math.pi) * (t[1] - t[0])
        values = f(math.sqrt(kind) * t)
        for y in np.arange(values.min() - 9 * deviation, values.max() + 9 * deviation, deviation / 2):
            density = law * np.exp(-0.5 * ((y - values) / deviation) ** 2) / (math.sqrt(2 * math.pi) * deviation)
            if density.sum() > 0:
                total += number * 0.5 * deviation * (density @ t) ** 2 / density.sum()
    return total


@pytest.mark.slow_for("tanh(z) + z")
@pytest.mark.parametrize(
    ("text", "f", "noise"), [("tanh(z)", np.tanh, 4e-3), ("tanh(z) + z", lambda h: np.tanh(h) + h, 1e-2)]
)
def test_weak_recovery_of_small_noise_is_that_of_plain_sums(text, f, noise):
    # A series in (V/(V + noise))^{1/2} was off by tens of its errors: all of V is at its end where the noise is small.
    found = weak_recovery(channel(text, noise=noise))
    assert abs(float(found.value) - 1 / (2 * plain_F(f, noise))) <= found.error


# At Q = 1 the series is one that another test uses, and is computed once.
@pytest.mark.slow_for("tanh(z)-0.001-1.3", "sign(z)")
@pytest.mark.parametrize(
    ("text", "noise", "Q"),
    [("abs(z)", 0.2, 1.0), ("tanh(z)", 4e-3, 1.0), ("tanh(z)", 1e-3, 1.3), ("sign(z)", 1e-4, 1.0)],
)
def test_series_is_within_its_error_of_finer_rules(text, noise, Q):
    function = channel(text, noise=noise).function
    series = information_series(function, noise, Q, 2)
    rng = np.random.default_rng(4)
    for V in (Q, Q * (1 - 10.0 ** rng.uniform(-3, 0)), *(Q * 10.0 ** rng.uniform(-5, 0, 2))):
        finer = 0.0
        for kind, number in ((2.0, 2), (1.0, 1)):
            spreads = math.sqrt(max(Q - V, 0.0) * kind), math.sqrt(V * kind)
            finer += number * scalar.information(function, function.breaks, *spreads, noise * kind, scale=0.8)
        found = series.information(V)
        assert abs(found.value - finer) <= found.error


def test_a_node_at_a_jump_is_no_slope():
    # At omega = 0 a node is at the jump of sign(h), where it is zero.
    found = weak_recovery(channel("sign(z)", noise=1e-4))
    # Each sign is known but for a share of the order of noise: F(0) = 3 E|t|^2 = 6/pi.
    assert abs(float(found.value) - math.pi / 12) <= found.error + 1e-9


def test_even_functions_have_no_weak_recovery():
    for text in ("abs(z)", "cos(z)", "z**2"):
        found = weak_recovery(channel(text, noise=0.1))
        assert (found.value, found.how, found.error) == ("inf", "rigorous", 0.0)


def test_several_fixed_points_are_refused():
    output = channel("abs(z)", noise=0.2)
    with pytest.raises(ConvergenceError, match="several fixed points"):
        evolve(1.5, 0.0, output)
    # Below all of them only the trivial one is left.
    assert evolve(0.2, 0.0, output).mmse.value == 1


@pytest.mark.slow
def test_several_fixed_points_of_few_samples_are_refused():
    with pytest.raises(ConvergenceError, match="several fixed points"):
        evolve(0.01, 0.01, channel("abs(z)", noise=0.03))


def test_onset_of_weak_recovery_has_the_error_of_its_threshold():
    output = channel("hardmax", tokens=6)
    onset = weak_recovery(output)
    alpha = float(onset.value) - 0.3 * onset.error
    found = evolve(alpha, 0.0, output)
    assert found.mmse.error > 0
    assert found.mmse.value - found.mmse.error < 1 <= found.mmse.value + found.mmse.error + 1e-15
    # The residual is that of the state that is stated, t = 1 - q^(1/2); it was 0.
    there = alpha_at(1 - math.sqrt(found.overlap.value), 0.0, output).value
    assert found.residual == pytest.approx(abs(there - alpha), rel=1e-6) and found.residual > 0
    assert evolve(float(onset.value) - 3 * onset.error, 0.0, output).mmse.value == 1


def test_what_is_recovered_to_rounding_states_how_far_its_alpha_is_off():
    """The residual is |alpha(Delta) - alpha|; it was the logarithm of their ratio, -2.2."""
    alpha, output = 1e8, channel("hardmax")
    found = evolve(alpha, 0.5, output)
    assert found.mmse.value == 0
    assert found.residual == pytest.approx(alpha - alpha_at(found.bracket[1], 0.5, output).value, rel=1e-6)
