"""Growth rates next to 1: finer averages are taken as long as they decide more, and no longer."""

import numpy as np
import pytest

from attnlimits.numerics.channel.averages import Averages, ChannelBase, Refinable
from attnlimits.numerics.core.typing import Array
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.growth import grown
from attnlimits.numerics.fixed_point.marginal import decided
from attnlimits.numerics.fixed_point.state import Entries, Problem, Solution, State, Tolerance
from attnlimits.numerics.model.network import Network

ALPHA, Q = 0.5, np.diag([0.0, 0.6])


class Growing(Refinable, ChannelBase):
    """The first layer grows by a rate whose error is the accuracy, and by the overlap of the second."""

    def __init__(self, rate: float, slope: float) -> None:
        self.model, self.layers, self.sampled, self.absolute = Network(), (0, 1), False, True
        self.accuracy, self.finest = 1e-2, (1e-9, 1e-9)
        self.rate, self.slope, self.asked = rate, slope, list[float]()

    def __call__(self, q: Array) -> Averages:
        return self.with_error(q, self.accuracy)

    def rough(self, q: Array, accuracy: float) -> Averages:
        rate = self.rate + self.slope * (q[1, 1] - Q[1, 1]) + 0.8 * accuracy
        growth = np.array([[rate / ALPHA, np.nan]] * 2)
        error = np.array([accuracy / ALPHA, 0.0])
        return Averages(np.zeros((2, 2, 2)), growth, np.zeros((2, 2)), "estimated", growth_bias=error)

    def with_error(self, q: Array, accuracy: float) -> Averages:
        self.asked.append(accuracy)
        return self.rough(q, accuracy)


def judged(averages: Growing, error: float, before: Array = Q) -> tuple[State, str]:
    """Judge growth at Q, where averages are known at the overlaps before the last step."""
    problem = Problem(averages, ALPHA, Tolerance(1e-5), 200)
    state = State(Q, Tolerance(1e-5), averages.rough(before, 1e-2), converged=True, silent=frozenset({0}))
    return decided(problem, averages, averages.accuracy, state, np.diag([0.0, error]))


@pytest.mark.parametrize(("rate", "taken"), [(0.97, 1), (0.995, 2), (0.9992, 3)])
def test_finer_averages_are_taken_until_they_decide(rate: float, taken: int) -> None:
    averages = Growing(rate, slope=0.0)
    state, doubt = judged(averages, error=1e-3)
    assert doubt == "" and averages.asked == pytest.approx([1e-2 * 0.2**n for n in range(taken)])
    # The rate that is stated is the finest one.
    assert abs(ALPHA * state.known.growth[0, 0] - rate) <= averages.asked[-1]
    assert state.n_iter == taken + 1


def test_what_finer_averages_do_not_decide_is_in_doubt() -> None:
    averages = Growing(0.9999, slope=0.0)
    assert "q_11 grows by" in judged(averages, error=1e-3)[1]
    assert len(averages.asked) == 3


def test_what_the_error_of_the_overlaps_leaves_open_takes_no_finer_averages() -> None:
    averages = Growing(0.995, slope=10.0)
    assert "q_11 grows by" in judged(averages, error=1e-3)[1]
    assert len(averages.asked) == 1


def test_growth_is_judged_after_the_last_step() -> None:
    """Where averages were taken last it would be clear that the layer does not grow; it is not at what is given."""
    before = np.diag([0.0, 0.597])
    assert ALPHA * Growing(0.9999, slope=10.0).rough(before, 1e-2).growth[0, 0] < 1 - 2e-2
    assert "q_11 grows by" in judged(Growing(0.9999, slope=10.0), 1e-4, before)[1]


def test_rates_far_from_one_take_no_averages() -> None:
    averages = Growing(0.8, slope=10.0)
    assert judged(averages, error=0.5)[1] == "" and not averages.asked


class OneStepBack:
    """Settles with the averages of before its last step, by which the second layer has come to its overlap."""

    def __init__(self, averages: Growing, before: Array) -> None:
        self.problem = Problem(averages, ALPHA, Tolerance(1e-5), 200)
        self.before, self.settled = before, list[list[int]]()

    def settle(self, state: State, q: Array, active: list[int], pairs: Entries = ()) -> State:
        self.settled.append(active)
        there = np.where(np.eye(2, dtype=bool) & (q > 0), np.diag([0.02, 0.6]), 0.0)
        state = state.visited(self.before, self.problem.averages.rough(self.before, 1e-2))
        return State(there, state.tolerance, state.averages, converged=True, history=state.history, silent=state.silent)

    def postprocess(self, state: State) -> Solution:
        raise NotImplementedError


@pytest.mark.parametrize(("rate", "learned"), [(1.02, [[1], [1, 0]]), (0.985, [[1]])])
def test_a_layer_joins_if_it_grows_after_the_last_step(rate: float, learned: list[list[int]]) -> None:
    averages, before = Growing(rate, slope=10.0), np.diag([0.0, 0.596])
    assert 0.94 < ALPHA * averages.rough(before, 1e-2).growth[0, 0] < 1
    way = OneStepBack(averages, before)
    state = grown(way, State.start(way.problem), Q)
    assert way.settled == learned
    assert state.q[0, 0] == (0.02 if len(learned) > 1 else 0.0)


def test_certain_growth_of_a_layer_at_zero_is_stated() -> None:
    """Its overlap, zero with an error of zero, would be that of another fixed point."""
    assert "q_11 grows by 1.0" in judged(Growing(1.03, slope=0.0), error=1e-4)[1]


@pytest.mark.slow
def test_the_first_of_three_layers_just_above_its_threshold() -> None:
    """alpha = .985: growth 1.013 where the last step leads, .995 before it; two seeds at 1e-3: .0070(7), .0065(4)."""
    found = evolve(Network(layers=3), 0.985, accuracy=1e-2, rng=0)
    assert found.converged
    assert abs(found.overlap[0, 0] - 0.0066) <= found.overlap_error[0, 0] + 4e-4
    assert found.overlap[0, 0] > 0
