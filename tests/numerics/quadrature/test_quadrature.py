"""Quadrature rules: the degree they claim, the rate they converge at, and what they refuse."""

import math

import numpy as np
import pytest

from attnlimits.numerics.quadrature.rules import (
    Chebyshev,
    gauss_hermite,
    gauss_legendre_panels,
    gaussian,
    normal_qmc,
    refine,
    sinh_trapezoid,
    tanh_sinh,
    trapezoid,
)

EPS = np.finfo(float).eps


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_gauss_hermite_is_exact_to_its_degree_and_no_further(n: int) -> None:
    rule = gauss_hermite(n)
    assert rule.exact_to == 2 * n - 1
    for degree in range(0, 2 * n + 1, 2):
        moment = math.prod(range(1, degree, 2))  # (degree - 1)!!
        off = abs(rule.integrate(lambda x, k=degree: x**k) - moment) / moment
        if degree <= rule.exact_to:
            assert off < 200 * EPS  # n products and sums of positive terms
        else:
            # the error of the first degree missed is n!/(2n - 1)!! of the moment
            assert off == pytest.approx(math.factorial(n) / moment, rel=1e-9)
    assert abs(rule.integrate(lambda x: x**3)) < 1e-13


@pytest.mark.parametrize("n", [1, 3, 8])
def test_gauss_legendre_is_exact_per_panel(n: int) -> None:
    edges = np.array([-1.0, 0.25, 2.0])
    rule = gauss_legendre_panels(edges, n)
    assert rule.nodes.size == 2 * n
    for degree in range(2 * n + 1):
        exact = (2.0 ** (degree + 1) - (-1.0) ** (degree + 1)) / (degree + 1)
        off = abs(rule.integrate(lambda x, k=degree: x**k) - exact) / abs(exact)
        assert (off < 200 * EPS) == (degree <= rule.exact_to)


def test_trapezoid_converges_at_the_rate_of_its_nearest_pole() -> None:
    # exp(-x^2/2)/(1 + x^2) has poles at +-i with residues sqrt(e)/(2i): the error is 2 pi sqrt(e)/(exp(2 pi/step) - 1),
    # up to the Gaussian's own exp(-2 pi^2/step^2).
    exact = math.pi * math.exp(0.5) * math.erfc(math.sqrt(0.5))
    for step in (0.8, 0.5, 0.3):
        off = trapezoid(-14.0, 14.0, step).integrate(lambda x: gaussian(x) / (1 + x * x)) - exact
        assert off == pytest.approx(2 * math.pi * math.exp(0.5) / math.expm1(2 * math.pi / step), rel=1e-4)


def test_trapezoid_nodes_are_multiples_of_the_step_inside() -> None:
    rule = trapezoid(-0.35, 0.52, 0.1)
    np.testing.assert_allclose(rule.nodes, np.arange(-3, 6) * 0.1, atol=1e-15)
    assert rule.exact_to is None


def test_sinh_trapezoid_sees_all_scales() -> None:
    # An even function with a peak of width 1e-6 and one of width 1.
    exact = math.sqrt(math.pi / 2) * (1 + 1e-6 * 1e4)
    rule = sinh_trapezoid(1e-6, 9.0, 0.1)
    value = rule.integrate(lambda x: gaussian(x) + 1e4 * gaussian(x / 1e-6))
    assert value == pytest.approx(exact, rel=1e-12)  # strip pi/2: exp(-2 pi (pi/2)/0.1) is far below
    assert rule.nodes.size < 200


def test_tanh_sinh_does_not_mind_endpoint_singularities() -> None:
    rule = tanh_sinh(0.05)
    # Near an end the distance 1 - |x| keeps only the digits of float64: sqrt(eps) of the weight is lost there.
    assert rule.integrate(lambda x: np.sqrt(np.maximum(1 - x * x, 0))) == pytest.approx(math.pi / 2, abs=1e-13)
    inside = rule.nodes[np.abs(rule.nodes) < 1]
    assert inside.size > 50
    assert rule.integrate(lambda x: np.where(np.abs(x) < 1, 1 / np.sqrt(np.maximum(1 - x * x, 1e-300)), 0)) == (
        pytest.approx(math.pi, abs=1e-6)
    )


def test_chebyshev_compresses_a_measure() -> None:
    grid = Chebyshev(24, -1.0, 3.0)
    points = np.random.default_rng(3).uniform(-1, 3, 500)
    mass = np.random.default_rng(4).uniform(0, 1, 500)
    weights = grid.weights(grid.polynomials(points) @ mass)
    for power in range(24):
        # exact for polynomials below the number of nodes; 3^power sets the scale
        assert weights @ grid.nodes**power == pytest.approx(mass @ points**power, rel=1e-12, abs=1e-12)
    # exp(sin x) is entire: geometric convergence, 1e-9 with 24 nodes on an interval of length 4
    assert weights @ np.exp(np.sin(grid.nodes)) == pytest.approx(mass @ np.exp(np.sin(points)), rel=1e-9)


