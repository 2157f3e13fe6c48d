"""Three and more layers of two tokens: sums over all outputs and fast samples, against plain sampling and the law."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages, matrix_root
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.deep import channel as summed
from attnlimits.numerics.channel.deep.averages import DeepAverages
from attnlimits.numerics.channel.deep.channel import DeepQuadrature, Point
from attnlimits.numerics.channel.deep.given_omega import Resolution
from attnlimits.numerics.channel.deep.linearised import Linearised
from attnlimits.numerics.channel.deep.nodes import deposit, push
from attnlimits.numerics.channel.deep.three_layers import ThreeLayers
from attnlimits.numerics.channel.sampled import DeepChannel
from attnlimits.numerics.channel.two_layers.sampled import TwoLayers
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.results import Estimate
from attnlimits.numerics.fixed_point.error import growth_error
from attnlimits.numerics.fixed_point.evolve import curve, evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.deep.effort import Outputs
from attnlimits.numerics.posterior.deep.mixture import SQUARES, SUMS, Nodes, Prior, mixture_sums, weight_of
from attnlimits.numerics.posterior.deep.three_layers import MixturePosterior
from attnlimits.numerics.quadrature.rules import normal_qmc

from .last_layer import LastLayer

pytestmark = pytest.mark.usefixtures("few_means")
Array = NDArray[np.float64]
THREE = Network(3)
MODES = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)


def points(model: Network, log2_n: int, seed: int = 0) -> list[Array]:
    dimension = 2 * model.layers * model.tokens
    return [normal_qmc(dimension, log2_n, s) for s in np.random.default_rng(seed).spawn(8)]


def sigma(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def quadrature(effort: int, model: Network = THREE, seed: int = 0) -> DeepQuadrature:
    return DeepQuadrature(model, effort, rng=np.random.default_rng(seed), workers=1)


# --- parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layers", "skip", "beta"), [(2, 1.0, 1.0), (3, 0.3, 2.0), (5, 1.5, 0.7)])
def test_nodes_are_those_of_the_mixing_matrix(layers: int, skip: float, beta: float) -> None:
    model = Network(layers, skip=skip, beta=beta)
    modes = np.random.default_rng(0).standard_normal((layers - 1, 2, 40))
    a, tau = push(modes, skip, beta)
    h = np.zeros((40, layers, 2))
    h[:, :-1] = modes.transpose(2, 0, 1) @ MODES
    mixing = MODES @ model.mixing(h) @ MODES
    assert np.abs(mixing[:, 1, 0]).max() < 1e-12 * mixing[:, 0, 0].max()
    np.testing.assert_allclose(a, mixing[:, 0, 1] / mixing[:, 1, 1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tau, mixing[:, 0, 0] / mixing[:, 1, 1], rtol=1e-10)


def test_deposits_keep_cubic_polynomials() -> None:
    rng = np.random.default_rng(0)
    where, values = rng.uniform(-2, 2, (2, 300)), rng.standard_normal((3, 300))
    grid, moved = deposit(where, values, 0.37)
    assert grid.shape[1] < 300 and not np.unique(grid.round(9), axis=1).shape[1] < grid.shape[1]
    for i in range(4):
        for j in range(4 - i):
            before = values @ (where[0] ** i * where[1] ** j)
            np.testing.assert_allclose(moved @ (grid[0] ** i * grid[1] ** j), before, rtol=1e-9, atol=1e-9)
    fourth = values @ where[0] ** 4
    assert np.abs(moved @ grid[0] ** 4 - fourth).max() > 1e-6  # so the test can tell


def test_orbits_stand_for_all_points() -> None:
    """Moments of xi by the folded rule: those even in each layer and the same with the tokens exchanged."""
    overlaps = np.array([0.3, 0.1])
    xi, weights = summed.folded_rule(overlaps, 9.5)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    # Small overlaps see these alone.
    np.testing.assert_allclose(np.einsum("n,nij->ij", weights, xi**2), 1, atol=1e-12)
    for powers, moment in (
        ((2, 0, 2, 0), 1),
        ((0, 4, 0, 0), 3),
        ((2, 2, 0, 0), 1),
    ):
        value = weights @ np.prod(xi.reshape(-1, 4) ** np.array(powers), axis=1)
        assert value == pytest.approx(moment, rel=2e-2), powers
    # x_1 z_1 x_2 z_2 is even, too, and its mean is zero
    assert abs(weights @ np.prod(xi.reshape(-1, 4), axis=1)) < 1e-12


# --- sums over all outputs --------------------------------------------------------------------------------------


@pytest.mark.slow_for("0.98", "0.9", "0.1")
@pytest.mark.parametrize("q", [0.1, 0.5, 0.9, 0.98])
def test_last_layer_is_that_of_the_law_of_the_hidden_ones(q: float) -> None:
    overlap = np.diag([0.0, 0.0, q])
    found = quadrature(2)(overlap)
    by_law = LastLayer(THREE, [normal_qmc(8, 6, s) for s in np.random.default_rng(3).spawn(8)])(overlap)
    assert not found.g[0, :2, :2].any() and np.isnan(found.growth[0, 2])
    allowed = 4 * sigma(by_law.g[:, 2, 2]) + 2e-3 * found.g[0, 2, 2]
    assert abs(found.g[0, 2, 2] - by_law.g[:, 2, 2].mean()) < allowed


def test_growth_of_the_last_layer_is_the_exact_norm() -> None:
    """1/alpha_c of the operator (15): three and four layers (thresholds.last_layer)."""
    for model, alpha in ((THREE, 0.207177), (Network(4), 0.2208)):
        found = quadrature(0, model)(np.zeros((model.layers,) * 2))
        assert found.growth[0, -1] * alpha == pytest.approx(1, abs=0.05)


@pytest.mark.slow_for("q2")
@pytest.mark.parametrize(
    "q", [(0.0, 0.0, 0.95), (0.2, 0.0, 0.97), (0.2, 0.1, 0.97), pytest.param((0.5, 0.4, 0.97), marks=pytest.mark.slow)]
)
def test_sums_agree_with_samples(q: tuple[float, float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    # The finer sums put right 0.2 % at these overlaps of the last layer.
    monkeypatch.setattr(summed.DeepQuadrature, "by_last", ((0.0, (Resolution(8.0, 1.0, 0.8),) * 2),))
    found = quadrature(1)(np.diag(q))
    sampled = DeepChannel(THREE, points(THREE, 6), nodes=256, rng=np.random.default_rng(1))(np.diag(q))
    for layer in range(3):
        if q[layer]:
            value, other = found.g[0, layer, layer], sampled.g[:, layer, layer]
            # the rule itself is good for two percent at this effort
            assert abs(value - other.mean()) < 4 * sigma(other) + sampled.bias[layer, layer] + 0.02 * value
        else:
            rate, other = found.growth[0, layer], sampled.growth[:, layer]
            assert abs(rate - other.mean()) < 4 * sigma(other) + 0.1 * rate


@pytest.mark.slow
def test_more_effort_converges() -> None:
    q = np.diag([0.3, 0.2, 0.98])
    values = [quadrature(effort)(q).g[0].diagonal() for effort in range(3)]
    off = [np.abs(values[k] / values[2] - 1).max() for k in range(2)]
    assert off[1] < 0.01 and off[0] < 0.05
    again = quadrature(1, seed=7)(q).g[0].diagonal()
    np.testing.assert_allclose(again, values[1], rtol=5e-3)


def test_finer_sums_put_the_usual_ones_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hidden layer known the usual sums miss 0.2 % of the averages of the last layer, at any effort."""
    # A coarse rule for omega: what the sums of its points miss is all that is asked.
    monkeypatch.setattr(summed.DeepQuadrature, "log_omega", (4.0,))
    overlaps = np.array([0.07358, 0.0, 0.983045])
    found = quadrature(0).values(overlaps)
    finest = [Point(i, xi, Resolution(10.0, 1.2, 0.4)) for i, xi in enumerate(found.xi)]
    # The same nodes: what is left is the sums' own, less than is stated of them.
    exact, usual = found.weights @ quadrature(0).at_points(overlaps, finest), found.weights @ found.values
    left = found.left_by_sums()
    assert (np.abs(usual + found.missed() - exact) <= left).all()
    assert (left < 2e-4 * exact).all()
    assert abs(usual[2] - exact[2]) > 1e-3 * exact[2] and (np.abs(usual - exact)[[0, 2]] > left[[0, 2]]).all()
    # What random nodes leave is more.
    assert 1e-4 * exact[2] < found.scatter()[2] < 5e-3 * exact[2]


