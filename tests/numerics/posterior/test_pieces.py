"""Moments by pieces of the nodes: pieces that hold next to nothing of the posterior are left out."""

import numpy as np
import pytest

from attnlimits.numerics.channel.pieces import debiased_average
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.posterior.pieces import PIECES, log_masses, moments_of


def _sums(masses):
    """Sums of one output whose pieces have these masses and the mean 2."""
    masses = np.asarray(masses, np.float64)
    return np.stack([masses, 2 * masses], axis=1)[None]


@pytest.mark.parametrize("least", [0.0, 5e-324, 1e-310, 1e-300])
def test_a_piece_of_next_to_no_mass_leaves_all_moments_numbers(least):
    masses = np.ones(2 * PIECES)
    masses[[0, 5]] = least
    moments, lost = moments_of(_sums(masses))
    assert lost == 0 and np.allclose(moments, 2, rtol=1e-12, atol=0)
    assert np.isfinite(log_masses(masses[None])).all()


def test_an_average_that_is_not_a_number_is_refused():
    values = np.ones((3, 8))
    values[2, 0] = np.nan
    with pytest.raises(ConvergenceError, match="not a number"):
        debiased_average(values, [np.arange(8.0) - 3.5], 2)


def test_controls_of_few_outputs_leave_no_bias() -> None:
    """Controls that go with the values: by weights of the same 64 outputs the mean is off by 6 %."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(400):
        x = rng.standard_normal((4, 64))
        square = x[0] ** 2 - 1
        controls = [x[0] * x[1], x[1] * x[2], x[2] * x[3], square * x[1] ** 2, x[0] ** 3 - 3 * x[0] + square]
        controls += [x[i] ** 3 - 3 * x[i] for i in range(4)]
        values = np.broadcast_to((x**2).mean(axis=0), (3, 64))
        found.append(debiased_average(values, controls, 8)[0].mean())
    assert abs(np.mean(found) - 1) < 4 * np.std(found) / 20 < 0.03
