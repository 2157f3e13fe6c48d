"""Deterministic averages of two softmax layers: nodes, sums, limits, and sampling with the exact denoiser."""

import math
from itertools import pairwise

import numpy as np
import pytest

from attnlimits.numerics.channel.averages import SAFETY
from attnlimits.numerics.channel.two_layers import around as around_module
from attnlimits.numerics.channel.two_layers import sums
from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.channel.two_layers.nodes import around, centred
from attnlimits.numerics.channel.two_layers.sampled import TwoLayers
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.held import first_layer_given
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds.last_layer import last_layer

ROTATION = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)
MODELS = [Network(), Network(skip=0.1), Network(skip=4.0, beta=5.0)]
# Near no overlap sums take twenty times as long at skip 0.1 as at 0.3, where the same nodes and bands are at work, and
# three times as long there as at skip 1.
NEAR_ZERO = (0.0, 5e-5)
COSTLY = [
    pytest.param(model, q, marks=pytest.mark.slow if slow else ())
    for q in ((0.0, 0.0), NEAR_ZERO, (0.0, 0.3), (0.0, 0.96), (5e-4, 0.9), (0.4, 0.9))
    for model, slow in (
        (MODELS[0], q[0] > 0),
        (Network(skip=0.3), q[0] > 0 or q == NEAR_ZERO),
        (MODELS[1], True),
        (MODELS[2], q[0] > 0),
    )
]


