"""When an iteration ends, for estimates that are given."""

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp.loop import Loop
from attnlimits.numerics.learning.side import Side
from attnlimits.numerics.model.network import Network

DIMENSION = 100


def outcome(sizes, others=5.0, limit=400):
    """Result of a run whose first index has these norms, one after the other, and its second those."""
    first, second = np.eye(DIMENSION)[:2]
    norms = iter(np.broadcast_to(others, len(sizes)))
    iterates = iter(sizes)

    def advance(weights, covariance, old):
        moved = np.array([next(iterates) * first, next(norms) * second])
        return moved, np.eye(2) - moved @ moved.T / DIMENSION, np.eye(2)

    loop = Loop(Network(2, 2), 0.0, limit, 1e-3, variance="slope", rng=0)
    return loop.run(
        advance,
        DIMENSION,
        lambda: 50,
        start=None,
        teacher=None,
        callback=None,
        throw=False,
        algorithm="gamp",
        side=Side(0.0, 0.0),
    )


def run(sizes, others=5.0):
    """Whether that run converged, its iterations, and where its first index ended."""
    made = outcome(sizes, others)
    return made.converged, made.n_iter, made.weights[0, 0]


def test_an_index_that_grows_and_shrinks_now_and_then_is_waited_for():
    """By 5 % an iteration, but for a wave."""
    steps = np.arange(500)
    norms = 1e-6 * np.minimum(1.05**steps, 4e6) * np.where(1.05**steps < 4e6, 1 + 0.6 * np.cos(steps), 1.0)
    converged, _, found = run(norms)
    assert converged and found == pytest.approx(4.0, rel=1e-3)


def test_an_index_that_waits_for_others_shrinks_before_it_grows():
    steps = np.arange(500)
    norms = np.where(steps < 15, 1e-3 * 0.6**steps, 1e-3 * 0.6**15 * 1.1 ** (steps - 15.0))
    converged, _, found = run(np.minimum(norms, 4.0), 5.0 - 3.0 * 0.6**steps)
    assert converged and found == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("wave", [0.0, 0.6])
def test_an_index_that_dies_out_is_not_waited_for(wave):
    steps = np.arange(500)
    converged, n_iter, found = run(1e-2 * 0.9**steps * (1 + wave * np.cos(0.3 * steps)))
    assert converged and n_iter < 150 and found < 1e-3


def test_the_status_tells_a_wait_from_a_step_that_is_too_long():
    """The second index moves for ten iterations; the first shrinks, and is waited for."""
    steps = np.arange(500)
    made = outcome(1e-3 * 0.9**steps, 5.0 - 3.0 * 0.3**steps, limit=20)
    assert not made.converged and made.residual < 1e-3
    assert "not shrunk for long enough" in made.status
    assert "moved by" in outcome(1e-3 * 0.9**steps, 5.0 - 3.0 * 0.3**steps, limit=3).status


def test_a_direction_that_is_made_of_rounding_is_not_waited_for():
    made = outcome(np.full(50, 1e-20))
    assert made.converged and made.n_iter < 5
