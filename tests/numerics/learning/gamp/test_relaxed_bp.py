"""Relaxed belief propagation: against its equations written out, against GAMP as D grows, against state evolution."""

import math

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.learning.gamp import gamp, informed_start, make_data, predicted_overlaps, relaxed_bp, teacher
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise

ONE = Network(1, 2)
TWO = Network(2, 2)


def instance(model, dimension, alpha, q=0.5, seed=0):
    """Data of a teacher of unit norm per dimension, and an estimate at overlap q."""
    weights = teacher(model, dimension, seed)
    weights *= np.sqrt(dimension / (weights**2).sum(axis=1, keepdims=True))
    x, y = make_data(model, weights, alpha, seed, dtype=np.float64)
    return weights, x, y, informed_start(weights, q * np.eye(model.indices), seed)


@pytest.mark.parametrize("coupling", ["mean", "edge"])
def test_two_iterations_of_the_equations(coupling):
    """Edge by edge, with every sum over "all but one" taken as it is written; side information keeps A in bounds."""
    d, alpha, rate = 16, 0.5, 4.0
    # With this seed all precisions are positive, also those of single edges.
    weights, x, y, start = instance(TWO, d, alpha, q=0.3, seed=7)
    side = 2 * weights + np.random.default_rng(3).standard_normal(weights.shape)
    more = {"side_information": side, "side_strength": rate}
    found = relaxed_bp(
        x, y, TWO, start=start, **more, coupling=coupling, max_iter=2, damping=0.0, tol=0.0, denoiser_tol=1e-10
    )
    n = len(x)
    mean = np.tile(start.T, (n, 1, 1))
    spread = np.tile(np.eye(2) - start @ start.T / d, (n, d, 1, 1))
    for _ in range(2):
        b, a = np.empty((n, d, 2)), np.empty((n, d, 2, 2))
        for mu in range(n):
            for i in range(d):
                others = [j for j in range(d) if j != i]
                omega = sum(np.outer(mean[mu, j], x[mu, :, j]) for j in others) / np.sqrt(d)
                v = sum(spread[mu, j] * (x[mu, :, j] ** 2).mean() for j in others) / d
                post = denoise(TWO, y[mu], omega, v)
                b[mu, i] = sum(x[mu, m, i] * post.g_out[:, m] for m in range(2)) / np.sqrt(d)
                square = np.eye(2) if coupling == "mean" else np.outer(x[mu, :, i], x[mu, :, i])
                a[mu, i] = -np.einsum("mk,pmqk->pq", square, post.dg_out) / d
        for mu in range(n):
            rest = [nu for nu in range(n) if nu != mu]
            for i in range(d):
                spread[mu, i] = np.linalg.inv((1 + rate) * np.eye(2) + a[rest, i].sum(axis=0))
                mean[mu, i] = spread[mu, i] @ (b[rest, i].sum(axis=0) + 2 * side[:, i])
    marginal = [np.linalg.inv((1 + rate) * np.eye(2) + a[:, i].sum(axis=0)) for i in range(d)]
    expected = np.array([marginal[i] @ (b[:, i].sum(axis=0) + 2 * side[:, i]) for i in range(d)]).T
    assert found.weights == pytest.approx(expected, abs=1e-6)
    assert found.covariance == pytest.approx(np.mean(marginal, axis=0), abs=1e-6)
    assert found.n_iter == 2 and not found.converged and found.alpha == n / d


def distance(dimension, coupling, seeds, iterations, model=ONE, alpha=1.0):
    """Median over instances of the root mean square difference from GAMP's estimate."""
    found = []
    for seed in range(seeds):
        _, x, y, start = instance(model, dimension, alpha, seed=seed)
        same = {"start": start, "damping": 0.0, "max_iter": iterations, "tol": 0.0, "denoiser_tol": 1e-6}
        mine = relaxed_bp(x, y, model, coupling=coupling, **same).weights
        found.append(np.sqrt(((mine - gamp(x, y, model, **same).weights) ** 2).mean()))
    return float(np.median(found))


def test_gamp_is_its_limit():
    """Terms that GAMP drops are of order 1/sqrt(D): four times the dimension, half the difference."""
    near, far = (distance(d, "mean", 6, 1) for d in (60, 240))
    # Medians of 6 instances scatter by a fifth or so.
    assert 0.3 < far / near < 0.75
    assert far < 0.12