@pytest.mark.slow_for("0.0052", "0.0573", "0.5")
@pytest.mark.parametrize("q", [0.0052, 0.0573, 0.15, 0.5])
def test_sums_of_the_last_layer_alone_are_put_right(q: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the usual sums miss is the same at every effort: rules of rising effort agree on what is wrong."""
    overlap = np.diag([0.0, 0.0, q])
    found = quadrature(0)(overlap)
    monkeypatch.setattr(summed.DeepQuadrature, "by_last", ((0.0, (Resolution(14.0, 1.6, 0.12),) * 2),))
    finest = quadrature(0)(overlap)
    monkeypatch.setattr(summed.DeepQuadrature, "by_last", ((0.0, (Resolution(10.0, 1.2, 0.4),) * 2),))
    usual = quadrature(0)(overlap)
    missed, left = (abs(x.g[0, 2, 2] - finest.g[0, 2, 2]) for x in (usual, found))
    assert missed > 3e-4 * finest.g[0, 2, 2] and missed > 10 * left
    assert left < found.bias[2, 2]


def test_what_random_nodes_leave_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Averages by other nodes: 95 % are to be within what is stated of them, of all three layers."""
    # What sums miss is the same with all nodes, and nothing is stated of it here.
    monkeypatch.setattr(summed.DeepQuadrature, "by_last", ((0.0, (Resolution(10.0, 1.2, 0.4),) * 2),))
    overlap = np.diag([0.0, 0.0, 0.0573])
    results = [quadrature(0, seed=seed)(overlap) for seed in range(20)]
    values = np.array([[x.g[0, 2, 2], *x.growth[0, :2]] for x in results])
    stated = np.array([[x.bias[2, 2], *x.growth_bias[:2]] for x in results])
    truth = quadrature(2, seed=20)(overlap)
    off = np.abs(values - [truth.g[0, 2, 2], *truth.growth[0, :2]])
    assert (off <= stated).mean() > 0.9  # two standard deviations of sixty cases below 95 %
    assert np.median(off / stated) > 0.1  # and no more than that is stated
    # Growth rates of quadratures have an error, too.
    error = growth_error(results[0])
    np.testing.assert_allclose(error[:2], stated[0, 1:])


def test_sums_refuse_what_they_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"q must be diagonal, \(14\)"):
        quadrature(0)(np.full((3, 3), 0.1))
    with pytest.raises(ValueError, match=r"q must be in \[0, 0\.9997\]"):
        quadrature(0)(np.diag([0.0, 0.0, 0.9999]))
    with pytest.raises(ValueError, match="needs three softmax layers or more"):
        quadrature(0, Network(2))
    monkeypatch.setattr("attnlimits.numerics.channel.deep.given_omega._MASS", 1e-12)
    with pytest.raises(ConvergenceError, match=r"sum to [\d.]+ instead of 1 at q_LL = 0\.5"):
        quadrature(0)(np.diag([0.0, 0.0, 0.5]))


