"""Gradient descent on a student, and the limits of several layers."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from attnlimits.numerics.aim.channels import channel, pairs
from attnlimits.numerics.aim.data import indices, make_data, teacher
from attnlimits.numerics.aim.gd import descend, loss_and_gradient, unfinished
from attnlimits.numerics.aim.layers import deep_outputs, joint_covariance, network_matrix, prior_overlap
from attnlimits.numerics.aim.results import DescentResult
from attnlimits.numerics.aim.spectrum import mmse
from attnlimits.numerics.aim.state_evolution import evolve


@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_gradient_against_differences(name, rng):
    output = channel(name, 3, 1.5)
    x, y = make_data(teacher(6, 0.5, rng), 0.2, output, rng)
    W, h = rng.standard_normal((6, 2)), 1e-6
    loss, slope = loss_and_gradient(x, y, output, W)
    S = W @ W.T / math.sqrt(12)
    made = indices(x, S) if name == "linear" else softmax(1.5 * indices(x, S), axis=2)
    assert loss == pytest.approx(((made - y) ** 2).sum() / 6, rel=1e-12)
    for i, j in [(0, 0), (3, 1), (5, 0)]:
        step = np.zeros_like(W)
        step[i, j] = h
        up, down = (loss_and_gradient(x, y, output, W + s * step)[0] for s in (1, -1))
        assert slope[i, j] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


def test_descent_interpolates_and_its_average_is_better():
    """Far below recovery single students fit the data and miss S; their mean comes near the limit, from above."""
    output = channel("softmax")
    S = teacher(40, 0.5, 0)
    x, y = make_data(S, 0.08, output, 0)
    found = descend(x, y, output, 0.5, students=6, steps=300, teacher=S)
    begin = loss_and_gradient(x, y, output, np.random.default_rng(7).standard_normal((40, 20)))[0]
    assert (found.loss < 1e-2 * begin).all()
    limit = evolve(0.08, 0.5, output).mmse.value
    assert 0.9 * limit < found.mmse < found.single
    assert descend(x, y, output, 0.5, steps=5).converged is False


def test_mean_of_more_students():
    """A + B/k: from three students what twelve have, of which they are some; one student is the mean of one."""
    output = channel("softmax")
    S = teacher(16, 0.5, 0)
    x, y = make_data(S, 0.1, output, 0)
    few, many = (descend(x, y, output, 0.5, students=k, steps=200, teacher=S, rng=3) for k in (3, 12))
    assert few.of_mean(1) == pytest.approx(few.single) and few.of_mean(3) == pytest.approx(few.mmse)
    assert few.of_mean(12) == pytest.approx(many.mmse, rel=0.35)
    assert many.of_mean(3) == pytest.approx(few.mmse, rel=0.35)
    with pytest.raises(ValueError, match="at least two students"):
        descend(x, y, output, 0.5, steps=2, teacher=S).of_mean(2)


def test_mean_of_more_students_is_that_of_exchangeable_numbers(rng):
    """Errors of 1, 4 and 32 numbers with a common part, by sampling."""
    draws = rng.normal(size=(20_000, 1)) + 0.7 * rng.normal(size=(20_000, 32))
    single, four, many = (float((draws[:, :k].mean(axis=1) ** 2).mean()) for k in (1, 4, 32))
    found = DescentResult(np.eye(2), np.zeros(4), four, single, 4, 0, True, "", 0)
    # Five standard errors of a mean of squares of about 1.
    assert found.of_mean(32) == pytest.approx(many, abs=5 * math.sqrt(2 / 20_000) * 1.5)
    assert found.of_mean(4) == pytest.approx(four) and found.of_mean(1) == pytest.approx(single)


def test_descent_stops_when_the_data_are_fitted():
    """Two samples of 136 unknowns."""
    output = channel("softmax")
    x, y = make_data(teacher(16, 1.0, 0), 2 / 256, output, 0)
    found = descend(x, y, output, 1.0, students=2, steps=3000)
    assert found.converged and found.n_iter < 3000 and found.status.startswith("converged after")


@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_steps_that_are_too_large_have_not_converged(name):
    """Outputs of softmax saturate, so that the loss is high and has no slope; linear ones grow."""
    output = channel(name)
    x, y = make_data(teacher(12, 0.5, 0), 0.3, output, 0)
    found = descend(x, y, output, 0.5, rate=1e6, steps=60)
    assert not found.converged and "the loss ends above that of S = 0; lower rate" in found.status


def test_a_loss_that_turns_below_that_of_nothing_has_not_settled():
    """Labels of other samples cannot be fitted: small steps settle, and large ones turn about the same loss."""
    output = channel("softmax")
    x, y = make_data(teacher(12, 0.5, 0), 0.3, output, 0)
    y = y[np.random.default_rng(0).permutation(len(y))]
    small, large = (descend(x, y, output, 0.5, rate=rate, steps=300, students=1) for rate in (0.1, 0.3))
    assert small.converged and small.status == "converged after 300 steps"
    nothing = loss_and_gradient(x, y, output, np.zeros((12, 6)))[0]
    assert not large.converged and large.loss[0] < nothing
    assert large.status == "not converged after 300 steps: the loss rises or turns; lower rate"


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ([0.5] * 11, ""),
        ([0.5 - 1e-5 * k for k in range(11)], ""),
        ([0.5 + 1e-2 * k for k in range(11)], "the loss rises"),
        ([0.5 + 1e-2 * (k % 2) for k in range(11)], "the loss rises or turns"),
        ([0.5 - 1e-2 * k for k in range(11)], "the loss still falls; raise steps"),
        ([0.95] * 11, "the loss ends above that of S = 0; lower rate"),
        ([0.5] * 10 + [float("nan")], "the loss ends above"),
        ([1e-9] * 11, ""),
    ],
)
def test_endings_of_a_descent(last, why):
    """The last tenth of a hundred steps from a loss of one, with S = 0 at 0.9."""
    found = unfinished([1.0, *np.linspace(1.0, last[0], 89), *last], 100, 0.9)
    assert found.startswith(why) and bool(found) == bool(why)


def test_descent_on_blocks():
    """A function that gives blocks of rows: as from arrays, whose lengths are compared in every block."""
    output = channel("softmax")
    x, y = make_data(teacher(8, 0.5, 0), 0.4, output, 0)
    whole, blocks = descend(x, y, output, 0.5, steps=20), lambda: [(x[:5], y[:5]), (x[5:], y[5:])]
    assert np.array_equal(descend(blocks, None, output, 0.5, steps=20).estimate, whole.estimate)
    with pytest.raises(ValueError, match="as many samples, got 3 and 4"):
        descend(lambda: [(x[:3], y[:4]), (x[3:7], y[4:7])], None, output, 0.5)
    with pytest.raises(ValueError, match=r"the same d .*, got 7 and 8"):
        descend(lambda: [(x[:3], y[:3]), (x[3:, :, 1:], y[3:])], None, output, 0.5)
    with pytest.raises(ValueError, match="y must be None"):
        descend(lambda: [(x, y)], y, output, 0.5)


def test_descent_refuses():
    output = channel("softmax")
    x, y = make_data(teacher(8, 0.5, 0), 0.2, output, 0)
    for call, words in [
        (lambda: descend(x, np.eye(2)[None], channel("hardmax"), 0.5), "slopes of softmax or linear"),
        (lambda: descend(x[:-1], y, output, 0.5), "as many samples"),
        (lambda: descend(np.where(x > 1, np.nan, x), y, output, 0.5), "x must be finite"),
        (lambda: descend(x, y, output, 0.5, students=0), "students"),
        (lambda: descend(x, y, output, 0.5, rate=0.0), "rate"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


def test_layers_covary_by_their_means(rng):
    """Cov(h^l_ab, h^l'_ab)/(1 + delta_ab) over tokens, at d = 80 to sampling errors of some 4 per cent."""
    d, rho, tokens = 80, (0.5, 2.0), 2
    S = [teacher(d, r, rng) for r in rho]
    x = rng.standard_normal((6000, tokens, d))
    rows, columns = pairs(tokens)
    h = np.stack([indices(x, s)[:, rows, columns] for s in S])
    covariance = np.einsum("lnp,mnp->plm", h, h) / len(x) / (1 + (rows == columns))[:, None, None]
    wanted = np.array([[np.trace(a @ b) / d for b in S] for a in S])
    assert np.allclose(covariance, wanted, rtol=0.1)
    # Tr S S'/d fluctuates by some 1/d, and so does its limit's correction.
    assert np.allclose(wanted, joint_covariance(rho), rtol=0.08)


def test_prior_overlap_and_its_limits():
    q = prior_overlap(np.diag([1.0, 5.0]), [0.5, 2.0])
    assert q[0, 0] == pytest.approx(1.5 - mmse(0.5, 1.0).value)
    assert q[1, 1] == pytest.approx(3.0 - mmse(2.0, 0.2).value)
    assert q[0, 1] == pytest.approx(1.0)
    # Nothing seen: the means alone.
    assert np.allclose(prior_overlap(np.zeros((2, 2)), [0.5, 2.0]), joint_covariance([0.5, 2.0]) - np.eye(2))
    # Both limits are approached by finite widths.
    wide = [1e8, 2e8]
    field = np.diag([1.0, 5.0])
    assert np.allclose(prior_overlap(field, wide) - joint_covariance(wide), -np.diag([1 / 2, 1 / 6]), atol=1e-3)
    coupled = np.array([[1.0, 0.5], [0.5, 2.0]])
    V = joint_covariance(wide) - prior_overlap(coupled, wide, limit="large")
    assert np.allclose(V @ (np.eye(2) + coupled), np.eye(2), atol=1e-6)
    thin = np.array([1e-6, 2e-6])
    small = prior_overlap(np.diag(thin / [0.4, 2.0]), thin, limit="small")
    assert np.allclose(small, np.diag([0.36, 0.0]))
    assert np.allclose(prior_overlap(np.diag(thin / [0.4, 2.0]), thin), small, atol=5e-5)


def test_deep_outputs_against_a_loop(rng):
    h = rng.standard_normal((3, 4, 2, 2))
    h = h + h.swapaxes(2, 3)
    found = deep_outputs(h, 0.7, 1.3)
    for k in range(4):
        B = np.eye(2)
        for layer in (0, 1):
            B = (0.7 * np.eye(2) + softmax(1.3 * B @ h[layer, k] @ B.T, axis=1)) @ B
        assert np.allclose(network_matrix(h[:2], 0.7, 1.3)[k], B, atol=1e-14)
        assert np.allclose(found[k], softmax(1.3 * B @ h[2, k] @ B.T, axis=1), atol=1e-14)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: prior_overlap(np.ones((2, 2)), [1, 1]), "no closed form"),
        (lambda: prior_overlap(np.eye(3), [1, 1]), "symmetric matrix"),
        (lambda: prior_overlap(-np.eye(2), [1, 1]), "positive semi-definite"),
        (lambda: prior_overlap(np.eye(2), [1, 1], limit="none"), "limit must be"),
        (lambda: joint_covariance([]), "at least one layer"),
        (lambda: joint_covariance([-1.0]), "must be finite and >= 0"),
        (lambda: deep_outputs(np.zeros((2, 2, 2)), 1.0), "shape"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