def test_chebyshev_weights_carry_further_axes_and_converge_geometrically() -> None:
    points = np.linspace(-0.9, 0.8, 40)
    errors = []
    for n in (6, 12, 24):
        grid = Chebyshev(n, -1.0, 1.0)
        moments = np.stack([grid.polynomials(points).sum(axis=1), grid.polynomials(points**2).sum(axis=1)], axis=1)
        weights = grid.weights(moments)
        assert weights.shape == (n, 2)
        errors.append(abs(weights[:, 1] @ (1 / (1.5 - grid.nodes)) - (1 / (1.5 - points**2)).sum()))
    # pole at 1.5: Bernstein ellipse 1.5 + sqrt(1.25) = 2.6, so 2.6^-6 = 3e-3 per six nodes
    assert errors[1] < 0.02 * errors[0] and errors[2] < 1e-3 * errors[1]


def test_chebyshev_of_a_point() -> None:
    grid = Chebyshev(8, 2.0, 2.0)
    assert grid.n == 1
    np.testing.assert_array_equal(grid.nodes, [2.0])
    np.testing.assert_array_equal(grid.weights(grid.polynomials(np.full(3, 2.0)).sum(axis=1)), [3.0])


def test_gaussian_never_goes_subnormal() -> None:
    values = gaussian(np.array([0.0, 1.0, 40.0, 1e8]))
    assert values[0] == 1 and values[1] == math.exp(-0.5)
    assert (values[2:] > 1e-101).all() and (values[2:] < 1e-99).all()


def test_normal_qmc_moments_and_independence_of_generators() -> None:
    streams = np.random.default_rng(11).spawn(16)
    points = np.stack([normal_qmc(5, 12, s) for s in streams])
    assert points.shape == (16, 4096, 5)
    assert np.isfinite(points).all()
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        means = (points**power).mean(axis=1)
        sigma = means.std(axis=0, ddof=1) / 4
        # unbiased: within five standard errors of 16 randomisations (30 comparisons)
        assert (np.abs(means.mean(axis=0) - moment) < 5 * sigma + 1e-12).all()
    # far more even than independent points, whose mean would scatter by 1/64
    assert points.mean(axis=1).std() < 0.1 / 64
    mixed = (points[:, :, 0] * points[:, :, 1]).mean(axis=1)
    assert abs(mixed.mean()) < 5 * mixed.std(ddof=1) / 4
    assert not np.allclose(points[0], points[1])


def test_normal_qmc_is_reproducible() -> None:
    first = normal_qmc(3, 6, np.random.default_rng(5))
    np.testing.assert_array_equal(first, normal_qmc(3, 6, np.random.default_rng(5)))


def test_refine_stops_at_the_tolerance_and_says_what_it_did() -> None:
    seen: list[int] = []

    def value(level: int) -> float:
        seen.append(level)
        return 2.0 + 10.0 ** (-(2 ** (level + 1)))

    estimate, steps = refine(value, relative=1e-6)
    assert seen == [0, 1, 2, 3] and steps == 4  # differences 1e-2, 1e-4, 1e-8
    assert estimate.how == "estimated"
    assert abs(estimate.value - 2.0) <= estimate.error <= 1e-6 * 2.0


def test_refine_gives_the_last_difference_when_it_never_agrees() -> None:
    estimate, steps = refine(lambda level: (-1.0) ** level, relative=1e-3, first=1, last=4)
    assert steps == 4 and estimate.value == 1.0 and estimate.error == 2.0


def test_refine_claims_no_more_than_rounding_allows() -> None:
    estimate, _ = refine(lambda level: 1.0, relative=1e-15)
    assert estimate.error >= 16 * EPS


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gauss_hermite(0), "number of nodes"),
        (lambda: gauss_hermite(True), "number of nodes"),
        (lambda: gauss_hermite(2.5), "number of nodes"),
        (lambda: gauss_legendre_panels(np.array([0.0, 1.0]), 0), "number of nodes"),
        (lambda: gauss_legendre_panels(np.array([0.0]), 3), "edges"),
        (lambda: gauss_legendre_panels(np.array([0.0, 0.0]), 3), "edges"),
        (lambda: gauss_legendre_panels(np.array([1.0, 0.0]), 3), "edges"),
        (lambda: gauss_legendre_panels(np.array([0.0, np.nan]), 3), "edges"),
        (lambda: trapezoid(1.0, 0.0, 0.1), "upper > lower"),
        (lambda: trapezoid(0.0, 1.0, 0.0), "step > 0"),
        (lambda: trapezoid(0.0, math.nan, 0.1), "upper > lower"),
        (lambda: sinh_trapezoid(0.0, 1.0, 0.1), "scale"),
        (lambda: sinh_trapezoid(2.0, 1.0, 0.1), "scale"),
        (lambda: sinh_trapezoid(0.1, 1.0, -0.1), "step"),
        (lambda: tanh_sinh(0.0), "step"),
        (lambda: tanh_sinh(math.nan), "step"),
        (lambda: Chebyshev(0, 0.0, 1.0), "number of nodes"),
    ],
)
def test_bad_arguments_are_named(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
