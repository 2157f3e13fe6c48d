"""Iteration next to a double root, where plain steps are as the square of the distance: h of little noise at alpha = 1.

y = h + n with n of variance s: G = 1/(V + s), and V = 1 - q solves V (V + s + alpha) = V + s.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.fixed_point.iteration import Iteration
from attnlimits.numerics.fixed_point.state import Problem, Solution, State, Tolerance

Array = NDArray[np.float64]


class Linear(ChannelBase):
    """One index seen with noise."""

    layers = (0,)
    sampled = False

    def __init__(self, noise: float) -> None:
        self.noise = noise
        self.model = SimpleNamespace(indices=1, kernel_hash="linear", parameters={"link": "linear"})

    def __call__(self, q: Array) -> Averages:
        g = 1 / (1 - q + self.noise)
        return Averages.unbiased(np.array([g, g * (1 + 1e-13)]), np.full((2, 1), math.nan), "estimated")


def left(noise: float) -> float:
    """V of the fixed point at alpha = 1."""
    return (math.sqrt(noise**2 + 4 * noise) - noise) / 2


def iterated(noise: float, evaluations: int) -> Solution:
    strategy = Iteration(Problem(Linear(noise), 1.0, Tolerance(1e-5), evaluations, relative=True))
    return strategy.postprocess(strategy.settle(State.start(strategy.problem), np.full((1, 1), 0.05), [0]))


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6, 1e-8])
def test_a_double_root_is_reached(noise: float) -> None:
    found = iterated(noise, 200)
    assert found.converged and found.n_iter <= 60
    assert abs(1 - found.q[0, 0] - left(noise)) <= found.error[0, 0] + 1e-15
    assert found.error[0, 0] <= 1e-3 * left(noise)


@pytest.mark.parametrize("noise", [1e-4, 1e-8])
@pytest.mark.parametrize("evaluations", [1, 2, 5, 12, 20, 26, 30])
def test_errors_hold_where_the_iteration_is_cut_short(noise: float, evaluations: int) -> None:
    found = iterated(noise, evaluations)
    assert not found.converged or noise > 1e-8
    assert abs(1 - found.q[0, 0] - left(noise)) <= found.error[0, 0] + 1e-15
