"""Lattices for omega of the hidden layers of three: their points, the averages by them, and what they may be off by."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages
from attnlimits.numerics.channel.deep import channel as summed
from attnlimits.numerics.channel.deep.averages import DeepAverages
from attnlimits.numerics.channel.deep.channel import DeepQuadrature, Point, resolutions
from attnlimits.numerics.channel.deep.given_omega import Resolution
from attnlimits.numerics.channel.deep.hidden_lattice import (
    METHOD,
    Fineness,
    HiddenLattice,
    RoughLattice,
    lattice_of,
    left_by_rules,
)
from attnlimits.numerics.channel.deep.three_layers import ThreeLayers
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.fixed_point.stopping import Anchor
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc

Array = NDArray[np.float64]
THREE = Network(3)
# Where values are to be the same, however good they are.
COARSE = Fineness(1.8, 4.0, 0)


def lattice(effort: int = 0, seed: int = 0) -> HiddenLattice:
    return HiddenLattice(THREE, effort, rng=np.random.default_rng(seed), workers=1)


def bells(xi: Array) -> Array:
    """Functions like the averages: even in each layer, the same with the tokens exchanged, small at zero only."""
    squares = (xi**2).sum(axis=2)
    crossed = np.prod(xi, axis=2).prod(axis=1) if xi.shape[1] == 2 else 0.0 * squares[:, 0]
    return 1 - np.stack([np.exp(-squares.sum(axis=1)), np.exp(-1.5 * squares[:, 0]) + 0.1 * crossed], axis=1)


@pytest.mark.parametrize("overlaps", [(0.44, 0.31), (0.1, 0.02), (0.5,), (0.85,)])
def test_pairs_of_rules_cancel_each_others_errors(overlaps: tuple[float, ...]) -> None:
    """Gaussian means that are known: of all points, and of each pair of rules alone."""
    layers = len(overlaps)
    exact = 1 - np.array([3.0**-layers, 0.25])
    off: list[Array] = []
    alone: list[Array] = []
    for step, log_accuracy in ((0.85, 9.5), (0.58, 11.0)):
        points = lattice_of(np.array(overlaps), Fineness(step, log_accuracy, 0))
        assert points.weights.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(np.einsum("n,nij->ij", points.weights, points.xi**2), 1, atol=1e-12)
        values = bells(points.xi)
        off.append(np.abs(points.weights @ values - exact))
        assert (off[-1] <= left_by_rules(points, values) + 1e-4 * exact).all(), step
        one = points.pairs == 0
        alone.append(np.abs(points.weights[one] @ values[one] / points.weights[one].sum() - exact))
    # so there is something to cancel
    assert layers == 1 or alone[0].max() > 3 * off[0].max()
    assert off[1].max() < 0.3 * off[0].max()


@pytest.mark.parametrize("effort", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_one_layer_known_against_rules_and_samples(effort: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HiddenLattice, "efforts", (Fineness(0.85, 9.5, 1),))
    q = np.diag([0.45, 0.0, 0.96])
    found = lattice()(q)
    assert found.how == "monte-carlo" and found.g.shape == (4, 3, 3) and not np.ptp(found.g, axis=0).any()
    # All sums of the second route are nearly as fine as those that put a few of the first one's right, and miss 1e-4.
    monkeypatch.setattr(summed.DeepQuadrature, "by_last", ((0.0, (Resolution(9.0, 1.1, 0.5),) * 2),))
    by_rules = DeepQuadrature(THREE, effort, rng=np.random.default_rng(1), workers=1)(q)
    outer = [normal_qmc(12, 5 + effort, stream) for stream in np.random.default_rng(2).spawn(8)]
    sampled = ThreeLayers(THREE, outer, nodes=64, rng=np.random.default_rng(3), workers=1)(q)
    for layer in (0, 2):
        value, bias = found.g[0, layer, layer], found.bias[layer, layer]
        assert 0 < bias < 2e-3 * value
        assert abs(value - by_rules.g[0, layer, layer]) < bias + by_rules.bias[layer, layer]
        other = sampled.g[:, layer, layer]
        noise = other.std(ddof=1) / math.sqrt(len(other))
        assert abs(value - other.mean()) < 4 * noise + sampled.bias[layer, layer] + 3 * bias
    assert np.isfinite(found.growth[0, 1]) and np.isnan(found.growth[0, [0, 2]]).all()
    assert 0 < found.growth_bias[1] < 4e-3 * found.growth[0, 1]
    assert abs(found.growth[0, 1] - by_rules.growth[0, 1]) < found.growth_bias[1] + by_rules.growth_bias[1]


def changes(q: Array, other: Array, fineness: Fineness, monkeypatch: pytest.MonkeyPatch) -> Array:
    """Logarithms of the ratios of averages at two overlaps, by each of the values."""
    monkeypatch.setattr(RoughLattice, "efforts", (fineness,))
    rough = RoughLattice(THREE, 0, rng=np.random.default_rng(0), workers=1)
    here, there = (np.diagonal(rough(np.diag(x)).g, axis1=1, axis2=2) for x in (q, other))
    return np.asarray(np.log(there / here))


@pytest.mark.parametrize(
    ("step", "finer", "log_accuracy"),
    [
        ((0.2, 0.3, 0.1), 0.9, 5.0),
        *(pytest.param(s, 0.85, 11.0, marks=pytest.mark.slow) for s in ((0.02, 0.05, 0.0), (0.2, 0.3, 0.1))),
    ],
)
def test_changes_by_rough_lattices_with_both_layers_known(
    step: tuple[float, ...], finer: float, log_accuracy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their scatter states what the mean change is off by: against finer lattices with the same nodes."""
    monkeypatch.setattr(summed.DeepQuadrature, "log2_nodes", (9,))
    q = np.array([0.44, 0.31, 0.95])
    other = 1 / (1 + (1 - q) / q * np.exp(-np.array(step)))
    usual, fine = (changes(q, other, Fineness(one, log_accuracy, 0), monkeypatch) for one in (1.05, finer))
    assert usual.shape == (4, 3)
    off = np.abs(usual.mean(axis=0) - fine.mean(axis=0))
    assert (off <= standard_error(usual) + 5e-5).all()
    assert standard_error(usual).max() < 0.3 * np.abs(usual).max()
    assert standard_error(fine).max() < standard_error(usual).max()


