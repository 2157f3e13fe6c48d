"""The layer, its derivatives by three routes, regression for the values, and descents."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from attnlimits.numerics.multihead.batch import Batch
from attnlimits.numerics.multihead.layer import attention, jacobian, multihead, nmse
from attnlimits.numerics.multihead.refine import gram_blocks, lbfgs, levenberg_marquardt
from attnlimits.numerics.multihead.regression import best_w
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher


@pytest.fixture(params=[(1, 2, 4), (2, 3, 4), (3, 4, 2)], ids=lambda p: "m{} k{} d{}".format(*p))
def instance(request, rng):
    m, k, d = request.param
    X = rng.choice([-1.0, 1.0], (25, k, d))
    theta, w = rng.standard_normal((2, m, d, d))
    return X, rng.standard_normal(X.shape), theta, w


def by_definition(X, theta, w):
    """One sample, one head, one row at a time."""
    out = np.zeros_like(X)
    for n, x in enumerate(X):
        for part, values in zip(theta, w, strict=True):
            for r, scores in enumerate(x @ part @ x.T):
                weights = np.exp(scores)
                out[n, r] += (weights / weights.sum()) @ x @ values
    return out


def test_layer_is_its_definition(instance):
    X, _, theta, w = instance
    wanted = by_definition(X, theta, w)
    # rounding of sums of some ten terms of size ten
    assert np.abs(multihead(X, theta, w) - wanted).max() < 1e-12
    assert nmse(wanted, wanted + 0.1 * wanted) == pytest.approx(0.01)
    weights = attention(X, theta)
    assert weights.shape == (len(X), len(theta), X.shape[1], X.shape[1])
    assert np.abs(weights.sum(axis=-1) - 1).max() < 1e-14


def test_extreme_logits_are_finite():
    X = np.array([[[1.0, 1.0], [1.0, -1.0]]])
    theta, w = np.full((1, 2, 2), 1e3), np.ones((1, 2, 2))
    weights = attention(X, theta)
    assert weights[0, 0, 0].tolist() == [1.0, 0.0]
    assert np.isfinite(multihead(X, theta, w)).all() and np.isfinite(jacobian(X, theta, w)).all()


def test_jacobian_against_finite_differences(instance):
    X, _, theta, w = instance
    found, step = jacobian(X, theta, w), 1e-6
    both = np.concatenate([theta.ravel(), w.ravel()])

    def layer(z):
        parts, values = z.reshape(2, *theta.shape)
        return by_definition(X, parts, values).ravel()

    for column in range(both.size):
        e = np.zeros_like(both)
        e[column] = step
        slope = (layer(both + e) - layer(both - e)) / (2 * step)
        # central differences: 1e-12 of truncation, rounding 1e-15 * 30 / 1e-6
        assert np.abs(found[:, column] - slope).max() < 1e-7


def test_gradient_and_normal_equations_are_those_of_the_jacobian(instance):
    X, Y, theta, w = instance
    J, off = jacobian(X, theta, w), (multihead(X, theta, w) - Y).ravel()
    size, half = float((Y**2).sum()), theta.size
    loss, d_theta, d_w = Batch(X, Y).loss(theta, w)
    assert loss == pytest.approx(off @ off / (2 * size), rel=1e-13)
    gradient = np.concatenate([d_theta.ravel(), d_w.ravel()])
    assert np.abs(gradient - J.T @ off / size).max() < 1e-12
    batch = Batch(X, Y)
    mixed = batch.mixed(batch.attention(theta))
    outer, cross, slope = gram_blocks(batch, theta, w, mixed, batch.predict(theta, w) - batch.y)
    gram = J.T @ J
    scale = np.abs(gram).max()
    assert np.abs(outer - gram[:half, :half]).max() < 1e-13 * scale
    assert np.abs(cross.reshape(half, half) - gram[:half, half:]).max() < 1e-13 * scale
    assert np.abs(np.kron(mixed @ mixed.T, np.eye(X.shape[2])) - gram[half:, half:]).max() < 1e-13 * scale
    assert np.abs(slope - (J.T @ off)[:half]).max() < 1e-11


def test_blocks_of_rows_add_up(instance, monkeypatch):
    X, Y, theta, w = instance
    batch = Batch(X, Y)
    mixed = batch.mixed(batch.attention(theta))
    whole = gram_blocks(batch, theta, w, mixed, batch.y)
    # a few rows at a time
    monkeypatch.setattr("attnlimits.numerics.multihead.refine._BLOCK", 7 * (len(theta) * X.shape[2]) ** 2)
    for one, other in zip(gram_blocks(batch, theta, w, mixed, batch.y), whole, strict=True):
        assert np.abs(one - other).max() < 1e-11


def test_best_values_are_least_squares(instance):
    X, Y, theta, _ = instance
    n, k, d = X.shape
    mixed = (attention(X, theta) @ X[:, None]).transpose(0, 2, 1, 3).reshape(n * k, -1)
    wanted = np.linalg.lstsq(mixed, Y.reshape(n * k, d), rcond=None)[0]
    assert np.abs(best_w(X, Y, theta).reshape(-1, d) - wanted).max() < 1e-9


def test_equal_heads_share_their_values(rng):
    X, theta = rng.choice([-1.0, 1.0], (200, 2, 4)), rng.standard_normal((1, 4, 4))
    w = rng.standard_normal((1, 4, 4))
    found = best_w(X, multihead(X, theta, w), np.repeat(theta, 2, axis=0))
    assert np.abs(found.sum(axis=0) - w[0]).max() < 1e-9
    # how it is shared is decided by rounding against a ridge of 1e-14
    assert np.abs(found[0] - found[1]).max() < 0.1


@pytest.mark.parametrize("descend", [levenberg_marquardt, lbfgs])
def test_descents_find_a_teacher(descend):
    theta, w = make_teacher("gauss", 2, 6, rng=1)
    made = make_examples(theta, w, samples=400, tokens=2, rng=2)
    start = theta + 0.1 * np.random.default_rng(3).standard_normal(theta.shape)
    found = descend(made.X, made.Y, start)
    # from close by: to rounding, which is 1e-32 times the condition of the problem
    assert found.loss < 1e-24
    assert np.abs(found.theta - theta).max() < 1e-9 and np.abs(found.w - w).max() < 1e-9
    assert found.n_iter > 1 and found.status


def test_levenberg_marquardt_ends_where_scipy_does(rng):
    """With noise, where the minimum is no zero: the same least squares by scipy, all unknowns together."""
    theta, w = make_teacher("gauss", 1, 4, scale=2.0, rng=1)
    made = make_examples(theta, w, samples=200, tokens=3, noise=0.2, rng=2)
    found = levenberg_marquardt(made.X, made.Y, theta, tol=1e-14, stall=0.0)

    def off(z):
        return (multihead(made.X, *z.reshape(2, *theta.shape)) - made.Y).ravel()

    def slopes(z):
        return jacobian(made.X, *z.reshape(2, *theta.shape))

    start = np.concatenate([theta.ravel(), w.ravel()])
    other = least_squares(off, start, slopes, method="lm", xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert found.loss == pytest.approx(2 * other.cost / (made.Y**2).sum(), rel=1e-12)
    # both stop where the loss is flat to rounding: parameters to its root
    assert np.abs(np.concatenate([found.theta.ravel(), found.w.ravel()]) - other.x).max() < 1e-5


@pytest.mark.parametrize("descend", [levenberg_marquardt, lbfgs])
def test_a_descent_can_be_stopped(descend):
    theta, w = make_teacher("gauss", 2, 4, rng=1)
    made = make_examples(theta, w, samples=200, tokens=2, rng=2)
    seen = []

    def stop(parts, values):
        seen.append((parts.shape, values.shape))
        return True

    start = np.random.default_rng(1).standard_normal(theta.shape)
    found = descend(made.X, made.Y, start, stop=stop)
    assert seen == [(theta.shape, w.shape)]
    assert found.n_iter == (1 if descend is levenberg_marquardt else 10)
