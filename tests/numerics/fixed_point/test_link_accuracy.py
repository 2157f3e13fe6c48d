"""Accuracies of links whose averages are sampled: as many points as it takes, or what it would take."""

import pytest

import attnlimits as al
from attnlimits.numerics.channel.link.fibres import FibreGroup
from attnlimits.numerics.core.errors import NotServedError
from attnlimits.numerics.posterior.link import work

#: Four entries that are coupled, which no rule over fibres serves.
FOUR = "h[1]+h[2]*h[3]*h[4]"


def test_as_many_samples_as_it_takes():
    first = al.evolve(al.Link(FOUR), 2.0, samples=64)
    asked = 0.7 * float(first.overlap_error[0, 0])
    found = al.evolve(al.Link(FOUR), 2.0, samples=64, accuracy=asked)
    assert first.estimation_error.how == "monte-carlo"
    assert found.reached and found.overlap_error.diagonal().max() <= 1.1 * asked
    assert abs(found.overlap[0, 0] - first.overlap[0, 0]) < 5 * first.overlap_error[0, 0]


def test_what_it_would_take(monkeypatch):
    monkeypatch.setattr("attnlimits.numerics.core.accuracy._MOST", 64)
    found = al.evolve(al.Link(FOUR), 2.0, samples=64, accuracy=1e-6)
    assert found.converged and not found.reached
    assert "the accuracy of 1e-06 is not reached: 64 points leave" in found.status
    assert "would reach it (samples)" in found.status


def test_samples_are_no_work_of_a_quadrature(monkeypatch):
    """As many posteriors are sampled as were asked for, however many evaluations that is."""
    monkeypatch.setattr(work, "_MOST", 10.0)
    assert al.evolve(al.Link(FOUR), 2.0, samples=16, max_iter=3).n_iter > 0


def test_fibres_too_narrow_at_the_overlaps_that_are_reached_are_sampled(monkeypatch):
    """A rule that serves zero overlap may need too many nodes beyond it: evolve and curve take samples then."""
    average = FibreGroup.__call__

    def narrow(self, q, second):
        if q.any():
            raise NotServedError("its fibres need more nodes")
        return average(self, q, second)

    monkeypatch.setattr(FibreGroup, "__call__", narrow)
    monkeypatch.setattr(FibreGroup, "slopes", lambda self, q: narrow(self, q, True).change.value)
    found = al.evolve(al.Link("h[1]*h[2]"), 0.9, samples=64, replicas=4)
    assert found.estimation_error.how == "monte-carlo" and found.overlap[0, 0] > 0
    assert al.curve(al.Link("h[1]*h[2]"), [0.9], samples=64, replicas=4).how == "monte-carlo"


@pytest.mark.parametrize("accuracy", [0.5, 0.0, True, "fine"])
def test_refusals(accuracy):
    with pytest.raises(ValueError, match="accuracy must be a number in"):
        al.evolve(al.Link("h[1]**2"), 0.8, accuracy=accuracy)
