"""Averages of two layers of linear attention by quadrature, against samples, other formulas and finer rules."""

import math

import numpy as np
import pytest

from attnlimits.numerics.channel.two_layers.averages import TwoLayerAverages
from attnlimits.numerics.channel.two_layers.choice import quadrature
from attnlimits.numerics.channel.two_layers.sampled import TwoLayers
from attnlimits.numerics.channel.two_linear.channel import TwoLinearQuadrature
from attnlimits.numerics.channel.two_linear.nodes import nodes_at
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.free_energy.two_linear import TwoLinearEntropy
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds.last_layer import last_layer


def _model(skip: float = 1.0, beta: float = 1.0) -> Network:
    return Network(activation="linear", skip=skip, beta=beta)


@pytest.mark.slow_for("0.3")
@pytest.mark.parametrize(("skip", "q"), [(1.0, (0.5, 0.7)), (0.3, (0.7, 0.2)), (3.0, (0.0, 0.6)), (1.0, (0.6, 0.0))])
def test_the_sampled_averages_agree(skip: float, q: tuple[float, float]) -> None:
    """They make no use of rotations, and take their posteriors from another rule."""
    points = [normal_qmc(8, 9, np.random.default_rng(k)) for k in range(8)]
    sampled = TwoLayers(_model(skip), points, 1)(np.diag(q))
    found = TwoLinearQuadrature(_model(skip), 1e-3, 1)(np.diag(q))
    for layer in (0, 1):
        values = sampled.g[:, layer, layer] if q[layer] else sampled.growth[:, layer]
        value = (found.g[:, layer, layer] if q[layer] else found.growth[:, layer]).mean()
        # Student's 99.7 % of seven degrees of freedom.
        assert abs(values.mean() - value) <= 4.4 * values.std(ddof=1) / math.sqrt(8) + 2e-3 * value


@pytest.mark.slow_for("0.1", "1.0")
@pytest.mark.parametrize("skip", [0.1, 1.0, 5.0])
def test_growth_of_the_last_layer_is_that_of_its_threshold(skip: float) -> None:
    """At q = 0 the last layer's threshold is known to 13 digits by other sums."""
    growth = TwoLinearQuadrature(_model(skip), 1e-7, 1).refinements(np.zeros((2, 2)))[:, 3]
    exact = 1 / float(last_layer(_model(skip), digits=12).value)
    assert growth[0] == pytest.approx(exact, rel=2e-7)
    assert abs(growth[0] - exact) <= 2 * abs(growth[0] - growth[1])


@pytest.mark.slow_for("q1-1", "q2-0")
@pytest.mark.parametrize(("q", "layer"), [((0.4, 0.5), 0), ((0.4, 0.5), 1), ((0.6, 0.0), 0), ((0.0, 0.7), 1)])
def test_averages_are_the_slopes_of_the_free_entropy(q: tuple[float, float], layer: int) -> None:
    """G_ll = 2 d E log Z/dq_ll, (103): another sum over the same densities, at other overlaps."""
    entropy, step = TwoLinearEntropy(_model(), 1e-3, 1), 0.04
    values = []
    for k in (-2, -1, 1, 2):
        moved = np.array(q)
        moved[layer] += k * step
        values.append(entropy.log_density(np.diag(moved))[-1])
    slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
    assert TwoLinearQuadrature(_model(), 1e-3, 1).rough(np.diag(q)).g[0, layer, layer] == pytest.approx(
        2 * slope, rel=2e-3
    )


def test_the_entropy_of_a_known_law_is_that_of_its_density() -> None:
    """E log Z at q = 0 is the negative entropy of v: against points of v itself and a density by a plain sum."""
    h = normal_qmc(4, 11, np.random.default_rng(3)).reshape(-1, 2, 2)
    v = np.einsum("nij,nj->ni", _model().mixing(h), h[:, 1])
    x, weight = np.polynomial.legendre.leggauss(60)
    x, weight = 6.5 * x, 6.5 * weight
    a, b = np.meshgrid(x, x)
    first = np.stack([a.ravel(), b.ravel()], axis=1)
    prior = np.outer(weight, weight).ravel() * np.exp(-0.5 * (first**2).sum(axis=1)) / (2 * math.pi)
    inverse = np.linalg.inv(np.eye(2) + first[:, :, None] * first[:, None, :])
    log_z = [
        math.log(prior @ (np.linalg.det(inverse) * np.exp(-0.5 * ((inverse @ one) ** 2).sum(axis=1)) / math.pi))
        for one in v[:400]
    ]
    found = TwoLinearEntropy(_model(), 1e-5, 1).log_density(np.zeros((2, 2)))[-1]
    assert found == pytest.approx(np.mean(log_z), abs=4 * np.std(log_z) / math.sqrt(len(log_z)))


