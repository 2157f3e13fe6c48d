"""A link of which one output gives two numbers is the pair of links of one index that it stands for."""

from functools import cache

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.core.results import EvolutionResult

SUM = "2*sign(h[1]) + tanh(h[2]**2)"
PAIRS = {
    "sign(h[1])*abs(h[2])": ("sign(h[1])", "abs(h[1])"),
    SUM: ("sign(h[1])", "h[1]**2"),
    "exp(sign(h[1])*cosh(h[2]))": ("sign(h[1])", "abs(h[1])"),
}


@cache
def evolved(text: str, alpha: float) -> EvolutionResult:
    """A fixed point that several links are held against."""
    return al.evolve(al.Link(text), alpha)


# Beyond alpha = 1.13 the second index is recovered, which takes long.
@pytest.mark.parametrize(
    ("text", "alpha"),
    [
        *((text, alpha) for text in PAIRS for alpha in (0.4, 0.9)),
        *(pytest.param(text, 1.5, marks=[] if text == SUM else pytest.mark.slow) for text in PAIRS),
    ],
)
def test_evolve_is_that_of_the_two(text: str, alpha: float):
    found = al.evolve(al.Link(text), alpha)
    alone = [evolved(one, alpha) for one in PAIRS[text]]
    assert found.converged
    assert np.allclose(found.overlap, np.diag([float(one.overlap[0, 0]) for one in alone]), atol=1e-9)
    assert found.overlap_error.max() < 1e-4  # by quadrature: sampled averages have errors of 1e-2


def test_curve_and_staircase():
    link = al.Link("sign(h[1])*abs(h[2])")
    curve = al.curve(link, [0.4, 0.9])
    for point in curve.points["uninformed"]:
        state = al.evolve(link, point.parameter)
        assert np.abs(point.overlap - state.overlap).max() <= (point.overlap_error + state.overlap_error).max() + 1e-6
    (onset,) = (one for one in curve.onsets if one.indices == (1,))
    assert onset.value == pytest.approx(float(al.threshold(al.Link("abs(h[1])")).value), abs=1e-5)
    assert [step.value for step in al.staircase(link).steps] == ["0", al.threshold(al.Link("abs(h[1])")).value]
