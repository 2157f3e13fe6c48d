"""Vectors inside compiled loops: the arithmetic is that of numbers, and the exponential as good as theirs."""

import math

import numpy as np
import pytest
from numba import njit

from attnlimits.derive.emit import runtime_lanes
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


FUNCTIONS = {
    "log": (0.1, 5.0), "log1p": (-0.5, 3.0), "expm1": (-2.0, 2.0), "erf": (-2.0, 2.0), "erfc": (-2.0, 2.0),
    "sin": (-9.0, 9.0), "cos": (-9.0, 9.0), "tan": (-1.5, 1.5), "sinh": (-2.0, 2.0), "cosh": (-2.0, 2.0),
    "tanh": (-2.0, 2.0), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atan": (-9.0, 9.0), "asinh": (-9.0, 9.0),
    "acosh": (1.0, 9.0), "atanh": (-0.9, 0.9), "sqrt": (0.0, 9.0),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_lanes_are_those_of_numbers(name, rng):
    function = getattr(math, name)

    @njit
    def apply(x, out):
        lanes.store(out, 0, function(lanes.load(x, 0)))

    x, out = rng.uniform(*FUNCTIONS[name], lanes.LANES), np.empty(lanes.LANES)
    apply(x, out)
    np.testing.assert_allclose(out, [function(value) for value in x], rtol=4e-16)


@njit
def _more(x, y, out):
    a, b = lanes.load(x, 0), lanes.load(y, 0)
    for place, value in enumerate(
        (abs(a), abs(a) ** 0.25, lanes.exp_lanes(a), lanes.smaller(a, b), lanes.larger(a, b))
    ):
        lanes.store(out, lanes.LANES * place, value)


def test_more_of_lanes_and_a_nan_stays(rng):
    x, y = rng.normal(size=(2, lanes.LANES))
    x[3] = np.nan
    out = np.empty(5 * lanes.LANES)
    _more(x, y, out)
    kept = np.where(np.isnan(x), x, y)
    for found, wanted in zip(
        out.reshape(5, -1),
        (abs(x), abs(x) ** 0.25, np.exp(x), np.fmin(x, y) + 0 * kept, np.fmax(x, y) + 0 * kept),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_what_charts_print_has_as_many_lanes():
    assert runtime_lanes.LANES == lanes.LANES
