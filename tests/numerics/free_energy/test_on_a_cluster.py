"""The search for stationary points on the workers of a cluster: starts and points of a line go there."""

from dataclasses import asdict

import numpy as np
import pytest

import attnlimits as al
from attnlimits.free_energy import FreeEntropy, entropy_of, located, transitions
from attnlimits.numerics.core.errors import ClusterError, ConvergenceError
from attnlimits.numerics.free_energy import starts
from attnlimits.numerics.free_energy.balance import GroupBalance

FEW = {"samples": 64, "replicas": 3}


def test_points_of_a_line(client, completed):
    """A link of one index, whose averages are made without sampling."""
    here, there = (
        located(FreeEntropy(entropy_of(al.Link("h[1]**2"), **where), 1.05)) for where in ({}, {"client": client})
    )
    assert repr(there) == repr(here) and len(here.points) == 4
    assert [asdict(point.free_entropy) for point in there.points] == [
        asdict(point.free_entropy) for point in here.points
    ]
    assert completed.count("balance_at") > 40


def test_starts_of_two_overlaps(client, completed):
    """Both starts at random go there with the others, and the points of the lines."""

    def found(**where):
        entropy = entropy_of(al.Link("h[1]*h[2]", noise="1e-7"), samples=16, replicas=2, **where)
        return located(FreeEntropy(entropy, 1.5), starts=2)

    here, there = found(workers=None), found(client=client)
    assert there.status == here.status and len(there.points) == len(here.points) >= 2
    for one, other in zip(there.points, here.points, strict=True):
        for name in ("overlap", "overlap_error", "eigenvalues"):
            assert (getattr(one, name) == getattr(other, name)).all()
        assert (one.kind, one.stable, one.residual, one.free_entropy) == (
            other.kind,
            other.stable,
            other.residual,
            other.free_entropy,
        )
    assert completed.count("newton_point_at") >= 4 and completed.count("balance_at") > 20


@pytest.mark.slow  # seconds, for what the points of a line test
def test_transitions(client, completed):
    found = [transitions(entropy_of(al.Link("h[1]**2"), **where)) for where in ({}, {"client": client})]
    assert repr(found[0]) == repr(found[1]) and completed.count("balance_at") > 10


def test_overlaps_that_are_not_resolved_are_noted(client, monkeypatch):
    """Those that another process met are named in the status as if they had been met here."""
    evaluate = GroupBalance._evaluate

    def missed(self, w):
        if 2 < w[0] < 4:
            raise ConvergenceError("not resolved")
        return evaluate(self, w)

    monkeypatch.setattr(GroupBalance, "_evaluate", missed)
    found = [located(FreeEntropy(entropy_of(al.Link("h[1]**2"), **where), 1.05)) for where in ({}, {"client": client})]
    assert "the averages are not resolved" in found[0].status and found[1].status == found[0].status


def test_a_lost_cluster_is_no_unresolved_posterior(client, monkeypatch):
    balance = GroupBalance(entropy_of(al.Link("h[1]**2"), client=client), al.free_energy.Gaussian())

    def lost(self, w):
        raise ClusterError("the cluster was lost")

    monkeypatch.setattr(GroupBalance, "_evaluate", lost)
    with pytest.raises(ClusterError, match="was lost"):
        balance(np.array([1.0]))
    assert balance.unresolved == []


def test_starts_note_what_they_do_not_resolve(client, monkeypatch):
    output = entropy_of(al.Link("h[1]*h[2]"), **FEW, client=client)
    balance = GroupBalance(output, al.free_energy.Gaussian())

    def missed(self, w):
        raise ConvergenceError("not resolved")

    monkeypatch.setattr(GroupBalance, "_evaluate", missed)
    begin = [np.array([1.0, 1.0]), np.array([1.0, 2.0])]
    assert list(starts.newton_points(balance, begin, [0, 1], 0.1)) == []
    assert any(np.array_equal(balance.unresolved[0], balance.overlaps(w)) for w in begin)


def test_a_client_has_to_be_open(client):
    with pytest.raises(ValueError, match=r"client must be an open distributed\.Client here"):
        al.free_entropy(al.Link("h[1]**2"), 1.05, client="local")
    with pytest.raises(ValueError, match="workers is for a local cluster"):
        entropy_of(al.Link("h[1]**2"), client=client, workers=2)
    entropy = al.free_entropy(al.Link("h[1]*h[2]"), 1.5, **FEW, client=client)
    assert entropy([[0.5, 0.0], [0.0, 0.4]]) == al.free_entropy(al.Link("h[1]*h[2]"), 1.5, **FEW)([[0.5, 0], [0, 0.4]])