def of_the_model(model: Network, x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and tau from the mixing matrix of the forward pass."""
    h = np.zeros((len(x), 2, 2))
    h[:, 0] = np.column_stack([x, z]) @ ROTATION
    b = ROTATION @ model.mixing(h) @ ROTATION
    assert np.abs(b[:, 1, 0]).max() < 1e-12
    return b[:, 0, 1] / b[:, 1, 1], b[:, 0, 0] / b[:, 1, 1]


@pytest.mark.parametrize("model", MODELS)
def test_centred_nodes(model: Network) -> None:
    nodes = centred(model.skip, model.beta, 20.0, 1.3)
    a, tau = of_the_model(model, nodes.x, nodes.z)
    # the line z = 0 stands for all x, where A = 0 whatever x
    np.testing.assert_allclose(nodes.a, a, atol=1e-12)
    np.testing.assert_allclose(nodes.tau, tau, rtol=1e-12)
    assert nodes.weight.sum() == pytest.approx(1.0, abs=1e-7)
    assert nodes.weight @ nodes.z**2 == pytest.approx(1.0, abs=1e-7)
    square = np.where(nodes.z == 0, 1.0, nodes.x**2)
    assert nodes.weight @ square == pytest.approx(1.0, abs=1e-6)
    assert nodes.weight @ (square * nodes.z**2) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("beta", [1.0, 30.0])
def test_finer_centred_nodes_are_closer(beta: float) -> None:
    """Where a sharp attention turns, nodes are so close that each is light: none of them may be left out."""
    spacings = [centred(1.0, beta, 19.0, fineness).spacing(math.sqrt(2 * 16.0)) for fineness in (2.0, 4.0, 8.0)]
    for coarse, fine in pairwise(spacings):
        # Steps are inversely proportional; where they are large, neighbours are closer than slopes have it.
        assert fine < 0.65 * coarse


@pytest.mark.parametrize("centre", [(0.0, 0.0), (0.7, 1.3), (2.0, -0.4)])
@pytest.mark.parametrize("variance", [0.9, 0.1, 1e-3])
def test_nodes_around_a_centre(centre: tuple[float, float], variance: float) -> None:
    model = MODELS[1]
    nodes = around(model.skip, model.beta, np.array(centre), variance, 20.0)
    a, tau = of_the_model(model, nodes.x, nodes.z)
    np.testing.assert_allclose(nodes.a, a, atol=1e-11)
    np.testing.assert_allclose(nodes.tau, tau, rtol=1e-11)
    x, z = nodes.x - centre[0], nodes.z - centre[1]
    assert nodes.weight.sum() == pytest.approx(1.0, abs=1e-6)
    assert nodes.weight @ x**2 == pytest.approx(variance, rel=1e-5)
    assert nodes.weight @ z**2 == pytest.approx(variance, rel=1e-5)
    assert nodes.weight @ (x * z) == pytest.approx(0.0, abs=1e-6 * variance)


@pytest.mark.slow_for("q1-model1", "q2-model1", "q0-model2", "q1-model2")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("q", [(0.0, 0.4), (0.0, 0.97), (0.3, 0.9)])
def test_sampled_averages_agree(model: Network, q: tuple[float, float]) -> None:
    # Fewer points miss the rare outputs that carry much of the growth, and do not know it.
    points = [normal_qmc(8, 10, stream) for stream in np.random.default_rng(3).spawn(8)]
    sampled = TwoLayers(model, points, 1)(np.diag(q))
    found = TwoLayerQuadrature(model, 1e-3, 1)(np.diag(q))
    for layer in (0, 1):
        pairs = [(sampled.g[:, layer, layer], found.g[:, layer, layer])]
        if q[layer] == 0:
            pairs = [(sampled.growth[:, layer], found.growth[:, layer])]
        for theirs, ours in pairs:
            sigma = theirs.std(ddof=1) / math.sqrt(8)
            # Student with 7 degrees: five sigma
            assert abs(theirs.mean() - ours.mean()) < 5 * sigma + np.ptp(ours)
            assert np.ptp(ours) < 0.05 * ours.mean()


@pytest.mark.slow_for("model4-q4")
@pytest.mark.parametrize(("model", "q"), COSTLY)
def test_errors_are_honest(model: Network, q: tuple[float, float]) -> None:
    rough = TwoLayerQuadrature(model, 1e-3, 1).refinements(np.diag(q))
    fine = TwoLayerQuadrature(model, 1e-4, 1).refinements(np.diag(q))
    known = np.isfinite(fine[0]) & (fine[0] != 0)
    error = SAFETY * (np.abs(rough[0] - rough[1]) + np.abs(fine[0] - fine[1]))[known]
    assert (np.abs(rough[0] - fine[0])[known] <= error + 1e-9).all()
    assert (np.abs(fine[0] - fine[1])[known] < 2e-3 * fine[0][known]).all()


@pytest.mark.parametrize(
    "model", [MODELS[2], *(pytest.param(m, marks=pytest.mark.slow) for m in (MODELS[0], Network(skip=0.3), MODELS[1]))]
)
def test_no_overlap_gives_the_operator(model: Network) -> None:
    growth = TwoLayerQuadrature(model, 1e-6).refinements(np.zeros((2, 2)))[0, 2:]
    assert growth[1] == pytest.approx(last_layer(model, digits=10).operator_norm, rel=1e-5)
    # and the sum over omega is continuous there
    small = TwoLayerQuadrature(model, 1e-4).refinements(np.diag([0.0, 1.001e-4]))[0]
    assert small[1] / 1.001e-4 == pytest.approx(growth[1], rel=3e-3)
    assert small[2] == pytest.approx(growth[0], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_growth_is_the_slope_of_the_average(model: Network) -> None:
    """lambda_1 by nodes about zero, G_11/q_11 by the sum over omega_1: the rest is of the order of q_11."""
    averages = TwoLayerQuadrature(model, 1e-5)
    growth = averages.refinements(np.diag([0.0, 0.9]))[0, 2]
    first = averages.refinements(np.diag([2e-3, 0.9]))[0, 0] / 2e-3
    second = averages.refinements(np.diag([4e-3, 0.9]))[0, 0] / 4e-3
    assert 2 * first - second == pytest.approx(growth, rel=5e-3)
    assert abs(first - growth) < 0.05 * growth


@pytest.mark.parametrize("q", [(0.0, 0.6), (0.0, 0.97), (0.2, 0.9)])
@pytest.mark.parametrize("model", MODELS[:2])
def test_banded_and_dense_sums_agree(model: Network, q: tuple[float, float], monkeypatch) -> None:
    """Two codes for one sum: node by node into a few entries, and matrix products over all nodes."""
    found = []
    for sparse in (0.0, math.inf):
        monkeypatch.setattr(sums, "_SPARSE", sparse)
        found.append(TwoLayerQuadrature(model, 1e-3, 1).rough(np.diag(q)).g[0].diagonal())
    # Banded, a node ends where its weight is exp(-2) of what is neglected.
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)


@pytest.mark.parametrize("centre", [(0.0, 0.0), (0.7, 1.3), (2.0, -0.4)])
@pytest.mark.parametrize("v", [0.1, 0.3, 1.0])
def test_nodes_resolve_narrow_last_indices(centre: tuple[float, float], v: float) -> None:
    """Gaussians of the last indices summed over the nodes of h_1, against much finer nodes."""
    model, narrow, variance = MODELS[0], 0.02, 0.05
    # Outputs that h_1 a standard deviation or two from its centre explains.
    x, z = (np.array(centre) + math.sqrt(variance) * np.array([[0.0, 0.3], [1.0, -1.0], [-2.0, 0.5]])).T
    a, tau = of_the_model(model, x, z)
    values = []
    for resolved in (narrow, narrow / 3):
        nodes = around(model.skip, model.beta, np.array(centre), variance, 12.0, (resolved, v))
        off = (nodes.a - a[:, None]) ** 2 + (nodes.tau - tau[:, None]) ** 2
        values.append(np.exp(-off * v**2 / (2 * narrow**2)) @ nodes.weight * np.exp(-((tau * v) ** 2) / 2))
    # The error exp(-L) of steps as wide as L allows, for steps wider by `_RESOLVE`; curvature costs a little.
    np.testing.assert_allclose(values[0], values[1], atol=3 * math.exp(-12.0 / around_module._RESOLVE**2))


def test_first_layer_given_the_second() -> None:
    """At a fixed point the held overlap is the one that is learned; below the growth rate's onset nothing is."""
    model, alpha = Network(), 0.85
    free = evolve(model, alpha, start=np.diag([0.37, 0.99]), accuracy=1e-2)
    assert free.converged
    q1, q2 = free.overlap.diagonal()
    held = first_layer_given(model, alpha, float(q2), accuracy=1e-2)
    # q_11 follows q_22 at a rate far below 1/(1 - q_22)
    assert abs(held.value - q1) <= held.error + free.overlap_error[0, 0] + free.overlap_error[1, 1] / (1 - q2)
    assert held.error < 0.1
    assert first_layer_given(model, alpha, 0.5, accuracy=1e-2).value == 0.0
    with pytest.raises(ValueError, match="alpha must be"):
        first_layer_given(model, 0.0, 0.5)


@pytest.mark.slow_for("0.5")
@pytest.mark.parametrize(("alpha", "wanted"), [(0.21, 1e-3), (0.5, 1e-4)])
def test_the_asked_accuracy_is_reached(alpha: float, wanted: float) -> None:
    """Refined fixed points against much finer ones; the error is stated for what is asked."""
    model = Network()
    found = evolve(model, alpha, accuracy=wanted)
    fine = evolve(model, alpha, accuracy=1e-5)
    q, error = found.overlap[1, 1], found.overlap_error[1, 1]
    assert found.converged and fine.converged
    assert error <= wanted * q
    assert abs(q - fine.overlap[1, 1]) <= error + fine.overlap_error[1, 1]


@pytest.mark.parametrize(
    ("skip", "beta", "q"), [(0.519, 1.54, 0.0567), (0.669, 0.598, 0.056), (0.8, 1.0, 0.15), (1.0, 1.0, 0.3)]
)
def test_sums_miss_the_same_share_of_every_accuracy(skip: float, beta: float, q: float) -> None:
    """Three rules of falling accuracy state the error of the finest: what they miss is to fall as much.

    At these overlaps the Gaussians and the zeros of the density ask for about the same steps. Without what the prior
    gains at the zeros as little as .01 of the first accuracy was missed there, and up to .8 of the last.
    """
    model, overlap = Network(skip=skip, beta=beta), np.diag([0.0, q])
    exact = TwoLayerQuadrature(model, 1e-8, 1).rough(overlap).g[0, 1, 1]
    for accuracy in (1e-2, 2e-3, 4e-4, 8e-5, 1.6e-5, 3.2e-6):
        found = TwoLayerQuadrature(model, accuracy, 1).rough(overlap).g[0, 1, 1]
        assert abs(found / exact - 1) < 0.3 * accuracy, accuracy


@pytest.mark.slow
def test_the_asked_accuracy_is_reached_with_both_layers() -> None:
    model = Network()
    found, fine = (evolve(model, 0.8, start=np.diag([0.2, 0.985]), accuracy=a) for a in (3e-3, 1e-4))
    for layer in (0, 1):
        q, error = found.overlap[layer, layer], found.overlap_error[layer, layer]
        assert error <= 3e-3 * q
        assert abs(q - fine.overlap[layer, layer]) <= error + fine.overlap_error[layer, layer]


def test_recovery_is_reached_in_a_few_steps() -> None:
    """Beyond alpha = 1, with as many equations as unknowns, overlaps go to one."""
    found = evolve(Network(), 1.1, start=np.diag([0.96, 0.9996]))
    assert found.converged and found.n_iter < 30
    assert found.overlap[1, 1] > 1 - 2e-6 and found.overlap[0, 0] > 0.999
    assert (found.overlap_error.diagonal() >= 1 - found.overlap.diagonal() - 1e-12).all()


def test_what_is_refused() -> None:
    averages = TwoLayerQuadrature(Network())
    with pytest.raises(ValueError, match="q must be diagonal"):
        averages(np.array([[0.3, 0.1], [0.1, 0.5]]))
    with pytest.raises(ValueError, match="q must be in"):
        averages(np.diag([0.0, 1 - 1e-6]))
    with pytest.raises(ValueError, match="q must be in"):
        averages(np.diag([-0.1, 0.5]))
    with pytest.raises(ValueError, match="two softmax layers"):
        TwoLayerQuadrature(Network(activation="linear"))
    with pytest.raises(ValueError, match="accuracy"):
        TwoLayerQuadrature(Network(), 0.5)
