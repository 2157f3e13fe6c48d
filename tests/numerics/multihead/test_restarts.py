"""Teachers, matching, held-out examples and random restarts."""

import itertools
import math

import numpy as np
import pytest

from attnlimits.numerics.multihead.holdout import acceptable, hold_out
from attnlimits.numerics.multihead.layer import multihead, nmse
from attnlimits.numerics.multihead.matching import match_heads, parameter_error
from attnlimits.numerics.multihead.restarts import restarts
from attnlimits.numerics.multihead.selection import fit_heads, select_heads
from attnlimits.numerics.multihead.teachers import FAMILIES, make_examples, make_teacher


@pytest.mark.parametrize("family", ["gauss", "corr", "sameW", "saturated", "lowrank"])
def test_the_scale_of_a_teacher_is_that_of_its_logits(family):
    theta, w = make_teacher(family, 2, 6, rng=1)
    assert theta.shape == w.shape == (2, 6, 6)
    rng = np.random.default_rng(2)
    x, a, b = rng.choice([-1.0, 1.0], (3, 40000, 6))
    for part in theta:
        differences = np.einsum("np,pq,nq->n", x, part, a - b)
        # the standard error of a standard deviation from 40000 draws, of kurtosis below 6, is below 0.6 %
        assert np.std(differences) == pytest.approx(FAMILIES[family], rel=0.03)


def test_families_are_what_they_say():
    theta, _ = make_teacher("corr", 3, 8, rng=1)
    assert np.linalg.norm(theta[0] - theta[1]) < 0.7 * np.linalg.norm(theta[0])
    _, w = make_teacher("sameW", 3, 8, rng=1)
    assert np.linalg.norm(w[0] - w[1]) < 0.7 * np.linalg.norm(w[0])
    _, w = make_teacher("lowrank", 3, 8, rng=1)
    assert np.linalg.matrix_rank(w.reshape(-1, 8)) == 1
    theta, w = make_teacher("parity", 3, 8, rng=1)
    assert theta.shape == (3, 8, 8) and np.linalg.matrix_rank(w.sum(axis=0)) == 1


def test_noise_is_of_the_size_it_says():
    theta, w = make_teacher("gauss", 2, 6, rng=1)
    made = make_examples(theta, w, samples=4000, tokens=3, noise=0.3, rng=2)
    clean = multihead(made.X, theta, w)
    assert made.noise_std == pytest.approx(0.3 * math.sqrt(np.mean(clean**2)), rel=1e-12)
    # 72000 draws: 0.3 % of scatter
    assert np.std(made.Y - clean) == pytest.approx(made.noise_std, rel=0.015)
    assert set(np.unique(made.X)) == {-1.0, 1.0}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_teacher("linear", 2, 4), "family must be one of"),
        (lambda: make_teacher("gauss", 0, 4), "heads must be an integer >= 1"),
        (lambda: make_teacher("gauss", 2, 4, scale=math.nan), "scale must be finite"),
        (lambda: make_teacher("parity", 2, 8), "odd number of heads"),
        (lambda: make_examples(*make_teacher("gauss", 1, 2, rng=1), samples=0, tokens=2), "samples must be"),
        (lambda: make_examples(*make_teacher("gauss", 1, 2, rng=1), samples=2, tokens=2, noise=-1), "noise must be"),
        (lambda: match_heads(*np.zeros((2, 2, 3, 3)), *np.zeros((2, 1, 3, 3))), "must have the same shape"),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_matching_against_all_permutations(rng):
    true = rng.standard_normal((2, 4, 3, 3))
    order = rng.permutation(4)
    learned = true[:, order] + 0.3 * rng.standard_normal(true.shape)
    found = match_heads(*learned, *true)

    def cost(permutation):
        return sum(np.sum((a[list(permutation)] - b) ** 2) / np.sum(b**2) for a, b in zip(learned, true, strict=True))

    assert tuple(found) == min(itertools.permutations(range(4)), key=cost)
    error = parameter_error(*learned, *true)
    off = np.linalg.norm(learned[:, found] - true, axis=(2, 3)) / np.linalg.norm(true, axis=(2, 3))
    assert error == pytest.approx(off.max(), rel=1e-12)
    assert parameter_error(*true[:, order], *true) == 0.0


def test_hold_out_keeps_every_sample_once():
    theta, w = make_teacher("gauss", 1, 4, rng=1)
    made = make_examples(theta, w, samples=50, tokens=2, rng=1)
    split = hold_out(made.X, made.Y, None, None, np.random.default_rng(1))
    assert len(split.X_val) == 10 and len(split.X) == 40
    both = np.concatenate([split.Y, split.Y_val]).reshape(50, -1)
    assert np.array_equal(both[np.lexsort(both.T)], made.Y.reshape(50, -1)[np.lexsort(made.Y.reshape(50, -1).T)])
    assert acceptable(split, 0.0) == (0.0, 1e-10)


