"""Nodes up to the signs of their layers, beside nodes of every sign."""

import itertools

import numpy as np
import pytest

from attnlimits.numerics.posterior.charts.density import plain_prior
from attnlimits.numerics.posterior.charts.frozen import Frozen, weigh
from attnlimits.numerics.posterior.deep.signs import Folded, log_sum, set_energies, weigh_signs


def posterior_of(depth, nodes, rng):
    """Nodes, and a prior with correlations."""
    root = rng.standard_normal((depth, depth))
    prior = plain_prior(0.3 * np.eye(depth) + root @ root.T / depth, 2)
    return Folded(rng.standard_normal((nodes, depth, 2)), rng.standard_normal(nodes), 2 * nodes // 3), prior


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_moments_are_those_of_nodes_of_every_sign(depth, rng):
    nodes, prior = posterior_of(depth, 30, rng)
    omega, signs = rng.standard_normal((depth, 2)), np.array(list(itertools.product([1.0, -1.0], repeat=depth)))
    every = (nodes.modes[:, None] * signs[None, :, :, None]).reshape(-1, depth, 2)
    unfolded = Frozen(every, np.repeat(nodes.log_base, len(signs)), len(signs) * nodes.first, np.empty((0, 0)))
    expected = weigh(unfolded, omega, prior, np.zeros(depth, np.bool_))
    found = weigh_signs(nodes, omega, prior.precision[0], prior.log_norm)
    # Up to rounding of sums of thirty terms.
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(found.second, expected.second, atol=1e-12)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-12)
    # Those of one draw are not independent.
    assert 1 < found.worth < min(30, expected.worth)


def test_energies_of_every_sign(rng):
    nodes, prior = posterior_of(3, 1, rng)
    h, omega, precision = nodes.modes[0], rng.standard_normal((3, 2)), prior.precision[0]
    found = np.empty(8)
    set_energies(h, omega, precision, found)
    for place in range(8):
        changed = np.array([-1.0 if (place >> k) & 1 else 1.0 for k in range(3)])[:, None] * h - omega
        assert found[place] == pytest.approx(0.5 * np.einsum("km,kl,lm->", changed, precision, changed), rel=1e-12)
    assert log_sum(found) == pytest.approx(np.log(np.exp(-found).sum()), rel=1e-12)
    assert log_sum(np.full(4, np.inf)) == -np.inf


def test_no_node_is_worth_nothing():
    prior = plain_prior(np.eye(3), 2)
    none = Folded(np.empty((0, 3, 2)), np.empty(0), 0)
    assert weigh_signs(none, np.zeros((3, 2)), prior.precision[0], prior.log_norm).worth == 0
