"""State evolution: published values, the threshold it implies, invariances, stated errors, and what it refuses."""

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import matrix_root
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.one_layer import OneLayer
from attnlimits.numerics.channel.two_layers.sampled import TwoLayers
from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError
from attnlimits.numerics.core.results import EvolutionResult
from attnlimits.numerics.fixed_point.evolve import check_overlap, curve, evolve
from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise_readout
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds.last_layer import last_layer

from ..channel.last_layer import LastLayer

pytestmark = pytest.mark.usefixtures("few_means")
Array = NDArray[np.float64]
MODEL = Network()
# The published curve (q_22 at q_11 = 0), with a Monte Carlo error of about 0.01 each.
PUBLISHED = {0.2333: 0.0736, 0.3: 0.218, 0.4: 0.499, 0.5: 0.773, 0.6333: 0.945}


@cache
def small(alpha: float, start: str = "uninformed", rng: int = 0, model: Network = MODEL) -> EvolutionResult:
    """One fixed point with few points, shared by the tests."""
    return evolve(model, alpha, start=start, samples=128, replicas=8, rng=rng, workers=1)


# --- numbers ----------------------------------------------------------------------------------------------------


def test_published_overlap_at_one_half_with_its_own_error() -> None:
    result = evolve(MODEL, 0.5, workers=1)
    assert result.converged and result.residual <= 1e-5
    assert result.overlap[1, 1] == pytest.approx(0.773, abs=0.01)
    assert 0 < result.overlap_error[1, 1] <= 2e-3
    assert result.overlap[0, 0] == result.overlap[0, 1] == 0
    assert result.stability[0] < 1 and math.isnan(result.stability[1])
    assert result.estimation_error.value == pytest.approx(1 - result.overlap[1, 1] / 2)
    assert result.estimation_error.error == pytest.approx(result.overlap_error[1, 1] / 2)


# 0.5 is that of the test above, and 0.2333 takes most of the time.
@pytest.mark.parametrize("left_out", [{0.2333, 0.5}, pytest.param({0.5}, marks=pytest.mark.slow)], ids=["some", "all"])
def test_published_curve_and_monotony(left_out: set[float]) -> None:
    seen: list[EvolutionResult] = []
    values = sorted(PUBLISHED.keys() - left_out)
    results = curve(MODEL, values, samples=512, replicas=8, workers=1, progress=seen.append)
    assert seen == results and [r.alpha for r in results] == values
    for result in results:
        assert result.converged
        q, sigma = result.overlap[1, 1], result.overlap_error[1, 1]
        assert abs(q - PUBLISHED[result.alpha]) < 3 * math.hypot(sigma, 0.01)
        assert sigma < 0.02
    for before, after in pairwise(results):
        assert after.overlap[1, 1] > before.overlap[1, 1]
        assert after.prediction_error.value < before.prediction_error.value
        assert after.plugin_error.value < before.plugin_error.value


def test_a_curve_is_made_of_single_fixed_points() -> None:
    single = evolve(MODEL, 0.4, samples=64, replicas=4, rng=7, workers=1)
    last = curve(MODEL, [0.3, 0.4], samples=64, replicas=4, rng=7, workers=1)[-1]
    # same points, another way there: up to tol/(1 - F'), and 1 - F' is about 0.3 here
    assert last.overlap[1, 1] == pytest.approx(single.overlap[1, 1], abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.185])
def test_nothing_is_learned_below_the_threshold(alpha: float) -> None:
    result = evolve(MODEL, alpha, samples=64, replicas=4, workers=1)
    assert result.converged and not result.overlap.any() and not result.overlap_error.any()
    # at zero overlap the growth rate of the last layer is alpha/alpha_c
    assert result.stability[1] == pytest.approx(alpha / float(last_layer(MODEL).value), rel=1e-5)
    assert result.stability[0] < result.stability[1] or alpha == 0
    assert result.estimation_error.value == 1 and result.estimation_error.error == 0


