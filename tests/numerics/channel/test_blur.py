"""The compiled blur of nodes against the sums that it stands for."""

import math

import numpy as np
import pytest

from attnlimits.numerics.channel.link.axes import WINDOW, Axis
from attnlimits.numerics.channel.link.blur import Grids, blur
from attnlimits.numerics.channel.link.totals import totals

EXPONENTS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 2, 0]])


@pytest.mark.parametrize("known", [(0.0, 0.0, 0.4), (0.0, 0.9, 0.02), (0.3, 0.5, 0.99)])
def test_sums_are_those_of_gaussians(known: tuple[float, ...], rng: np.random.Generator) -> None:
    axes = [Axis.of(one, 0.5) for one in known]
    ends = np.array([0, 7, 7, 40])
    # Some places are shared by neighbouring nodes.
    points = rng.standard_normal((40, 3))
    points[3:6] = points[3]
    points[20:30, 1:] = points[20, 1:]
    weight = rng.random(40)
    found = blur(ends, weight, points, Grids.of(axes, WINDOW), EXPONENTS)
    densities = [a.density(a.points, math.sqrt(a.known) * points[:, k]) for k, a in enumerate(axes)]
    for own in range(3):
        nodes = slice(ends[own], ends[own + 1])
        for k, powers in enumerate(EXPONENTS):
            factor = weight[nodes] * np.prod(points[nodes] ** powers, axis=1)
            exact = np.einsum("n,in,jn,kn->ijk", factor, *(d[:, nodes] for d in densities))
            size = np.einsum("n,in,jn,kn->ijk", np.abs(factor), *(d[:, nodes] for d in densities))
            # Beyond the window a Gaussian is below exp(-7.6^2/2) = 3e-13 of its peak, and counts as zero.
            assert np.abs(found[own, k] - exact).max() <= 1e-12 * max(size.max(), 1e-300)
            assert (np.abs(found[own, k] - exact) <= 1e-12 * size.max() + 1e-13 * size).all()


def test_totals_are_averages_of_posterior_moments(rng: np.random.Generator) -> None:
    k, n = 2, 5
    zero = rng.random((3, n))
    mean, spread = rng.standard_normal((3, k, n)), rng.random((3, k, k, n))
    second = mean[:, :, None] * mean[:, None] + spread + spread.swapaxes(1, 2)
    pairs = [(0, 0), (0, 1), (1, 1)]
    columns = [zero, *(zero * mean[:, a] for a in range(k)), *(zero * second[:, a, b] for a, b in pairs)]
    measure, weights, omega = rng.random(3), rng.random(n), rng.standard_normal((k, n))
    log_prior, left = rng.standard_normal(n), np.array([0.3, 0.7])
    score, change, log_density = totals(np.stack(columns, axis=1), measure, weights, omega, log_prior, left)
    share = measure[:, None] * weights * zero
    g = (mean - omega) / left[:, None]
    slope = (spread + spread.swapaxes(1, 2)) / np.multiply.outer(left, left)[:, :, None] - np.diag(1 / left)[:, :, None]
    slope = np.stack([slope[:, a, b] for a, b in pairs], axis=1)
    assert np.allclose(score, np.einsum("yn,yan,ybn->ab", share, g, g), rtol=1e-13)
    assert np.allclose(change, np.einsum("yn,yan,ybn->ab", share, slope, slope), rtol=1e-12)
    assert log_density == pytest.approx((share * (np.log(zero) - log_prior)).sum(), rel=1e-13)
    first = totals(np.stack(columns[: 1 + k], axis=1), measure, weights, omega, log_prior, left)
    assert (first[0] == score).all()
    assert not first[1].any()
