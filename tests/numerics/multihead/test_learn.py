"""Learning a layer end to end: all inputs, unknown noise and heads, and every way to fail."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from attnlimits.numerics.core.results import as_dict
from attnlimits.numerics.multihead.errors import (
    Degenerate,
    DegenerateSum,
    InsufficientCertifiedRows,
    LearnError,
    LearnWarning,
    NoConsistentModel,
    NotIdentifiable,
)
from attnlimits.numerics.multihead.holdout import hold_out, sampled_error
from attnlimits.numerics.multihead.layer import multihead
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.risk import exact_risk
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher


def learned(theta, w, heads, method="auto", *, tokens=2, samples=1500, noise=0.0, told=True, **settings):
    made = make_examples(theta, w, samples=samples, tokens=tokens, noise=noise, rng=7)
    return learn_multihead(made.X, made.Y, heads, method, noise_std=made.noise_std if told else None, rng=0, **settings)


@pytest.mark.parametrize("method", ["auto", "restarts", "sculpt"])
def test_the_learned_layer_is_the_true_one_on_all_inputs(method):
    theta, w = make_teacher("gauss", 2, 6, rng=3)
    fit = learned(theta, w, 2, method)
    risk = exact_risk(fit.theta, fit.w, theta, w, 2)
    assert risk.inputs == 4096 and risk.largest < 1e-12
    assert fit.converged and fit.certificates.passed and fit.certificates.sensitivity > 1e-3
    assert parameter_error(fit.theta, fit.w, theta, w) < 1e-10
    assert fit.method == ("sculpt" if method == "sculpt" else "restarts")
    assert (fit.certificates.slack is not None) is (method == "sculpt")


def test_the_slack_of_sculpting_is_that_of_its_body():
    """From one seed the same body: the slack of a head is its worst constraint."""
    from attnlimits.numerics.multihead.sculpt.sculpt import sculpt

    theta, w = make_teacher("gauss", 2, 6, rng=3)
    made = make_examples(theta, w, samples=1500, tokens=2, rng=7)
    held = make_examples(theta, w, samples=300, tokens=2, rng=8)
    fit = learn_multihead(made.X, made.Y, 2, "sculpt", noise_std=0.0, X_val=held.X, Y_val=held.Y, rng=0)
    body = sculpt(made.X, made.Y, 2, noise_std=0.0, X_val=held.X, Y_val=held.Y, rng=0).body
    for part, slack in zip(fit.theta, fit.certificates.slack, strict=True):
        off = np.abs(np.sum(body.rows * part.ravel(), axis=1) - body.bound) / body.slack
        assert slack == pytest.approx(off.max(), rel=1e-9)


# Heads without noise are counted below; tests/numerics/multihead/test_restarts.py has noise that is estimated.
@pytest.mark.slow
@pytest.mark.parametrize("dim", [3, 4])
def test_nothing_told(dim):
    theta, w = make_teacher("gauss", 2, dim, rng=3)
    fit = learned(theta, w, "auto", noise=0.05, samples=2500, told=False, starts=3)
    clean = multihead(make_examples(theta, w, samples=2500, tokens=2, rng=7).X, theta, w)
    assert fit.heads == 2 and fit.converged
    assert fit.noise_std == pytest.approx(0.05 * np.sqrt(np.mean(clean**2)), rel=0.05)
    assert fit.certificates.expected_error < 0.05
    assert parameter_error(fit.theta, fit.w, theta, w) < 3 * fit.certificates.expected_error


def test_three_heads_are_counted():
    """Fewer of them leave something, with which one more head does away."""
    theta, w = make_teacher("gauss", 3, 4, rng=3)
    fit = learned(theta, w, "auto", tokens=3, samples=600, told=False, starts=2)
    assert fit.heads == 3 and fit.converged and fit.certificates.passed and fit.noise_std == 0.0
    assert parameter_error(fit.theta, fit.w, theta, w) < 1e-8


@pytest.mark.parametrize(
    ("dim", "scale", "samples"), [(6, 100.0, 2000), pytest.param(8, 300.0, 3000, marks=pytest.mark.slow)]
)
def test_saturated_heads(dim, scale, samples):
    """Logits of a hundred and more: few rows have slopes, and they are enough."""
    theta, w = make_teacher("gauss", 2, dim, scale=scale, rng=1)
    fit = learned(theta, w, 2, samples=samples)
    assert fit.converged and parameter_error(fit.theta, fit.w, theta, w) < 1e-8


def test_the_deviation_is_that_of_fresh_examples():
    theta, w = make_teacher("gauss", 2, 6, rng=3)
    # a layer that is a little off, beyond rounding
    fit = learned(theta[:1] + 0.05 * theta[1:], w[:1], 1, samples=800)
    held = [make_examples(theta[:1], w[:1], samples=200, tokens=2, rng=seed) for seed in range(200)]
    errors, said = np.array([sampled_error(one.X, one.Y, fit.theta, fit.w) for one in held]).T
    assert errors.mean() > 1e-4
    # 200 repetitions give a standard deviation to five per cent
    assert errors.std() == pytest.approx(said.mean(), rel=0.2)
    assert sampled_error(held[0].X[:1], held[0].Y[:1], fit.theta, fit.w)[1] == np.inf
    split = hold_out(held[0].X, held[0].Y, None, None, np.random.default_rng(0))
    own = learn_multihead(held[0].X, held[0].Y, 1, noise_std=0.0, X_val=split.X_val, Y_val=split.Y_val)
    again = sampled_error(split.X_val, split.Y_val, own.theta, own.w)
    assert (own.validation_error, own.validation_deviation) == pytest.approx(again, rel=1e-12)


def test_results_are_frozen_repeat_and_turn_into_json():
    theta, w = make_teacher("gauss", 1, 4, rng=3)
    fit, again = (learned(theta, w, 1, samples=200) for _ in range(2))
    assert np.array_equal(fit.theta, again.theta) and fit.seed == 0 and fit.how == "estimated"
    with pytest.raises(dataclasses.FrozenInstanceError):
        fit.heads = 2
    record = as_dict(fit)
    assert record["certificates"]["degeneracies"]["equal"] == [] and record["diagnostics"]["optimiser"] == "lm"


def test_validation_examples_of_ones_own():
    theta, w = make_teacher("gauss", 1, 4, rng=3)
    other, values = make_teacher("gauss", 1, 4, rng=4)
    made, held = (make_examples(*pair, samples=300, tokens=2, rng=5) for pair in ((theta, w), (other, values)))
    fit = learn_multihead(made.X, made.Y, 1, noise_std=0.0, X_val=made.X, Y_val=made.Y)
    assert fit.converged and fit.validation_error < 1e-20
    with pytest.raises(NoConsistentModel):
        learn_multihead(made.X, made.Y, 1, "restarts", noise_std=0.0, X_val=held.X, Y_val=held.Y, starts=2)


def teacher(heads, dim=8, family="gauss"):
    return make_teacher(family, heads, dim, rng=1)


def changed(change):
    theta, w = teacher(3)
    change(theta, w)
    return theta, w


def _equal(theta, w):
    theta[1] = theta[0]


def _silent(theta, w):
    w[1] = 0


def _invisible(theta, w):
    theta[1], w[1] = -theta[0], w[0]


def _flip(theta, w):
    w[1] = -w[0]


FAILURES = {
    "one token": (NotIdentifiable, "k >= 2", lambda: learned(*teacher(2), 2, tokens=1)),
    "d < m (k - 1)": (Degenerate, "d >= m", lambda: learned(*teacher(3, 4), 3, "sculpt", tokens=3)),
    "low rank": (DegenerateSum, "rank of S", lambda: learned(*teacher(2, family="lowrank"), 2, "sculpt")),
    "parity": (DegenerateSum, "rank of S", lambda: learned(*teacher(3, family="parity"), 3, "sculpt")),
    "few rows": (
        InsufficientCertifiedRows,
        "inside the simplex",
        lambda: learned(*teacher(2), 2, "sculpt", samples=45),
    ),
    "two of three heads": (
        NoConsistentModel,
        "validation error of the best layer of 2 heads",
        lambda: learned(*teacher(3), 2, "restarts", starts=2),
    ),
    "saturated": (
        NoConsistentModel,
        "validation error of the best layer of 2 heads",
        lambda: learned(*make_teacher("gauss", 2, 8, scale=3000.0, rng=1), 2, "restarts", starts=1),
    ),
    "equal heads": (NotIdentifiable, "one of many", lambda: learned(*changed(_equal), 3)),
    "silent head": (NotIdentifiable, "one of many", lambda: learned(*changed(_silent), 3)),
    "three of two heads": (NotIdentifiable, "one of many", lambda: learned(*teacher(2), 3)),
    "invisible pair": (NotIdentifiable, "opposite Theta", lambda: learned(*changed(_invisible), 3)),
    "flip": (NotIdentifiable, "sum of W = 0", lambda: learned(*changed(_flip), 3)),
}


@pytest.mark.slow_for("saturated")
@pytest.mark.parametrize("name", FAILURES)
def test_every_failure_by_an_instance(name):
    kind, words, run = FAILURES[name]
    with pytest.raises(kind, match="is needed; ") as caught:
        run()
    assert type(caught.value) is kind and words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_noise_alone_has_no_layer():
    rng = np.random.default_rng(1)
    X, Y = rng.choice([-1.0, 1.0], (600, 2, 4)), rng.standard_normal((600, 2, 4))
    for noise_std in (0.0, None):
        with pytest.raises(NoConsistentModel):
            learn_multihead(X, Y, 1, noise_std=noise_std, starts=1)


def test_not_strict_warns_and_returns_the_best():
    with pytest.warns(LearnWarning, match="validation error"):
        fit = learned(*teacher(3), 2, "restarts", starts=2, strict=False)
    assert not fit.converged and fit.validation_error > fit.accept and fit.theta.shape == (2, 8, 8)
    theta, w = changed(_flip)
    with pytest.warns(LearnWarning, match="sum of W = 0"):
        fit = learned(theta, w, 3, strict=False)
    # a true layer, and not the only one
    assert not fit.converged and fit.validation_error < 1e-20


def test_remedies_are_whole_and_errors_say_how_to_have_the_layer():
    with pytest.raises(NoConsistentModel) as caught:
        learned(*teacher(3), 2, "restarts", starts=2)
    with pytest.warns(LearnWarning) as warned:
        fit = learned(*teacher(3), 2, "restarts", starts=2, strict=False)
    said = "take another number of heads or noise level, more samples, or more starts"
    assert fit.remedy == caught.value.remedy == said
    assert str(caught.value).endswith(f"; {said}; strict=False returns this layer")
    # There is a layer already.
    assert str(warned[0].message) == caught.value.sentence and caught.value.sentence.endswith(said)


def test_sculpting_is_tried_where_restarts_fail(monkeypatch):
    from attnlimits.numerics.multihead import learn, restarts

    theta, w = make_teacher("gauss", 2, 6, rng=3)
    # one step from each start is no descent
    monkeypatch.setattr(restarts, "descended", partial(restarts.descended, steps=1))
    monkeypatch.setattr(restarts, "finished", lambda split, ends, *_: ends[0])
    fit = learned(theta, w, 2)
    assert fit.method == "sculpt" and fit.converged and parameter_error(fit.theta, fit.w, theta, w) < 1e-8
    with pytest.raises(NoConsistentModel, match="sculpting refuses: DegenerateSum"):
        learned(*teacher(2, family="lowrank"), 2, starts=1)
    X = np.random.default_rng(1).standard_normal((300, 2, 6))
    with pytest.raises(NoConsistentModel, match=r"sculpting refuses: entries of X other than \+-1"):
        learn.learn_multihead(X, multihead(X, theta, w), 2, noise_std=0.0, starts=1)


def test_restarts_take_any_inputs():
    theta, w = make_teacher("gauss", 2, 5, scale=1.0, rng=3)
    X = np.random.default_rng(1).standard_normal((600, 3, 5))
    fit = learn_multihead(X, multihead(X, theta, w), 2, noise_std=0.0)
    assert fit.converged and parameter_error(fit.theta, fit.w, theta, w) < 1e-8


def test_errors_are_pickled():
    import pickle

    error = Degenerate("the dimension", "3", "6", "fewer heads")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, LearnError) and str(again) == str(error)
    assert str(error) == "Degenerate: the dimension is 3, but 6 is needed; fewer heads"
    more = Degenerate("the dimension", "3", "6", "fewer heads", "strict=False returns this layer")
    assert str(pickle.loads(pickle.dumps(more))) == str(more) == f"{error}; strict=False returns this layer"


X2 = np.ones((4, 2, 3))
BAD = {
    "shape of X": (lambda: learn_multihead(np.ones((4, 6)), X2, 1), r"X must have shape \(n, k, d\)"),
    "empty": (lambda: learn_multihead(np.ones((0, 2, 3)), np.ones((0, 2, 3)), 1), r"got shape \(0, 2, 3\)"),
    "shapes differ": (lambda: learn_multihead(X2, np.ones((4, 2, 2)), 1), "must have the same shape"),
    "NaN": (lambda: learn_multihead(X2 * np.nan, X2, 1), "X must be finite, got 24 entries"),
    "infinite Y": (lambda: learn_multihead(X2, X2 * np.inf, 1), "Y must be finite"),
    "no numbers": (lambda: learn_multihead([["a"]], X2, 1), "X must be an array of numbers"),
    "zero Y": (lambda: learn_multihead(X2, 0 * X2, 1), "Y must not be zero everywhere"),
    "one sample": (lambda: learn_multihead(X2[:1], X2[:1], 1), "at least 2 samples"),
    "heads": (lambda: learn_multihead(X2, X2, 0), "heads must be an integer >= 1"),
    "heads of sculpting": (lambda: learn_multihead(X2, X2, "auto", "sculpt"), "heads must be an integer for method"),
    "method": (lambda: learn_multihead(X2, X2, 1, "adam"), "method must be one of auto, sculpt, restarts"),
    "noise": (lambda: learn_multihead(X2, X2, 1, noise_std=-1.0), "noise_std must be finite and >= 0"),
    "starts": (lambda: learn_multihead(X2, X2, 1, starts=0), "starts must be an integer >= 1"),
    "half of the validation": (lambda: learn_multihead(X2, X2, 1, X_val=X2), "must be given together"),
    "validation shape": (
        lambda: learn_multihead(X2, X2, 1, X_val=np.ones((4, 3, 3)), Y_val=np.ones((4, 3, 3))),
        "X_val must have samples of the shape",
    ),
    "not +-1": (lambda: learn_multihead(2 * X2, X2, 1, "sculpt"), r"X must have entries \+1 and -1 only"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_in_a_sentence(name):
    run, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        run()