@pytest.mark.slow
def test_the_fixed_points_end_at_the_threshold() -> None:
    """alpha as a quadratic in the overlap q_22, extrapolated to q_22 = 0; the seeds give the scatter."""
    exact = float(last_layer(MODEL).value)
    ends = []
    for seed in range(3):
        results = curve(MODEL, [0.21, 0.235, 0.27], samples=512, replicas=8, rng=seed, workers=1)
        q = [r.overlap[1, 1] for r in results]
        ends.append(float(np.polynomial.Polynomial.fit(q, [r.alpha for r in results], 2)(0.0)))
        # d alpha/d q is about 0.7: the stated error of the lowest point covers the end
        assert abs(ends[-1] - exact) < 4 * 0.7 * results[0].overlap_error[1, 1]
    sigma = np.std(ends, ddof=1) / math.sqrt(3)
    assert sigma < 0.015 * exact
    assert abs(np.mean(ends) - exact) < 5 * math.hypot(sigma, 0.002 * exact)  # Student, 2 degrees; and the cubic term


def test_growth_of_a_small_overlap_finds_the_threshold() -> None:
    """The alpha at which one step from diag(0, delta) would give delta again, extrapolated linearly to delta -> 0."""
    exact = float(last_layer(MODEL).value)
    ends = []
    for seed in range(4):
        averages = channel(MODEL, samples=256, replicas=8, rng=np.random.default_rng(seed), workers=1)
        # The step is q -> alpha G/(1 + alpha G), and G does not depend on alpha.
        g = [averages(np.diag([0.0, delta])).g[:, 1, 1].mean() for delta in (0.04, 0.02)]
        found = [delta / (1 - delta) / value for delta, value in zip((0.04, 0.02), g, strict=True)]
        ends.append(2 * found[1] - found[0])
    sigma = np.std(ends, ddof=1) / 2
    assert sigma < 0.03 * exact  # 4 x 2048 points, and the extrapolation doubles the noise
    assert abs(np.mean(ends) - exact) < 5 * math.hypot(sigma, 0.002 * exact)  # Student, 3 degrees: p = 0.015


def test_a_step_is_that_of_its_averages() -> None:
    """q -> alpha G (I + alpha G)^{-1}, with the averages that a seed gives."""
    start = np.diag([0.0, 0.04])
    step = evolve(MODEL, 0.2, start=start, samples=64, replicas=4, max_iter=2, tol=1e-12, workers=1)
    g = channel(MODEL, samples=64, replicas=4, rng=np.random.default_rng(0), workers=1)(start).g.mean(axis=0)
    np.testing.assert_allclose(step.history[1], 0.2 * g @ np.linalg.inv(np.eye(2) + 0.2 * g), rtol=1e-9)


# --- both starts, all entries, seeds ----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.5, *(pytest.param(a, marks=pytest.mark.slow) for a in (0.3, 0.9))])
def test_informed_and_uninformed_starts_agree(alpha: float) -> None:
    # At 0.9, 32 samples leave it open whether another fixed point is above.
    samples = 128 if alpha == 0.9 else 32
    low, high = (
        evolve(MODEL, alpha, start=start, samples=samples, replicas=8, rng=0, workers=1)
        for start in ("uninformed", "informed")
    )
    assert low.converged and high.converged
    # The points are the same: up to tol/(1 - F'), and 1 - F' is about 0.3 at 0.5
    spread = 1e-4 if alpha == 0.5 else 3 * np.hypot(low.overlap_error, high.overlap_error) + 1e-4
    assert (np.abs(low.overlap - high.overlap) <= spread).all()


def test_correlated_start_loses_its_correlation() -> None:
    q0 = np.array([[0.3, 0.15], [0.15, 0.5]])
    result = evolve(MODEL, 0.5, start=q0, samples=32, replicas=8, tol=1e-4, workers=1)
    assert result.converged
    np.testing.assert_allclose(result.history[0], q0, rtol=1e-14)  # through an eigendecomposition
    plain = small(0.5)
    # the first layer is not learned at 0.5: both its overlaps die out, up to tol/(1 - F') and the noise of G
    assert abs(result.overlap[0, 1]) < 3 * result.overlap_error[0, 1] + 1e-3
    assert result.overlap[0, 0] < 0.02
    assert abs(result.overlap[1, 1] - plain.overlap[1, 1]) < 3 * math.hypot(
        result.overlap_error[1, 1], plain.overlap_error[1, 1]
    )
    for q in result.history:
        np.testing.assert_allclose(q, q.T, atol=1e-15)
        values = np.linalg.eigvalsh(q)
        assert values[0] >= -1e-15 and values[-1] < 1


