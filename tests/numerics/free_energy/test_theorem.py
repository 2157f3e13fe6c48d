"""Theorem 2.1: errors, information, and how both change with samples and with noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from attnlimits.numerics.channel.linear import LinearChannel, linear_map
from attnlimits.numerics.fixed_point import link as link_evolution
from attnlimits.numerics.free_energy import FreeEntropy, OutputEntropy, output_entropy, stationary_points
from attnlimits.numerics.free_energy.theorem import bayes_optimal, information
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.priors import Binary


def best(output, alpha, prior=None):
    free = FreeEntropy(output, alpha, prior)
    return free, stationary_points(free, closest=1e-4)[0]


def test_the_errors_are_those_of_the_state_evolution():
    kernel = kernel_of("h[1]**2")
    free, point = best(output_entropy(kernel), 0.8)
    found = bayes_optimal(free, point)
    other = link_evolution.evolve(kernel, 0.8, tol=1e-10)
    for a, b in (
        (found.prediction_error, other.prediction_error),
        (found.plugin_error, other.plugin_error),
    ):
        assert a.value == pytest.approx(b.value, abs=4 * math.hypot(a.error, b.error))
    assert found.estimation_error.value == pytest.approx(1 - other.overlap[0, 0], abs=1e-5)
    # in closed form: E Var(h^2 | omega) = 2 (1 - q^2), and the plug-in error E (h^2 - omega^2)^2
    q = point.overlap[0, 0]
    assert found.prediction_error.value == pytest.approx(2 * (1 - q**2), abs=4 * found.prediction_error.error)
    plugin = 3 * (1 - q) ** 2 + 4 * q * (1 - q)
    assert found.plugin_error.value == pytest.approx(plugin, abs=4 * found.plugin_error.error)
    assert found.information is None


def test_recovered_weights_predict_without_error():
    free, point = best(output_entropy(kernel_of("h[1]**2")), 1.05)
    found = bayes_optimal(free, point)
    assert point.kind == "recovered"
    assert found.prediction_error.value == pytest.approx(0, abs=1e-12)
    assert found.estimation_error.value == 0
    assert found.information is None


# What a binary row tells is also in the information at its recovery, below.
@pytest.mark.slow_for("binary")
@pytest.mark.parametrize("prior", [None, Binary()], ids=["Gaussian", "binary"])
def test_another_sample_tells_what_the_overlap_leaves(prior):
    """d I(W; Y | X)/d N = Psi_out(I) - Psi_out(q)."""
    output = output_entropy(kernel_of("sign(h[1])"))
    alpha, step = 0.8, 1e-3
    low, high = (a * information(*best(output, a, prior)).value for a in (alpha - step, alpha + step))
    _, point = best(output, alpha, prior)
    told = output.limit(output.value)
    expected = told.value - output.value(point.overlap).value
    # the step squared times the third derivative, and the extrapolation, which is the same in both
    assert (high - low) / (2 * step) == pytest.approx(expected, abs=1e-5 + told.error)


def test_the_first_sample_of_a_sign_is_a_bit():
    found = information(*best(output_entropy(kernel_of("sign(h[1])")), 1e-6))
    assert found.value == pytest.approx(math.log(2), abs=1e-4)
    assert abs(found.value - math.log(2)) <= found.error + 1e-5


def test_a_recovered_binary_row_is_all_information_there_is():
    found = information(*best(output_entropy(kernel_of("sign(h[1])")), 1.4, Binary()))
    assert found.value == pytest.approx(math.log(2) / 1.4, abs=found.error)
    assert found.error < 1e-3


def test_information_grows_with_the_signal_by_half_the_error_of_the_signal():
    """I-MMSE: d (I/N)/d(1/Delta) = E Var(h | data)/2, Var = V Delta/(V + Delta) with the sample's own output."""
    kernel = kernel_of("h[1]", noise="0.5")
    matrix = linear_map(kernel)
    alpha, step = 1.3, 1e-4

    def at(signal):
        output = OutputEntropy(LinearChannel(replace(kernel, noise=1 / signal), matrix))
        return best(output, alpha)

    low, high = (information(*at(2.0 + shift)).value for shift in (-step, step))
    v = 1 - at(2.0)[1].overlap[0, 0]
    assert (high - low) / (2 * step) == pytest.approx(0.5 * v * 0.5 / (v + 0.5), abs=1e-6)
    assert np.isfinite(low)


def test_no_samples_no_information_each():
    output = output_entropy(kernel_of("sign(h[1])"))
    free = FreeEntropy(output, 0.0)
    with pytest.raises(ValueError, match="alpha must be > 0"):
        information(free, stationary_points(free)[0])
