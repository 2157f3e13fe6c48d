"""Errors of prediction: quadrature against sampling and closed forms, and against message passing on fresh data."""

import math

import numpy as np
import pytest
from scipy.special import expit

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import Softmax, channel
from attnlimits.numerics.aim.choices import agreement, mean_choice
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.instances import amp_instances
from attnlimits.numerics.aim.prediction import errors_on_data, predict, prediction_errors
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.core.results import Estimate


def output_of(h, soft):
    if not soft:
        return np.eye(h.shape[-1])[h.argmax(axis=-1)]
    weights = np.exp(h - h.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("first", "second", "apart", "tokens"),
    [(1.5, 1.5, 1.0, 2), (1.5, 1.0, 0.5, 3), (40.0, 20.0, 20.0, 4), (1.5, 1.499, 1e-3, 5), (0.8, 0.01, 0.79, 8)],
)
@pytest.mark.parametrize("soft", [True, False])
def test_agreement_is_that_of_samples(first, second, apart, tokens, soft, rng):
    """h = omega + z or two replicas; sampled with the variances 2, 1, .., 1 of a row."""
    both = 0.5 * (first + second - apart)
    root = np.linalg.cholesky([[second, both], [both, first]])
    z = root @ rng.standard_normal((2, 20000 * tokens)).reshape(2, -1)
    spread = np.sqrt([2.0] + [1.0] * (tokens - 1))
    omega, h = (output_of(spread * part.reshape(-1, tokens), soft) for part in z)
    products = (omega * h).sum(axis=1)
    found = agreement(first, second, apart, tokens, soft=soft)
    assert found.value == pytest.approx(products.mean(), abs=4 * products.std() / math.sqrt(len(products)))
    assert found.error < 5e-9


@pytest.mark.parametrize(("V", "beta"), [(0.4, 1.0), (1.2, 2.0), (0.01, 3.0)])
def test_two_tokens_by_nested_quadrature(V, beta):
    """A row of two tokens is one logistic function of a difference of variance 3 Q."""
    nodes = np.linspace(-9, 9, 601)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    omega = math.sqrt(3 * (1.5 - V)) * nodes
    y = expit(beta * (omega[:, None] + math.sqrt(3 * V) * nodes))
    mean = y @ weights
    found = prediction_errors(V, 0.5, Softmax(2, beta))
    for estimate, guess in ((found.posterior_mean, mean), (found.plug_in, expit(beta * omega))):
        # Two rows of two entries.
        expected = 4 * weights @ (((y - guess[:, None]) ** 2) @ weights)
        assert estimate.value == pytest.approx(expected, abs=1e-8) and estimate.error < 1e-8


@pytest.mark.parametrize("V", [1.5, 1.0, 0.1, 1e-4, 1e-9])
def test_two_labels_by_the_arcsine_law(V):
    found = prediction_errors(V, 0.5, channel("hardmax"))
    # P[signs differ] = acos(r)/pi for replicas of correlation q/Q, and for h and omega of (q/Q)^(1/2).
    replicas, guess = (math.atan2(math.sqrt(1 - r * r), r) / math.pi for r in (1 - V / 1.5, math.sqrt(1 - V / 1.5)))
    assert found.posterior_mean.value == pytest.approx(2 * replicas, rel=1e-6, abs=1e-12)
    assert found.plug_in.value == pytest.approx(4 * guess, rel=1e-6, abs=1e-12)


def test_large_beta_becomes_hardmax_and_small_beta_linear():
    hard = prediction_errors(0.5, 0.5, channel("hardmax", 4))
    cold = prediction_errors(0.5, 0.5, Softmax(4, 3000.0))
    assert cold.posterior_mean.value == pytest.approx(hard.posterior_mean.value, rel=2e-3)
    # A row is 1/T + beta (h - mean of the row)/T: its variance is that of h less that of the mean.
    warm, tokens, beta = prediction_errors(0.5, 0.5, Softmax(3, 1e-2)), 3, 1e-2
    row = 0.5 * (tokens + 1) * (1 - 1 / tokens)
    assert warm.posterior_mean.value == pytest.approx(tokens * beta**2 / tokens**2 * row, rel=1e-3)
    assert warm.plug_in.value == pytest.approx(warm.posterior_mean.value, rel=1e-3)


