"""Sampled posteriors of deep attention: against the denoiser, the law of the hidden layers, and exact identities."""

import math
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages, matrix_root
from attnlimits.numerics.channel.charts import ChartChannel
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.sampled import DeepChannel
from attnlimits.numerics.channel.two_layers.sampled import TwoLayers
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.results import Estimate
from attnlimits.numerics.fixed_point.evolve import curve, evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.deep.sampled import SampledPosterior
from attnlimits.numerics.posterior.denoiser import denoise_readout
from attnlimits.numerics.posterior.sampled import posterior_moments
from attnlimits.numerics.quadrature.rules import normal_qmc

from .last_layer import LastLayer

pytestmark = pytest.mark.usefixtures("few_means")
Array = NDArray[np.float64]
THREE = Network(3)


def points(model: Network, log2_n: int, seed: int = 0) -> list[Array]:
    dimension = 2 * model.layers * model.tokens
    return [normal_qmc(dimension, log2_n, s) for s in np.random.default_rng(seed).spawn(8)]


@cache
def averages(model: Network, q: tuple[float, ...], log2_n: int = 5, nodes: int = 512) -> Averages:
    """At a diagonal overlap; shared by the tests."""
    rng = np.random.default_rng(1)
    return DeepChannel(model, points(model, log2_n), nodes=nodes, rng=rng, workers=1)(np.diag(q))


