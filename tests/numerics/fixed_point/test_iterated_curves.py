"""Curves whose points are iterated: keys and queries with overlaps of their own, and averages on charts."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.channel.charts import ChartChannel
from attnlimits.numerics.fixed_point.continuation import curve
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc


class Pair(ChannelBase):
    """Two overlaps of one group, each learned through the other: x f(x) = alpha c y and y f(y) = alpha d x."""

    sampled = False

    def __init__(self, f, factors=(1.0, 1.0), noise=0.0):
        self.f, self.factors, self.noise = f, factors, noise
        self.model = SimpleNamespace(indices=2, kernel_hash="pair", parameters={"link": "pair"})
        self.layers = (0, 1)

    @property
    def groups(self):
        return (self.layers,)

    def __call__(self, q):
        x = q.diagonal()
        sides = (1 + self.noise, 1 - self.noise)
        if not x.any():
            growth = np.sqrt(np.prod(self.factors)) / self.f(0.0) * np.ones(2)
            return Averages.unbiased(np.zeros((2, 2, 2)), np.array([growth * side for side in sides]), "estimated")
        g = np.array(self.factors) * x[::-1] / ((1 - x) * self.f(x))
        return Averages.unbiased(np.array([np.diag(g) * side for side in sides]), np.full((2, 2), np.nan), "estimated")


def cubic(x):
    """1 + 6.5 x + 10 x^3 - 15 x^2, with two folds."""
    return 1 + 6.5 * x + 10 * x**3 - 15 * x**2


def test_keys_and_queries_against_the_roots_of_their_equations():
    factors = (0.8, 1.3)
    result = curve(Pair(lambda x: 1 + x, factors, noise=1e-6), [0.5, 1.2, 1.5], start="both", tol=1e-10)
    assert result.converged, result.status
    for start in ("uninformed", "informed"):
        assert not result.points[start][0].overlap.any()
        for point in result.points[start][1:]:

            def rest(x, alpha=point.alpha):
                y = x * (1 + x) / (alpha * factors[0])
                return y * (1 + y) - alpha * factors[1] * x

            x = brentq(rest, 1e-3, 1)
            found = point.overlap.diagonal()
            assert found == pytest.approx([x, x * (1 + x) / (point.alpha * factors[0])], abs=1e-5)
            assert point.eigenvalues[0] < 1
    [onset] = result.onsets
    assert onset.indices == (0, 1)
    assert abs(onset.value - 1 / np.sqrt(1.04)) <= 2 * onset.error < 1e-4


def test_jumps_are_bracketed_from_both_starts():
    values = np.linspace(0.9, 2.1, 13)
    result = curve(Pair(cubic), values, start="both", tol=1e-8)
    low, high = sorted(np.roots([30.0, -30.0, 6.5]).real)
    up, down = result.jumps
    assert (up.direction, up.start, down.direction, down.start) == ("up", "uninformed", "down", "informed")
    for jump, fold in ((up, low), (down, high)):
        assert abs(jump.value - cubic(fold)) <= jump.error < 0.01
    assert result.gap is not None and result.gap.beyond_error


def test_averages_on_a_chart_against_the_quadrature():
    model = Network(2, 2)
    rng = np.random.default_rng(0)
    points = [normal_qmc(8, 5, stream) for stream in rng.spawn(8)]
    found = curve(ChartChannel(model, points, nodes=128, rng=rng), [0.12, 0.4])
    exact = curve(model, [0.12, 0.4])
    assert not found.points["uninformed"][0].overlap.any()
    here, there = found.points["uninformed"][1], exact.points["uninformed"][1]
    assert 0 < here.overlap_error[1, 1] < 0.15
    assert (np.abs(here.overlap - there.overlap) <= 3 * here.overlap_error + there.overlap_error).all()
    [onset] = found.onsets
    assert abs(onset.value - exact.onsets[0].value) <= 3 * onset.error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "values"),
    [
        (Network(2, 2, tied=False), [0.2, 0.6]),
        (Network(2, 2, 2), [0.3, 0.9]),
        (Network(2, 2, (1, 2)), [0.3, 0.9]),
        (Network(2, 2, heads=2, readouts=[np.array([[1.0, 0.5], [0.5, 1.0]])]), [0.05, 0.3]),
        (Network(2, 2, 2, activation="linear"), [0.2, 0.9]),
        (Network(1, 2, 2, tied=False), [0.3, 0.9]),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else "",
)
def test_curves_of_every_architecture(model, values):
    result = curve(model, values, samples=32, nodes=512)
    nothing, learned = result.points["uninformed"]
    assert not nothing.overlap.any()
    assert learned.overlap.any() and (learned.overlap_error[learned.overlap != 0] > 0).all()
    assert values[0] < result.onsets[0].value < values[1]
    alone = evolve(model, values[1], samples=32, nodes=512)
    both = alone.overlap_error + learned.overlap_error
    assert (np.abs(alone.overlap - learned.overlap) <= both + 1e-12).all()
