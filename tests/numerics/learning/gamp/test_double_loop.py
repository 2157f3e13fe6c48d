"""The iteration in two loops: it settles where damping turns for ever, at fixed points of the same equations."""

import math

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp import gamp, make_data, teacher
from attnlimits.numerics.learning.gamp.course import Course
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.choice import posterior
from attnlimits.numerics.posterior.readout import invert_readout

ONE = Network(1, 2)
D = 200


def instance(alpha, seed, model=ONE, dimension=D):
    """A teacher with W W^T / D = 1, and its data."""
    weights = teacher(model, dimension, seed)
    root = np.linalg.cholesky(weights @ weights.T / dimension)
    weights = np.linalg.solve(root, weights)
    return weights, *make_data(model, weights, alpha, rng=seed)


def test_it_settles_where_the_damped_iteration_turns():
    """The result solves the equations of a fixed point, in closed form.

    One layer fixes h up to its sign, so that E[h | y] = h tanh(h . omega / V). At a fixed point it is What x / sqrt(D):
    along h this gives omega and g, and across it g is what What = sum g x^T / sqrt(D) leaves open, a number an output.
    """
    weights, x, y = instance(0.2, 1)
    damped = gamp(x, y, ONE, teacher=weights, rng=1, max_iter=1000)
    found = gamp(x, y, ONE, teacher=weights, rng=1, tol=1e-6, solver="double-loop", max_iter=1000)
    assert not damped.converged and damped.residual > 0.1
    assert found.converged and "in two loops" in found.status
    assert found.overlap[0, 0] > 0.05
    h, tokens, V = invert_readout(ONE, y)[0], x.astype(float) / math.sqrt(D), found.covariance[0, 0]
    size = np.linalg.norm(h, axis=1, keepdims=True)
    along = h / size
    across = along @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    projections = np.einsum("nmd,d->nm", tokens, found.weights[0])
    part = (along * projections).sum(axis=1, keepdims=True)
    assert np.abs((across * projections).sum(axis=1)).max() < 1e-4 * np.abs(part).max()
    omega = V / size * np.arctanh(part / size)
    left = found.weights[0] - np.einsum("nm,nmd->d", along * (part - omega) / V, tokens)
    open_in = np.einsum("nm,nmd->dn", across, tokens)
    rest = left - open_in @ np.linalg.lstsq(open_in, left, rcond=None)[0]
    assert np.linalg.norm(rest) < 1e-4 * np.linalg.norm(found.weights)
    slopes = (size**2 - part**2) / V**2 - 2 / V
    assert 1 / V == pytest.approx(1 - slopes.sum() / D, abs=1e-4)


@pytest.mark.parametrize(("alpha", "seed"), [(0.25, 5), (0.25, 9), (0.35, 6)])
def test_where_both_converge_they_have_the_same_fixed_point(alpha, seed):
    """Without damping these turn, with damping they converge."""
    weights, x, y = instance(alpha, seed)
    settings = {"teacher": weights, "rng": seed, "tol": 1e-6, "max_iter": 600, "variance": "nishimori"}
    damped = gamp(x, y, ONE, **settings)
    found = gamp(x, y, ONE, solver="double-loop", damping=0.0, **settings)
    assert damped.converged and found.converged
    assert "in two loops" in found.status and damped.self_overlap[0, 0] > 0.05
    signed = np.sign(np.vdot(damped.weights, found.weights))
    # Near an onset a change of 1e-6 leaves some fifty times as much.
    assert np.linalg.norm(damped.weights - signed * found.weights) < 1e-4 * np.linalg.norm(damped.weights)
    assert damped.covariance == pytest.approx(found.covariance, abs=1e-5)


def test_blocks_give_what_an_array_gives():
    """The same fixed point; how long an iteration turns before depends on its rounding."""
    _, x, y = instance(0.25, 5)
    settings = {"rng": 5, "solver": "double-loop", "damping": 0.0, "tol": 1e-6, "variance": "nishimori"}
    whole = gamp(x, y, ONE, **settings)
    blocks = gamp(lambda: ((x[k : k + 10], y[k : k + 10]) for k in range(0, len(x), 10)), None, ONE, **settings)
    assert whole.converged and blocks.converged and "in two loops" in blocks.status
    assert blocks.self_overlap == pytest.approx(whole.self_overlap, abs=1e-5)


