"""Noise on the scores: state evolution, free energy and message passing, each by a second route."""

import math

import numpy as np
import pytest

from attnlimits.numerics.aim.channels import Noisy, channel, pairs, variances
from attnlimits.numerics.aim.free_energy import free_entropy, free_entropy_at, psi_out
from attnlimits.numerics.aim.instances import amp_instances
from attnlimits.numerics.aim.prediction import prediction_errors
from attnlimits.numerics.aim.state_evolution import evolve, iterate
from attnlimits.numerics.aim.thresholds import noisy_tail, weak_recovery

CASES = [("softmax", 2), ("softmax", 3), ("hardmax", 2), ("linear", 2)]


@pytest.mark.parametrize(("name", "tokens"), CASES)
def test_noise_of_zero_and_of_more(name, tokens):
    """Errors rise with the noise, from those without it."""
    found = [evolve(0.1, 0.5, channel(name, tokens, noise=noise)).mmse.value for noise in (0.0, 1e-6, 0.1, 1.0, 10.0)]
    assert (np.diff(found) > 0).all()
    assert found[1] == pytest.approx(found[0], rel=3e-4, abs=1e-5)


@pytest.mark.parametrize(("name", "tokens"), CASES)
def test_evolution_is_the_fixed_point_of_its_iteration(name, tokens):
    output = channel(name, tokens, noise=0.3)
    found, other = evolve(0.2, 0.5, output).mmse, iterate(0.2, 0.5, output).mmse
    assert abs(found.value - other.value) <= found.error + other.error


def test_evolution_does_not_depend_on_the_temperature_and_predictions_do():
    cold, warm = (channel("softmax", 2, beta, 0.3) for beta in (5.0, 0.5))
    V = evolve(0.1, 0.5, cold).mmse
    assert V.value == pytest.approx(evolve(0.1, 0.5, warm).mmse.value, rel=1e-12)
    errors = [prediction_errors(V, 0.5, output).posterior_mean.value for output in (cold, warm)]
    assert errors[0] > 2 * errors[1]


@pytest.mark.parametrize(("name", "tokens"), CASES)
def test_error_at_large_alpha(name, tokens):
    output = channel(name, tokens, noise=0.4)
    tail = noisy_tail(0.5, output).value
    assert 1e5 * evolve(1e5, 0.5, output).mmse.value == pytest.approx(tail, rel=1e-3)


@pytest.mark.parametrize(("name", "tokens"), [*CASES, ("hardmax", 3)])
def test_weak_recovery_is_later_by_the_noise(name, tokens):
    clean, noisy = (float(weak_recovery(channel(name, tokens, noise=noise)).value) for noise in (0.0, 0.25))
    assert noisy == pytest.approx(1.25 * clean, rel=1e-9)
    # Just above it there is a solution with an overlap, below none.
    output = channel(name, tokens, noise=0.25)
    assert evolve(1.05 * noisy, 0.0, output).mmse.value < 1 - 1e-4 and evolve(0.99 * noisy, 0.0, output).mmse.value == 1


def draws(output, V, Q, count, rng):
    spread = np.sqrt(variances(output.tokens))
    omega = math.sqrt(Q - V) * spread * rng.standard_normal((count, len(spread)))
    h = np.zeros((count, output.tokens, output.tokens))
    rows, columns = pairs(output.tokens)
    h[:, rows, columns] = omega + math.sqrt(V) * spread * rng.standard_normal(omega.shape)
    h[:, columns, rows] = h[:, rows, columns]
    return output.prepare(output.check(output.draw(h, rng))), omega


@pytest.mark.parametrize(("name", "tokens"), [("hardmax", 2), ("hardmax", 3)])
def test_evidence_of_labels_is_the_mean_of_log_z(name, tokens, rng):
    output = channel(name, tokens, noise=0.3)
    terms = output.log_evidence(*draws(output, 0.4, 1.5, 4000, rng), 0.4)
    expected = psi_out(0.4, 0.5, output)
    assert abs(terms.mean() - expected.value) < 4 * terms.std() / math.sqrt(4000) + expected.error


@pytest.mark.parametrize(("name", "tokens"), [("softmax", 2), ("softmax", 3), ("linear", 2)])
def test_differences_of_the_evidence(name, tokens, rng):
    """Without the constant that does not depend on V."""
    output = channel(name, tokens, noise=0.3)
    near, far = (output.log_evidence(*draws(output, V, 1.5, 20000, rng), V) for V in (0.1, 0.9))
    expected = psi_out(0.1, 0.5, output).value - psi_out(0.9, 0.5, output).value
    assert abs(near.mean() - far.mean() - expected) < 4 * math.hypot(near.std(), far.std()) / math.sqrt(20000)


@pytest.mark.parametrize(("name", "tokens"), CASES)
def test_free_entropy_is_stationary_at_the_fixed_point(name, tokens):
    output = channel(name, tokens, noise=0.3)
    point = free_entropy_at(0.2, 0.5, output)
    V = point.mmse.value
    low, high = (free_entropy(0.2, V * (1 + step), 0.5, output).value for step in (-1e-3, 1e-3))
    # The slope in V, where that of either part is of the order of qhat/4.
    assert abs(high - low) / (2e-3 * V) < 1e-5 * point.q_hat
    assert max(low, high) < point.free_entropy.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tokens", "alpha", "noise"),
    [("softmax", 2, 0.15, 0.3), ("softmax", 3, 0.08, 0.3), ("hardmax", 2, 0.3, 0.5), ("hardmax", 3, 0.2, 0.5)],
)
def test_message_passing_at_200_dimensions(name, tokens, alpha, noise):
    """Eight instances: errors of estimation and prediction within three standard errors of the state evolution."""
    output = channel(name, tokens, noise=noise)
    found = amp_instances(alpha, 0.5, 200, output, count=8, tol=1e-4, max_iter=100)
    assert all(result.converged for result in found.results)
    expected = evolve(alpha, 0.5, output).mmse
    assert abs(found.error - expected.value) < 3 * found.error_of_error + expected.error
    theory = prediction_errors(expected, 0.5, output)
    for ours, limit in zip(found.prediction.__dict__.values(), theory.__dict__.values(), strict=True):
        assert abs(ours.value - limit.value) < 3 * ours.error + limit.error


@pytest.mark.parametrize(("name", "alpha"), [("softmax", 0.2), ("hardmax", 1.0)])
def test_message_passing_at_40_dimensions(name, alpha):
    """A bias of finite size of up to 14 per cent, as without noise; noise taken into account is better than not."""
    output = channel(name, noise=0.3)
    found = amp_instances(alpha, 0.5, 40, output, count=3, tol=1e-3, max_iter=80)
    expected = evolve(alpha, 0.5, output).mmse.value
    assert 0.95 * expected - 3 * found.error_of_error < found.error < 1.14 * expected + 3 * found.error_of_error
    assert isinstance(output, Noisy) and not output.scale_free
