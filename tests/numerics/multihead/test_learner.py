"""The learner: scikit-learn's conventions, real inputs, progress, and what an interrupt leaves."""

import doctest

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.multihead import learner as module
from attnlimits.numerics.multihead.errors import LearnWarning
from attnlimits.numerics.multihead.layer import multihead
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.teachers import make_teacher
from attnlimits.numerics.multihead.watch import Watch


@pytest.fixture(scope="module")
def made():
    """Real inputs, outputs without noise, and the layer."""
    theta, w = make_teacher("gauss", 2, 4, scale=1.0, rng=1)
    X = np.random.default_rng(1).standard_normal((500, 3, 4))
    return X, multihead(X, theta, w), theta, w


def test_fit_is_learn_multihead_on_real_inputs(made):
    X, Y, theta, w = made
    learner = al.multihead.fit(X, Y)
    found = learn_multihead(X, Y, "auto")
    assert np.array_equal(learner.theta_, found.theta) and np.array_equal(learner.w_, found.w)
    assert (learner.heads_, learner.noise_std_, learner.converged_, learner.n_features_in_) == (2, 0.0, True, 4)
    assert parameter_error(learner.theta_, learner.w_, theta, w) < 1e-8


def test_predictions_and_score(made):
    X, Y, theta, w = made
    learner = al.multihead.fit(X, Y, heads=2, noise_std=0.0)
    # Another number of tokens.
    fresh = np.random.default_rng(2).standard_normal((50, 5, 4))
    assert np.allclose(learner.predict(fresh), multihead(fresh, theta, w), atol=1e-10)
    noisy = Y + np.random.default_rng(3).standard_normal(Y.shape)
    flat = noisy.reshape(-1, 4)
    expected = 1 - np.sum((noisy - Y) ** 2) / np.sum((flat - flat.mean(axis=0)) ** 2)
    assert learner.score(X, noisy) == pytest.approx(expected, rel=1e-8)
    assert learner.score(X, Y) == pytest.approx(1.0, abs=1e-12)


def test_parameters_in_and_out(made):
    learner = al.multihead.MultiheadLearner(3, starts=4)
    params = learner.get_params()
    assert params["heads"] == 3 and params["starts"] == 4 and params["method"] == "auto"
    assert type(learner)(**params).get_params() == params
    assert learner.set_params(heads="auto", rng=5) is learner and (learner.heads, learner.rng) == ("auto", 5)
    assert repr(learner).startswith("MultiheadLearner(heads='auto', method='auto'")
    with pytest.raises(ValueError, match="MultiheadLearner has no parameter 'head'"):
        learner.set_params(head=1)


def test_progress_counts_descents(made):
    X, Y, *_ = made
    seen = []
    al.multihead.fit(X, Y, progress=lambda done, total: seen.append((done, total)))
    done = [one for one, _ in seen]
    assert done == list(range(1, len(seen) + 1)) and all(one <= total for one, total in seen)


def test_an_interrupt_leaves_the_best_so_far(made):
    X, Y, *_ = made
    noisy = Y + 0.05 * np.random.default_rng(3).standard_normal(Y.shape)

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.warns(LearnWarning, match="the search for a layer is interrupted"):
        learner = al.multihead.fit(X, noisy, progress=stop)
    assert not learner.converged_ and "interrupted" in learner.result_.status
    assert learner.result_.remedy == "fit again"
    assert learner.predict(X).shape == X.shape and learner.score(X, noisy) > 0.5
    # Elsewhere an interrupt is one.
    with pytest.raises(KeyboardInterrupt):
        learn_multihead(X, noisy, "auto", watch=Watch(stop))


def test_nothing_is_kept_before_the_first_layer(monkeypatch, made):
    def stop(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlimits.numerics.multihead.restarts.descended", stop)
    with pytest.raises(KeyboardInterrupt):
        al.multihead.fit(*made[:2])


def test_the_example_runs():
    found = doctest.testmod(module)
    assert found.failed == 0 and found.attempted > 0


def test_misuse_is_refused_in_a_sentence(made):
    X, Y, *_ = made
    with pytest.raises(ValueError, match="not fitted yet"):
        al.multihead.MultiheadLearner().predict(X)
    learner = al.multihead.fit(X, Y, heads=2)
    with pytest.raises(ValueError, match="d = 4 as in fit, got 3"):
        learner.predict(X[:, :, :3])
    with pytest.raises(ValueError, match=r"X must have shape \(n, k, d\)"):
        learner.predict(X[0])
    with pytest.raises(ValueError, match="Y must vary"):
        learner.score(X, np.ones_like(X))