@pytest.mark.slow  # a minute: instances at D = 400
@pytest.mark.parametrize(("coupling", "iterations"), [("mean", 1), ("mean", 2), ("edge", 1)])
def test_the_difference_from_gamp_shrinks_as_theory_says(coupling, iterations):
    sizes = (50, 100, 200, 400)
    found = [distance(d, coupling, 24, iterations, alpha=2.0) for d in sizes]
    slope = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    # -1/2 and corrections of higher order: with "edge" heavy tails of single couplings, -0.77 at these sizes.
    assert -0.9 < slope < -0.35, found


def test_overlaps_follow_the_state_evolution():
    """Per iteration, mean of 8 instances; teacher, estimate and covariance agree as Nishimori says."""
    alpha, n_iter, seeds, dimension = 0.5, 3, 8, 160
    runs = []
    for seed in range(seeds):
        weights, x, y, start = instance(ONE, dimension, alpha, seed=seed)
        runs.append(relaxed_bp(x, y, ONE, start=start, teacher=weights, damping=0.0, tol=0.0, max_iter=n_iter))
    expected = predicted_overlaps(ONE, alpha, n_iter=n_iter, start=0.5, samples=1024).overlap[:, 0, 0]
    overlap = np.array([r.history[:, 0, 0] for r in runs])
    sigma = overlap.std(axis=0, ddof=1) / math.sqrt(seeds)
    # Student's law with 7 degrees of freedom at 3 sigma; what is left at finite size is of order 1/D.
    assert (np.abs(overlap.mean(axis=0) - expected) < 4.5 * sigma + 5 / dimension).all(), (overlap, expected)
    for identity in (
        [r.self_overlap[0, 0] - r.overlap[0, 0] for r in runs],
        [r.self_overlap[0, 0] + r.covariance[0, 0] - 1 for r in runs],
    ):
        scatter = np.std(identity, ddof=1) / math.sqrt(seeds)
        assert abs(np.mean(identity)) < 4.5 * scatter + 5 / dimension, identity


def test_a_gaussian_link_has_the_exact_posterior_mean():
    """y = h + noise is a regression: means of belief propagation are exact where it converges, but for 1/D in V."""
    link = kernel_of("h[1]", noise="0.5")
    worst = []
    for dimension in (12, 48):
        weights = teacher(link, dimension, 0)
        x, y = make_data(link, weights, 2.0, 0, dtype=np.float64)
        design = x[:, 0] / np.sqrt(dimension)
        exact = np.linalg.solve(np.eye(dimension) + design.T @ design / 0.5, design.T @ y[:, 0] / 0.5)
        found = relaxed_bp(x, y, link, coupling="edge", tol=1e-5, damping=0.2, teacher=weights)
        assert found.converged, found.status
        worst.append(np.sqrt(((found.weights[0] - exact) ** 2).mean()))
        spread = np.linalg.inv(np.eye(dimension) + design.T @ design / 0.5).diagonal().mean()
        # Variances of loopy propagation are right in the limit only, like those of GAMP.
        assert found.covariance[0, 0] == pytest.approx(spread, rel=5 / np.sqrt(dimension))
    assert worst[0] < 0.05 and worst[1] < worst[0] / 2.5


@pytest.mark.parametrize(
    ("model", "alpha", "more"),
    [
        (Network(1, 3, 2), 1.0, {}),
        (Network(1, 2, 1, activation="softmax", tied=False), 1.0, {}),
        (kernel_of("h[1]**2", noise="0.5"), 1.5, {}),
        (kernel_of("h[1]**2"), 1.5, {"coupling": "edge"}),
        (Network(3, 2), 1.0, {"nodes": 64}),
    ],
    ids=["rank 2", "untied", "noisy link", "edges of a link", "three layers"],
)
def test_other_models_are_served(model, alpha, more):
    """Two steps from an overlap of 0.3 lead up, and near what GAMP does."""
    weights, x, y, start = instance(model, 24, alpha, q=0.3)
    same = {"start": start, "teacher": weights, "max_iter": 2, "damping": 0.3}
    mine, theirs = relaxed_bp(x, y, model, **same, **more), gamp(x, y, model, **same)
    assert mine.n_iter == 2, mine.status
    # At D = 24 both are within the fluctuations, 1/sqrt(D) for each index.
    assert abs(np.trace(mine.overlap) - np.trace(theirs.overlap)) < 3 * model.indices / math.sqrt(24)
    assert np.linalg.eigvalsh(mine.covariance)[0] > 0


