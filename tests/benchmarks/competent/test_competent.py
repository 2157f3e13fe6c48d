"""State evolution of links by two routes: the engine, and a script for each link, within the errors of both."""

import math

import numpy as np
import pytest

import attnlimits as al

from . import token_products
from .links import CASES

# Resolutions that are enough for a comparison to 1e-6 or better, in a second.
LEVELS = {
    "h[1]*h[2] at 0.8": 4,
    "sign(h[1])+sign(h[2]) at 1": 4,
    "sign(h[1])+sign(h[2]) at 2.07": 4,
    "h[1]**2+h[2]**2 at 1.5": 4,
    "erf(h[1])*h[2] at 0.8": 3,
    "h[1]+h[2]*h[3] at 1.5": 4,
    "h[1]**2+sign(h[1]*h[2]*h[3]) at 1": 4,
    "h[1,1]*h[1,2] at 1": 2,
    "tanh(h[1])+tanh(h[2]) at 0.8": 4,
    "Max(h[1],0)+Max(h[2],0) at 0.8": 3,
    "h[1]*h[2], noise 0.1 at 0.8": 4,
}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_the_engine_agrees_with_the_script(case):
    """Both errors are stated by the routes themselves; symmetry, with what it sets to zero, too."""
    overlap, error, _ = case.script.solve(case.alpha, LEVELS[case.name])
    found = al.evolve(al.Link(case.text, noise=case.noise), case.alpha, workers=1)
    # What has died out is below 1e-9 in both.
    assert (np.abs(found.overlap - overlap) <= found.overlap_error + error + 1e-9).all()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_the_error_of_a_script_covers_the_next_resolution(case):
    level = LEVELS[case.name] - 1
    (coarse, error, _), (fine, _, _) = (case.script.solve(case.alpha, one) for one in (level, level + 1))
    assert (np.abs(fine - coarse) <= error).all()


def test_one_index_of_two_tokens_is_two_indices_at_twice_the_samples():
    """The average of one function of omega / sqrt(V), beside sums over omega and the fibre at this overlap."""
    (tokens,), (error,), _ = token_products.solve(0.4, 12, 16)
    overlap, off, _ = CASES[0].script.solve(0.8, 4)
    assert abs(tokens - overlap[0, 0]) <= error + off[0, 0]


def test_recovery_of_one_index_of_two_tokens_is_perfect_from_one_sample_per_dimension():
    """At alpha = 1 an iteration takes V^2 (log(1/V)/8 + a constant) from V = 1 - q, and at no V nothing."""
    V = np.exp(np.linspace(math.log(1 - 1e-3), math.log(1e-8), 200))
    taken = np.array([token_products.improvement(v, 16) for v in V])
    assert (taken > 0).all()
    beyond = taken[V < 1e-5] - np.log(1 / V[V < 1e-5]) / 8
    assert np.ptp(beyond) < 1e-4 and abs(beyond.mean() - 0.42502) < 1e-4
    assert token_products.solve(1.0, 8, 12).values[0] == 1.0
    assert token_products.solve(0.99, 8, 12).values[0] < 0.995


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.6, 0.9])
def test_one_index_of_two_tokens_below_perfect_recovery(alpha):
    (overlap,), (error,), _ = token_products.solve(alpha, 16, 24)
    found = al.evolve(al.Link("h[1,1]*h[1,2]"), alpha, workers=1)
    assert abs(found.overlap[0, 0] - overlap) <= found.overlap_error[0, 0] + error
