"""Sculpting as a whole: learned against true layers, every refusal by a real instance, the pictures."""

import dataclasses
import math

import matplotlib
import numpy as np
import pytest

from attnlimits.numerics.multihead.errors import (
    Degenerate,
    DegenerateSum,
    InsufficientCertifiedRows,
    LinearProgramFailure,
    NoConsistentModel,
    NotIdentifiable,
)
from attnlimits.numerics.multihead.layer import multihead, nmse
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.sculpt import sculpt
from attnlimits.numerics.multihead.sculpt.certification import certify, differences, distinct
from attnlimits.numerics.multihead.sculpt.hull import span_residual
from attnlimits.numerics.multihead.sculpt.plots import hull_net, hull_singular_values, residual_histogram
from attnlimits.numerics.multihead.sculpt.programs import Polytope
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher

# Family, heads, tokens, dimension, scale, noise, samples.
QUICK = ("gauss", 2, 2, 8, 4.0, 0.0, 1000)


def instance(row, seed):
    """Teacher, examples, and clean ones to test on."""
    family, heads, tokens, dim, scale, noise, samples = row
    rng = np.random.default_rng(seed)
    theta, w = make_teacher(family, heads, dim, scale=scale, rng=rng)
    made = make_examples(theta, w, samples=samples, tokens=tokens, noise=noise, rng=rng)
    return theta, w, made, make_examples(theta, w, samples=2000, tokens=tokens, rng=rng)


@pytest.fixture(scope="module")
def learned():
    theta, w, made, test = instance(QUICK, 11)
    return theta, w, test, sculpt(made.X, made.Y, 2, rng=3)


def test_two_heads_are_learned(learned):
    theta, w, test, found = learned
    # Rounding of outputs, beside a condition number of about 10.
    assert nmse(test.Y, multihead(test.X, found.theta, found.w)) < 1e-24
    assert parameter_error(found.theta, found.w, theta, w) < 1e-10
    assert found.converged and found.validation_error < 1e-24 and "accepted" in found.status
    assert found.noise_std == 0 and found.seed == 3