def test_with_one_layer_known_averages_are_moved_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HiddenLattice, "efforts", (COARSE,) * 2)
    averages = DeepAverages(THREE, 1e-3, replicas=3, rng=np.random.default_rng(0), workers=1)
    q, other = np.diag([0.45, 0.0, 0.96]), np.diag([0.47, 0.0, 0.96])
    here, there = averages.rough(q, 8e-5), averages.rough(other, 8e-5)
    assert averages.beside(q, 8e-5, 2e-3, here) is here
    moved = Anchor(np.zeros(2), here, here).moved(averages.beside(other, 8e-5, 2e-3, here))
    assert moved is not None
    np.testing.assert_allclose(moved.g, there.g, rtol=1e-12)
    np.testing.assert_allclose(moved.growth, there.growth, rtol=1e-12)
    with pytest.raises(ValueError, match="both hidden layers"):
        RoughLattice(THREE, 0, rng=np.random.default_rng(0), workers=1)(q)


def test_values_do_not_depend_on_the_number_of_randomisations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HiddenLattice, "efforts", (COARSE,) * 2)
    monkeypatch.setattr(RoughLattice, "efforts", (COARSE,) * 2)
    q, found = np.diag([0.3, 0.2, 0.96]), []
    for replicas in (2, 5):
        averages = DeepAverages(THREE, 1e-3, replicas=replicas, rng=np.random.default_rng(0), workers=1)
        fine = averages.rough(q, 8e-5)
        found.append((fine, averages.beside(q, 8e-5, 2e-3, fine)))
    for fine, rough in found:
        assert fine.g.shape == rough.g.shape == (4, 3, 3) and np.ptp(rough.g[:, 0, 0]) > 0
        assert np.array_equal(fine.g, found[0][0].g) and np.array_equal(fine.bias, found[0][0].bias)
        assert np.array_equal(rough.g, found[0][1].g)


def test_overlaps_next_to_one_are_refused() -> None:
    for q in ((0.9999, 0.0, 0.99), (0.4, 0.3, 0.9999)):
        with pytest.raises(ValueError, match="q must be in"):
            lattice()(np.diag(q))


