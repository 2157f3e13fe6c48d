"""As many points as an accuracy takes: the search by few, and what it corrects them by."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.channel.corrected import Anchor, Corrected, joined
from attnlimits.numerics.channel.one_layer import OneLayer
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.standard_error import standard_error, student
from attnlimits.numerics.fixed_point.accurate import Fineness, Ways, as_accurate
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.growth import grown
from attnlimits.numerics.fixed_point.iteration import Iteration
from attnlimits.numerics.fixed_point.reached import is_reached, times_asked
from attnlimits.numerics.fixed_point.state import Problem, Solution, Tolerance
from attnlimits.numerics.model.network import Network

Array = NDArray[np.float64]
MODEL = Network(layers=1, tokens=2)
EXACT = OneLayer(MODEL)


class Scattered(ChannelBase):
    """Exact averages of one layer times factors that scatter as averages over many points do."""

    sampled, smooth = True, False

    def __init__(self, samples: int, rng: np.random.Generator, bias: float = 0.0, *, enough: bool = True) -> None:
        self.model, self.layers, self.calls, self.samples, self.enough = MODEL, (0,), 0, samples, enough
        self._factors = 1 + 0.2 * rng.standard_normal((8, 1, 1)) / np.sqrt(samples)
        self.bias = bias

    def __call__(self, q: Array) -> Averages:
        self.calls += 1
        if not self.enough:
            raise ConvergenceError("an output has no node")
        known = EXACT(q)
        g, growth = known.g.mean(axis=0), known.growth.mean(axis=0)
        return Averages(self._factors * g, self._factors[:, 0] * growth, self.bias * np.abs(g), "monte-carlo")


def search(alpha: float, accuracy: float, seed: int, channels: list[Scattered], bias: float = 0.0, nodes: int = 128):
    """Fixed point of one layer by scattered averages, whose posteriors need 128 nodes."""
    rng = np.random.default_rng(seed)

    def channel(fineness: Fineness) -> Scattered:
        channels.append(Scattered(fineness.samples, rng, bias * 128 / fineness.nodes, enough=fineness.nodes >= 128))
        return channels[-1]

    def onward(strategy, state):
        return grown(strategy, state, state.q)

    def strategy(averages):
        return Iteration(Problem(averages, alpha, Tolerance(0.02 * accuracy), 200))

    ways = Ways(channel, strategy, onward, onward)
    return as_accurate(ways, accuracy, Fineness(256, nodes), 8)[0]


@pytest.mark.parametrize("accuracy", [1e-2, 4e-3])
def test_the_error_is_the_one_asked_for_and_holds(accuracy: float) -> None:
    exact = evolve(MODEL, 0.4).overlap[0, 0]
    off = []
    for seed in range(8):
        channels: list[Scattered] = []
        found = search(0.4, accuracy, seed, channels)
        error = found.error[0, 0]
        assert found.converged and error <= accuracy and not found.note
        off.append((found.q[0, 0] - exact) / error)
        # Many points are asked once.
        assert all(one.calls == 1 for one in channels[1:])
    assert np.abs(off).max() < 4 and 0.2 < np.sqrt(np.mean(np.square(off))) < 1.4


def test_what_is_not_reached_is_said() -> None:
    # Next to the threshold, 1/6, no number of points decides.
    channels: list[Scattered] = []
    found = search(0.16675, 1e-2, 3, channels)
    # Those of all attempts.
    before, _, after = found.note.partition("is not reached with ")
    taken = int(after.split()[0])
    assert before and 2**13 <= taken <= sum(one.samples for one in channels[1:]) <= 2**15
    assert [one.samples for one in channels[-4:]] == [4096] * 4


def test_many_points_are_many_randomisations() -> None:
    """Beyond 4096 points there are more randomisations, no more of them than it takes, and the errors hold."""
    exact = evolve(MODEL, 0.4).overlap[0, 0]
    off = []
    for seed in range(2):
        channels: list[Scattered] = []
        found = search(0.4, 2e-4, seed, channels)
        error = found.error[0, 0]
        assert found.converged and 0.5 * 2e-4 < error <= 2e-4
        assert max(one.samples for one in channels) == 4096
        off.append((found.q[0, 0] - exact) / error)
    assert np.abs(off).max() < 3


def test_no_more_is_spent_where_it_stays_in_doubt() -> None:
    # Next to the threshold, 1/6, more points might find that there is another fixed point, or none.
    channels: list[Scattered] = []
    found = search(0.1675, 1e-3, 0, channels)
    assert not found.reached and found.doubt and "is not reached with" in found.note
    spent = sum(one.samples for one in channels if one.calls == 1)
    # Those that are stated are those that were taken, and not what was left to be spent.
    assert spent < 2**15 + 4096 and f"with {spent} points" in found.note


def test_nodes_follow_the_bias() -> None:
    channels: list[Scattered] = []
    found = search(0.3, 2e-3, 0, channels, bias=0.02)
    assert found.converged and 0 < found.error[0, 0] <= 2e-3
    # Relative, of each set of averages: the scatter of 0.2 is that of one point. At last the bias of few nodes adds
    # less than the standard error of eight randomisations, and nodes are not doubled beyond that.
    last = channels[-1]
    scatter = 0.2 / np.sqrt(8 * last.samples)
    assert 0.1 < last.bias / scatter < 1 and channels[0].bias == 0.02
    assert search(0.1, 5e-3, 0, []).q[0, 0] == 0


def test_many_points_have_the_nodes_that_few_needed() -> None:
    channels: list[Scattered] = []
    found = search(0.4, 2e-3, 0, channels, nodes=32)
    assert found.converged and found.error[0, 0] <= 2e-3
    # The first search alone fails.
    assert [one.enough for one in channels].count(False) == 1 and not channels[0].enough and len(channels) > 2


def test_more_nodes_than_a_search_takes_by_itself_are_kept() -> None:
    channels: list[Scattered] = []
    found = search(0.4, 2e-3, 0, channels, bias=0.02, nodes=2**14)
    assert found.converged and found.error[0, 0] <= 2e-3 and len(channels) > 1


def anchor(few: Scattered, many: Scattered, at: Array) -> Anchor:
    return Anchor(at, many(at), few(at), many.samples)


def alike(found: Array, *sets: Array) -> bool:
    """Whether values have the mean of a sum, and the error of its independent terms but for Student's factor."""
    plain = [part.std(axis=0, ddof=1) / np.sqrt(len(part)) for part in (found, *sets)]
    ratio = plain[0] / np.sqrt(np.sum(np.square(plain[1:]), axis=0))
    mean = np.sum([part.mean(axis=0) for part in sets], axis=0)
    return bool(np.allclose(found.mean(axis=0), mean, rtol=1e-12) and (0.999 < ratio).all() and (ratio < 1.6).all())