def test_side_information_alone_gives_its_posterior_mean():
    """S = sqrt(lambda) W + Z and one sample: What = sqrt(lambda) S/(1 + lambda), C = I/(1 + lambda)."""
    weights, x, y, _ = instance(TWO, 1500, 0.0)
    side = np.sqrt(2.0) * weights + np.random.default_rng(1).standard_normal(weights.shape)
    found = relaxed_bp(x, y, TWO, side_information=side, side_strength=2.0, teacher=weights)
    assert found.converged
    # One sample moves C by 1/D.
    assert found.covariance == pytest.approx(np.eye(2) / 3, abs=5e-3)
    assert found.weights == pytest.approx(np.sqrt(2) * side / 3, abs=0.3)


def test_nothing_is_learned_below_the_threshold():
    """alpha_c = 1/6; the estimate that begins from nothing dies out."""
    weights, x, y, _ = instance(ONE, 300, 0.03)
    found = relaxed_bp(x, y, ONE, teacher=weights, callback=None)
    assert found.converged and "nothing is learned" in found.status
    assert found.overlap[0, 0] < 1e-2


def test_a_callback_sees_every_iteration_and_can_end_the_run():
    _, x, y, start = instance(ONE, 40, 1.0)
    steps = []
    found = relaxed_bp(x, y, ONE, start=start, callback=lambda step: steps.append(step) or len(steps) == 3)
    assert [step.iteration for step in steps] == [1, 2, 3]
    assert not found.converged and "callback" in found.status
    assert (steps[-1].weights == found.weights).all()


def test_a_run_that_diverges_is_marked(rng):
    """Entries of one sample that go up and down together."""
    x = rng.standard_normal((60, 2, 60)) + 3 * rng.standard_normal(60) * rng.standard_normal((60, 1, 1))
    y = ONE.link(np.swapaxes(x @ teacher(ONE, 60, 0).T, 1, 2) / np.sqrt(60))
    found = relaxed_bp(x, y, ONE, max_iter=50)
    assert not found.converged
    assert np.isfinite(found.weights).all() and np.linalg.eigvalsh(found.self_overlap)[-1] <= 4
    with pytest.raises(ConvergenceError):
        relaxed_bp(x, y, ONE, max_iter=50, throw=True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"damping": 1.0}, "damping must be"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"tol": -1.0}, "tol must be finite and >= 0"),
        ({"variance": "both"}, "variance must be one of slope, nishimori"),
        ({"coupling": "all"}, "coupling must be one of mean, edge"),
        ({"start": np.zeros((2, 30))}, r"start must have shape \(P, D\) = \(1, 30\)"),
        ({"teacher": np.zeros((1, 40))}, "teacher must have shape"),
        ({"side_strength": 1.0}, "belong together"),
        ({"denoiser_tol": 1.0}, "tol must be a float in"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(settings, words):
    _, x, y, _ = instance(ONE, 30, 0.5)
    with pytest.raises(ValueError, match=words):
        relaxed_bp(x, y, ONE, **settings)


def test_bad_data_are_refused_in_a_sentence():
    _, x, y, _ = instance(ONE, 30, 0.5)
    with pytest.raises(ValueError, match="one output per sample"):
        relaxed_bp(x, y[:-1], ONE)
    with pytest.raises(ValueError, match="X must be float32 or float64"):
        relaxed_bp(x.astype(int), y, ONE)
    with pytest.raises(ValueError, match="sample 2; leave such samples out"):
        relaxed_bp(np.where(np.arange(len(x))[:, None, None] == 2, np.nan, x), y, ONE)
    y[3] = [[0.2, 0.8], [0.9, 0.1]]
    with pytest.raises(UnreachableOutputError, match="Y, sample 3"):
        relaxed_bp(x, y, ONE)
    with pytest.raises(KernelNotFoundError, match=r"no denoiser for .*H=2"):
        relaxed_bp(x, y, Network(1, 2, heads=2))


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"N D = 20000 x 2000 edges .* take fewer samples or dimensions, or gamp"):
        relaxed_bp(np.broadcast_to(np.float32(1), (20000, 2, 2000)), np.broadcast_to(0.5, (20000, 2, 2)), ONE)