# --- samples where the hidden layers are known ------------------------------------------------------------------


@pytest.mark.slow_for("q0")
@pytest.mark.parametrize("q", [(0.3, 0.2, 0.98), (0.9, 0.88, 0.999)])
def test_fast_samples_are_those_of_the_general_sampler(q: tuple[float, float, float]) -> None:
    """The same outputs: posterior means differ by the noise of either, which its halves tell."""
    outer, overlap = points(THREE, 3), np.diag(q)
    v = np.eye(3) - overlap
    general = DeepChannel(THREE, outer, nodes=8192, rng=np.random.default_rng(0))
    fast = ThreeLayers(THREE, outer, nodes=256, rng=np.random.default_rng(1))
    omega = matrix_root(overlap) @ general._xi
    h = omega + np.sqrt(v) @ general._zeta
    width = np.sqrt(np.diag(v))[:, None]
    (means, seconds), (others, other_seconds) = (s._posterior(h, omega, v) for s in (fast, general))
    noise = sum(((x[0] - x[1]) / width / 2) ** 2 for x in (means, others))
    off = ((means[2] - others[2]) / width) ** 2
    assert off.mean() < 3 * noise.mean() and off.mean() < 0.02
    spread = np.abs(seconds[2] - other_seconds[2]) / width[:, :, None] ** 2
    assert float(np.median(spread)) < 0.05


