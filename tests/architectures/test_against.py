"""Message passing on instances against the state evolution: two routes to the overlaps of fourteen architectures."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from against import POINTS, Point, compare

import attnlimits as al
from attnlimits.numerics.core.errors import UnreachableOutputError


@pytest.mark.slow
@pytest.mark.parametrize("name", POINTS)
def test_gamp_is_at_the_fixed_point_of_the_state_evolution(name):
    """Whether all instances have converged is in the table of the documentation: on charts some move on by noise."""
    found = compare(name, 4)
    # Of instances an overlap that vanishes in theory is of the size 1/sqrt(D).
    small = 2 / math.sqrt(POINTS[name].dimension) * (1 - found.theory) ** 2
    allowed = 3 * np.hypot(found.overlap_error, found.theory_error) + small
    assert (np.abs(found.overlap - found.theory) <= allowed).all(), found


def test_instances_that_cannot_be_inverted_are_left_out_until_too_few_remain(monkeypatch):
    tried, gamp = [], al.gamp

    def sometimes(*args, rng, **settings):
        tried.append(rng)
        if rng % reachable:
            raise UnreachableOutputError("an attention is 1 to the last bit")
        return gamp(*args, rng=rng, max_iter=2, **settings)

    monkeypatch.setattr(al, "gamp", sometimes)
    # Of the state evolution only the shape matters here.
    nothing = SimpleNamespace(overlap=np.zeros((2, 2)), overlap_error=np.zeros((2, 2)))
    monkeypatch.setattr(al, "evolve", lambda *args, **settings: nothing)
    reachable = 2
    found = compare("L=2, M=2, linear", 2, Point(0.9, 40))
    assert tried == [0, 1, 2] and found.n_iter == (2, 2) and len(found.seconds) == 2
    tried.clear()
    reachable = 100
    with pytest.raises(RuntimeError, match="1 of 8 instances have outputs that can be inverted"):
        compare("L=2, M=2, linear", 2, Point(0.9, 40))
    assert tried == list(range(8))