@pytest.mark.parametrize("model", [ONE, Network(3, 2)])
def test_the_score_at_given_projections_is_a_gradient(model):
    """d g / d omega is symmetric and above -V^{-1}, and so d g / d Z = S (I + V S)^{-1} with this S is symmetric.

    The nodes of three layers stay where they are.
    """
    _, _, y = instance(1.0, 2, model, 60)
    depth, rng = model.layers, np.random.default_rng(3)
    scores = posterior(model, y[:6], tol=1e-12, rng=4)
    V = 0.5 * np.eye(depth) + 0.1
    omega = 0.3 * rng.standard_normal((6, depth, 2))
    scores(omega, V, slice(0, 6))
    step, slopes = 1e-4, np.empty((6, 2 * depth, 2 * depth))
    for k in range(2 * depth):
        moved = np.zeros((depth, 2))
        moved.flat[k] = step
        ends = [scores(omega + sign * moved, V, slice(0, 6))[0].reshape(6, -1) for sign in (1, -1)]
        slopes[:, k] = (ends[0] - ends[1]) / (2 * step)
    spread = np.kron(V, np.eye(2))
    given = slopes @ np.linalg.inv(np.eye(2 * depth) + spread @ slopes)
    for each in (slopes, given):
        assert np.abs(each).max() > 0.1
        assert each == pytest.approx(each.swapaxes(1, 2), abs=1e-5 * np.abs(each).max())
    # Cov[h | y] = V + V S V, of rank one for one layer.
    assert np.linalg.eigvalsh(spread + spread @ slopes @ spread).min() > (-1e-8 if depth == 1 else 0)


def test_a_direction_that_is_not_learned_gets_the_size_of_a_start_once():
    first, second = np.eye(100)[:2]
    course = Course(np.array([3 * first, 1e-4 * second]), None, Network(2, 2))
    assert course.restart(1e-3) is None
    course.move(np.array([4 * first, 1e-5 * second]), np.eye(2), 0.3, np.array([first, 1e-5 * second]))
    assert course.restart(1e-3) is None, "the first direction moves"
    course.move(np.array([4 * first, 2e-5 * second]), np.eye(2), 0.3, np.array([1e-3 * first, 1e-5 * second]))
    matrix = course.restart(1e-3)
    assert matrix == pytest.approx(np.diag([1.0, 5e4]))
    assert course.weights == pytest.approx(np.array([4 * first, second]))
    course.move(np.array([4 * first, 1e-5 * second]), np.eye(2), 0.3, np.zeros((2, 100)))
    assert course.restart(1e-3) is None, "it has been given for one learned direction"


@pytest.mark.parametrize(
    ("norm", "turns"),
    [(lambda t: 1e-2 * 1.05**t, False), (lambda t: 2.0, True), (lambda t: 2 + 0.5 * math.sin(t), True)],
)
def test_an_estimate_that_grows_does_not_turn(norm, turns):
    """The estimate goes around in a plane by a tenth of a turn each time, while it grows or not."""
    course = Course(np.zeros((1, 50)), None, ONE)
    for t in range(180):
        angle = 0.2 * math.pi * t
        weights = np.zeros((1, 50))
        weights[0, :2] = norm(t) * math.cos(angle), norm(t) * math.sin(angle)
        course.move(weights, np.eye(1), 0.3, weights - course.weights)
    assert course.turns() == turns
    for t in range(90):
        course.move(weights, np.eye(1), 0.3, 0.9**t * weights)
    assert not course.turns()


def test_advice_is_on_what_a_solver_heeds():
    """Damping has no part in two loops."""
    _, x, y = instance(0.2, 1)
    damped, loops = (gamp(x, y, ONE, rng=1, max_iter=300, tol=0.0, solver=each) for each in ("damped", "double-loop"))
    assert damped.status.endswith("raise max_iter or add damping")
    assert "since the damped iteration oscillated" in loops.status and loops.status.endswith("; raise max_iter")