def test_bias_of_few_nodes_is_told() -> None:
    """The same outputs with 8 times the nodes: what the bias hides, half of its estimate taken off."""
    outer, overlap = points(THREE, 7), np.diag([0.85, 0.8, 0.998])
    few, many = (ThreeLayers(THREE, outer, nodes=n, rng=np.random.default_rng(n))(overlap) for n in (8, 64))
    for layer in range(3):
        change = (few.g - many.g)[:, layer, layer]
        allowed = few.bias[layer, layer] + many.bias[layer, layer]
        assert abs(change.mean()) < 4 * sigma(change) + allowed
        assert many.bias[layer, layer] < 0.01 * many.g[:, layer, layer].mean()
    # Layer 2 has the most to hide.
    assert few.bias[1, 1] > 0.01 * few.g[:, 1, 1].mean()


def test_weight_of_the_indices_that_gave_the_output() -> None:
    """It is that of a node which is drawn there; and from it follows which outputs ask for more nodes."""
    rng = np.random.default_rng(3)
    n, variance = 200, np.array([0.5, 0.4, 0.01])
    omega = rng.standard_normal((n, 3, 2))
    h = omega + np.sqrt(variance)[:, None] * rng.standard_normal((n, 3, 2))
    modes = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    readout = (h[:, 2:] @ modes @ np.swapaxes(THREE.mixing(h @ modes), 1, 2))[:, 0] @ modes
    prior = Prior(variance, (THREE.skip, THREE.beta))
    for i in range(5):
        draw = ((h[i, :2] - omega[i, :2]) / np.sqrt(variance[:2, None])).ravel()
        node = np.append(draw, math.exp(0.5 * (draw[2:] ** 2).sum()))[None, None, :, None].repeat(2, axis=1)
        sums = np.empty((1, 2, SUMS))
        nodes = Nodes(np.ascontiguousarray(node), np.zeros(1, np.int64), 1)
        mixture_sums(readout[i : i + 1], omega[i : i + 1], prior, nodes, sums)
        both, difference = sums[0, 0, 0], sums[0, 0, 11] / h[i, 2, 0]
        own = weight_of(h[i], readout[i], omega[i], prior, (1, 1))
        np.testing.assert_allclose(own, (both + difference) / 2, rtol=1e-9)
        np.testing.assert_allclose(sums[0, 0, SQUARES], (both**2 + difference**2) / 2, rtol=1e-12)
    posterior = MixturePosterior(THREE, 16, n, 1, rng, 1)
    asked = posterior.nodes_over_effective(Outputs(readout, omega, h), prior)
    assert asked.min() >= 1 and asked.max() <= 256 and asked.max() > 10 * np.median(asked)


def test_fast_samples_without_nodes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*arguments: Array) -> None:
        arguments[-1][:] = 0.0

    monkeypatch.setattr("attnlimits.numerics.posterior.deep.three_layers.mixture_sums", nothing)
    sampler = ThreeLayers(THREE, points(THREE, 1), nodes=64, rng=np.random.default_rng(0), workers=1)
    with pytest.raises(ConvergenceError, match=r"met 16 of 16 outputs with no node at all; raise nodes"):
        sampler(np.diag([0.1, 0.1, 0.5]))


# --- control variates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Network(), THREE, Network(2, 3, activation="linear")], ids=Network.describe)
def test_linearised_controls_have_no_mean(model: Network) -> None:
    q = (1 - 1e-3 * np.arange(1, model.layers + 1)) * np.eye(model.layers)
    v = np.eye(model.layers) - q
    normals = np.concatenate(points(model, 8)).reshape(-1, 2, model.layers, model.tokens)
    omega = matrix_root(q) @ normals[:, 0]
    h = omega + np.sqrt(v) @ normals[:, 1]
    controls = Linearised(model, 8, 1, points=1 << 11)(matrix_root(q), h, omega, v)
    scale = 1 / v.diagonal()
    for (a, b), columns in controls.items():
        for column in columns:
            replicas = column.reshape(8, -1).mean(axis=1)
            assert abs(replicas.mean()) < 5 * sigma(replicas) + 1e-4 * math.sqrt(scale[a] * scale[b])


