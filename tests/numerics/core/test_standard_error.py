"""Standard errors of few values."""

import math

import numpy as np
import pytest

from attnlimits.numerics.core.standard_error import SIGMAS, standard_error, student


def test_the_factor_falls_to_one() -> None:
    factors = [student(n) for n in (2, 3, 4, 8, 16, 64, 1000)]
    assert factors[0] > 40 and 1 <= factors[-1] < 1.01
    assert factors == sorted(factors, reverse=True)


@pytest.mark.parametrize("count", [2, 3, 4, 8, 32])
def test_three_errors_of_a_normal_mean_hold_as_often(count: int, rng: np.random.Generator) -> None:
    trials = 40_000
    values = rng.standard_normal((count, trials))
    missed = (np.abs(values.mean(axis=0)) > SIGMAS * standard_error(values)).mean()
    expected = math.erfc(SIGMAS / math.sqrt(2))
    assert abs(missed - expected) < 5 * math.sqrt(expected / trials)


def test_one_value_has_none() -> None:
    assert np.isnan(standard_error(np.ones((1, 2, 2)))).all() and standard_error(np.ones((1, 2, 2))).shape == (2, 2)