def sigma(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


# --- two layers, two tokens: the exact denoiser -----------------------------------------------------------------


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("q", [(0.0, 0.3), (0.0, 0.99), (0.5, 0.5), (0.9, 0.99), (0.99, 0.999)])
def test_posterior_mean_is_that_of_the_denoiser(q: tuple[float, float], activation: str) -> None:
    """One output at a time, from priors as wide as 1 to peaks of a thirtieth of that."""
    model = Network(activation=activation)
    overlap = np.diag(q)
    v = np.eye(2) - overlap
    normals = np.random.default_rng(2).standard_normal((2, 24, 2, 2))
    omega = matrix_root(overlap) @ normals[0]
    h = omega + np.sqrt(v) @ normals[1]
    means, seconds = SampledPosterior(model, 4096, 1, 8, np.random.default_rng(0), 1)(h, omega, v)
    readout = (h[:, 1:] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0]
    exact = denoise_readout(model, readout, omega, v, tol=1e-8, workers=1)
    deviation = np.einsum("ab,nbm->nam", v, exact.g_out)
    # in units of the prior's width; 2048 nodes each, a tenth of them effective: 0.07
    width = np.sqrt(np.diag(v))[:, None]
    off = (means[2] - omega - deviation) / width
    assert np.abs(off).max() < 0.25 and math.sqrt((off**2).mean()) < 0.02
    # V^{-1} Cov V^{-1} = dg + V^{-1}, of one layer
    for a in range(2):
        covariance = v[a, a] ** 2 * exact.dg_out[:, a, :, a] + v[a, a] * np.eye(2)
        second = covariance + (omega + deviation)[:, a, :, None] * (omega + deviation)[:, a, None, :]
        assert math.sqrt((((seconds[2][:, a] - second) / width[a]) ** 2).mean()) < 0.05


@pytest.mark.parametrize(
    ("q", "activation"),
    [
        ((0.0, 0.3), "softmax"),
        ((0.3, 0.99), "softmax"),
        ((0.99, 0.999), "softmax"),
        ((0.0, 0.99), "linear"),
        ((0.3, 0.99), "linear"),
        pytest.param((0.0, 0.99), "softmax", marks=pytest.mark.slow),
        pytest.param((0.0, 0.3), "linear", marks=pytest.mark.slow),
        pytest.param((0.99, 0.999), "linear", marks=pytest.mark.slow),
    ],
)
def test_averages_are_those_of_two_layers(q: tuple[float, float], activation: str) -> None:
    """At the same outer points: what differs is the inner posterior, and the control variates."""
    model = Network(activation=activation)
    sampled = averages(model, q)
    exact = TwoLayers(model, points(model, 5), 1)(np.diag(q))
    for a in range(2):
        if q[a] == 0.0:
            assert not sampled.g[:, a].any()
            allowed = 4 * math.hypot(sigma(sampled.growth[:, a]), sigma(exact.growth[:, a]))
            assert abs(sampled.growth[:, a].mean() - exact.growth[:, a].mean()) < allowed
        else:
            assert np.isnan(sampled.growth[:, a]).all()
            difference = sampled.g[:, a, a] - exact.g[:, a, a]
            allowed = 5 * sigma(difference) + 2 * sampled.bias[a, a] + 0.005 * exact.g[:, a, a].mean()
            assert abs(difference.mean()) < allowed
            assert sampled.bias[a, a] < 0.03 * sampled.g[:, a, a].mean()


def test_correlated_overlaps() -> None:
    q = np.array([[0.4, 0.25], [0.25, 0.5]])
    model = Network()
    sampled = DeepChannel(model, points(model, 7), nodes=256, rng=np.random.default_rng(1), workers=1)(q)
    exact = TwoLayers(model, points(model, 7), 1)(q)
    difference = sampled.g - exact.g
    for a, b in ((0, 0), (0, 1), (1, 1)):
        assert abs(difference[:, a, b].mean()) < 5 * sigma(difference[:, a, b]) + 0.01 * exact.g[:, 1, 1].mean()
    np.testing.assert_array_equal(sampled.g, np.swapaxes(sampled.g, 1, 2))


# --- other depths and tokens ------------------------------------------------------------------------------------


@pytest.mark.slow_for("0.1", "0.5")
@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_last_layer_of_three_is_that_of_the_law_of_the_hidden_ones(q: float) -> None:
    sampled = averages(THREE, (0.0, 0.0, q), 6)
    by_law = LastLayer(THREE, [normal_qmc(8, 5, s) for s in np.random.default_rng(3).spawn(8)])(np.diag([0.0, 0.0, q]))
    assert not sampled.g[:, :2].any()
    difference = sampled.g[:, 2, 2].mean() - by_law.g[:, 2, 2].mean()
    spread = math.hypot(sigma(sampled.g[:, 2, 2]), sigma(by_law.g[:, 2, 2]))
    assert abs(difference) < 4 * spread + sampled.bias[2, 2]
    assert spread < 0.25 * by_law.g[:, 2, 2].mean()


@pytest.mark.parametrize(
    ("model", "q"),
    [
        (THREE, (0.3, 0.4, 0.9)),
        (Network(3, activation="linear"), (0.2, 0.3, 0.6)),
        (Network(2, 3), (0.3, 0.8)),
        (Network(2, 3, activation="linear"), (0.3, 0.8)),
        (Network(4), (0.1, 0.2, 0.3, 0.8)),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else "",
)
def test_nishimori_identities(model: Network, q: tuple[float, ...]) -> None:
    """E g = 0, E g g^T = E g u^T with u = V^{-1}(h - omega), E g g^T = -E dg, without control variates."""
    overlap = np.diag(q)
    v = np.eye(len(q)) - overlap
    precision = np.asarray(np.linalg.inv(v), np.float64)
    outer = points(model, 6, seed=4)
    sampler = DeepChannel(model, outer, nodes=512, rng=np.random.default_rng(1), workers=1)
    omega = matrix_root(overlap) @ sampler._xi
    h = omega + np.sqrt(v) @ sampler._zeta
    means, seconds = sampler._posterior(h, omega, v)
    g = [precision @ (mean - omega) for mean in means]
    u = precision @ (h - omega)
    trace = np.einsum("nlmm->nl", seconds[2]) - (means[0] * means[1]).sum(axis=2)
    values = {
        "E g": g[2].sum(axis=2),
        "E g (g - u)": (g[0] * g[1]).sum(axis=2) - (g[2] * u).sum(axis=2),
        "E g g + E dg": (g[0] * g[1]).sum(axis=2) + np.diag(precision) ** 2 * trace - model.tokens * np.diag(precision),
    }
    for name, value in values.items():
        replicas = value.reshape(8, -1, len(q)).mean(axis=1)
        for layer in range(len(q)):
            # Student, 7 degrees: p = 0.0016; the ratio of two sums leaves a bias of a percent
            scale = model.tokens * precision[layer, layer]
            assert abs(replicas[:, layer].mean()) < 5 * sigma(replicas[:, layer]) + 0.01 * scale, name


@pytest.mark.parametrize("model", [Network(2, 3), Network(2, 2), THREE], ids=lambda m: m.describe())
def test_narrow_priors_count_the_equations(model: Network) -> None:
    """As V -> 0 in proportion, tr V G -> M: y gives as many equations as v has entries."""
    v = 1e-6
    found = averages(model, (1 - v,) * model.layers, 3)
    counted = v * np.trace(found.g, axis1=1, axis2=2)
    assert abs(counted.mean() - model.tokens) < 5 * sigma(counted) + 0.01 * model.tokens
    assert sigma(counted) < 0.1 * model.tokens


def test_growth_at_zero_overlap_is_the_exact_norm() -> None:
    """The operator (15) of the last layer of three, 1/0.207177 (thresholds.last_layer), and of three tokens."""
    for model, alpha in (
        (THREE, 0.207177),
        (Network(2, 3), 0.0955286),
        (Network(2, 3, activation="linear"), 0.240243),
    ):
        growth = averages(model, (0.0,) * model.layers, 6).growth[:, -1]
        assert abs(growth.mean() - 1 / alpha) < 5 * sigma(growth) + 0.01 / alpha
        assert sigma(growth) < 0.1 / alpha


def test_more_nodes_take_the_bias_away() -> None:
    """A ratio of two sums over n nodes is off by c/n; sixteen times the nodes, and a fifth is asked for."""
    few, many = (averages(THREE, (0.0, 0.0, 0.9), 3, nodes) for nodes in (128, 2048))
    assert many.bias[2, 2] < 0.2 * few.bias[2, 2]
    off = few.g[:, 2, 2] - many.g[:, 2, 2]
    assert abs(off.mean()) < 5 * sigma(off) + 2 * few.bias[2, 2]


# --- the state evolution ----------------------------------------------------------------------------------------


def test_dispatch() -> None:
    rng = np.random.default_rng(0)
    kinds = ((THREE, DeepChannel), (Network(2, 3), ChartChannel), (Network(4, activation="linear"), DeepChannel))
    for model, kind in kinds:
        found = channel(model, samples=2, replicas=2, rng=rng, workers=1, nodes=64)
        assert isinstance(found, kind) and found.layers == tuple(range(model.layers))
    assert isinstance(channel(Network(), samples=2, replicas=2, rng=rng, workers=1), TwoLayers)


def test_last_layer_of_three_is_not_learned_below_its_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    # The norm of the operator takes seconds: test_thresholds.py has it.
    monkeypatch.setattr(
        "attnlimits.numerics.fixed_point.growth.last_layer_norm",
        lambda model: Estimate(1 / 0.207177, 1e-9, "estimated"),
    )
    below = evolve(THREE, 0.2, samples=16, nodes=128, workers=1)
    assert not below.overlap.any() and below.stability[2] == pytest.approx(0.2 / 0.207177, rel=1e-12)
    assert (below.stability[:2] < 0.5).all()


@pytest.mark.slow
def test_last_layer_of_three_is_learned_above_its_threshold() -> None:
    """As test_deep_layers.py has it at alpha = 0.5 and against sums over all outputs."""
    above = evolve(THREE, 0.4, samples=32, nodes=128, workers=1, tol=1e-4)
    assert above.converged and not above.overlap[:2].any()
    # 0.402 +- 0.011 with 256 points and 1024 nodes
    assert abs(above.overlap[2, 2] - 0.402) < 4 * above.overlap_error[2, 2] + 0.03
    assert 0 < above.overlap_error[2, 2] < 0.15


def test_overlaps_of_all_layers_die_out_below_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    # As above.
    monkeypatch.setattr(
        "attnlimits.numerics.fixed_point.growth.last_layer_norm",
        lambda model: Estimate(1 / 0.207177, 1e-9, "estimated"),
    )
    start = np.diag([0.2, 0.2, 0.4])
    result = evolve(THREE, 0.1, start=start, samples=8, replicas=4, nodes=128, workers=1, tol=1e-4)
    assert result.converged and result.overlap.max() < 1e-3
    np.testing.assert_allclose(result.history[0], np.diag([0.2, 0.2, 0.4]))
    assert (np.diff([q[2, 2] for q in result.history[:3]]) < 0).all()


def test_bad_nodes_are_named() -> None:
    for nodes in (32, 100, True, 128.0):
        with pytest.raises(ValueError, match="nodes must be a power of two >= 64"):
            evolve(THREE, 0.3, nodes=nodes)  # type: ignore[arg-type]


def test_an_output_without_nodes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*arguments: Array) -> None:
        posterior_moments(*arguments)
        arguments[-1][0] = 0.0

    monkeypatch.setattr("attnlimits.numerics.posterior.deep.sampled.posterior_moments", nothing)
    with pytest.raises(ConvergenceError, match=r"met 1 of 16 outputs with no node at all; raise nodes"):
        averages.__wrapped__(THREE, (0.0, 0.0, 0.5), 1, 64)


@pytest.mark.slow
def test_three_layers_along_the_staircase() -> None:
    """The last layer first, and the first one once the last is nearly known (from about alpha = 1)."""
    results = curve(THREE, [0.4, 0.8, 1.3], samples=32, nodes=512, tol=1e-3)
    assert all(r.converged for r in results[:2])
    # So few samples do not tell the upper fixed point from recovery, and it says so.
    assert results[2].converged or results[2].status.startswith("too near a threshold")
    overlaps = np.array([r.overlap.diagonal() for r in results])
    assert (np.diff(overlaps[:, 2]) > 0).all() and overlaps[-1, 2] > 0.95
    assert not overlaps[:2, :2].any() and overlaps[2, 0] > 0.05