def test_seeds_scatter_as_the_errors_say() -> None:
    results = [evolve(MODEL, 0.5, samples=32, replicas=8, rng=seed, workers=1) for seed in range(6)]
    q = np.array([r.overlap[1, 1] for r in results])
    sigma = np.array([r.overlap_error[1, 1] for r in results])
    pulls = (q - np.average(q, weights=sigma**-2)) / sigma
    # 5 degrees of freedom, errors themselves from 8 randomisations each: 99.9 % are below 3 sigma and 30 in square
    assert (np.abs(pulls) < 3).all() and 0.2 < (pulls**2).sum() < 30
    assert len({r.seed for r in results}) == 6


def test_a_seed_reproduces() -> None:
    once, again, from_generator = (
        evolve(MODEL, 0.5, samples=16, replicas=4, rng=rng, workers=1) for rng in (0, 0, np.random.default_rng(0))
    )
    np.testing.assert_array_equal(again.overlap, once.overlap)
    np.testing.assert_array_equal(again.overlap, from_generator.overlap)
    assert (again.seed, from_generator.seed) == (0, -1)
    fresh = evolve(MODEL, 0.1, samples=16, replicas=2, rng=None, workers=1)
    assert fresh.seed >= 0


def test_threads_do_not_change_the_numbers() -> None:
    one, many = (evolve(MODEL, 0.3, samples=64, replicas=8, max_iter=2, rng=0, workers=n) for n in (1, 3))
    assert one.overlap[1, 1] > 0
    np.testing.assert_allclose(many.overlap, one.overlap, rtol=1e-12)


# --- recovery and the first layer -------------------------------------------------------------------------------


def test_the_first_layer_follows_the_second() -> None:
    before = small(0.65)
    assert before.overlap[0, 0] == 0 and 0.9 < before.overlap[1, 1] < 1
    assert 0.5 < before.stability[0] < 1
    after = evolve(MODEL, 0.9, samples=32, replicas=8, workers=1)
    assert after.overlap[0, 0] - 3 * after.overlap_error[0, 0] > 0.02
    assert np.isnan(after.stability).all()
    assert after.prediction_error.value < before.prediction_error.value


@pytest.mark.slow
def test_weights_are_recovered_above_one_sample_per_dimension_and_layer() -> None:
    """Two outputs per sample against two weights per dimension: alpha = 1 is where counting allows recovery."""
    result = evolve(MODEL, 1.4, samples=256, replicas=4, tol=1e-5, workers=1)
    assert result.converged
    assert (result.overlap.diagonal() > 0.999).all()
    assert "recovered" in result.status
    assert result.plugin_error.value < 1e-3
    below = evolve(MODEL, 0.9, samples=256, replicas=8, tol=1e-4, workers=1)
    assert below.overlap[0, 0] < 0.9


def test_linear_attention_learns_the_first_layer_first_or_not_at_all() -> None:
    model = Network(activation="linear", skip=1.0)
    result = evolve(model, 0.2, samples=256, replicas=4, workers=1)
    assert result.converged and not result.overlap.any()
    assert result.stability[0] > result.stability[1]


# --- one layer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "q"), [(2, 0.05), (2, 0.6), (2, 0.97), (3, 0.4), (5, 0.8)])
def test_one_layer_average_is_that_of_its_denoiser(tokens: int, q: float) -> None:
    model = Network(1, tokens)
    averages = OneLayer(model)(np.array([[q]]))
    assert abs(averages.g[0] - averages.g[1]) < 1e-9 * averages.g[0]  # two orders of the quadrature
    means = []
    for stream in np.random.default_rng(tokens).spawn(16):
        normals = normal_qmc(2 * tokens, 10, stream).reshape(-1, 2, 1, tokens)
        omega = math.sqrt(q) * normals[:, 0]
        h = omega + math.sqrt(1 - q) * normals[:, 1]
        g = denoise_readout(model, h[:, 0], omega, np.array([[1 - q]]), workers=1).g_out
        means.append((g**2).sum(axis=(1, 2)).mean())
    sigma = np.std(means, ddof=1) / 4
    assert abs(np.mean(means) - averages.g[0, 0, 0]) < 4 * sigma  # Student, 15 degrees: p = 0.001
    assert sigma < 0.02 * np.mean(means)