# heads, tokens, dimension, scale, noise, samples: rows of the reference table at its smallest sizes
SMALL = [
    ("gauss", 1, 2, 10, 4.0, 0.0, 2000),
    ("gauss", 2, 2, 8, 4.0, 0.0, 1000),
    ("gauss", 2, 4, 8, 4.0, 0.0, 20000),
    ("gauss", 3, 2, 8, 4.0, 0.0, 3000),
    ("corr", 3, 2, 8, 1.0, 0.0, 60000),
    ("sameW", 3, 2, 8, 1.0, 0.0, 60000),
    ("gauss", 2, 2, 8, 4.0, 0.1, 30000),
]
LARGE = [
    ("gauss", 2, 2, 12, 4.0, 0.0, 30000),
    ("gauss", 2, 2, 16, 4.0, 0.0, 30000),
    ("gauss", 2, 2, 20, 4.0, 0.0, 30000),
    ("gauss", 2, 3, 10, 4.0, 0.0, 30000),
    ("gauss", 3, 2, 8, 4.0, 0.0, 60000),
    ("gauss", 3, 2, 12, 4.0, 0.0, 60000),
    ("gauss", 3, 2, 16, 4.0, 0.0, 60000),
    ("gauss", 3, 3, 10, 4.0, 0.0, 60000),
    ("gauss", 4, 2, 8, 2.0, 0.0, 100000),
    ("corr", 3, 3, 8, 10.0, 0.0, 60000),
    ("corr", 3, 2, 8, 30.0, 0.0, 60000),
    ("gauss", 2, 2, 8, 4.0, 0.01, 30000),
    ("gauss", 3, 2, 8, 4.0, 0.1, 60000),
    ("corr", 3, 2, 8, 1.0, 0.01, 60000),
]


def run_row(row, seed):
    """Test error on fresh samples without noise, and parameter error."""
    family, m, k, d, scale, noise, samples = row
    rng = np.random.default_rng(seed)
    theta, w = make_teacher(family, m, d, scale=scale, rng=rng)
    made = make_examples(theta, w, samples=samples, tokens=k, noise=noise, rng=rng)
    fresh = make_examples(theta, w, samples=5000, tokens=k, rng=rng)
    split = hold_out(made.X, made.Y, None, None, rng)
    found = restarts(split, m, noise_std=made.noise_std, rng=rng)
    assert found.converged, found.status
    assert found.validation_error <= found.accept and len(found.errors) <= 8
    return nmse(fresh.Y, multihead(fresh.X, found.theta, found.w)), parameter_error(found.theta, found.w, theta, w)


def assert_row(row, seed):
    error, distance = run_row(row, seed)
    noise = row[5]
    assert error < (0.05 * noise**2 if noise else 1e-20)
    assert distance < (5e-2 if noise else 1e-7)