@pytest.mark.parametrize("soft", [True, False])
def test_mean_outputs_are_those_of_samples(soft, rng):
    omega, spread = rng.standard_normal((3, 4)), np.array([1.2, 0.6, 0.6, 0.6])
    found = mean_choice(omega, np.broadcast_to(spread, omega.shape), soft=soft)
    samples = output_of(omega + spread * rng.standard_normal((40000, 3, 4)), soft)
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-8
    assert (np.abs(found - samples.mean(axis=0)) < 4.5 * samples.std(axis=0) / 200).all()


@pytest.mark.parametrize(("name", "tokens", "alpha"), [("softmax", 2, 0.1), ("hardmax", 2, 1.0), ("linear", 3, 0.03)])
def test_message_passing_predicts_as_its_error_says(name, tokens, alpha):
    """On fresh tokens, at the error of estimation that this instance has."""
    output, d = channel(name, tokens), 40
    S = teacher(d, 0.5, 0)
    found = amp(*make_data(S, alpha, output, 0), output, 0.5, teacher=S, tol=1e-2)
    fresh = errors_on_data(S, found.estimate, found.mmse, output, samples=4000, rng=1)
    expected = prediction_errors(found.mmse, 0.5, output)
    assert fresh.posterior_mean.how == "monte-carlo"
    for measured, theory in (
        (fresh.posterior_mean, expected.posterior_mean),
        (fresh.plug_in, expected.plug_in),
    ):
        # Entries of h are Gaussian up to 1/d.
        assert abs(measured.value - theory.value) < 3 * measured.error + theory.value / d
    assert fresh.posterior_mean.value <= fresh.plug_in.value + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tokens", "alpha"), [("softmax", 2, 0.1), ("softmax", 3, 0.04), ("linear", 2, 0.08), ("hardmax", 2, 0.3)]
)
def test_acceptance_at_two_hundred_dimensions(name, tokens, alpha):
    """Means over eight instances are within three standard errors of the state evolution."""
    output = channel(name, tokens)
    found = amp_instances(alpha, 0.5, 200, output, count=8, tol=1e-6, max_iter=400).prediction
    expected = prediction_errors(evolve(alpha, 0.5, output).mmse, 0.5, output)
    for measured, theory in ((found.posterior_mean, expected.posterior_mean), (found.plug_in, expected.plug_in)):
        assert abs(measured.value - theory.value) < 3 * measured.error


def test_an_error_of_v_is_carried_over():
    output = channel("softmax")
    low, middle, high = (prediction_errors(v, 0.5, output).plug_in.value for v in (0.3, 0.4, 0.5))
    found = prediction_errors(Estimate(0.4, 0.1, "estimated"), 0.5, output).plug_in
    assert found.value == middle and found.error == pytest.approx(max(middle - low, high - middle), rel=1e-5)
    assert prediction_errors(Estimate(0.0, 0.0, "rigorous"), 0.5, output).posterior_mean.value == 0
    nearly = prediction_errors(Estimate(0.0, 1e-6, "estimated"), 0.5, output).posterior_mean
    assert nearly.value == 0 and 1e-8 < nearly.error < 1e-5


def test_predictions_of_tokens():
    output = Softmax(2, 2.0, logarithms=True)
    S = teacher(20, 0.5, 0)
    x, y = make_data(S, 0.2, output, 1)
    assert np.allclose(predict(x, S, output), np.exp(y))
    blurred = predict(x, S, output, V=0.3)
    assert np.allclose(blurred.sum(axis=2), 1) and 0.01 < np.abs(blurred - np.exp(y)).max() < 0.5


def test_refusals():
    with pytest.raises(ValueError, match="V must be in"):
        prediction_errors(1.6, 0.5, channel("softmax"))
    with pytest.raises(KernelNotFoundError, match="no model"):
        prediction_errors(0.5, 0.5, channel("hardmax_published"))