def test_every_step_can_be_looked_at(learned):
    theta, w, _, found = learned
    s = w.sum(axis=0)
    crude, better = (np.linalg.norm(a - s) / np.linalg.norm(s) for a in (found.crude, found.certification.s))
    assert 0.05 < crude < 0.4 and better < 0.03
    assert span_residual(found.hull, theta).max() < 0.2
    assert 0.1 < found.least_level < 20
    first = found.nets[0]
    known = np.tensordot(theta - found.hull.proxy, found.hull.directions, ([1, 2], [1, 2]))
    assert first.box.low < known.min() and known.max() < first.box.high
    assert found.attempts[-1].regression_error < 0.1 and found.attempts[-1].validation_error < 1e-20
    assert set(found.seconds) == {
        "crude sum", "certification", "body and hull", "linear programs", "net", "refinement"
    }  # fmt: skip
    assert all(seconds >= 0 for seconds in found.seconds.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.converged = False


def test_the_box_of_the_net_is_cut_by_one_sided_constraints(learned):
    """By the linear programs once more, with these constraints as in the algorithm, and without them."""
    found = learned[3]
    body, level = found.body.tightest(1500), max(3.0, 4.0 * found.least_level)
    cut, free = (Polytope(body, found.one_sided.tightest(n), found.hull, 30.0).box(level) for n in (500, 0))
    box = found.nets[0].box
    assert np.allclose([box.low, box.high], [cut.low, cut.high], rtol=1e-6)
    assert box.high[0] - box.low[0] < 0.99 * (free.high[0] - free.low[0])


def test_a_seed_repeats_itself():
    _, _, made, _ = instance(("gauss", 2, 2, 6, 4.0, 0.0, 500), 6)
    first, again = (sculpt(made.X, made.Y, 2, rng=3) for _ in range(2))
    assert np.array_equal(again.theta, first.theta) and np.array_equal(again.w, first.w)


def test_one_head_by_large_margins():
    theta, w, made, test = instance(("gauss", 1, 2, 8, 4.0, 0.0, 2000), 5)
    found = sculpt(made.X, made.Y, 1, rng=0)
    assert nmse(test.Y, multihead(test.X, found.theta, found.w)) < 1e-24
    assert found.margin is not None and found.margin.margin > 8
    s = w.sum(axis=0)
    assert np.linalg.norm(found.margin.s - s) < 5e-5 * np.linalg.norm(s)
    # The thinner body alone gives Theta, before any descent.
    assert np.linalg.norm(found.hull.proxy - theta[0]) < 1e-3 * np.linalg.norm(theta[0])


def test_the_body_of_one_head_is_made_with_the_sum_of_large_margins():
    """At logits of 8 margins are larger, and their sum fits rows better than that of certification."""
    theta, w, made, _ = instance(("gauss", 1, 2, 8, 8.0, 0.0, 2000), 5)
    found = sculpt(made.X, made.Y, 1, rng=0)
    assert np.array_equal(found.certification.s, found.margin.s)
    s = w.sum(axis=0)
    before = certify(*(part[distinct(made.X)] for part in (made.X, made.Y)), found.crude, 1).s
    assert np.linalg.norm(found.margin.s - s) < 0.1 * np.linalg.norm(before - s)
    assert np.linalg.norm(found.hull.proxy - theta[0]) < 1e-7 * np.linalg.norm(theta[0])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_noise_does_not_hide_the_rank_of_the_sum(noise, known):
    """Values of one direction: noise gives the estimated sum every rank, and none that counts."""
    _, _, made, _ = instance(("lowrank", 2, 2, 8, 4.0, noise, 3000), 1)
    with pytest.raises(DegenerateSum, match=r"rank of S.* is 1, but min\(d, m \(k - 1\) \+ 1\) = 3"):
        sculpt(made.X, made.Y, 2, noise_std=made.noise_std if known else None, rng=0)


@pytest.mark.slow_for("True")
@pytest.mark.parametrize("known", [True, False])
def test_noise_known_and_unknown(known):
    theta, w, made, test = instance(("gauss", 2, 2, 6, 4.0, 0.1, 3000), 6)
    found = sculpt(made.X, made.Y, 2, noise_std=made.noise_std if known else None, rng=0)
    # 144 unknowns from 28800 noisy entries leave 0.5 per cent of the noise's power.
    assert nmse(test.Y, multihead(test.X, found.theta, found.w)) < 0.05 * 0.1**2
    assert parameter_error(found.theta, found.w, theta, w) < 0.05
    # 7200 held-out residuals: 0.8 per cent, and what the fit adds.
    assert found.noise_std == pytest.approx(made.noise_std, rel=0.0 if known else 0.03)


def test_few_examples_are_enough_where_certified_rows_are():
    theta, w, made, _ = instance(("gauss", 2, 2, 8, 4.0, 0.0, 100), 8)
    found = sculpt(made.X, made.Y, 2, rng=0)
    assert parameter_error(found.theta, found.w, theta, w) < 1e-8
    assert span_residual(found.hull, theta).max() > 0.1  # the hull is poor: the descent made up for it


def test_saturated_heads_take_all_examples():
    """Few rows show Theta at logits of 300: the descents from 400 samples miss it, the last one, from all, does not."""
    theta, w, made, _ = instance(("saturated", 2, 2, 6, 300.0, 0.0, 2000), 2)
    found = sculpt(made.X, made.Y, 2, rng=0)
    assert min(attempt.validation_error for attempt in found.attempts) > found.accept
    assert found.converged and parameter_error(found.theta, found.w, theta, w) < 1e-8


def test_rows_partly_inside_count():
    """With four tokens few rows are inside with all weights: fewer than d^2 unknowns, and yet enough."""
    theta, w, made, _ = instance(("gauss", 2, 4, 8, 4.0, 0.0, 64), 2)
    found = sculpt(made.X, made.Y, 2, rng=0)
    assert found.certified < 96 < differences(found.certification.patterns)
    assert parameter_error(found.theta, found.w, theta, w) < 1e-8


# The refusal is that of a wrong number of heads.
@pytest.mark.slow_for("saturated")
@pytest.mark.parametrize(
    ("row", "heads", "error", "sentence"),
    [
        (("gauss", 2, 1, 8, 4.0, 0.0, 50), 2, NotIdentifiable, r"one token per sample.*k >= 2"),
        (("gauss", 3, 3, 4, 4.0, 0.0, 100), 3, Degenerate, r"is 4, but d >= m \(k - 1\) = 6"),
        (("lowrank", 2, 2, 8, 4.0, 0.0, 500), 2, DegenerateSum, r"rank of S.* is 1"),
        (("parity", 3, 2, 8, None, 0.0, 500), 3, DegenerateSum, r"rank of S.* is 1"),
        (("gauss", 2, 2, 8, 4.0, 0.0, 45), 2, InsufficientCertifiedRows, r"1.5 d\^2 = 96"),
        (("saturated", 2, 2, 4, 300.0, 0.0, 2000), 2, InsufficientCertifiedRows, r"depend on is 9, but each of 16"),
        (("gauss", 3, 2, 5, 4.0, 0.0, 500), 2, NoConsistentModel, r"number of heads \(2\)"),
        (("saturated", 2, 2, 6, 3000.0, 0.0, 1000), 2, NoConsistentModel, r"validation error"),
    ],
    ids=["k=1", "d<m(k-1)", "aligned", "parity", "few", "one direction", "heads", "saturated"],
)
def test_refusals(row, heads, error, sentence):
    _, _, made, _ = instance(row, 1)
    with pytest.raises(error, match=sentence):
        sculpt(made.X, made.Y, heads, rng=0)


def test_pure_noise_has_no_consistent_model():
    rng = np.random.default_rng(0)
    X = 2.0 * rng.integers(0, 2, (500, 2, 6)) - 1
    found = sculpt(X, rng.standard_normal(X.shape), 2, strict=False, rng=0)
    assert not found.converged and "not below" in found.status and found.validation_error > 0.9
    assert len(found.attempts) == 10 and len(found.nets) == 3


def test_linear_programs_out_of_time():
    _, _, made, _ = instance(QUICK, 11)
    with pytest.raises(LinearProgramFailure, match="raise time_limit"):
        sculpt(made.X, made.Y, 2, time_limit=1e-6, rng=0)


def test_bad_arguments():
    _, _, made, _ = instance(QUICK, 11)
    X, Y = made.X, made.Y
    for arguments, sentence in [
        ((0.5 * X, Y, 2), r"X must have entries \+1 and -1 only.*restarts"),
        ((X, Y[:5], 2), "same shape"),
        ((X, np.where(X > 0, Y, math.nan), 2), "finite"),
        ((X, Y, 0), "heads must be an integer >= 1"),
        ((X, Y, True), "heads must be an integer >= 1"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            sculpt(*arguments)
    for arguments, sentence in [
        ({"noise_std": -1.0}, "noise_std must be finite and >= 0"),
        ({"time_limit": 0.0}, "time_limit must be"),
        ({"X_val": X}, "X_val and Y_val must be given together"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            sculpt(X, Y, 2, **arguments)


def test_pictures(learned):
    theta, _, _, found = learned
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3)
    residual_histogram(axes[0], found)
    hull_singular_values(axes[1], found)
    hull_net(axes[2], found, theta)
    drawn = sum(patch.get_xy()[:, 1].max() for patch in axes[0].patches)
    assert 0 < drawn <= found.certification.patterns.rho.size
    assert [len(line.get_xdata()) for line in axes[1].lines] == [63, 1]
    assert [len(line.get_xdata()) for line in axes[2].lines] == [31, 2, 2, 2]
    plt.close(figure)
    with pytest.raises(ValueError, match="two heads or more"):
        hull_net(None, dataclasses.replace(found, theta=found.theta[:1]))