# Noise has tests of fewer samples below.
@pytest.mark.slow_for("('gauss', 2, 2, 8, 4.0, 0.1, 30000)")
@pytest.mark.parametrize("row", SMALL, ids=str)
def test_rows_of_the_table(row):
    assert_row(row, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("row", SMALL + LARGE, ids=str)
def test_rows_of_the_table_five_times(row):
    for seed in range(1000, 1005):
        assert_row(row, seed)


def split_of(family, heads, *, samples, noise=0.0, dim=6, seed=1):
    theta, w = make_teacher(family, heads, dim, rng=seed)
    made = make_examples(theta, w, samples=samples, tokens=2, noise=noise, rng=seed)
    return hold_out(made.X, made.Y, None, None, np.random.default_rng(seed)), made.noise_std


def test_lbfgs_by_name_and_by_size(monkeypatch):
    split, _ = split_of("gauss", 2, samples=2500)
    found = restarts(split, 2, optimiser="lbfgs", rng=np.random.default_rng(1))
    assert found.converged and found.optimiser == "lbfgs" and found.validation_error < 1e-20
    monkeypatch.setattr("attnlimits.numerics.multihead.restarts.LM_UNKNOWNS", 2 * 2 * 36 - 1)
    assert restarts(split, 2, starts=1, rng=np.random.default_rng(1)).optimiser == "lbfgs"


def test_too_few_heads_are_not_accepted():
    split, _ = split_of("gauss", 3, samples=1000)
    found = restarts(split, 2, starts=3, rng=np.random.default_rng(1))
    assert not found.converged and found.validation_error > 1e-2 and len(found.errors) == 3


def test_noise_is_estimated():
    split, noise_std = split_of("gauss", 2, samples=1500, noise=0.1, dim=3)
    fit = fit_heads(split, 2, np.random.default_rng(1), starts=2)
    assert fit.found.converged and all(rung.p > 0.5 for rung in fit.evidence.rungs if rung.heads > 2)
    # 1800 held-out entries: 1.7 % of scatter
    assert fit.noise_std == pytest.approx(noise_std, rel=0.05)
    assert fit_heads(split_of("gauss", 2, samples=1000)[0], 2, np.random.default_rng(1)).noise_std == 0.0


def test_what_is_no_noise_is_not_taken_for_it():
    split, _ = split_of("gauss", 3, samples=500)
    fit = fit_heads(split, 2, np.random.default_rng(1), starts=2)
    assert not fit.found.converged and "not noise alone" in fit.found.status
    Y = np.random.default_rng(3).standard_normal(split.X.shape)
    fit = fit_heads(hold_out(split.X, Y, None, None, np.random.default_rng(1)), 1, np.random.default_rng(1), starts=2)
    assert not fit.found.converged and "no better than no layer at all" in fit.found.status


def test_the_range_of_noise_has_two_ends():
    """Of fits to the true layer about all errors are inside it; twice the noise, or half, is not."""
    theta, w = make_teacher("gauss", 1, 4, rng=1)
    size = 2 * theta.size
    for seed in range(10):
        made = make_examples(theta, w, samples=600, tokens=2, noise=0.1, rng=seed)
        split = hold_out(made.X, made.Y, None, None, np.random.default_rng(seed))
        found = restarts(split, 1, noise_std=made.noise_std, rng=np.random.default_rng(seed))
        assert found.converged, found.status
        above, below = (acceptable(split, factor * made.noise_std, size) for factor in (0.5, 2.0))
        assert above.high < found.validation_error < below.low
        assert "noise_std is too large" in below.verdict(found.validation_error)
        # The errors of 960 entries scatter by 4.6 %: both ends are four such from one, and the fit adds 2 % at most.
        band = acceptable(split, made.noise_std, size)
        middle = made.noise_std**2 / np.mean(split.Y_val**2)
        assert 0.8 < band.low / middle < 0.85 and 1.18 < band.high / middle < 1.26


def test_the_range_widens_with_what_is_fitted():
    split, noise_std = split_of("gauss", 2, samples=400, noise=0.1)
    ends = [acceptable(split, noise_std, unknowns).high for unknowns in (0, 72, 144)]
    # 320 examples of 12 entries: 144 / (3840 - 144) of the noise and four times its scatter.
    assert ends == sorted(ends) and ends[2] / ends[0] == pytest.approx(1 + (144 + 4 * math.sqrt(288)) / 3696, rel=1e-6)


@pytest.mark.slow_for("4", "3-0.1-unknown noise", "3-0.1-known noise")
@pytest.mark.parametrize("told", [True, False], ids=["known noise", "unknown noise"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize(("dim", "samples"), [(3, 1500), (4, 2500)], ids=["3", "4"])
def test_heads_are_counted(dim, samples, noise, told):
    split, noise_std = split_of("gauss", 2, samples=samples, noise=noise, dim=dim)
    fit = select_heads(split, noise_std if told else None, np.random.default_rng(1), starts=2)
    assert fit.found.converged and len(fit.found.theta) == 2 == fit.evidence.heads


def test_starts_go_on_until_the_best_is_found_twice():
    """Of three correlated heads under 10 % noise, the first start is within 1.3 times the noise and is not the best."""
    theta, w = make_teacher("corr", 3, 6, scale=3.0, rng=3)
    made = make_examples(theta, w, samples=3000, tokens=2, noise=0.1, rng=3)
    split = hold_out(made.X, made.Y, None, None, np.random.default_rng(3))
    found = restarts(split, 3, noise_std=made.noise_std, rng=np.random.default_rng(3))
    assert found.times > 1 and "found" in found.status and not found.doubt
    once = restarts(split, 3, noise_std=made.noise_std, starts=1, rng=np.random.default_rng(3))
    assert once.times == 1 and "found once in 1 descents, for which all starts were used" in once.status


def test_no_number_of_heads_fits_noise():
    rng = np.random.default_rng(1)
    X, Y = rng.choice([-1.0, 1.0], (200, 2, 4)), rng.standard_normal((200, 2, 4))
    fit = select_heads(hold_out(X, Y, None, None, rng), 0.0, rng, starts=1, most=2)
    assert not fit.found.converged and fit.evidence.heads == 1 and fit.found.validation_error > 0.5
