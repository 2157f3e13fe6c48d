"""The iteration: against Algorithm 1 written out, at its limits, and on data it cannot explain."""

from itertools import pairwise

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.learning.gamp import gamp, informed_start, make_data, teacher
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise

TWO = Network(2, 2)
ONE = Network(1, 2)


def instance(model, dimension, alpha, seed=0, dtype=np.float64):
    weights = teacher(model, dimension, seed)
    return weights, *make_data(model, weights, alpha, seed, dtype=dtype)


def test_three_iterations_of_algorithm_1():
    """Sample by sample, token by token, as the paper writes it."""
    weights, x, y = instance(TWO, 40, 1.5)
    estimate = informed_start(weights, np.diag([0.2, 0.4]), 0)
    found = gamp(x, y, TWO, start=estimate, max_iter=3, damping=0.0, tol=0.0, denoiser_tol=1e-10)
    d = x.shape[2]
    c, g = np.eye(2) - estimate @ estimate.T / d, np.zeros((len(x), 2, 2))
    for _ in range(3):
        v = c
        a, b = np.zeros((2, 2)), np.zeros((2, d))
        for mu in range(len(x)):
            omega = estimate @ x[mu].T / np.sqrt(d) - v @ g[mu]
            post = denoise(TWO, y[mu], omega, v)
            g[mu] = post.g_out
            for m in range(2):
                a -= post.dg_out[:, m, :, m] / d
                b += np.outer(g[mu][:, m], x[mu, m]) / np.sqrt(d)
        c = np.linalg.inv(np.eye(2) + a)
        estimate = c @ (b + a @ estimate)
    assert found.weights == pytest.approx(estimate, abs=1e-7)
    assert found.covariance == pytest.approx(c, abs=1e-7)
    assert found.self_overlap == pytest.approx(estimate @ estimate.T / d, abs=1e-7)
    assert found.n_iter == 3 and not found.converged and found.alpha == 1.5


def test_damping_keeps_a_share_of_everything():
    """Two damped iterations by hand, the term of Onsager included."""
    weights, x, y = instance(ONE, 50, 1.0)
    start, share = informed_start(weights, 0.3, 0), 0.4
    found = gamp(x, y, ONE, start=start, max_iter=2, damping=share, tol=0.0)
    d = x.shape[2]
    estimate, v, onsager = start, np.eye(1) - start @ start.T / d, 0.0
    for _ in range(2):
        omega = np.einsum("pd,nmd->npm", estimate, x) / np.sqrt(d) - onsager
        post = denoise(ONE, y, omega, v)
        a = -np.einsum("nambm->ab", post.dg_out) / d
        c = np.linalg.inv(np.eye(1) + a)
        new = c @ (np.einsum("npm,nmd->pd", post.g_out, x) / np.sqrt(d) + a @ estimate)
        estimate = (1 - share) * new + share * estimate
        v = (1 - share) * c + share * v
        onsager = (1 - share) * c @ post.g_out + share * onsager
    assert found.weights == pytest.approx(estimate, abs=1e-10)
    assert found.covariance == pytest.approx(v, abs=1e-10)


def test_the_weights_are_recovered_when_data_abound():
    weights, x, y = instance(ONE, 200, 1.2, dtype=np.float32)
    found = gamp(x, y, ONE, teacher=weights, tol=0.0)
    assert found.converged and "recovered" in found.status
    gram = weights @ weights.T / 200
    # float32 data: 1e-7 times some sums of 200 terms.
    assert found.overlap == pytest.approx(gram, abs=1e-4)
    assert min(np.abs(found.weights - s * weights).max() for s in (1, -1)) < 2e-2
    assert len(found.history) == len(found.self_history) == found.n_iter + 1


