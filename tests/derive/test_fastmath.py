import re

import numpy as np
import pytest
from numba import njit

from attnlimits.derive.emit.polynomial import exponential_coefficients, exponential_error
from attnlimits.generated import fastmath, lanes
from attnlimits.generated.attention_tied_linear_m2 import numba64 as linear
from attnlimits.generated.attention_tied_softmax_m2 import numba64 as softmax


def _points():
    rng = np.random.default_rng(123)
    halves = (np.arange(-20, 21) + 0.5) * np.log(2)
    return np.concatenate(
        [
            np.linspace(-708, 709, 2001),
            rng.uniform(-708, 709, 2000),
            rng.uniform(-1, 1, 1000),
            # Where the reduction switches to the next power of two.
            halves,
            np.nextafter(halves, np.inf),
            np.nextafter(halves, -np.inf),
            np.array([0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e-17, -1e-17, -708.0, 709.0]),
        ]
    )


def _ulps(values, exact):
    return max(
        abs(float(value - wanted)) / np.spacing(abs(float(wanted))) for value, wanted in zip(values, exact, strict=True)
    )


def test_exponential_is_within_two_ulp(context):
    ctx = context(40)
    x = _points()
    assert _ulps(fastmath.exp_array(x), [ctx.exp(ctx.mpf(value)) for value in x]) <= 2.0


def test_exponential_minus_one_is_within_three_ulp(context):
    ctx = context(40)
    x = _points()
    assert _ulps(fastmath.expm1_array(x), [ctx.expm1(ctx.mpf(value)) for value in x]) <= 3.0


def test_outside_the_range_it_clamps_and_nan_stays():
    x = np.array([-np.inf, -1e300, -709.0, 710.0, 1e300, np.inf, np.nan])
    made = fastmath.exp_array(x)
    low, high = np.exp(-708.0), np.exp(709.0)
    np.testing.assert_allclose(made[:6], [low, low, low, high, high, high], rtol=1e-15)
    assert np.isnan(made[6])
    assert (fastmath.expm1_array(x)[:3] == -1.0).all()


def test_fused_products_are_left_to_the_processor():
    """A processor that has none would call the C library for each, which takes 30 times as long as all the rest."""

    @njit
    def numbers(x, out):
        for j in range(x.size):
            out[j] = fastmath.exp_fast(x[j]) + fastmath.expm1_fast(x[j])

    @njit
    def eight(x, out):
        lanes.store(out, 0, lanes.exp2_fast(lanes.load(x, 0)))

    x = np.linspace(-3, 3, lanes.LANES)
    for function, exact in ((numbers, 2 * np.exp(x) - 1), (eight, 2**x)):
        out = np.empty_like(x)
        function(x, out)
        np.testing.assert_allclose(out, exact, rtol=1e-15, atol=1e-15)
        assert not any("llvm.fma." in code for code in function.inspect_llvm().values())


def test_a_caller_with_all_fast_flags_gets_the_same_numbers():
    @njit(fastmath=True)
    def reckless(x, out):
        for j in range(x.size):
            out[j] = fastmath.exp_fast(x[j])

    x = _points()
    out = np.empty_like(x)
    reckless(x, out)
    # Reassociation may move the polynomial by a rounding; losing the two-part reduction would cost 1e-13.
    np.testing.assert_allclose(out, fastmath.exp_array(x), rtol=3e-16)


def test_coefficients_are_those_of_the_polynomial():
    made = [getattr(fastmath, f"_Q{k}") for k in range(10)]
    assert made == list(exponential_coefficients())
    # A quarter of half an ulp: the polynomial adds nothing to the rounding.
    assert exponential_error(tuple(made)) < 2.8e-17
    assert exponential_error(exponential_coefficients(10)) > 1e-16


@pytest.mark.parametrize("module", [softmax, linear], ids=["softmax", "linear"])
def test_undo_vectorises_in_a_loop(module):
    undo = module.undo

    @njit(error_model="numpy")
    def loop(xp, xm, vp, vm, c, beta, a, b, inv_det):
        for j in range(xp.size):
            a[j], b[j], inv_det[j] = undo(xp[j], xm, vp, vm, c, beta)

    xp = np.linspace(-8, 8, 64)
    out = np.empty((3, 64))
    loop(xp, 0.7, 0.3, -0.4, 1.0, 1.0, *out)
    (code,) = loop.inspect_llvm().values()
    # Divisions on vectors of doubles: the loop body was vectorised, the division of the kernel with it.
    assert re.search(r"fdiv[a-z ]* <\d+ x double>", code)
    single = np.array([undo(x, 0.7, 0.3, -0.4, 1.0, 1.0) for x in xp]).T
    np.testing.assert_allclose(out, single, rtol=1e-15, atol=1e-16)
