"""The search for an effort that is enough: what it takes, where it ends, and what it says."""

import pytest

from attnlimits.numerics.core.accuracy import Attempt, Effort, as_accurate, checked


def attempt(effort: Effort, error: float, by: str = "samples", accuracy: float = 1e-2, **more) -> Attempt[Effort]:
    return Attempt(effort, error, accuracy, more.get("converged", True), more.get("beyond_doubt", True), by)


def test_samples_grow_with_the_square_of_what_is_missing():
    taken = []

    def solve(effort):
        taken.append(effort.samples)
        return attempt(effort, effort.samples**-0.5)

    at, effort = as_accurate(solve, Effort(64))
    assert at.reached and effort == at.found and taken == [64, 1024, 16384]


def test_a_bias_is_met_by_more_nodes():
    def solve(effort):
        return attempt(effort, 0.02 / effort.inner)

    at, effort = as_accurate(solve, Effort(16))
    assert at.reached and effort.inner == 2


def test_rules_become_finer_until_they_do_not_help():
    taken = []

    def solve(effort):
        taken.append(effort.fine)
        return attempt(effort, max(effort.fine, 2e-6), "rules", 1e-6)

    at, effort = as_accurate(solve, Effort(1, fine=1e-3))
    assert not at.reached and len(taken) == 4 and taken[-1] < taken[-2]
    assert at.missed(effort) == "the accuracy of 1e-06 is not reached: the finest averages leave 2e-06"


def test_what_it_would_take():
    at, effort = as_accurate(lambda effort: attempt(effort, 1.0), Effort(2**15))
    assert effort.samples == 2**16
    assert at.missed(effort).endswith("65536 points leave 1, about 2^30 would reach it (samples)")


def test_nothing_more_is_tried_where_nothing_can_be():
    counted = []
    for error, more in ((1.0, {"converged": False}), (1.0, {}), (1e-3, {"beyond_doubt": False})):
        at, _ = as_accurate(lambda e, x=error, m=more: counted.append(e) or attempt(e, x, "all", **m), Effort(4))
        assert not at.reached
    assert len(counted) == 3


@pytest.mark.parametrize("wrong", [0.5, 0.0, True, "fine", float("nan")])
def test_refusals(wrong):
    with pytest.raises(ValueError, match=r"accuracy must be a number in \[1e-12, 0.1\] for a link"):
        checked(wrong, 1e-12, 0.1, "a link")