def test_corrected_averages_are_those_of_the_many_where_these_are_known() -> None:
    rng = np.random.default_rng(1)
    few, many, at = Scattered(64, rng), Scattered(10**6, rng), np.array([[0.4]])
    corrected = Corrected(few, [anchor(few, many, at)])
    assert alike(corrected(at).g, many(at).g)
    assert np.allclose(standard_error(corrected(at).g), standard_error(many(at).g), rtol=1e-12)
    away = np.array([[0.45]])
    assert abs(corrected(away).g.mean() - EXACT(away).g.mean()) < abs(few(away).g.mean() - EXACT(away).g.mean())
    # What is silent at one of both places only is known by the few.
    assert alike(corrected(np.zeros((1, 1))).growth, few(np.zeros((1, 1))).growth)
    assert (corrected.shared, corrected.groups, corrected.solved) == (few.shared, few.groups, few.solved)
    assert corrected.derivative(at) is None
    assert np.array_equal(Corrected(few, ())(away).g, few(away).g)


def test_anchors_count_by_their_points() -> None:
    rng = np.random.default_rng(2)
    few, more, many, at = Scattered(64, rng), Scattered(1000, rng), Scattered(3000, rng), np.array([[0.4]])
    corrected = Corrected(few, [anchor(few, more, at), anchor(few, many, at)])
    found, parts = corrected(at).g, (more(at).g, many(at).g)
    assert np.allclose(found.mean(axis=0), 0.25 * parts[0].mean(axis=0) + 0.75 * parts[1].mean(axis=0), rtol=1e-14)
    # Degrees of freedom of both together: between those of one set and those of two.
    plain = [part.std(axis=0, ddof=1) / np.sqrt(8) for part in parts]
    both = np.hypot(0.25 * plain[0], 0.75 * plain[1])
    degrees = 7 * both**4 / ((0.25 * plain[0]) ** 4 + (0.75 * plain[1]) ** 4)
    expected = student(1 + int(degrees.item())) * both
    assert 7 < degrees < 14 and np.allclose(standard_error(found), expected, rtol=1e-12)
    # A former anchor is worth less where the change from it scatters.
    near, far = (
        Corrected(few, [anchor(few, many, at)]).anchored(away, many(away), many.samples)
        for away in (np.array([[0.41]]), np.array([[0.8]]))
    )
    of_near, of_far = ([one.worth(found.anchors[-1]) for one in found.anchors] for found in (near, far))
    assert of_near[0] > of_far[0] and of_near[1] == of_far[1] == 3000


def test_an_anchor_is_worth_what_it_is_off_by() -> None:
    """A bias as large as the standard error is as many points as half of them without."""
    few, many, at = (
        Scattered(64, np.random.default_rng(2)),
        Scattered(3000, np.random.default_rng(3)),
        np.array([[0.4]]),
    )
    plain = anchor(few, many, at)
    off = plain._replace(many=replace(plain.many, bias=standard_error(plain.many.g)))
    assert plain.worth(plain) == 3000 and off.worth(plain) == pytest.approx(1500)
    assert Corrected(few, [off, plain])(at).bias == pytest.approx(standard_error(plain.many.g) / 3)


