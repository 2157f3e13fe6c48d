"""Prediction errors: published values, closed forms, order, and error propagation."""

import math

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.model.network import Network


@pytest.mark.parametrize(("layers", "published"), [(2, 0.387), (3, 0.584)])
def test_plugin_error_at_zero_overlap(layers: int, published: float) -> None:
    _, plugin = prediction_errors(Network(layers), np.zeros((layers, layers)))
    assert plugin.how == "monte-carlo"
    assert plugin.value == pytest.approx(published, abs=5e-4 + 3 * plugin.error)  # published with three digits
    assert plugin.error < 1e-3


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("q", [np.zeros((2, 2)), np.diag([0.0, 0.6]), np.array([[0.5, 0.2], [0.2, 0.7]])])
def test_the_posterior_mean_predicts_best(activation: str, q: np.ndarray) -> None:
    best, plugin = prediction_errors(Network(activation=activation), q, rng=3)
    assert 0 < best.value < plugin.value
    assert plugin.value - best.value > 3 * math.hypot(best.error, plugin.error) or activation == "linear"


@pytest.mark.parametrize("model", [Network(1), Network(2), Network(3, 4, (1, 2, 1)), Network(2, activation="linear")])
def test_no_error_at_perfect_recovery(model: Network) -> None:
    for estimate in prediction_errors(model, np.eye(model.indices)):
        # sqrt(eps) is what the root of I - q keeps of rounding
        assert abs(estimate.value) < 1e-12 and estimate.error < 1e-12


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("q", [0.0, 0.2, 0.7, 0.99])
def test_one_linear_layer_in_closed_form(q: float, beta: float) -> None:
    """y = beta h^T h, h = omega + sqrt(V) z, two tokens: sums over the four entries of Gaussian fourth moments.

    Var(h_i h_j | omega) = V (omega_i^2 + omega_j^2) + V^2 off the diagonal and 4 V omega_i^2 + 2 V^2 on it: together
    12 q V + 6 V^2. The plug-in is off by the mean V on the diagonal besides: + 2 V^2.
    """
    v = 1 - q
    best, plugin = prediction_errors(Network(1, beta=beta, activation="linear"), np.array([[q]]), rng=8)
    for estimate, exact in ((best, 12 * q * v + 6 * v * v), (plugin, 12 * q * v + 8 * v * v)):
        exact *= beta**2
        assert abs(estimate.value - exact) < 5 * estimate.error  # Student with 7 degrees, 16 comparisons: p = 0.02
        assert estimate.error < 0.01 * exact


def test_bayes_error_by_nested_averages() -> None:
    """E || g - E[g | omega] ||^2 from its definition, with the inner mean over many h."""
    model, q = Network(skip=0.5), np.array([[0.3, 0.1], [0.1, 0.8]])
    rng = np.random.default_rng(17)
    root = np.linalg.cholesky(q)
    spread = np.linalg.cholesky(np.eye(2) - q)
    omega = root @ rng.standard_normal((1500, 1, 2, 2))
    y = model.link(omega + spread @ rng.standard_normal((1500, 200, 2, 2)))
    values = y.var(axis=1, ddof=1).sum(axis=(1, 2))
    best, _ = prediction_errors(model, q, rng=5)
    sigma = math.hypot(best.error, values.std() / math.sqrt(1500))
    assert abs(best.value - values.mean()) < 4 * sigma


def test_the_error_of_the_overlap_is_carried_through() -> None:
    model, q = Network(1, activation="linear"), np.array([[0.5]])
    plain = prediction_errors(model, q, rng=2)
    moved = prediction_errors(model, q, np.array([[0.05]]), rng=2)
    # |d/dq (12 q V + 6 V^2)| = 12 (1 - 2 q) - 12 V = -6 at q = 1/2, and -8 for the plug-in
    for before, after, slope in zip(plain, moved, (6.0, 8.0), strict=True):
        assert after.value == before.value
        assert after.error == pytest.approx(math.hypot(before.error, slope * 0.05), rel=0.2)


def test_seeds_reproduce() -> None:
    q = np.diag([0.1, 0.6])
    first, again, other = (prediction_errors(Network(), q, rng=seed) for seed in (4, np.random.default_rng(4), 5))
    assert first == again == prediction_errors(Network(), q, rng=4) != other