@pytest.mark.slow_for("0.1")
@pytest.mark.parametrize(
    ("skip", "q", "accuracy"),
    [(1.0, (0.5, 0.7), 1e-2), (0.1, (0.3, 0.3), 1e-2), (5.0, (0.3, 0.2), 1e-2), (0.422, (0.5, 0.0), 1e-3)],
)
def test_a_finer_rule_is_within_the_stated_error(skip: float, q: tuple[float, float], accuracy: float) -> None:
    rough = TwoLinearQuadrature(_model(skip), accuracy, 1).refinements(np.diag(q))
    fine = TwoLinearQuadrature(_model(skip), accuracy / 30, 1).refinements(np.diag(q))[0]
    known = ~np.isnan(fine) & (fine != 0)
    assert known.sum() == 2
    assert (np.abs(rough[0] - fine)[known] <= 2 * np.abs(rough[0] - rough[1])[known]).all()
    assert (np.abs(rough[0] - fine)[known] <= accuracy * fine[known]).all()


@pytest.mark.parametrize("rho", [0.01, 1.0, 20.0])
def test_nodes_integrate_over_the_first_layer(rho: float) -> None:
    """The density of the length of v by nodes for wide posteriors and for narrow ones."""
    skip, beta, found = 0.5, 1.3, []
    for variances, log_accuracy in (((1.0, 1.0), 25.0), ((0.1, 0.3), 22.0)):
        nodes = nodes_at((skip, beta), rho, variances, log_accuracy, 3.0, 10**6)
        product = nodes.x * nodes.a + nodes.y * nodes.b
        assert (np.abs(skip * nodes.a + beta * nodes.x * product - rho) < 1e-9 * rho).all()
        found.append(nodes.mass @ np.exp(-0.5 * (nodes.x**2 + nodes.y**2 + nodes.a**2 + nodes.b**2)))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_small_overlaps_follow_a_line_to_the_growth_rate() -> None:
    averages = TwoLinearQuadrature(_model(), 1e-2, 1)
    zero = averages.refinements(np.diag([0.0, 0.3]))[0]
    small, less = (averages.refinements(np.diag([q, 0.3]))[0] for q in (1.01e-3, 0.99e-3))
    assert small[0] / 1.01e-3 == pytest.approx(less[0] / 0.99e-3, rel=1e-3)
    assert less[0] / 0.99e-3 == pytest.approx(zero[2], rel=5e-3)


def test_what_costs_too_much_is_sampled() -> None:
    """Beyond what rules resolve, where they take too many nodes, and where q is not diagonal."""
    averages = TwoLayerAverages(_model(0.1), 1e-2, lambda times: lambda q: "sampled")
    assert averages.alike(np.diag([0.5, 1 - 1e-5]), 1e-2, None) == "sampled"
    assert averages.alike(np.array([[0.3, 0.1], [0.1, 0.5]]), 1e-2, None) == "sampled"
    assert averages.alike(np.diag([0.3, 0.5]), 1e-2, None).how == "estimated"
    narrow = np.diag([0.5, 0.9999])
    with pytest.raises(ConvergenceError, match="nodes of h_1"):
        TwoLinearQuadrature(_model(0.01), 1e-4, 1)(narrow)
    assert (
        TwoLayerAverages(_model(0.01), 1e-4, lambda times: lambda q: "sampled").alike(narrow, 1e-4, None) == "sampled"
    )


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="two linear layers"):
        TwoLinearQuadrature(Network())
    with pytest.raises(ValueError, match="accuracy must be in"):
        TwoLinearQuadrature(_model(), 1e-14)
    assert isinstance(quadrature(_model(), 1e-3), TwoLinearQuadrature)


def test_threads_change_nothing() -> None:
    q = np.diag([0.4, 0.6])
    one, two = (TwoLinearQuadrature(_model(), 1e-2, workers).refinements(q) for workers in (1, 2))
    assert np.array_equal(one, two, equal_nan=True)