def test_the_change_scatters_beside_the_anchors() -> None:
    rng = np.random.default_rng(3)
    few, many, at = Scattered(64, rng), Scattered(1000, rng, bias=0.01), np.array([[0.4]])
    corrected = Corrected(few, [anchor(few, many, at)])
    for x in (0.4, 0.41, 0.6, 0.8):
        away = np.array([[x]])
        assert alike(corrected(away).g, many(at).g, few(away).g - few(at).g)
        assert np.array_equal(corrected(away).bias, many(at).bias)


def test_the_change_of_growth_rates_scatters_beside_the_anchors() -> None:
    """A silent layer whose growth rate changes with the overlap of the other one, by what scatters."""
    rng = np.random.default_rng(6)

    class Pair(Scattered):
        def __call__(self, q: Array) -> Averages:
            growth = np.full((8, 2), np.nan)
            growth[:, 1] = 1 + self._factors[:, 0, 0] * q[0, 0]
            return Averages(np.zeros((8, 2, 2)), growth, np.zeros((2, 2)), "monte-carlo", growth_bias=np.full(2, 0.01))

    few, many, at = Pair(64, rng), Pair(10**4, rng), np.diag([0.4, 0.0])
    corrected = Corrected(few, [anchor(few, many, at)])
    for x in (0.4, 0.41, 0.8):
        away = np.diag([x, 0.0])
        found, there, before = corrected(away), few(away).growth[:, 1], few(at).growth[:, 1]
        assert alike(found.growth[:, 1], many(at).growth[:, 1], there - before)
        assert found.growth_bias[1] == 0.01
        assert abs(found.growth[:, 1].mean() - 1 - x) < 3 * standard_error(found.growth[:, 1])


def test_deep_networks_of_more_tokens_have_as_many_points_as_it_takes() -> None:
    """Two layers of three tokens: from the points with which the search begins to those of the accuracy."""
    rough, fine = (evolve(Network(2, 3), 0.2, accuracy=a, samples=32, nodes=128, workers=1) for a in (0.1, 0.05))
    assert rough.overlap_error[1, 1] <= 0.1 and fine.overlap_error[1, 1] <= 0.05
    assert abs(rough.overlap[1, 1] - fine.overlap[1, 1]) < 4 * np.hypot(*(r.overlap_error[1, 1] for r in (rough, fine)))


def test_sets_of_randomisations_are_joined_with_the_scatter_of_their_mean() -> None:
    rng = np.random.default_rng(4)
    parts = [rng.standard_normal((count, 2)) for count in (8, 8, 24)]
    shares = np.array([[0.2, 0.0], [0.2, 0.0], [0.6, 1.0]])
    found = joined(parts, shares)
    plain = np.array([part.std(axis=0, ddof=1) / np.sqrt(len(part)) for part in parts])
    assert np.allclose(found.mean(axis=0), np.sum(shares * [part.mean(axis=0) for part in parts], axis=0), rtol=1e-12)
    # The second entry is known by one set alone, of 23 degrees of freedom.
    assert np.allclose(standard_error(found), student(24) * np.sqrt(((shares * plain) ** 2).sum(axis=0)), rtol=1e-12)
    assert np.allclose(joined(parts[:1], np.ones((1, 2))), parts[0], rtol=1e-14)


def test_entries_without_many_points_keep_their_mean_and_error() -> None:
    rng = np.random.default_rng(5)
    few, at = Scattered(64, rng), np.array([[0.4]])
    many = [Scattered(1000, rng) for _ in range(2)]
    corrected = Corrected(few, [anchor(few, one, at) for one in many])
    there, found = few(np.zeros((1, 1))), corrected(np.zeros((1, 1)))
    assert found.growth.shape == (24, 1) and np.allclose(found.growth.mean(axis=0), there.growth.mean(axis=0))
    assert np.allclose(standard_error(found.growth), standard_error(there.growth), rtol=1e-12)


def solution(error: float, *, converged: bool = True, doubt: str = "") -> Solution:
    q, off = np.diag([0.5, 0.0]), np.diag([error, 0.0])
    return Solution(0.4, q, off, np.zeros(2), "estimated", converged, 0.0, 1, (), Tolerance(1e-5), doubt)


def test_an_accuracy_is_reached_by_one_rule() -> None:
    """Errors of converged fixed points beyond doubt, up to a tenth more than asked; absolute, or relative to q."""
    assert is_reached(solution(0.0109), 0.01) and not is_reached(solution(0.0111), 0.01)
    assert is_reached(solution(0.0054), 0.01, absolute=False) and not is_reached(solution(0.0056), 0.01, absolute=False)
    assert not is_reached(solution(1e-3, converged=False), 0.01)
    assert not is_reached(solution(1e-3, doubt="another fixed point may be above it"), 0.01)
    assert (
        times_asked(solution(0.02), 0.01) == pytest.approx(2) == 0.5 * times_asked(solution(0.02), 0.01, absolute=False)
    )


def test_results_have_whether_the_accuracy_is_reached() -> None:
    assert search(0.4, 1e-2, 0, []).reached and not search(0.16675, 1e-2, 3, []).reached
    # Nothing is asked for of one layer.
    assert evolve(MODEL, 0.4).reached
