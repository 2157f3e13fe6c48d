"""Pairs of float64 against exact rational arithmetic and mpmath."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from attnlimits.numerics.arithmetic.doubledouble import EPSILON
from attnlimits.numerics.arithmetic.pairs import Pairs, concatenate
from attnlimits.numerics.thresholds.pairs.rules import (
    Grid,
    cos_sin,
    double_exponential,
    gauss_legendre,
    gaussian,
    panels,
    pi,
    sinh_half_line,
    uniform,
)

CTX = mpmath.MPContext()
CTX.prec = 200


def random_pairs(n: int, scale: float, seed: int) -> Pairs:
    rng = np.random.default_rng(seed)
    hi = scale * rng.normal(size=n)
    return Pairs(hi, hi * 2.0**-54 * rng.uniform(-1, 1, n))


def exact(p: Pairs) -> list[Fraction]:
    return [Fraction(h) + Fraction(lo) for h, lo in zip(p.hi.ravel().tolist(), p.lo.ravel().tolist(), strict=True)]


def mp(p: Pairs) -> list:
    return [CTX.mpf(h) + CTX.mpf(lo) for h, lo in zip(p.hi.ravel().tolist(), p.lo.ravel().tolist(), strict=True)]


def test_field_operations_against_fractions() -> None:
    a, b = random_pairs(500, 3.0, 1), random_pairs(500, 1e-5, 2)
    x, y = exact(a), exact(b)
    for got, want in (
        (a + b, [p + q for p, q in zip(x, y, strict=True)]),
        (a - b, [p - q for p, q in zip(x, y, strict=True)]),
        (a * b, [p * q for p, q in zip(x, y, strict=True)]),
        (a / b, [p / q for p, q in zip(x, y, strict=True)]),
        (2.0 - a, [2 - p for p in x]),
        (1.0 / a, [1 / p for p in x]),
    ):
        assert max(abs(g / w - 1) for g, w in zip(exact(got), want, strict=True)) < EPSILON


def test_cancellation_keeps_the_last_digits() -> None:
    a = Pairs(np.array([1.0]), np.array([3e-17]))
    assert exact(a - 1.0) == [Fraction(3e-17)]
    assert exact(a + (-a)) == [0]


def test_functions_against_mpmath() -> None:
    x = random_pairs(400, 60.0, 3)
    assert max(abs(g / CTX.exp(w) - 1) for g, w in zip(mp(x.exp()), mp(x), strict=True)) < EPSILON
    square = x * x
    assert max(abs(g / CTX.sqrt(w) - 1) for g, w in zip(mp(square.sqrt()), mp(square), strict=True)) < EPSILON
    # absolute: a logarithm near zero inherits the rounding of exp
    assert max(abs(g - CTX.log(w)) for g, w in zip(mp(square.log()), mp(square), strict=True)) < 40 * EPSILON
    assert exact(Pairs(np.array([-1e4, -700.0, -600.5])).exp()) == [0, 0, 0]


def test_reductions_and_exact_numbers() -> None:
    a = random_pairs(37, 1.0, 4)
    assert abs(a.sum().fraction() - sum(exact(a))) < 37 * EPSILON
    assert Pairs(np.zeros(0)).sum().fraction() == 0
    assert abs(Pairs.exact(Fraction(1, 10)).fraction() - Fraction(1, 10)) < Fraction(EPSILON) / 10
    assert exact(concatenate([a[:5], a[5:]])) == exact(a)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_gauss_legendre_is_exact_to_its_degree(n: int) -> None:
    rule = gauss_legendre(n)
    power = Pairs(np.ones(n))
    for degree in range(2 * n):
        value = float((rule.weights * power).sum().fraction() - (Fraction(2, degree + 1) if degree % 2 == 0 else 0))
        # the weights carry 1/(1 - x^2), which loses three digits at the ends
        assert abs(value) < 2e-28
        power = power * rule.nodes


def test_rules_integrate_the_gaussian() -> None:
    """The rules err by exp(-2 pi d/step) with d >= pi/4, below 1e-40 at these steps; the cuts are below 1e-30."""
    root = CTX.sqrt(CTX.pi / 2)
    for rule, moment in (
        (panels(np.array([0.0, 1.0, 2.5, 4.0, 6.0, 9.0, 12.5]), 32), 0),
        (sinh_half_line(0.3, 13.0, 0.03), 0),
        (double_exponential(1e-12, 13.0, 0.05), 2),
    ):
        value = (gaussian(rule.nodes) * rule.weights * (rule.nodes * rule.nodes if moment else 1.0)).sum()
        assert abs(mp(value)[0] / root - 1) < 1e-28
    whole = uniform(-13.0, 13.0, 0.25)
    assert abs(mp((gaussian(whole.nodes) * whole.weights).sum())[0] / (2 * root) - 1) < 1e-30
    c, s = cos_sin(pi() * np.array([0.25, 0.3]))
    assert np.abs((c * c + s * s - 1.0).hi).max() < EPSILON


def test_grid_weights_reproduce_a_measure() -> None:
    """Two point masses compressed to 30 nodes: exp is integrated to the decay of its Chebyshev coefficients, 1e-30."""
    grid = Grid(30, Pairs(-0.5), Pairs(2.0))
    moments = np.array([[np.cos(k * np.arccos(z)) for k in range(30)] for z in (0.0, 1.0)]).sum(axis=0)
    weights = grid.weights(Pairs(np.round(moments).reshape(-1, 1)))[:, 0]
    value = (weights * grid.nodes.exp()).sum()
    want = CTX.exp(CTX.mpf("0.75")) + CTX.exp(2)
    assert abs(mp(value)[0] / want - 1) < 1e-28
