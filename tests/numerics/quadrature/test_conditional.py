"""Averages of functions with jumps over two correlated Gaussian variables."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from attnlimits.numerics.quadrature.conditional import Fineness, Marks, given, normal_rule, product_mean, resolved

RULE = Fineness(1.5, 13, 13.0)
NONE = np.zeros(0)


def test_polynomials_by_isserlis() -> None:
    cube, line = resolved(lambda x: x**3, NONE), resolved(lambda x: x, NONE)
    s, t, c = 0.7, 1.0, -0.4
    assert product_mean(cube, line, (s, t, c), RULE) == pytest.approx(3 * s * c, abs=1e-13)
    assert product_mean(line, cube, (s, t, c), RULE) == pytest.approx(3 * t * c, abs=1e-13)


@pytest.mark.parametrize("rho", [-0.999999, -0.3, 0.0, 0.5, 0.999999, 1.0])
def test_signs_in_closed_form(rho: float) -> None:
    sign = resolved(np.sign, np.zeros(1))
    exact = 2 * math.asin(rho) / math.pi
    for s, t in ((1.0, 1.0), (1e-6, 0.5)):
        found = product_mean(sign, sign, (s, t, rho * math.sqrt(s * t)), RULE)
        # c^2/s, which s t may exceed by a rounding, decides the sine close to one.
        assert found == pytest.approx(exact, abs=2e-15 + (5e-16 / math.sqrt(max(1e-16, 1 - rho**2))))


def test_moments_given_the_other_variable() -> None:
    step = resolved(lambda x: np.where(x > 0.3, 2.0, -1.0), np.array([0.3]))
    centres, sd = np.array([-3.0, 0.2999, 0.31, 5.0]), 0.05
    mean, variance = given(step, centres, sd, RULE)
    above = ndtr((centres - 0.3) / sd)
    assert mean == pytest.approx(3 * above - 1, abs=1e-14)
    assert variance == pytest.approx(9 * above * (1 - above), abs=1e-14)
    mean, variance = given(step, centres, 0.0, RULE)
    assert mean.tolist() == [-1, -1, 2, 2] and not variance.any()


def test_a_jump_that_is_not_named_is_found() -> None:
    step = resolved(lambda x: np.sign(x - 0.123456), NONE)
    assert np.abs(step.edges - 0.123456).min() < 3e-11
    mean, _ = given(step, np.zeros(1), 1.0, RULE)
    assert mean[0] == pytest.approx(1 - 2 * ndtr(0.123456), abs=1e-10)


def test_narrow_and_singular_functions_are_resolved() -> None:
    narrow, root = (
        resolved(lambda x: np.tanh(300 * (x - 0.2)), NONE),
        resolved(lambda x: np.sqrt(np.abs(x)), np.zeros(1)),
    )
    assert len(resolved(np.sin, NONE).edges) < 60 < len(narrow.edges) < 400
    # E tanh(300 (h - .2)): a sign, but for second moments of the width.
    second = math.pi**2 / 12 / 300**2 * 0.2 * math.exp(-0.02) / math.sqrt(2 * math.pi)
    assert given(narrow, np.zeros(1), 1.0, RULE)[0][0] == pytest.approx(1 - 2 * ndtr(0.2) + second, abs=1e-8)
    exact = 2**0.25 * math.gamma(0.75) / math.sqrt(math.pi)
    assert given(root, np.zeros(1), 1.0, RULE)[0][0] == pytest.approx(exact, abs=1e-13)


def test_rules_are_fine_about_their_marks() -> None:
    xi, w = normal_rule(RULE, (Marks(np.array([0.5]), 1e-6),))
    assert w.sum() == pytest.approx(1, abs=1e-14)
    assert w @ ndtr((xi - 0.5) / 1e-6) == pytest.approx(ndtr(-0.5), abs=1e-12)
    plain, weights = normal_rule(RULE, ())
    assert abs(weights @ ndtr((plain - 0.5) / 1e-6) - ndtr(-0.5)) > 1e-6
