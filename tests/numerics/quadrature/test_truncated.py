"""Gauss rules for a normal variable within an interval."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from attnlimits.numerics.quadrature.truncated import truncated_normal


def _moment(x: float, power: int) -> float:
    return x**power * math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(("low", "high"), [(0.0, 8.8), (-8.8, 8.8), (-0.3, 0.4), (2.0, 2.5), (-8.8, -1.0)])
def test_polynomials_are_exact(low: float, high: float) -> None:
    rule = truncated_normal(low, high, 6)
    assert rule.exact_to == 11
    assert ((rule.nodes > low) & (rule.nodes < high)).all()
    for power in range(12):
        exact = quad(_moment, low, high, args=(power,), epsabs=1e-12, points=[0.0] if low < 0 < high else None)[0]
        size = rule.weights @ np.abs(rule.nodes) ** power
        assert rule.weights @ rule.nodes**power == pytest.approx(exact, rel=1e-11, abs=1e-12 * size)


@pytest.mark.parametrize("known", [0.05, 0.3, 0.6, 0.9, 0.98, 0.995])
def test_half_a_normal_law_blurred_by_what_is_left(known: float) -> None:
    # The finest step of rules over fibres, and two nodes for each of its inverse.
    left, xi = 1 - known, np.linspace(-6, 6, 49)
    finer = 2 ** (0.5 * max(0, math.ceil(-math.log2(left / known))))
    rule = truncated_normal(0.0, 8.8, math.ceil(2 * finer / (0.36 * 0.33)))
    exact = np.exp(-0.5 * xi**2) / math.sqrt(2 * math.pi) * ndtr(math.sqrt(known / left) * xi)
    z = (xi[:, None] - math.sqrt(known) * rule.nodes) / math.sqrt(left)
    found = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi * left) @ rule.weights
    assert np.abs(found - exact).max() < 1e-13
