"""Nodes of h_1 about omega_1: the slopes that set their steps, and what they integrate."""

import mpmath
import numpy as np
import pytest

from attnlimits.generated.attention_tied_softmax_m2 import mp
from attnlimits.numerics.channel.two_layers.nodes import around


def entries(rho, w):
    """S and T at beta = 1, by the derived kernel."""
    z = mpmath.sqrt(rho)
    _, s, _, t = mp.layer(mpmath.mp, w / z, z, 1, 1)
    return s, t - 1


@pytest.mark.parametrize(("rho", "w"), [(0.3, 0.2), (2.0, -1.5), (0.7, 3.0)])
def test_slopes_of_the_mixing_function_are_polynomials_in_it(rho, w):
    """dS/dw = dT/drho = (1 - S^2 - T^2)/2, dS/drho = dT/dw = -S T."""
    with mpmath.workdps(40):
        at = (mpmath.mpf(rho), mpmath.mpf(w))
        S, T = entries(*at)
        slopes = [mpmath.mp.diff(lambda *x, k=k: entries(*x)[k], at, n) for k in (0, 1) for n in ((0, 1), (1, 0))]
        own, mixed = (1 - S * S - T * T) / 2, -S * T
        for found, expected in zip(slopes, (own, mixed, mixed, own), strict=True):
            assert abs(found - expected) < mpmath.mpf(10) ** -12


@pytest.mark.parametrize("variance", [0.9, 0.05, 1e-3])
@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.2, 3.0), (10.0, 0.5)])
def test_moments_of_the_gaussian_and_of_the_mixing(skip, beta, variance):
    """E 1, E x, E z, the variances, and E tau beside that of the closest nodes."""
    centre = np.array([0.4, -0.7])
    nodes, fine = (around(skip, beta, centre, variance, accuracy) for accuracy in (16.0, 24.0))
    assert nodes.weight.sum() == pytest.approx(1, abs=1e-6)
    for values, mean in ((nodes.x, 0.4), (nodes.z, -0.7)):
        assert nodes.weight @ values == pytest.approx(mean, abs=1e-6)
        assert nodes.weight @ (values - mean) ** 2 == pytest.approx(variance, rel=2e-5)
    for found, expected in ((nodes.tau, fine.tau), (nodes.a, fine.a)):
        assert nodes.weight @ found == pytest.approx(fine.weight @ expected, rel=1e-4, abs=1e-5)
