"""Decisions that rounding must not tip: outputs off in their last bits lead to the same layer by the same steps."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnlimits.numerics.multihead.crowd import Crowd
from attnlimits.numerics.multihead.errors import InsufficientCertifiedRows
from attnlimits.numerics.multihead.holdout import EXACT, hold_out
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.refine import Descent
from attnlimits.numerics.multihead.resolution import resolution
from attnlimits.numerics.multihead.restarts import descended, finished
from attnlimits.numerics.multihead.sculpt import sculpt
from attnlimits.numerics.multihead.sculpt.assumptions import check_bounded
from attnlimits.numerics.multihead.sculpt.body import slabs
from attnlimits.numerics.multihead.sculpt.certification import certify, distinct
from attnlimits.numerics.multihead.sculpt.crude_sum import crude_sum
from attnlimits.numerics.multihead.sculpt.hull import affine_hull
from attnlimits.numerics.multihead.sculpt.net import best_tuples
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher
from attnlimits.numerics.multihead.undetermined import open_directions


def instance(family, scale, samples, *, seed=2, dim=6, noise=0.0):
    rng = np.random.default_rng(seed)
    theta, w = make_teacher(family, 2, dim, scale=scale, rng=rng)
    return theta, w, make_examples(theta, w, samples=samples, tokens=2, noise=noise, rng=rng)


def last_bits(Y, seed):
    return Y * (1 + 2e-16 * np.random.default_rng(seed).integers(-2, 3, Y.shape))


@pytest.mark.parametrize(
    ("family", "scale"), [("saturated", 300.0), ("saturated", 30.0), ("gauss", 4.0), ("corr", 1.0), ("sameW", 1.0)]
)
def test_trimming_keeps_the_same_rows(family, scale):
    """Twelve signs have 4096 inputs and far fewer residuals: quantiles lie on rows that tie."""
    _, _, made = instance(family, scale, 1200)
    kept = distinct(made.X)
    x, y = made.X[kept], made.Y[kept]
    first, *others = (
        certify(x, out, crude_sum(x, out), 2) for out in (y, last_bits(y, 1), last_bits(y, 2), last_bits(y, 3))
    )
    for other in others:
        assert [a.kept for a in other.rounds] == [a.kept for a in first.rounds] and other.status == first.status
        # Rounding, and what thirty rounds of least squares make of it.
        assert np.linalg.norm(other.s - first.s) < 1e-9 * np.linalg.norm(first.s)


def test_hull_has_one_sign():
    _, _, made = instance("gauss", 4.0, 800)
    kept = distinct(made.X)
    x, y = made.X[kept], made.Y[kept]
    found = certify(x, y, crude_sum(x, y), 2)
    body = slabs(x, found.patterns, found.s, 0.0)
    hull = affine_hull(body, 2)
    # Constraints in another order: sums in another order, and eigenvectors of either sign.
    order = np.lexsort((np.random.default_rng(0).random(len(body)), body.slack))[::-1]
    turned = type(body)(body.query[order], body.difference[order], body.bound[order], body.slack[order])
    turned = turned.tightest(len(body))
    back = np.argsort(turned.slack, kind="stable")
    turned = type(body)(turned.query[back], turned.difference[back], turned.bound[back], turned.slack[back])
    assert np.allclose(affine_hull(turned, 2).directions, hull.directions, atol=1e-8)
    assert np.all(hull.basis @ np.cos(np.arange(36)) >= 0)


def test_directions_that_constraints_depend_on_are_counted_by_their_rank():
    """Nine rows of integers leave seven directions of sixteen open, in whatever coordinates."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 2, (9, 16)).astype(float)[rng.integers(0, 9, 200)]
    assert np.linalg.matrix_rank(rows) == 9
    for _ in range(5):
        turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
        with pytest.raises(InsufficientCertifiedRows, match="depend on is 9, but each of 16"):
            check_bounded(rows @ turn)
    check_bounded(rng.integers(-1, 2, (200, 16)).astype(float))


