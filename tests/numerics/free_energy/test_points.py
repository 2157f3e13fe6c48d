"""Which of two equal maxima comes first, and where the free entropy turns, are no matters of rounding."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnlimits.numerics.core.results import Estimate
from attnlimits.numerics.free_energy import stationary
from attnlimits.numerics.free_energy.points import StationaryPoint, in_order
from attnlimits.numerics.free_energy.thresholds import _equal, _resolved

EPS = np.finfo(float).eps


def point(diagonal, value, stable=True):
    kind = "maximum" if stable else "saddle"
    estimate = Estimate(value, 1e-10, "estimated")
    size = len(diagonal)
    return StationaryPoint(np.diag(diagonal), np.zeros((size, size)), estimate, kind, np.zeros(size), stable, 0.0)


@pytest.mark.parametrize("bits", [-4, -1, 0, 1, 4])
def test_equal_maxima_come_in_one_order(bits):
    value = 0.3 * (1 + bits * EPS)
    points = [point([0.0, 0.7], value), point([0.7, 0.0], 0.3), point([0.5, 0.5], 0.3, stable=False)]
    points += [point([0.0, 0.0], 0.0)]
    for ordered in (points, points[::-1]):
        found = [tuple(one.overlap.diagonal()) for one in in_order(ordered)]
        assert found == [(0.7, 0.0), (0.0, 0.7), (0.5, 0.5), (0.0, 0.0)]


def test_what_differs_by_more_than_rounding_is_ordered_by_it():
    found = in_order([point([0.7], 0.3), point([0.2], 0.3 + 1e-9), point([1.0], np.inf), point([0.1], -np.inf)])
    assert [one.overlap[0, 0] for one in found] == [1.0, 0.2, 0.7, 0.1]


def test_turning_points_of_rounding_are_none():
    turns = [(0.0, 0.0), (1.0, 2.0), (2.0, 1.0), (2.1, 1.0 + 1e-12), (5.0, 0.5), (9.0, 0.5 + 2e-15)]
    assert _resolved(turns) == [(0.0, 0.0), (1.0, 2.0), (9.0, 0.5 + 2e-15)]
    assert _resolved(turns[:3]) == turns[:3]


def test_an_equality_within_rounding_is_at_an_end():
    """Where the free entropies of a short range differ by rounding, their difference need not change its sign."""
    assert _equal(lambda at: 1e-17, -1.0, 1.0) == -1.0
    assert _equal(lambda at: -1e-17, -1.0, 1.0) == 1.0
    assert abs(_equal(lambda at: at - 0.25, -1.0, 1.0) - 0.25) <= 1e-10


def test_a_point_at_a_node_of_the_scan_is_found(monkeypatch):

    balance = SimpleNamespace(
        top=5.0,
        overlaps=lambda w: -np.expm1(-w),
        output=SimpleNamespace(groups=((0,),)),
        apart=False,
    )
    monkeypatch.setattr(stationary, "evaluate_ahead", lambda *_: None)
    node = float(stationary._BEGIN[3])

    class Balance(SimpleNamespace):
        def __call__(self, w):
            return np.array([w[0] - node])

    search = stationary._Search(Balance(**vars(balance)), 0.0, 0, np.random.default_rng(0))
    found = list(search._on_line(np.zeros(1), 0))
    assert len(found) == 1 and abs(found[0][0] - node) <= 1e-12
