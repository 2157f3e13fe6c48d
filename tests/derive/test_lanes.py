"""Vectors inside compiled loops: the arithmetic is that of numbers, and the exponential as good as theirs."""

import numpy as np
import pytest
from numba import njit

from attnlimits.generated import lanes


@njit(cache=True)
def _powers(x, out):
    for k in range(0, x.size, lanes.LANES):
        lanes.store(out, k, lanes.exp2_fast(lanes.load(x, k)))


@njit(cache=True)
def _operations(x, y, number, out):
    for k in range(0, x.size, lanes.LANES):
        a, b = lanes.load(x, k), lanes.load(y, k)
        total = lanes.fill(number)
        total += a * b
        total -= number / a
        total *= -b
        total /= 1.0 + number * (a - number)
        lanes.store(out, k, lanes.where_less(a, b, total, number))


def _exp2(x):
    whole = np.append(x, np.zeros(-x.size % lanes.LANES))
    out = np.empty_like(whole)
    _powers(whole, out)
    return out[: x.size]


def test_powers_of_two_are_within_two_ulp(context, rng):
    ctx = context(40)
    halves = np.arange(-20, 21) + 0.5
    x = np.concatenate(
        [
            np.linspace(-1020, 1020, 2001),
            rng.uniform(-1020, 1020, 2000),
            rng.uniform(-1, 1, 1000),
            # Where the reduction switches to the next power of two.
            *(halves, np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf)),
            np.array([0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e-17, -1e-17]),
        ]
    )
    exact = [ctx.mpf(2) ** ctx.mpf(value) for value in x]
    off = [
        abs(float(value - wanted)) / np.spacing(float(wanted)) for value, wanted in zip(_exp2(x), exact, strict=True)
    ]
    assert max(off) <= 2.0


def test_outside_the_range_powers_clamp_and_nan_stays():
    made = _exp2(np.array([-np.inf, -1e300, -1021.0, 1021.0, 1e300, np.inf, np.nan]))
    low, high = 2.0**-1020, 2.0**1020
    np.testing.assert_array_equal(made[:6], [low, low, low, high, high, high])
    assert np.isnan(made[6])


@pytest.mark.parametrize("number", [0.75, -2.5])
def test_operations_are_those_of_numbers(number, rng):
    x, y = rng.uniform(1.0, 3.0, size=(2, 5 * lanes.LANES))
    out = np.empty_like(x)
    _operations(x, y, number, out)
    wanted = (number + x * y - number / x) * -y / (1.0 + number * (x - number))
    # A product and a sum may be one operation with one rounding.
    np.testing.assert_allclose(out, np.where(x < y, wanted, number), rtol=1e-13)