def test_of_equal_tuples_the_first_is_taken():
    tuples = np.array([[0, 1], [2, 3], [4, 5]])
    for error in ([0.5, 0.3, 0.3 - 1e-13], [0.5, 0.3 - 1e-13, 0.3]):
        assert best_tuples(SimpleNamespace(tuples=tuples, error=np.array(error)), 2) == [1, 2]


def test_the_first_of_equal_ends_is_the_best():
    """The same layer with its heads in another order, and a loss that is less in the last bits."""
    theta, w, made = instance("gauss", 4.0, 400, noise=0.1)
    split = hold_out(made.X, made.Y, None, None, np.random.default_rng(0))
    loss = 0.01
    for off in (1e-12, -1e-12):
        crowd = Crowd(split, len(split.X), 2 * theta.size, made.noise_std)
        crowd.add(Descent(theta, 1.5 * w, 0.3, 1, ""))
        crowd.add(Descent(theta, w, loss, 1, ""))
        crowd.add(Descent(theta[::-1], w[::-1], loss * (1 + off), 1, ""))
        assert crowd.best == 1 and crowd.times == 2


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 3, 0, 1]])
def test_what_inputs_leave_open_has_one_basis(order):
    """Three equal coordinates, and two opposite ones: of a plane of null vectors every basis is as good."""
    X = np.random.default_rng(1).choice([-1.0, 1.0], (300, 2, 6))
    X[:, :, 2], X[:, :, 4], X[:, :, 5] = X[:, :, 0], X[:, :, 0], -X[:, :, 1]
    first = open_directions(X)
    rng = np.random.default_rng(order)
    other = open_directions(X[rng.permutation(300)][:, ::-1])
    assert np.allclose(other.absent, first.absent, atol=1e-9)
    # The reduced echelon form: leading coordinates 0, 1 and 2.
    expected = np.array([[1, 0, 0, 0, -1, 0], [0, 1, 0, 0, 0, 1], [0, 0, 1, 0, -1, 0]])
    assert np.allclose(first.absent, expected, atol=1e-9)
    assert other.sentences(2) == first.sentences(2)


def test_a_singular_layer_has_no_resolution_whatever_its_rounding():
    theta, w, made = instance("gauss", 4.0, 600, dim=4, noise=0.1)
    for seed in range(4):
        # Equal heads: their W are determined by the sum alone.
        near = np.stack([theta[0], theta[0] * (1 + 1e-15 * np.random.default_rng(seed).standard_normal((4, 4)))])
        split = hold_out(made.X, made.Y, None, None, np.random.default_rng(seed))
        assert resolution(split, near, w, made.noise_std) is None
    assert resolution(split, theta, w, made.noise_std) is not None


def test_ends_in_a_valley_go_on_with_all_examples():
    """Logits of 400: descents stop where ten steps take off less than a tenth of the loss, which is no minimum."""
    theta, w, made = instance("saturated", 400.0, 2000, seed=1)
    split = hold_out(made.X, made.Y, None, None, np.random.default_rng(0))
    start = np.random.default_rng(0).standard_normal(theta.shape) * 0.3 / (np.sqrt(2) * 6)
    end = descended(split.X, split.Y, start, "lm")
    assert split.held.error(end.theta, end.w) > 1e-6
    more = finished(split, [end], "lm", EXACT)
    assert split.held.error(more.theta, more.w) <= EXACT
    assert parameter_error(more.theta, more.w, theta, w) < 1e-4


@pytest.mark.parametrize("seed", [0, 1])
def test_saturated_layers_are_found_whatever_the_last_bits(seed):
    theta, w, made = instance("saturated", 300.0, 2000)
    Y = last_bits(made.Y, seed)
    found = sculpt(made.X, Y, 2, rng=0)
    assert found.converged and parameter_error(found.theta, found.w, theta, w) < 1e-8
    fit = learn_multihead(made.X, Y, 2, noise_std=0.0, rng=0)
    assert fit.converged and parameter_error(fit.theta, fit.w, theta, w) < 1e-8
