"""State evolution of one layer: posterior means, averages, thresholds and fixed points, each by two routes."""

import math

import numpy as np
import pytest
import sympy as sp
from numpy.typing import NDArray
from scipy.stats import ortho_group

from attnlimits.numerics.channel.fibre import TiedLayer, UntiedLayer
from attnlimits.numerics.channel.one_layer import OneLayer
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.fibre_means import tied_mean, untied_mean
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.quadrature.rotations import mean_rotation
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds.exact import single_layer

from ..posterior.weak_recovery import weak_recovery_threshold

Array = NDArray[np.float64]


def points(dimension: int, log2_n: int = 7, replicas: int = 8, seed: int = 0) -> list[Array]:
    return [normal_qmc(dimension, log2_n, s) for s in np.random.default_rng(seed).spawn(replicas)]


def apart(a: Array, b: Array) -> float:
    """Difference of two sets of replica means over its standard error."""
    return float(abs(a.mean() - b.mean()) / math.hypot(a.std(ddof=1), b.std(ddof=1)) * math.sqrt(len(a)))


# --- rotations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
def test_mean_rotation_against_random_rotations(size: int) -> None:
    rng = np.random.default_rng(size)
    field = rng.standard_normal((size, size))
    if size == 1:
        sample = rng.choice([-1.0, 1.0], size=(200_000, 1, 1))
    else:
        sample = ortho_group.rvs(size, size=200_000, random_state=rng)
    weight = np.exp(np.einsum("ij,nij->n", field, sample))
    log_c, mean = mean_rotation(field)
    relative = weight.std() / weight.mean() / math.sqrt(len(weight))
    assert abs(math.log(weight.mean()) - log_c) < 5 * relative
    np.testing.assert_allclose(np.einsum("n,nij->ij", weight, sample) / weight.sum(), mean, atol=8 * relative)


@pytest.mark.parametrize("values", [(0.0, 0.0, 0.0), (2.0, 1.0, 0.5), (40.0, 3.0, 0.1), (1e3, 1e3, 5.0)])
def test_mean_rotation_is_the_slope_of_the_log(values: tuple[float, ...]) -> None:
    """Of sizes 2 and 3, at singular values from 0 to narrow peaks; central differences."""
    for size in (2, 3):
        field = np.diag(values[:size])
        _, mean = mean_rotation(field)
        step = 1e-3 * max(1.0, math.sqrt(values[0]))
        for i in range(size):
            moved = np.zeros((size, size))
            moved[i, i] = step
            slope = (mean_rotation(field + moved)[0] - mean_rotation(field - moved)[0]) / (2 * step)
            assert abs(slope - mean[i, i]) < 1e-6


def test_mean_rotation_turns_with_its_field() -> None:
    rng = np.random.default_rng(5)
    for size in (2, 3):
        field = 3 * rng.standard_normal((size, size))
        left, right = ortho_group.rvs(size, size=2, random_state=rng)
        log_c, mean = mean_rotation(field)
        turned_c, turned = mean_rotation(left @ field @ right)
        assert abs(log_c - turned_c) < 1e-12
        np.testing.assert_allclose(turned, left @ mean @ right, atol=1e-12)


# --- posterior means --------------------------------------------------------------------------------------------


def drawn(rng: np.random.Generator, tokens: int, covariance: Array) -> tuple[Array, Array]:
    """One h ~ N(omega, V) with omega ~ N(0, I - V)."""
    size = len(covariance)
    omega = np.linalg.cholesky(np.eye(size) - covariance + 1e-14 * np.eye(size)) @ rng.standard_normal(
        (1, size, tokens)
    )
    return omega, omega + np.linalg.cholesky(covariance) @ rng.standard_normal((1, size, tokens))


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize(
    ("tokens", "rank", "variance"), [(3, 1, 0.1), (2, 2, 0.1), (3, 2, 0.3), (2, 3, 0.5), (3, 3, 0.7)]
)
def test_tied_mean_is_that_of_the_fibre(tokens: int, rank: int, variance: float, activation: str) -> None:
    layer = Network(1, tokens, rank, activation=activation)
    omega, h = drawn(np.random.default_rng(10 * tokens + rank), tokens, variance * np.eye(rank))
    expected = fibre_moments(layer, layer.link(h[0]), omega[0], variance * np.eye(rank), tol=1e-8).mean
    np.testing.assert_allclose(tied_mean(layer, h, omega, variance)[0], expected, atol=1e-7)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("V", [[[1.0, 0.0], [0.0, 1.0]], [[0.3, 0.1], [0.1, 0.5]], [[1e-3, 0.0], [0.0, 0.9]]])
def test_untied_mean_is_that_of_the_fibre(V: list[list[float]], activation: str) -> None:
    covariance = np.array(V)
    rng = np.random.default_rng(3)
    for tokens in (2, 3):
        layer = Network(1, tokens, 1, activation=activation, tied=False)
        omega, h = drawn(rng, tokens, covariance)
        expected = fibre_moments(layer, layer.link(h[0]), omega[0], covariance, tol=1e-9).mean
        np.testing.assert_allclose(untied_mean(layer, h, omega, np.linalg.inv(covariance))[0], expected, atol=1e-6)