def test_nothing_is_learned_below_the_threshold():
    """alpha_c = 1/6 at L = 1, M = 2."""
    weights, x, y = instance(ONE, 1000, 0.05)
    found = gamp(x, y, ONE, teacher=weights)
    assert found.converged and "nothing is learned" in found.status
    assert found.overlap[0, 0] < 1e-3 and found.covariance[0, 0] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("model", "alpha"),
    [(Network(1, 2, 1, activation="softmax", tied=False), 1.0), (Network(1, 3, 2), 1.6), (kernel_of("h[1]**2"), 1.6)],
    ids=["untied", "rank 2", "link"],
)
def test_other_models_are_learned(model, alpha):
    weights, x, y = instance(model, 120, alpha, dtype=np.float32)
    found = gamp(x, y, model, teacher=weights)
    assert found.converged
    assert (found.overlap.diagonal() > 0.8).all()


def test_slopes_and_squares_of_scores_lead_to_the_same():
    weights, x, y = instance(ONE, 800, 0.5, dtype=np.float32)
    slope, square = (gamp(x, y, ONE, teacher=weights, variance=v) for v in ("slope", "nishimori"))
    # They differ by fluctuations of 1/sqrt(N).
    assert slope.overlap[0, 0] == pytest.approx(square.overlap[0, 0], abs=0.05)
    assert slope.overlap[0, 0] > 0.6


def test_side_information_alone_gives_its_posterior_mean():
    """S = sqrt(lambda) W + Z and one sample: What = sqrt(lambda) S/(1 + lambda), C = I/(1 + lambda)."""
    weights, x, y = instance(TWO, 3000, 0.0)
    assert len(x) == 1
    strength = 2.0
    side = np.sqrt(strength) * weights + np.random.default_rng(1).standard_normal(weights.shape)
    found = gamp(x, y, TWO, side_information=side, side_strength=strength, teacher=weights)
    assert found.converged
    # One sample moves C by 1/D.
    assert found.covariance == pytest.approx(np.eye(2) / 3, abs=5e-3)
    assert found.weights == pytest.approx(np.sqrt(2) * side / 3, abs=0.3)
    assert found.overlap == pytest.approx(2 / 3 * weights @ weights.T / 3000, abs=5 / np.sqrt(3000))


def correlated(rng, samples=400, dimension=200):
    """Inputs that GAMP is not made for: entries of one sample go up and down together."""
    return rng.standard_normal((samples, 2, dimension)) + 3 * rng.standard_normal(dimension) * rng.standard_normal(
        (samples, 1, 1)
    )


@pytest.mark.parametrize("variance", ["slope", "nishimori"])
def test_data_that_diverge_are_marked_and_the_best_iterate_restored(variance, rng):
    x = correlated(rng)
    weights = teacher(ONE, 200, 0)
    y = ONE.link(np.swapaxes(x @ weights.T, 1, 2) / np.sqrt(200))
    found = gamp(x, y, ONE, variance=variance)
    assert not found.converged
    assert "diverged" in found.status or "Nishimori" in found.status
    assert np.isfinite(found.weights).all() and np.linalg.eigvalsh(found.self_overlap)[-1] <= 4
    with pytest.raises(ConvergenceError, match="check that model and data match"):
        gamp(x, y, ONE, variance=variance, throw=True)


def test_the_restored_iterate_is_one_that_the_callback_saw(rng):
    """Too large inputs: two layers learn something, then leave."""
    _, x, y = instance(TWO, 300, 0.5)
    seen = []
    found = gamp(3 * x, y, TWO, callback=lambda step: seen.append(step.weights))
    assert not found.converged and found.status.startswith("diverged")
    assert any((found.weights == weights).all() for weights in seen) or "iteration 0" in found.status


def test_adaptive_damping_rises_where_steps_turn_back():
    weights, x, y = instance(TWO, 500, 0.5, dtype=np.float32)
    found = gamp(x, y, TWO, damping="adaptive", max_iter=60, teacher=weights)
    assert found.dampings[0] == 0 and 0 < found.dampings.max() <= 0.9
    assert found.overlap[1, 1] > 0.5


def test_a_callback_sees_every_iteration_and_can_end_the_run():
    weights, x, y = instance(ONE, 300, 0.8)
    steps = []
    found = gamp(x, y, ONE, teacher=weights, callback=lambda step: steps.append(step) or len(steps) == 4)
    assert [step.iteration for step in steps] == [1, 2, 3, 4]
    assert found.n_iter == 4 and not found.converged and "callback" in found.status
    assert (steps[-1].weights == found.weights).all()
    assert steps[2].overlap == pytest.approx(found.history[3])