@pytest.mark.parametrize(("last", "count"), [(0.85, 2), (0.95, 1), pytest.param(0.95, 8, marks=pytest.mark.slow)])
def test_sums_of_some_points_put_all_right(last: float, count: int) -> None:
    """Points of a lattice by far finer sums of the same nodes: below .94 of the last layer the sums are finer."""
    overlaps = np.array([0.44, 0.31, last])
    points = lattice_of(overlaps[:2], Fineness(0.85, 9.5, 0))
    # At the centre, whose weight is the largest, there is nothing to average.
    few = np.argsort(-points.weights)[1 : 1 + count]
    xi = points.xi[few]
    share = points.weights[few] / points.weights[few].sum()
    rule = DeepQuadrature(THREE, 0, rng=np.random.default_rng(0), workers=1)

    def mean(resolution: Resolution) -> Array:
        sums = rule.at_points(overlaps, [Point(k, x, resolution) for k, x in enumerate(xi)])
        return np.asarray(share @ sums)

    usual, finer = (mean(resolution) for resolution in resolutions(last))
    exact = mean(Resolution(13.0, 1.6, 0.16))
    stated = 0.05 * np.abs(finer - usual) + 5e-5 * exact
    assert (np.abs(finer - exact) <= stated).all()
    # so there is something to put right
    assert (np.abs(usual - exact) > stated).any()
    if last < 0.94:
        _, of_larger = resolutions(0.95)
        assert (np.abs(mean(of_larger) - exact) > stated).any()


def test_nodes_resolve_the_posterior_where_all_overlaps_are_small() -> None:
    """As many nodes as a fine lattice has, at the point of the largest weight: the sum of their weights is one."""
    overlaps = np.array([0.05, 0.02, 0.3])
    rule = DeepQuadrature(THREE, 2, rng=np.random.default_rng(0), workers=1)
    points = lattice_of(overlaps[:2], Fineness(0.85, 9.5, 2))
    largest = points.xi[points.weights.argmax()]
    usual, finer = (rule.at(overlaps, Point(0, largest, resolution)) for resolution in resolutions(0.3))
    np.testing.assert_allclose(usual, finer, rtol=0.02, atol=1e-6)
    # A resolution for narrow posteriors does not do here.
    with pytest.raises(ConvergenceError):
        rule.at(overlaps, Point(0, largest, resolutions(0.99)[0]))


@pytest.mark.slow
def test_changes_of_some_points_put_all_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the nodes: the same averages within what is stated, which grows at least as the noise of nodes.

    The next test compares what is stated with the scatter of averages by other nodes.
    """
    q, found = np.diag([0.4, 0.0, 0.8]), []
    for effort in (2, 0):
        monkeypatch.setattr(HiddenLattice, "efforts", (Fineness(1.0, 8.0, effort),))
        found.append(lattice()(q))
    usual, few = found
    for layer in (0, 2):
        off = abs(few.g[0, layer, layer] - usual.g[0, layer, layer])
        assert off < 3 * few.bias[layer, layer] + usual.bias[layer, layer]
        assert few.bias[layer, layer] > 1.5 * usual.bias[layer, layer]


def test_what_random_nodes_leave_with_one_layer_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pairs of rules agree by chance too often to state it: growth rates were off by up to four times as much."""
    monkeypatch.setattr(HiddenLattice, "efforts", (Fineness(1.2, 5.0, 0),))
    # What sums miss is the same with all nodes: the coarsest do.
    monkeypatch.setattr(summed.DeepQuadrature, "by_last", ((0.0, (Resolution(8.0, 1.0, 0.8),) * 2),))
    results = [lattice(seed=seed)(np.diag([0.36, 0.0, 0.95])) for seed in range(6)]
    values = np.array([[x.g[0, 0, 0], x.growth[0, 1], x.g[0, 2, 2]] for x in results])
    stated = np.array([[x.bias[0, 0], x.growth_bias[1], x.bias[2, 2]] for x in results])
    scatter = values.std(axis=0, ddof=1)
    # a standard deviation of six values is known to a third; without the scatter of nodes two of them are twice as much
    assert (scatter < 1.5 * stated.min(axis=0)).all()
    assert (stated.mean(axis=0) < 0.01 * values.mean(axis=0)).all()


@pytest.mark.slow
def test_both_hidden_layers_by_other_seeds_and_more_points(monkeypatch: pytest.MonkeyPatch) -> None:
    q = np.diag([0.4412, 0.3053, 0.9])
    rough = [lattice(seed=seed)(q) for seed in (1, 2)]
    monkeypatch.setattr(HiddenLattice, "efforts", (Fineness(0.68, 10.5, 2),))
    fine = lattice()(q)
    for layer in range(3):
        value, bias = fine.g[0, layer, layer], fine.bias[layer, layer]
        for other in rough:
            assert bias < other.bias[layer, layer]
            assert abs(other.g[0, layer, layer] - value) < other.bias[layer, layer] + bias