def test_means_where_the_prior_is_narrow_stay_at_the_truth() -> None:
    """At V = 1e-8 the fibre meets the prior in one place: E[h|y] is within some sqrt(V) of h."""
    rng = np.random.default_rng(8)
    for rank, tokens in ((2, 2), (2, 3), (3, 4)):
        omega, h = drawn(rng, tokens, 1e-8 * np.eye(rank))
        assert np.abs(tied_mean(Network(1, tokens, rank), h, omega, 1e-8) - h).max() < 1e-3
    omega, h = drawn(rng, 3, 1e-8 * np.eye(2))
    for activation in ("softmax", "linear"):
        found = untied_mean(Network(1, 3, 1, activation=activation, tied=False), h, omega, 1e8 * np.eye(2))
        assert np.abs(found - h).max() < 1e-3


# --- averages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [2, 3])
def test_one_layer_has_all_digits_at_small_overlaps(tokens: int) -> None:
    """Against E |h|^2 tanh^2(omega.h/V) - M q by powers of q up to the third; it is of the order of q itself."""
    r, z, root, q = sp.symbols("r z root q")
    h = r + root * z
    field = r * h / root**2
    squares = h**2 + root**2 * (tokens - 1)
    terms = sp.Poly(
        sp.expand(squares * (field**2 - sp.Rational(2, 3) * field**4 + sp.Rational(17, 45) * field**6)), r, z
    )
    mean = sum(
        coefficient * q ** sp.Rational(k, 2) * _chi_moment(tokens, k) * _normal_moment(n)
        for (k, n), coefficient in terms.terms()
    )
    series = sp.series((mean - tokens * q).subs(root, sp.sqrt(1 - q)) / (1 - q) ** 2, q, 0, 4).removeO()
    for at in (1e-9, 1e-7, 1e-6):
        expected = float(series.subs(q, at))
        found = OneLayer(Network(1, tokens))(np.array([[at]]))
        error = float(np.ptp(found.g) / 2 + found.bias[0, 0])
        # The next power has a coefficient of some thousands.
        assert abs(float(found.g.mean()) - expected) <= error + 1e4 * at**4
        assert error < 3e-14 * expected


def test_one_layer_by_both_sums() -> None:
    """Where |h|^2 sech^2 takes the place of |h|^2 tanh^2 the averages go on along a line."""
    channel = OneLayer(Network(1))
    left, middle, right = (float(channel(np.array([[0.2 + step]])).g.mean()) for step in (-1e-6, 0.0, 1e-6))
    assert 0.5 * (left + right) == pytest.approx(middle, rel=1e-10)
    assert right - left == pytest.approx(2e-6 * middle / 0.2, rel=0.5)


def _normal_moment(n: int) -> sp.Expr:
    """E z^n."""
    return sp.factorial2(n - 1) if n % 2 == 0 and n else sp.Integer(n == 0)


def _chi_moment(size: int, n: int) -> sp.Expr:
    """E rho^n of the norm of so many normal variables."""
    return sp.Integer(2) ** sp.Rational(n, 2) * sp.gamma(sp.Rational(size + n, 2)) / sp.gamma(sp.Rational(size, 2))


@pytest.mark.parametrize("q", [0.05, 0.6, 0.97])
def test_rank_one_by_two_routes(q: float) -> None:
    """Sampled by the fibre, and by the quadrature of `OneLayer`."""
    sampled = TiedLayer(Network(1, 3), points(6, 9))(np.array([[q]])).g[:, 0, 0]
    exact = OneLayer(Network(1, 3))(np.array([[q]])).g[0, 0, 0]
    sigma = sampled.std(ddof=1) / math.sqrt(8)
    assert abs(sampled.mean() - exact) < 5 * sigma  # Student, 7 degrees: p = 0.002
    assert sigma < 0.02 * exact


@pytest.mark.parametrize(("tokens", "rank", "activation"), [(3, 2, "softmax"), (2, 2, "softmax"), (3, 3, "linear")])
def test_slope_of_the_tied_average_at_zero_is_the_exact_operator(tokens: int, rank: int, activation: str) -> None:
    averages = TiedLayer(Network(1, tokens, rank, activation=activation), points(2 * rank * tokens, 10))
    exact = single_layer(tokens, rank, activation)
    assert exact is not None and exact.value is not None
    zero = averages(np.zeros((rank, rank)))
    assert not zero.g.any() and zero.growth[0, 0] == pytest.approx(1 / float(exact.value))
    s = 0.01
    slope = averages(s * np.eye(rank)).g[:, 0, 0] / s
    # G = lambda s + O(s^2), the second order of the size of lambda^2 s^2.
    assert slope.mean() == pytest.approx(1 / float(exact.value), rel=0.1)
    assert slope.std(ddof=1) / math.sqrt(8) < 0.05 * slope.mean()