def test_an_index_that_wakes_late_is_waited_for():
    """Once layer 2 is known and rests, steps of a layer 1 of norm 1e-10 are far below that of the whole."""
    model, dimension, tol, seed = Network(2, 2), 200, 1e-3, 2
    weights = teacher(model, dimension, seed)
    x, y = make_data(model, weights, 0.9, seed)
    start = np.array([1e-10 * teacher(model, dimension, seed + 10)[0], 0.9 * weights[1]])
    seen = [start]
    run = gamp(
        x,
        y,
        model,
        teacher=weights,
        start=start,
        tol=tol,
        max_iter=300,
        callback=lambda step: seen.append(step.weights),
    )
    steps = [np.linalg.norm(b - a) / np.linalg.norm(b) for a, b in pairwise(seen)]
    asleep = np.abs(run.history[1:, 0, 0]) < 0.01
    assert min(np.array(steps)[asleep]) < tol
    assert run.converged and run.overlap[0, 0] > 0.6


def test_an_index_that_has_died_out_is_not_waited_for():
    """Layer 1 between the thresholds: it shrinks by the same factor for ever."""
    model, dimension = Network(2, 2), 200
    weights = teacher(model, dimension, 0)
    x, y = make_data(model, weights, 0.5, 0)
    run = gamp(x, y, model, teacher=weights, start=0.9 * weights * [[1e-3], [1]], max_iter=200)
    assert run.converged and run.overlap[1, 1] > 0.4
    assert run.self_overlap[0, 0] < 1e-6


def test_seeds_decide_the_start():
    _, x, y = instance(ONE, 100, 0.6)
    first, again, other = (gamp(x, y, ONE, rng=seed, max_iter=2) for seed in (5, 5, 6))
    assert (first.weights == again.weights).all() and (first.weights != other.weights).any()
    assert first.seed == 5


def test_streams_of_one_seed_are_unrelated():
    """Teacher, samples and starts of the same seed: correlations of order 1/sqrt(D)."""
    weights, x, _ = instance(ONE, 2000, 0.001)
    start = informed_start(weights, 0.5, 0) - 0.5 * weights
    for other in (x[0, 0], start[0]):
        assert abs(np.corrcoef(weights[0], other)[0, 1]) < 5 / np.sqrt(2000)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"damping": 1.0}, "damping must be"),
        ({"damping": "much"}, "damping must be"),
        ({"damping": True}, "damping must be"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"tol": -1.0}, "tol must be finite and >= 0"),
        ({"variance": "both"}, "variance must be one of slope, nishimori"),
        ({"start": np.zeros((2, 50))}, r"start must have shape \(P, D\) = \(1, 50\)"),
        ({"start": np.full((1, 50), np.nan)}, "start must be finite"),
        ({"teacher": np.zeros((1, 40))}, "teacher must have shape"),
        ({"side_strength": 1.0}, "belong together"),
        ({"side_information": np.zeros((1, 50))}, "belong together"),
        ({"side_information": np.zeros((1, 50)), "side_strength": -1.0}, "side_strength must be finite and >= 0"),
        ({"denoiser_tol": 1.0}, "tol must be a float in"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(settings, words):
    _, x, y = instance(ONE, 50, 0.5)
    with pytest.raises(ValueError, match=words):
        gamp(x, y, ONE, **settings)


def test_an_output_that_the_link_does_not_give():
    _, x, y = instance(ONE, 50, 0.5)
    y[3] = [[0.2, 0.8], [0.9, 0.1]]
    with pytest.raises(UnreachableOutputError, match="Y, sample 3"):
        gamp(x, y, ONE)


def test_a_model_that_is_not_served():
    with pytest.raises(KernelNotFoundError, match=r"no denoiser for .*H=2: .* heads side by side"):
        gamp(np.ones((3, 2, 50)), np.ones((3, 2, 2)), Network(1, 2, heads=2))
