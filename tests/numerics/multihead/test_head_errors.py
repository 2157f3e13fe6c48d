"""What is stated of each head beside the truth: weak heads, heads that are nearly alike, and layers found once."""

import math
import warnings

import numpy as np
import pytest
from families import alike

from attnlimits.numerics.multihead.certificates import certify
from attnlimits.numerics.multihead.errors import LearnWarning
from attnlimits.numerics.multihead.head_errors import HeadError, expected_error
from attnlimits.numerics.multihead.layer import jacobian
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import match_heads
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher


def weak(m, d, rng):
    """Norms of W over a factor of 30."""
    theta, w = make_teacher("gauss", m, d, rng=rng)
    return theta, w * 30.0 ** -(np.arange(m) / (m - 1))[:, None, None]


def weak_attention(m, d, rng):
    """Norms of Theta over a factor of 30."""
    theta, w = make_teacher("gauss", m, d, rng=rng)
    return theta * 30.0 ** -(np.arange(m) / (m - 1))[:, None, None], w


def learned(family, m, d, samples, noise, seed):
    """Heads of the truth, in the order of what was learned, beside the fit."""
    theta, w = family(m, d, np.random.default_rng([seed, 0]))
    made = make_examples(theta, w, samples=samples, tokens=2, noise=noise, rng=np.random.default_rng([seed, 1]))
    with warnings.catch_warnings():
        # The status says the same.
        warnings.simplefilter("ignore", LearnWarning)
        fit = learn_multihead(made.X, made.Y, m, "restarts", noise_std=made.noise_std, strict=False)
    order = np.argsort(match_heads(fit.theta, fit.w, theta, w))
    return fit, theta[order], w[order]


@pytest.mark.parametrize(
    ("family", "m", "d", "samples", "noise", "seed"),
    [(weak, 2, 5, 1000, 0.05, 1), pytest.param(weak, 2, 6, 2000, 0.05, 2, marks=pytest.mark.slow)],
)
def test_weak_heads_are_within_their_errors(family, m, d, samples, noise, seed):
    fit, theta, w = learned(family, m, d, samples, noise, seed)
    heads = fit.certificates.heads
    assert len(heads) == m and fit.certificates.error_status == "of the noise, to first order"
    for head, *pairs in zip(heads, zip(fit.theta, theta, strict=True), zip(fit.w, w, strict=True), strict=True):
        for (found, true), error in zip(pairs, (head.theta_error, head.w_error), strict=True):
            assert np.linalg.norm(found - true) < error
            assert abs(np.linalg.norm(found) - np.linalg.norm(true)) < error


@pytest.mark.slow_for("alike")
@pytest.mark.parametrize(
    ("family", "m", "d", "samples", "noise", "seed", "why"),
    [
        (alike, 2, 6, 2000, 0.2, 2009, "the Jacobian is singular"),
        (weak_attention, 3, 5, 2000, 0.2, 2013, "other parameters fit equally well"),
    ],
)
def test_layers_that_fit_equally_well_have_no_stated_error(family, m, d, samples, noise, seed, why):
    """The first accepted start ends elsewhere than the truth, 10 times its errors off."""
    fit, _, _ = learned(family, m, d, samples, noise, seed)
    told = fit.certificates
    assert told.expected_error is None and told.heads is None
    assert told.error_status.startswith(f"not known: {why}")


def test_a_start_that_is_no_best_one_is_left():
    """Accepted 6 % above the best one, the first start is a local minimum; the best one is found twice."""
    fit, _, w = learned(weak, 3, 5, 1000, 0.05, 2023)
    losses = fit.diagnostics["start_losses"]
    assert losses[0] > 1.05 * min(losses) and losses[0] <= fit.accept
    if fit.certificates.heads is not None:
        for head, found, true in zip(fit.certificates.heads, fit.w, w, strict=True):
            assert np.linalg.norm(found - true) < head.w_error
    # 2000 held-out entries scatter by 3.2 %.
    assert fit.validation_error <= fit.accept


def test_a_layer_found_once_has_no_stated_error():
    theta, w = make_teacher("gauss", 2, 5, rng=1)
    made = make_examples(theta, w, samples=800, tokens=2, noise=0.1, rng=2)
    once = learn_multihead(made.X, made.Y, 2, "restarts", noise_std=made.noise_std, starts=1, strict=False)
    assert once.certificates.expected_error is None and "one of 1 starts" in once.certificates.error_status
    # Certificates of the parameters themselves do not change with it.
    assert once.certificates.passed


def test_deviations_are_those_of_the_normal_equations():
    theta, w = make_teacher("gauss", 2, 4, rng=3)
    X = np.random.default_rng(4).choice([-1.0, 1.0], (200, 2, 4))
    told = certify(X, theta, w, noise_std=0.1)
    J = jacobian(X, theta, w)
    blocks = np.diag(0.01 * np.linalg.inv(J.T @ J)).reshape(2, 2, -1).sum(axis=2)
    found = np.array([[head.theta_deviation for head in told.heads], [head.w_deviation for head in told.heads]])
    assert np.allclose(found**2, blocks, rtol=1e-8)
    for head in told.heads:
        # Between many directions alike and one that has it all.
        assert head.theta_deviation < head.theta_error < 2.29 * head.theta_deviation
        assert head.theta_norm - head.theta_error > 0 and not head.maybe_zero


def test_a_head_without_values_may_be_zero():
    theta, w = make_teacher("gauss", 2, 4, rng=3)
    w[1] *= 1e-3
    told = certify(np.random.default_rng(4).choice([-1.0, 1.0], (200, 2, 4)), theta, w, noise_std=0.1)
    assert [head.maybe_zero for head in told.heads] == [False, True]
    assert told.expected_error == math.inf == told.heads[1].relative
    assert not told.passed and "1 may be zero" in told.status


def test_norms_are_taken_without_their_share_of_noise():
    head = HeadError(5.0, 3.0, 4.0, 2.0, 0.1, 0.2, False)
    assert expected_error((head,)) == pytest.approx(3 / 4) and head.relative == pytest.approx(4.0)
