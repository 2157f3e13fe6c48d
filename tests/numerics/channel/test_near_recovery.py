"""Two layers near recovery: the limit of the linearised network, and the series about it."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq

from attnlimits.numerics.channel.deep.linearised import jacobians
from attnlimits.numerics.channel.two_layers.averages import TwoLayerAverages
from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.channel.two_layers.near_recovery import NearRecovery
from attnlimits.numerics.channel.two_linear.channel import TwoLinearQuadrature
from attnlimits.numerics.model.network import Network

MODELS = [Network(), Network(skip=2.0, beta=0.7)]


def near(model: Network) -> NearRecovery:
    def quadrature(v1: float, v2: float, accuracy: float) -> np.ndarray:
        found = TwoLayerQuadrature(model, accuracy).rough(np.diag([1 - v1, 1 - v2]))
        return found.g[0].diagonal()

    return NearRecovery(model, quadrature)


@pytest.fixture(scope="module")
def series() -> NearRecovery:
    return near(Network())


@cache
def on_path(series: NearRecovery, v: float) -> float:
    """1 - q_22 at which both layers ask for the same alpha."""

    def apart(log_ratio: float) -> float:
        value = series(v, v * np.exp(log_ratio), 1e-2)
        assert value is not None
        first, last = (1 - np.array([v, v * np.exp(log_ratio)])) / (value.g * (v, v * np.exp(log_ratio)))
        return float(np.log(first / last))

    return float(v * np.exp(brentq(apart, *np.log([0.008, 0.0125]), xtol=1e-6)))


@pytest.mark.parametrize("model", MODELS)
def test_jacobians_are_those_of_the_readout(model, rng):
    h = rng.standard_normal((5, 2, 2))
    scores = model.beta * h[:, 0, :, None] * h[:, 0, None, :]
    rows = np.exp(scores - scores.max(axis=2, keepdims=True))
    mixing = model.skip * np.eye(2) + rows / rows.sum(axis=2, keepdims=True)
    found = jacobians(model, h)
    np.testing.assert_allclose(found[:, 1], mixing, atol=1e-8)
    step = 1e-5
    for m in range(2):
        moved = [h.copy() for _ in range(2)]
        for sign, at in zip((1, -1), moved, strict=True):
            at[:, 0, m] += sign * step
        up, down = (np.einsum("nab,nb->na", jacobians(model, at)[:, 1], at[:, 1]) for at in moved)
        np.testing.assert_allclose(found[:, 0, :, m], (up - down) / (2 * step), atol=1e-6)


def test_both_layers_ask_for_alpha_one_in_the_limit(series):
    """On the path alpha = (1 - V_ll)/(V_ll G_ll) -> 1, from below: recovery of two numbers by two numbers."""
    gaps = []
    for v in (1e-2, 1e-3, 1e-4):
        last = on_path(series, v)
        value = series(v, last, 2e-3)
        alphas = (1 - np.array([v, last])) / (value.g * (v, last))
        gaps.append((1 - alphas.mean()) / v)
    assert 0.25 < min(gaps) and max(gaps) < 0.5
    assert gaps[0] < gaps[1] < gaps[2]


@pytest.mark.parametrize(("v", "accuracy"), [(0.03, 4e-3), pytest.param(0.025, 4e-4, marks=pytest.mark.slow)])
def test_the_series_agrees_with_quadrature_nearer_than_its_nodes(series, v, accuracy):
    last = on_path(series, v)
    value = series(v, last, accuracy)
    exact = TwoLayerQuadrature(Network(), accuracy / 4).rough(np.diag([1 - v, 1 - last])).g[0].diagonal()
    assert (np.abs(value.g / exact - 1) < value.error + accuracy / 5).all()
    assert (value.error < 1e-3).all()


def test_it_does_not_serve_what_it_does_not_know(series):
    assert series(0.2, 0.002, 1e-2) is None
    # Far beside the path.
    assert series(0.05, 0.05, 1e-2) is None


def test_layers_whose_quadrature_does_not_go_so_far_are_sampled():
    """At strong skips the last layer is known far better than the first."""
    averages = TwoLayerAverages(Network(skip=30.0), 1e-2, lambda times: lambda q: "sampled")
    assert averages.rough(np.diag([0.97, 1 - 1e-7]), 1e-2) == "sampled"


@pytest.mark.parametrize(("skip", "beta"), [(0.1, 1.0), (1.0, 10.0), (10.0, 0.5), (30.0, 1.0)])
def test_every_model_has_a_ratio_at_which_the_limits_agree(skip, beta):
    asked = []
    assert NearRecovery(Network(skip=skip, beta=beta), lambda *at: asked.append(at))(0.01, 1e-4, 1e-2) is None
    (first, last, _), *_ = asked
    assert 0 < last < first


def test_averages_keep_to_the_way_of_their_neighbour():
    """By rules or by the series: a search that has begun on one side of the seam stays there next to it."""
    averages = TwoLayerAverages(Network(), 1e-2, lambda times: lambda q: "sampled")
    below, above = (np.diag([1 - v, 1 - 0.01 * v]) for v in (0.055, 0.065))
    series, rules = averages.rough(below, 1e-2), averages.rough(above, 1e-2)
    assert series.method and not rules.method
    assert averages.alike(above, 1e-2, series).method == series.method
    assert averages.alike(below, 1e-2, rules).method == rules.method
    for q in (below, above):
        one, other = (averages.alike(q, 1e-2, neighbour) for neighbour in (series, rules))
        assert np.abs(one.g[0].diagonal() / other.g[0].diagonal() - 1).max() < 1e-2
    # Far from the seam there is one way only.
    assert averages.alike(np.diag([1 - 0.02, 1 - 2e-4]), 1e-2, rules).method == series.method
    assert averages.alike(np.diag([1 - 0.08, 1 - 8e-4]), 1e-2, series).method == rules.method


@pytest.mark.slow_for("0.01", "0.1")
@pytest.mark.parametrize("skip", [1e-3, 0.01, 0.1, 30.0])
def test_linear_layers_have_a_path_at_every_skip(skip):
    """At weak ones the first layer is known well while the last one is hardly learned."""
    asked = []

    def quadrature(v1, v2, accuracy):
        asked.append((v1, v2))
        return 1 / np.array([v1, v2])

    NearRecovery(Network(activation="linear", skip=skip), quadrature)(0.01, 0.1, 1e-9)
    assert {first for first, _ in asked} == {0.2, 0.1, 0.05, 0.025, 0.0125}
    assert all(0 < last < 1 for _, last in asked)


def test_the_series_of_linear_layers_agrees_with_quadrature():
    """Nearer than its nodes."""
    model = Network(activation="linear")

    def quadrature(v1, v2, accuracy):
        return TwoLinearQuadrature(model, accuracy, 1).rough(np.diag([1 - v1, 1 - v2])).g[0].diagonal()

    series = NearRecovery(model, quadrature)
    last = 0.41 * 0.04  # near the path
    value = series(0.04, last, 1e-2)
    assert (np.abs(value.g / quadrature(0.04, last, 2e-3) - 1) < value.error + 2e-3).all()
    assert (value.error < 1e-2).all()
