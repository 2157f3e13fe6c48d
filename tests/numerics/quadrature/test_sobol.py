"""Sobol points against those of SciPy."""

import numpy as np
import pytest
from scipy.stats import qmc

from attnlimits.numerics.quadrature.sobol import sobol


@pytest.mark.parametrize("dimension", [1, 2, 3, 12, 32, 33])
@pytest.mark.parametrize("count", [1, 2, 64, 4096])
def test_points_are_those_of_scipy(dimension, count):
    ours, theirs = np.random.default_rng(dimension), np.random.default_rng(dimension)
    for _ in range(2):  # the generator goes on in the same way
        np.testing.assert_array_equal(sobol(dimension, count, ours), qmc.Sobol(dimension, rng=theirs).random(count))


def test_counts_without_balance_are_refused():
    for count in (0, 3, 2**31):
        with pytest.raises(ValueError, match="powers of two"):
            sobol(2, count, np.random.default_rng(0))