def test_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both hidden layers known, or one that is not small: by lattices from fine accuracies on, up to some overlaps."""
    for kind in (HiddenLattice, DeepQuadrature, ThreeLayers):
        monkeypatch.setattr(kind, "__call__", lambda self, q: self)
    monkeypatch.setattr(DeepAverages, "_nodes", lambda self, q, effort: 64)
    averages = DeepAverages(THREE, 1e-3, replicas=2, rng=np.random.default_rng(0), workers=1)
    for q in ((0.4, 0.3, 0.99), (0.05, 0.02, 0.95), (0.5, 0.0, 0.99), (0.0, 0.9, 0.99)):
        made = [averages.rough(np.diag(q), accuracy) for accuracy in (8e-5, 4e-5)]
        assert isinstance(made[0], HiddenLattice) and isinstance(made[1], HiddenLattice) and made[0] is not made[1]
        assert isinstance(averages.rough(np.diag(q), 2e-3), ThreeLayers)
    # Where both hidden layers are hardly known, in place of more outputs.
    assert isinstance(averages.rough(np.diag([0.2, 0.03, 0.99]), 3e-4), HiddenLattice)
    assert isinstance(averages.rough(np.diag([0.3, 0.03, 0.99]), 3e-4), ThreeLayers)
    assert isinstance(averages.rough(np.diag([0.1, 0.0, 0.5]), 8e-5), DeepQuadrature)
    assert isinstance(averages.rough(np.diag([0.9, 0.9, 0.99]), 1.2e-4), ThreeLayers)
    for q in ((0.9, 0.9, 0.99), (0.0, 0.98, 0.99), (0.4, 0.3, 0.9), (0.44, 0.0, 0.7)):
        assert isinstance(averages.rough(np.diag(q), 8e-5), ThreeLayers)


def test_averages_of_both_kinds_have_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides of the bounds of lattices a stage keeps to its method, or is evaluated afresh."""
    sampled = Averages.unbiased(np.full((2, 3, 3), 0.5), np.full((2, 3), 0.5), "monte-carlo")
    monkeypatch.setattr(ThreeLayers, "__call__", lambda self, q: sampled)
    for kind in (HiddenLattice, RoughLattice):
        monkeypatch.setattr(kind, "__call__", lambda self, q: replace(sampled, method=METHOD))
    averages = DeepAverages(THREE, 1e-3, replicas=2, rng=np.random.default_rng(0), workers=1)
    # Where outputs are sampled for this accuracy, unless those of the neighbour are not.
    low, high = np.diag([0.2, 0.1, 0.99]), np.diag([0.3, 0.1, 0.99])
    for at in (averages.rough(low, 3e-4), averages.rough(high, 3e-4)):
        assert averages.alike(low, 3e-4, at).method == averages.alike(high, 3e-4, at).method == at.method
    # Overlaps below, next to and beyond the bound; those of the last layer likewise.
    for within, near, beyond in (
        ((0.9, 0.0, 0.99), (0.971, 0.0, 0.99), (0.975, 0.0, 0.99)),
        ((0.55, 0.3, 0.99), (0.61, 0.3, 0.99), (0.64, 0.3, 0.99)),
        ((0.4, 0.3, 0.96), (0.4, 0.3, 0.949), (0.4, 0.3, 0.94)),
    ):
        here, other = (averages.rough(np.diag(q), 8e-5) for q in (within, beyond))
        assert here.method == METHOD and not other.method and not averages.rough(np.diag(near), 8e-5).method
        assert averages.alike(np.diag(near), 8e-5, here).method == METHOD
        assert not averages.alike(np.diag(beyond), 8e-5, here).method
        assert not averages.alike(np.diag(near), 8e-5, other).method
        # Coarse averages at the anchor, and beside it.
        for at in (here, other):
            place = within if at is here else beyond
            coarse = averages.beside(np.diag(place), 8e-5, 2e-3, at)
            assert coarse.method == at.method
            anchor = Anchor(np.zeros(3), at, coarse)
            assert anchor.moved(averages.beside(np.diag(near), 8e-5, 2e-3, at)) is not None
            across = beyond if at is here else within
            assert anchor.moved(averages.beside(np.diag(across), 8e-5, 2e-3, at)) is None