def test_linearised_controls_cut_the_noise_near_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers within 1e-4 of recovery: several times less noise, the same value."""
    q = np.diag([1 - 1e-4, 1 - 1e-6])
    model = Network()
    with_controls = TwoLayers(model, points(model, 7), 1)(q).g
    monkeypatch.setattr("attnlimits.numerics.channel.two_layers.sampled.NEARLY", 0.0)
    without = TwoLayers(model, points(model, 7), 1)(q).g
    for layer in range(2):
        here, there = with_controls[:, layer, layer], without[:, layer, layer]
        assert sigma(here) < 0.5 * sigma(there)
        assert abs(here.mean() - there.mean()) < 5 * sigma(there)


# --- the state evolution ----------------------------------------------------------------------------------------


def test_dispatch() -> None:
    made = channel(THREE, samples=2, replicas=2, rng=np.random.default_rng(0), accuracy=1e-2)
    assert isinstance(made, DeepAverages)
    assert made.rough(np.diag([0.0, 0.0, 0.5]), 1e-2).how == "estimated"
    assert made.rough(np.diag([0.5, 0.4, 0.97]), 1e-2).how == "monte-carlo"


@pytest.mark.slow  # both kinds of averages are compared above, fixed points with finer ones by tests/calibration
def test_fixed_point_is_that_of_sampled_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    # Seconds to compute; the growth rate is tested in `test_growth_of_the_last_layer_is_the_exact_norm`.
    monkeypatch.setattr(
        "attnlimits.numerics.fixed_point.growth.last_layer_norm",
        lambda model: Estimate(1 / 0.207177, 1e-9, "estimated"),
    )
    found = evolve(THREE, 0.5)
    assert found.converged and not found.overlap[:2].any()
    assert found.overlap_error[2, 2] < 5e-3
    sampled = evolve(THREE, 0.5, samples=32, nodes=128, tol=1e-3)
    allowed = 4 * sampled.overlap_error[2, 2] + found.overlap_error[2, 2]
    assert abs(found.overlap[2, 2] - sampled.overlap[2, 2]) < allowed


def test_four_layers_begin_with_the_last() -> None:
    """One step of the map: at alpha = 0.4 the last overlap alone grows, up to a fixed point, and at 0.15 it falls."""
    averages = quadrature(0, Network(4))

    def image(alpha: float, found: Averages) -> float:
        assert (alpha * found.growth[0, :3] < 1).all() and not found.g[0, :3].any()
        odds = alpha * found.g[0, 3, 3]
        return float(odds / (1 + odds))

    small, large = (averages(np.diag([0.0, 0.0, 0.0, q])) for q in (0.05, 0.7))
    assert image(0.15, small) < 0.05 < 1.2 * 0.05 < image(0.4, small)
    assert image(0.4, large) < 0.7


@pytest.mark.slow
def test_fixed_points_of_four_layers() -> None:
    below, above = curve(Network(4), [0.15, 0.4])
    assert not below.overlap.any() and below.converged
    assert above.converged and not above.overlap[:3].any()
    assert above.overlap[3, 3] > 0.1 and above.overlap_error[3, 3] < 1e-2


def test_bad_accuracy_is_named() -> None:
    for value in (1e-5, 0.1, True, "1e-3"):
        with pytest.raises(ValueError, match=r"accuracy must be a number in \[0.0001, 0.01\]"):
            evolve(THREE, 0.3, accuracy=value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="accuracy is for two layers of two tokens and for more of softmax"):
        evolve(Network(1), 0.3, accuracy=1e-2)


@pytest.mark.slow
def test_hidden_layers_one_after_the_other() -> None:
    """The first layer from alpha = 0.98, the second from 1.13, both recovered beyond alpha = 3/2 (three unknown
    directions, two equations of each sample)."""
    results = curve(THREE, [0.95, 1.05, 1.3, 1.6])
    assert all(r.converged for r in results)
    q = np.array([r.overlap.diagonal() for r in results])
    assert not q[0, :2].any() and q[1, 0] > 0.04 and not q[1, 1]
    assert (q[2, :2] > 0.2).all() and (q[3] > 0.99).all()
    assert (np.array([r.overlap_error for r in results]) < 0.02).all()
