"""The first layer's threshold, once the second is learned: consistency with state evolution, errors, limits."""

import math
from functools import cache

import numpy as np
import pytest

from attnlimits.numerics.channel.two_linear.channel import TwoLinearQuadrature
from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError
from attnlimits.numerics.core.results import ThresholdResult
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.priors import as_spectrum
from attnlimits.numerics.thresholds import first_layer as first_layer_module
from attnlimits.numerics.thresholds.first_layer import first_layer


@pytest.fixture(scope="module")
def softmax():
    tried: list[float] = []
    return first_layer(Network(), digits=4, workers=1, progress=tried.append), tried


@pytest.fixture(scope="module")
def sampled():
    return first_layer(Network(), samples=256, workers=1)


def test_what_it_says(softmax) -> None:
    result, tried = softmax
    assert result.subspace == "layer 1" and result.how == "estimated" and result.converged
    assert float(result.value) == pytest.approx(1 / result.operator_norm, abs=result.error)
    assert 0 < result.error <= 1e-4
    assert len(result.value.lstrip("0.")) == 4
    assert len(tried) == result.n_iter
    np.testing.assert_array_equal(result.eigenvector, np.diag([1.0, 0.0]))
    assert "at q_22 = 0.9" in result.status
    # well after the last layer's own
    assert float(result.value) > 3 * 0.1854778406


def test_more_digits_agree(softmax) -> None:
    few, (more, _) = first_layer(Network(), digits=3), softmax
    assert more.error <= 1e-4 < few.error <= 1e-3
    assert abs(float(few.value) - float(more.value)) <= few.error + more.error


def test_quadrature_and_sampling_agree(softmax, sampled) -> None:
    """Two routes: nested rules, and randomised points with the exact denoiser."""
    result, _ = softmax
    assert sampled.how == "monte-carlo" and 0 < sampled.error < 0.02
    # Student with 7 degrees: four sigma
    assert abs(float(result.value) - float(sampled.value)) < 4 * sampled.error


def test_quadrature_and_sampling_agree_for_a_spectrum() -> None:
    prior = as_spectrum("mp:1")
    exact, found = first_layer(Network(), digits=4, prior=prior), first_layer(Network(), samples=128, prior=prior)
    assert abs(float(exact.value) - float(found.value)) < 4 * found.error < 0.1
    assert float(exact.value) < 0.75 * 0.719636


@pytest.mark.parametrize("skip", [0.3, pytest.param(3.0, marks=pytest.mark.slow)])
def test_other_skips_by_both_routes(skip: float) -> None:
    result = first_layer(Network(skip=skip), digits=4)
    by_points = first_layer(Network(skip=skip), samples=128, rng=1)
    assert abs(float(result.value) - float(by_points.value)) < 4 * by_points.error


def test_seeds_agree_within_their_errors(sampled) -> None:
    second = first_layer(Network(), samples=64, rng=5, workers=1)
    assert abs(float(sampled.value) - float(second.value)) < 4 * math.hypot(sampled.error, second.error)
    again = first_layer(Network(), samples=64, rng=5, workers=1)
    assert again.value == second.value and again.error == second.error


@pytest.mark.slow
def test_state_evolution_brackets_it(softmax) -> None:
    """Bisection by state evolution: q_11 dies out just below, and grows just above."""
    result, _ = softmax
    alpha = float(result.value)
    below, above = (evolve(Network(), alpha * (1 + shift), accuracy=1e-3) for shift in (-4e-3, 4e-3))
    assert below.converged and above.converged
    assert below.overlap[0, 0] == 0 and below.stability[0] < 1
    assert above.overlap[0, 0] > 0
    q22 = float(result.status.rsplit(" ", 1)[1])
    assert below.overlap[1, 1] < q22 < above.overlap[1, 1]


def test_given_the_second_layer_exactly() -> None:
    for model in (Network(), Network(skip=5.0, beta=0.3), Network(activation="linear")):
        result = first_layer(model, given="perfect")
        assert (result.exact, result.how, result.operator_norm) == ("1/6", "rigorous", 6)
        assert abs(float(result.value) - 1 / 6) <= result.error * (1 + 1e-9) < 1e-6


def test_linear_attention_starts_with_the_first_layer() -> None:
    model = Network(activation="linear")
    result = first_layer(model, digits=8, workers=1)
    assert "before the second" in result.status and (result.value, result.how) == ("0.39724447", "estimated")
    finer = TwoLinearQuadrature(model, 1e-10, 1).rough(np.zeros((2, 2))).growth[0, 0]
    assert abs(float(result.value) - 1 / finer) <= result.error < 1e-8
    stability = evolve(model, float(result.value), start=np.zeros((2, 2)), workers=1).stability
    assert stability[0] == pytest.approx(1.0, abs=1e-3)


@cache
def by_quadrature(skip: float) -> ThresholdResult:
    """Five digits of the threshold of the first of two linear layers."""
    return first_layer(Network(activation="linear", skip=skip), digits=5, workers=1)


def test_sampled_thresholds_agree() -> None:
    """Given samples, where either layer is learned first."""
    for skip in (1.03, 1.07):
        sampled = first_layer(Network(activation="linear", skip=skip), samples=64, workers=1)
        exact = by_quadrature(skip)
        assert (sampled.how, exact.how) == ("monte-carlo", "estimated")
        assert abs(float(sampled.value) - float(exact.value)) <= 4 * sampled.error + exact.error


def test_linear_layers_change_their_order_smoothly() -> None:
    """Near c = 1.05 both growth rates at q = 0 are equal: the threshold, by either equation, has no jump there."""
    found = [by_quadrature(skip) for skip in (1.03, 1.05, 1.07)]
    assert "before the second" in found[0].status and "at q_22" in found[2].status
    low, middle, high = (float(one.value) for one in found)
    assert middle == pytest.approx((low + high) / 2, abs=2e-5)


def test_digits_of_linear_layers_have_their_limit() -> None:
    with pytest.raises(ValueError, match="digits must be from 1 to 10"):
        first_layer(Network(activation="linear"), digits=11)


@pytest.mark.parametrize("model", [Network(1), Network(3), Network(2, 3), Network(2, 2, 2)])
def test_missing_models_are_named(model: Network) -> None:
    with pytest.raises(KernelNotFoundError, match="two layers, two tokens and rank 1"):
        first_layer(model)


@pytest.mark.parametrize(("argument", "value"), [("given", "nothing"), ("digits", 0), ("digits", 9), ("digits", 2.5)])
def test_bad_arguments_are_named(argument: str, value: object) -> None:
    with pytest.raises(ValueError, match=argument):
        first_layer(Network(), **{argument: value})


def test_a_threshold_beyond_what_is_resolved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_layer_module, "_RANGE", (0.1, 0.9))
    with pytest.raises(ConvergenceError, match=r"stays stable up to q_22 = 0\.59343, beyond which .* --given perfect"):
        first_layer(Network(), digits=2)
