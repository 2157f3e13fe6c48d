"""Links of one entry whose regions are no intervals that derivation knows, but where polynomials have a sign."""

import math
from itertools import product

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.channel.link.channel import LinkChannel

ROOTS = np.sqrt([2 - math.sqrt(3), 2 + math.sqrt(3)])


def average(text: str, q: float) -> tuple[float, float]:
    channel = LinkChannel(al.Link(text).kernel, samples=256, replicas=4, rng=np.random.default_rng(0))
    found = channel(np.array([[q]]))
    value, half = found.g.mean(axis=0)[0, 0], 0.5 * abs(found.g[1, 0, 0] - found.g[0, 0, 0])
    return float(value), float(half + found.bias[0, 0])


def omegas(q: float) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.hermite_e.hermegauss(120)
    return math.sqrt(q) * x, w / w.sum()


@pytest.mark.parametrize("q", [0.1, 0.4, 0.8])
def test_a_sign_of_a_quartic_is_a_union_of_intervals(q):
    # h^4 - 4 h^2 + 1 < 0 between the roots 2 -+ sqrt(3) of h^2.
    omega, weight = omegas(q)
    h, v = np.linspace(-9, 9, 90_001), 1 - q
    inside = (np.abs(h) > ROOTS[0]) & (np.abs(h) < ROOTS[1])
    density = np.exp(-0.5 * (h - omega[:, None]) ** 2 / v)
    density /= density.sum(axis=1, keepdims=True)
    exact = 0.0
    for region in (inside, ~inside):
        mass = np.maximum((density * region).sum(axis=1), 1e-300)
        mean = (density * region * h).sum(axis=1) / mass
        exact += weight @ (mass * ((mean - omega) / v) ** 2)
    found, error = average("sign(h[1]**4 - 4*h[1]**2 + 1)", q)
    assert error < 1e-6
    assert found == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("q", [0.1, 0.5])
def test_the_modulus_of_a_quartic_has_up_to_eight_branches(q):
    # h^2 = 2 -+ sqrt(3 -+ y).
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    weight, v = weight / weight.sum(), 1 - q
    h = np.linspace(-6, 6, 24_001) + 1e-5
    omega = q * h[:, None] + math.sqrt(q * v) * x
    y = np.abs(h**4 - 4 * h**2 + 1)
    first, zero = np.zeros_like(omega), np.zeros_like(omega)
    for a, b, c in product((1, -1), repeat=3):
        with np.errstate(invalid="ignore"):
            root = c * np.sqrt(2 + b * np.sqrt(3 + a * y))
        there = np.isfinite(root)
        root = np.where(there, root, 0.0)[:, None]
        slope = np.maximum(np.abs(4 * root**3 - 8 * root), 1e-12)
        likely = there[:, None] * np.exp(-0.5 * (root - omega) ** 2 / v) / slope
        first += likely * root
        zero += likely
    density = np.exp(-0.5 * h * h)
    exact = float(density @ ((first / zero - omega) / v) ** 2 @ weight / density.sum())
    found, error = average("Abs(h[1]**4 - 4*h[1]**2 + 1)", q)
    assert found == pytest.approx(exact, rel=3e-4)
    assert error < 1e-5
