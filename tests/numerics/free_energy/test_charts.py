"""Free entropies on charts: against the routes of models that have others; the points that the iteration reaches."""

import math

import numpy as np
import pytest

from attnlimits.numerics.channel.charts import ChartChannel
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.free_energy import FreeEntropy, OutputEntropy, output_entropy
from attnlimits.numerics.free_energy.located import located
from attnlimits.numerics.free_energy.thresholds import transitions
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.priors import Binary
from attnlimits.numerics.quadrature.rules import normal_qmc


def chart(model, *, samples=64, nodes=256, seed=0):
    """Psi_out by the chart of a model."""
    rng = np.random.default_rng(seed)
    points = [normal_qmc(2 * model.indices * model.tokens, int(np.log2(samples)), one) for one in rng.spawn(8)]
    return OutputEntropy(ChartChannel(model, points, nodes=nodes, rng=rng))


@pytest.mark.parametrize(
    ("model", "q"),
    [
        (Network(2, 2), (0.3, 0.6)),
        pytest.param(Network(2, 2), (0.9, 0.99), marks=pytest.mark.slow),
        (Network(1, 2, tied=False), (0.5, 0.3)),
        (Network(1, 3, 2), (0.5, 0.5)),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else str(value),
)
def test_free_entropies_against_other_routes(model, q):
    output, other = chart(model), output_entropy(model, samples=64)
    assert output.route == "direct"
    assert output.solved == other.solved
    found, exact = output.value(np.diag(q)), other.value(np.diag(q))
    assert 0 < found.error < 0.15 * exact.value
    assert abs(found.value - exact.value) < 3 * math.hypot(found.error, exact.error)


def test_the_bias_of_the_logarithm_of_a_mean_is_part_of_the_error():
    model, q = Network(2, 2), np.diag([0.3, 0.6])
    channel = chart(model, nodes=64).channel
    bias = channel.log_density_bias(q)
    assert bias > 0
    assert OutputEntropy(channel).value(q).error > bias
    assert channel.log_density_bias(np.zeros((2, 2))) == 0


def test_stationary_points_that_the_iteration_reaches():
    model = Network(1, 2, tied=False)
    free = FreeEntropy(chart(model, nodes=64), 0.5)
    points, status, converged = located(free)
    assert converged, status
    best, zero = points
    assert (best.kind, zero.kind) == ("maximum", "saddle")
    assert best.stable and not zero.stable and not zero.overlap.any()
    exact = FreeEntropy(output_entropy(model, samples=64), 0.5)(best.overlap)
    assert abs(best.free_entropy.value - exact.value) < 3 * math.hypot(best.free_entropy.error, exact.error)
    usual = evolve(model, 0.5, samples=64)
    off = np.hypot(best.overlap_error, usual.overlap_error)
    assert (np.abs(best.overlap - usual.overlap) <= 3 * off + 1e-9).all()
    with pytest.raises(ValueError, match="Gaussian prior"):
        located(FreeEntropy(free.output, 0.5, Binary()))


def test_folds_of_averages_that_jump_are_not_looked_for():
    model = Network(1, 3, 2)
    with pytest.raises(ValueError, match="take `curve` with both starts"):
        transitions(chart(model, samples=16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        (Network(2, 2, tied=False), 0.7),
        (Network(2, 2, 2), 0.9),
        (Network(2, 2, (1, 2)), 0.9),
        (Network(2, 2, heads=2, readouts=[np.array([[1.0, 0.5], [0.5, 1.0]])]), 0.3),
        (Network(2, 2, 2, activation="linear"), 0.9),
        (Network(1, 2, 2, tied=False), 0.9),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else "",
)
def test_free_entropies_of_every_architecture(model, alpha):
    free = FreeEntropy(chart(model, samples=32, nodes=512), alpha)
    points = located(free).points
    learned = next(p for p in points if p.overlap.any() and p.kind != "recovered")
    # The value is that of the integral of its gradient, too.
    path = OutputEntropy(free.output.channel, route="integral of the gradient")
    values = [one.value(learned.overlap) for one in (free.output, path)]
    assert abs(values[0].value - values[1].value) < 3 * math.hypot(values[0].error, values[1].error)


def test_heads_that_do_not_mix_have_the_free_entropy_of_one():
    # Each is the network on half of the coordinates, which all samples inform of: alpha counts twice.
    one = FreeEntropy(chart(Network(2, 2), samples=16, nodes=64), 0.6)(np.diag([0.3, 0.6]))
    both = FreeEntropy(chart(Network(2, 2, heads=2, readouts=[np.eye(2)]), samples=16, nodes=64), 0.3)
    found = both(np.diag([0.3] * 4 + [0.6] * 4))
    assert abs(found.value - one.value) < 3 * math.hypot(found.error, one.error)
    path = OutputEntropy(both.output.channel, route="integral of the gradient").value(np.diag([0.3] * 4 + [0.6] * 4))
    direct = both.output.value(np.diag([0.3] * 4 + [0.6] * 4))
    assert abs(direct.value - path.value) < 3 * math.hypot(direct.error, path.error)
