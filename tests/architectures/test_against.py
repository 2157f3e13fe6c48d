"""Message passing on instances against the state evolution: two routes to the overlaps of fourteen architectures."""

import math

import numpy as np
import pytest
from against import POINTS, compare


@pytest.mark.slow
@pytest.mark.parametrize("name", POINTS)
def test_gamp_is_at_the_fixed_point_of_the_state_evolution(name):
    """Whether all instances have converged is in the table of the documentation: on charts some move on by noise."""
    found = compare(name, 4)
    # Of instances an overlap that vanishes in theory is of the size 1/sqrt(D).
    small = 2 / math.sqrt(POINTS[name].dimension) * (1 - found.theory) ** 2
    allowed = 3 * np.hypot(found.overlap_error, found.theory_error) + small
    assert (np.abs(found.overlap - found.theory) <= allowed).all(), found
