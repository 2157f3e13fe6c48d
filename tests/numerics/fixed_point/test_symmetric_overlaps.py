"""Overlaps that symmetry ties together or correlates: starts, recovery, growth rates."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.channel.charts import ChartChannel
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.fixed_point.balance import (
    RECOVERED,
    FreeEntries,
    filled,
    least_and_largest,
    restricted,
    symmetric,
)
from attnlimits.numerics.fixed_point.error import growth_error
from attnlimits.numerics.fixed_point.evolve import evolve, from_above
from attnlimits.numerics.fixed_point.iteration import Iteration
from attnlimits.numerics.fixed_point.state import Problem, Tolerance
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc


class Correlated(ChannelBase):
    """Keys and queries that are recovered at a large alpha: G = s (I - q)^{-1} with a correlation that fades."""

    sampled = True

    def __init__(self, strength):
        self.strength = strength
        self.model = SimpleNamespace(indices=2, kernel_hash="correlated", parameters={"link": "correlated"})
        self.layers = (0, 1)

    @property
    def groups(self):
        return (self.layers,)

    @property
    def shared(self):
        return (((0, 0),), ((1, 1),), ((0, 1),))

    def __call__(self, q):
        left = np.sqrt(1 - q.diagonal())
        correlated = np.array([[1.0, -0.3], [-0.3, 1.0]]) / np.outer(left, left) * np.minimum(1, left.max() * 1e3)
        g = self.strength * np.where(np.eye(2, dtype=bool), np.diag(1 / left**2), correlated)
        sides = np.array([0.99, 1.0, 1.01, 1.0])[:, None, None]
        return Averages.unbiased(g * sides, np.full((4, 2), np.nan), "monte-carlo")


def chart(model, *, samples=16, nodes=256, seed=0):
    """Averages on the chart of a model."""
    rng = np.random.default_rng(seed)
    points = [normal_qmc(2 * model.indices * model.tokens, int(np.log2(samples)), one) for one in rng.spawn(8)]
    return ChartChannel(model, points, nodes=nodes, rng=rng)


@pytest.mark.parametrize("entry", [0, 1, 2])
def test_slopes_are_measured_within_the_range_where_it_is_narrow(entry):
    # Eigenvalues 1e-7 and 1 - 1e-7: a wider step of a diagonal entry leaves the range up and down.
    averages, x = Correlated(2.0), np.array([0.5, 0.5, 0.5 - 1e-7])
    free = tuple(entries[0] for entries in averages.shared)
    balance = FreeEntries(averages, 1.0, free, lambda x: filled(averages, free, x))
    step = balance.step(x, entry)
    least, largest = least_and_largest(averages, free, x + step * np.eye(3)[entry])
    assert 0 < least and largest < 1
    assert abs(step) > 1e-8


def test_correlated_keys_and_queries_that_are_recovered_are_not_in_doubt():
    strategy = Iteration(Problem(Correlated(2.0), 1.0, Tolerance(1e-5), 200))
    found = strategy.postprocess(from_above(strategy))
    assert found.converged and not found.doubt
    assert found.q.diagonal() == pytest.approx([RECOVERED] * 2, abs=1e-9)
    assert (np.abs(found.q - np.eye(2)) <= found.error + 1e-12).all()


def test_the_bias_of_growth_rates_is_part_of_their_error():
    growth = np.array([[1.0, 2.0], [1.1, 2.1]])
    plain = Averages(np.zeros((2, 2, 2)), growth, np.zeros((2, 2)), "monte-carlo")
    off = Averages(np.zeros((2, 2, 2)), growth, np.zeros((2, 2)), "monte-carlo", growth_bias=np.array([0.3, 0.0]))
    assert growth_error(off) - growth_error(plain) == pytest.approx([0.3, 0.0])
    # Of sampled posteriors it comes from the halves of the nodes.
    model = Network(1, 2, tied=False)
    assert (chart(model)(np.zeros((2, 2))).growth_bias > 0).all()


def test_which_overlaps_keep_the_symmetry():
    rotated = channel(Network(1, 3, 2), samples=16, replicas=2, rng=np.random.default_rng(0))
    assert restricted(rotated)
    assert symmetric(rotated, 0.3 * np.eye(2))
    assert not symmetric(rotated, np.diag([0.3, 0.2])) and not symmetric(rotated, np.full((2, 2), 0.2))
    untied = chart(Network(2, 2, tied=False))
    correlated = np.diag([0.3, 0.2, 0.5, 0.6])
    correlated[0, 1] = correlated[1, 0] = 0.1
    assert symmetric(untied, correlated)
    correlated[2, 3] = correlated[3, 2] = 0.1
    assert not symmetric(untied, correlated)


def test_what_is_known_of_the_keys_informs_of_the_queries():
    # On the chart as by the route of one untied layer.
    model, q = Network(1, 2, tied=False), np.diag([0.5, 0.0])
    exact = channel(model, samples=1024, replicas=8, rng=np.random.default_rng(1))(q).g
    found = chart(model, samples=64)(q)
    off = 3 * np.hypot(standard_error(found.g), standard_error(exact)) + found.bias
    assert (found.g.mean(axis=0).diagonal() > 0).all()
    assert (np.abs(found.g.mean(axis=0) - exact.mean(axis=0)) <= off)[np.diag_indices(2)].all()


def test_a_start_from_keys_alone_ends_at_the_fixed_point():
    model = Network(1, 2, tied=False)
    effort = {"samples": 64, "replicas": 4}
    found = evolve(model, 0.5, start=np.diag([0.3, 0.0]), **effort)
    usual = evolve(model, 0.5, **effort)
    assert usual.overlap[1, 1] > 0.1
    assert found.overlap == pytest.approx(usual.overlap, abs=1e-3)


def test_slopes_by_moments_are_those_of_differences():
    model, q, step = Network(1, 2, tied=False), np.diag([0.4, 0.5]), 0.05
    exact = channel(model, samples=128, replicas=8, rng=np.random.default_rng(1))
    slopes = np.array([chart(model, samples=64, seed=seed).derivative(q) for seed in range(4)])
    for k in range(2):
        moved = np.diag(step * np.eye(2)[k])
        differences = (exact(q + moved).g - exact(q - moved).g) / (2 * step)
        for i in range(2):
            found, other = slopes[:, i, i, k, k], differences[:, i, i]
            assert abs(found.mean() - other.mean()) < 4 * np.hypot(standard_error(found), standard_error(other))
            assert standard_error(found) < 0.25 * found.mean()