@pytest.mark.parametrize("tokens", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_one_layer_fixed_points(tokens: int) -> None:
    model = Network(1, tokens)
    critical = 1 / (tokens * (tokens + 1))
    assert not evolve(model, 0.99 * critical).overlap.any()
    overlaps = []
    for factor in (1.1, 2.0):
        low, high = (
            evolve(model, factor * critical, tol=1e-9),
            evolve(model, factor * critical, start="informed", tol=1e-9),
        )
        assert low.converged and high.converged and low.estimation_error.how == "estimated"
        q = low.overlap[0, 0]
        # 1 - F' is at least a few per cent
        assert high.overlap[0, 0] == pytest.approx(q, abs=1e-6)
        qhat = factor * critical * OneLayer(model)(np.array([[q]])).g[-1, 0, 0]
        assert qhat / (1 + qhat) == pytest.approx(q, abs=1e-8)
        overlaps.append(q)
    assert 0 < overlaps[0] < overlaps[1] < 1
    # one layer's weights are fixed by alpha M = 1 and more equations
    assert evolve(model, 1.5, max_iter=400).overlap[0, 0] > 0.999


def test_one_layer_knows_neither_skip_nor_temperature_nor_activation() -> None:
    q = evolve(Network(1), 0.3).overlap
    for model in (Network(1, skip=5.0), Network(1, beta=3.0), Network(1, activation="linear")):
        np.testing.assert_array_equal(evolve(model, 0.3).overlap, q)


# --- averages ---------------------------------------------------------------------------------------------------


def test_two_routes_to_the_last_layer() -> None:
    """The hidden layer through the law of (S, T) against the two-layer denoiser, at q = diag(0, q_22)."""
    for q22 in (0.2, 0.8):
        q = np.diag([0.0, q22])
        streams = np.random.default_rng(9).spawn(16)
        by_law = LastLayer(MODEL, [normal_qmc(6, 6, s) for s in streams[:8]])(q).g[:, 1, 1]
        by_denoiser = TwoLayers(MODEL, [normal_qmc(8, 9, s) for s in streams[8:]], 1)(q).g[:, 1, 1]
        sigma = math.hypot(by_law.std(ddof=1), by_denoiser.std(ddof=1)) / math.sqrt(8)
        assert abs(by_law.mean() - by_denoiser.mean()) < 4 * sigma  # Student, 7 to 14 degrees: p < 0.005
        assert sigma < 0.1 * by_law.mean()


def test_control_variates_do_not_move_the_mean() -> None:
    q = np.array([[0.3, 0.1], [0.1, 0.6]])
    streams = np.random.default_rng(12).spawn(8)
    points = [normal_qmc(8, 9, s) for s in streams]
    with_controls = TwoLayers(MODEL, points, 1)(q).g
    plain = []
    for x in points:
        xi, zeta = x.reshape(-1, 2, 2, 2)[:, 0], x.reshape(-1, 2, 2, 2)[:, 1]
        omega = matrix_root(q) @ xi
        h = omega + np.linalg.cholesky(np.eye(2) - q) @ zeta
        v = (h[:, 1:] @ np.swapaxes(MODEL.mixing(h), 1, 2))[:, 0]
        g = denoise_readout(MODEL, v, omega, np.eye(2) - q, tol=1e-6, workers=1).g_out
        plain.append(np.einsum("nam,nbm->ab", g, g) / len(g))
    difference = with_controls - np.array(plain)
    sigma = difference.std(axis=0, ddof=1) / math.sqrt(8)
    assert (np.abs(difference.mean(axis=0)) < 4.5 * sigma).all()  # Student, 7 degrees, 3 entries: p = 0.01
    assert (with_controls.std(axis=0) < 1.2 * np.std(plain, axis=0)).all()
    for g in with_controls:
        np.testing.assert_allclose(g, g.T)
        assert np.linalg.eigvalsh(g)[0] > 0


def test_prediction_errors_are_those_of_the_overlap() -> None:
    result = small(0.5)
    best, plugin = prediction_errors(MODEL, result.overlap, rng=99)
    for ours, other in ((result.prediction_error, best), (result.plugin_error, plugin)):
        assert abs(ours.value - other.value) < 4 * math.hypot(ours.error, other.error)
    assert result.prediction_error.value < result.plugin_error.value


# --- non-convergence --------------------------------------------------------------------------------------------


def test_non_convergence_is_marked_or_raised() -> None:
    arguments = {"samples": 64, "replicas": 2, "max_iter": 2, "workers": 1}
    result = evolve(MODEL, 0.5, **arguments)
    assert not result.converged and result.n_iter >= 2
    assert result.status.startswith("not converged: max |F(q) - q| =") and "raise max_iter or tol" in result.status
    assert result.residual > 1e-5
    with pytest.raises(ConvergenceError, match=r"not converged: max \|F\(q\) - q\| = .* after \d+ evaluations"):
        evolve(MODEL, 0.5, throw=True, **arguments)
    marked = curve(MODEL, [0.1, 0.5], **arguments)
    assert [r.converged for r in marked] == [True, False]


def test_history_and_provenance() -> None:
    result = small(0.5)
    assert result.history.shape[1:] == (2, 2) and len(result.history) >= 3
    np.testing.assert_array_equal(result.history[-1], result.overlap)
    assert result.kernel_hash == MODEL.kernel_hash and "numpy" in result.versions
    assert result.alpha == 0.5 and result.n_iter >= len(result.history) - 1


def test_history_begins_at_the_start_and_ends_at_the_overlap() -> None:
    """Also where an overlap that died out was set to zero after the last step, or averages were taken elsewhere."""
    for start, first in (("uninformed", 0.0), ("informed", 1 - 1e-3)):
        result = evolve(MODEL, 0.1, start=start, samples=32, replicas=4, workers=1)
        assert result.history.shape[1:] == (2, 2) and len(result.history) <= result.n_iter + 1
        np.testing.assert_array_equal(result.history[0], first * np.eye(2))
        np.testing.assert_array_equal(result.history[-1], result.overlap)
    for alpha in (0.1, 0.5):
        refined = evolve(MODEL, alpha, workers=1, accuracy=1e-2)
        np.testing.assert_array_equal(refined.history[-1], refined.overlap)


# --- bad arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"alpha": -0.1}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": math.inf}, "alpha"),
        ({"alpha": True}, "alpha"),
        ({"alpha": "0.5"}, "alpha"),
        ({"samples": 0}, "samples"),
        ({"samples": 2.5}, "samples"),
        ({"samples": True}, "samples"),
        ({"replicas": 1}, "replicas"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": 0.0}, "tol"),
        ({"tol": -1e-3}, "tol"),
        ({"tol": math.nan}, "tol"),
        ({"tol": "small"}, "tol"),
        ({"start": "warm"}, "start"),
        ({"start": np.zeros((3, 3))}, "shape"),
        ({"start": np.array([[0.1, 0.2], [0.1, 0.3]])}, "symmetric"),
        ({"start": np.diag([-0.1, 0.5])}, "0 <= q < I"),
        ({"start": np.eye(2)}, "0 <= q < I"),
        ({"start": np.array([[0.1, 0.3], [0.3, 0.1]])}, "0 <= q < I"),
        ({"start": np.full((2, 2), math.nan)}, "finite"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evolve(MODEL, **{"alpha": 0.5, "samples": 16, "replicas": 2, **arguments})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"alphas": []}, "alphas"),
        ({"alphas": [0.1, math.nan]}, "alphas"),
        ({"alphas": [-0.1]}, "alphas"),
        ({"samples": 0}, "samples"),
        ({"replicas": 1}, "replicas"),
        ({"max_iter": False}, "max_iter"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_bad_arguments_of_a_curve_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        curve(MODEL, **{"alphas": [0.1], "samples": 16, "replicas": 2, **arguments})


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Network(3, 3, output="sequence"), "attention of the last layer as output"),
        (Network(3, 2, 2, activation="linear"), "linear of two layers"),
        (Network(2, activation=np.tanh), "no state evolution for tied tanh"),
    ],
)
def test_missing_models_are_named(model: Network, words: str) -> None:
    with pytest.raises(KernelNotFoundError, match=words):
        evolve(model, 0.5, samples=16, replicas=2)
    with pytest.raises(KernelNotFoundError, match=words):
        curve(model, [0.5], samples=16, replicas=2)


def test_zero_overlap_is_a_fixed_point_above_the_threshold_too() -> None:
    result = evolve(MODEL, 0.5, start=np.zeros((2, 2)), samples=64, replicas=4, workers=1)
    assert result.converged and not result.overlap.any()
    assert result.stability[1] > 1


def test_check_overlap_returns_a_symmetric_copy() -> None:
    q = np.array([[0.5, 0.1], [0.1, 0.2]])
    checked = check_overlap(q.tolist(), 2)
    np.testing.assert_array_equal(checked, q)
    assert checked is not q


def test_channel_rounds_samples_up_to_a_power_of_two() -> None:
    averages = channel(MODEL, samples=20, replicas=3, rng=np.random.default_rng(0), workers=1)
    out = averages(np.zeros((2, 2)))
    assert out.g.shape == (3, 2, 2) and out.growth.shape == (3, 2)
    # even links: the denoiser vanishes at omega = 0
    assert np.abs(out.g).max() < 1e-8