@pytest.mark.slow_for("linear")
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_slope_of_the_untied_average_at_zero_is_the_exact_operator(activation: str) -> None:
    layer = Network(1, 2, 1, activation=activation, tied=False)
    exact = single_layer(2, 1, activation, False)
    assert exact is not None and exact.value is not None
    averages = UntiedLayer(layer, points(8, 9))
    direction = np.diag(exact.direction)
    s = 0.01
    slope = np.einsum("rij,ij->r", averages(s * direction).g, direction) / s
    assert slope.mean() == pytest.approx(1 / float(exact.value), rel=0.1)
    sampled = weak_recovery_threshold(layer, rng=4, log2_samples=4)
    assert averages(np.zeros((2, 2))).growth[0, 0] == pytest.approx(
        1 / sampled.value, rel=6 * sampled.error / sampled.value
    )


@pytest.mark.parametrize(
    ("tokens", "rank", "activation", "seen"),
    [(3, 2, "softmax", 5), (2, 2, "softmax", 2), (4, 3, "linear", 9), (2, 3, "linear", 3), (3, 1, "softmax", 3)],
)
def test_narrow_priors_count_the_equations(tokens: int, rank: int, activation: str, seen: int) -> None:
    """As V -> 0 every equation that y gives has its full weight: V tr G -> r M - dimension of the fibre."""
    averages = TiedLayer(Network(1, tokens, rank, activation=activation), points(2 * rank * tokens, 9))
    g = averages((1 - 1e-6) * np.eye(rank)).g
    counted = 1e-6 * np.trace(g, axis1=1, axis2=2)
    sigma = counted.std(ddof=1) / math.sqrt(8)
    assert abs(counted.mean() - seen) < 5 * sigma + 1e-6 and sigma < 0.05 * seen


def test_untied_average_with_correlated_overlaps() -> None:
    """Nishimori's identities E g g^T = E g u^T, u = V^{-1}(h - omega), and E g = 0, at a full q."""
    layer = Network(1, 3, 1, activation="softmax", tied=False)
    q = np.array([[0.5, 0.2], [0.2, 0.4]])
    precision = np.linalg.inv(np.eye(2) - q)
    normals = np.concatenate(points(12, 9)).reshape(-1, 2, 2, 3)
    omega = np.linalg.cholesky(q) @ normals[:, 0]
    h = omega + np.linalg.cholesky(np.eye(2) - q) @ normals[:, 1]
    g = precision @ (untied_mean(layer, h, omega, precision) - omega)
    u = precision @ (h - omega)
    expected = UntiedLayer(layer, points(12, 9, seed=5))(q).g.mean(axis=0)
    for other in (g, u):
        value = (g @ np.swapaxes(other, 1, 2)).mean(axis=0)
        np.testing.assert_allclose(0.5 * (value + value.T), expected, atol=0.05 * expected.max())
    # mean of 4096 values with a standard deviation of about 1
    np.testing.assert_allclose(g.mean(axis=0), 0, atol=0.1)


def test_linear_attention_does_not_tell_keys_from_queries() -> None:
    averages = UntiedLayer(Network(1, 2, 1, activation="linear", tied=False), points(8, 9))
    first, second = averages(np.diag([0.6, 0.3])).g, averages(np.diag([0.3, 0.6])).g
    assert not first[:, 0, 1].any()
    assert apart(first[:, 0, 0], second[:, 1, 1]) < 5 and apart(first[:, 1, 1], second[:, 0, 0]) < 5


# --- fixed points -----------------------------------------------------------------------------------------------


# Fixed points of untied layers are in tests/calibration, too.
@pytest.mark.slow_for("untied")
@pytest.mark.parametrize(
    "model", [Network(1, 3, 2), Network(1, 2, 1, activation="softmax", tied=False)], ids=["tied rank 2", "untied"]
)
def test_overlap_starts_at_the_exact_threshold(model: Network) -> None:
    tied = model.tied
    exact = single_layer(model.tokens, model.indices if tied else 1, "softmax", tied)
    assert exact is not None and exact.value is not None
    critical = float(exact.value)
    below = evolve(model, 0.95 * critical, samples=64)
    assert below.converged and not below.overlap.any()
    np.testing.assert_allclose(below.stability, 0.95, rtol=1e-12)
    low, high = (evolve(model, 1.5 * critical, samples=128, start=start) for start in ("uninformed", "informed"))
    for result in (low, high):
        assert result.converged and (result.overlap.diagonal() > 0.05).all()
        assert (result.overlap_error.diagonal() < 0.1).all() and np.isnan(result.stability).all()
    spread = 3 * np.hypot(low.overlap_error, high.overlap_error) + 1e-4
    assert (np.abs(low.overlap - high.overlap) <= spread).all()
    if tied:
        assert low.overlap[0, 0] == low.overlap[1, 1] and low.overlap_error[0, 0] == low.overlap_error[1, 1]
    assert low.prediction_error.value < below.prediction_error.value


def test_what_is_refused() -> None:
    with pytest.raises(KernelNotFoundError, match="attention of the last layer as output"):
        evolve(Network(3, 3, output="sequence"), 0.2)
    with pytest.raises(ValueError, match="multiple of the identity"):
        evolve(Network(1, 3, 2), 0.2, start=np.diag([0.1, 0.2]), samples=16)
