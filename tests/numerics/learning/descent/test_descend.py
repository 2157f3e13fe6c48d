"""Descent: each rule written out, data however they are stored, runs that diverge, and what is refused."""

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError
from attnlimits.numerics.learning.descent import cosines, descend
from attnlimits.numerics.learning.gamp import gamp, make_data, teacher
from attnlimits.numerics.learning.symmetry import symmetry
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network

ONE, TWO = Network(1, 2), Network(2, 2)


def instance(model, dimension, alpha, seed=0, dtype=np.float64):
    weights = teacher(model, dimension, seed)
    return weights, *make_data(model, weights, alpha, seed, dtype=dtype)


def slope(model, x, y, weights):
    """D times the gradient of the mean loss, by central differences of the link."""
    dimension = x.shape[2]

    def loss(at):
        h = np.einsum("pd,nmd->npm", at, x) / np.sqrt(dimension)
        return 0.5 * ((model.link(h) - y) ** 2).sum(axis=(1, 2)).mean()

    out, step = np.zeros_like(weights), 1e-5
    for index in np.ndindex(weights.shape):
        ends = []
        for sign in (1, -1):
            moved = weights.copy()
            moved[index] += sign * step
            ends.append(loss(moved))
        out[index] = dimension * (ends[0] - ends[1]) / (2 * step)
    return out


@pytest.fixture(scope="module")
def small():
    return (*instance(TWO, 10, 2.0), 0.5 * teacher(TWO, 10, 7))


def test_two_steps_of_gradient_descent(small):
    weights, x, y, start = small
    found = descend(x, y, TWO, method="gd", rate=0.3, weight_decay=0.1, epochs=2, start=start, teacher=weights, tol=0.0)
    at = start
    for _ in range(2):
        at = at - 0.3 * (slope(TWO, x, y, at) + 0.1 * at)
    # The differences are good to 1e-9.
    assert found.weights == pytest.approx(at, abs=1e-7)
    assert found.residual == pytest.approx(np.linalg.norm(slope(TWO, x, y, at) + 0.1 * at) / np.linalg.norm(at), 1e-6)
    h = np.einsum("pd,nmd->npm", at, x) / np.sqrt(10)
    assert found.loss == pytest.approx(0.5 * ((TWO.link(h) - y) ** 2).sum(axis=(1, 2)).mean(), rel=1e-6)
    assert found.spread == pytest.approx(0.5 * y.reshape(len(y), -1).var(axis=0).sum())
    assert (found.n_epochs, found.alpha, found.converged) == (2, 2.0, False)


def test_batches_are_used_again(small):
    """One batch that holds all samples, three steps on it: three steps of gradient descent."""
    _, x, y, start = small
    again = descend(x, y, TWO, rate=0.1, batch=len(x), reuse=3, epochs=1, start=start)
    plain = descend(x, y, TWO, method="gd", rate=0.1, epochs=3, start=start)
    assert again.weights == pytest.approx(plain.weights, abs=1e-12)
    assert again.losses[-1] == pytest.approx(plain.losses[-1], rel=1e-12)


def test_two_steps_of_adam_by_hand(small):
    """The first step is rate times the sign of the gradient; decay acts on the weights alone."""
    _, x, y, start = small
    settings = {"method": "adam", "rate": 0.05, "weight_decay": 0.2, "batch": len(x), "start": start}
    at, first, second = start, 0.0, 0.0
    for t in (1, 2):
        g = slope(TWO, x, y, at)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        at = at - 0.05 * (first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8) + 0.2 * at)
        found = descend(x, y, TWO, epochs=t, **settings)
        # The differences are good to 1e-9, their signs to more where no entry of g is near zero.
        assert found.weights == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "alpha", "settings"),
    [
        (ONE, 2.0, {}),
        (ONE, 3.0, {"method": "adam"}),
        (Network(1, 2, 1, activation="softmax", tied=False), 4.0, {"rate": 0.1}),
        (Network(1, 3, 2), 3.0, {"method": "gd", "rate": 1.0}),
        (kernel_of("h[1]**2"), 6.0, {"rate": 0.02}),
    ],
    ids=["sgd", "adam", "untied", "rank 2", "link"],
)
def test_teachers_are_found_when_data_abound(model, alpha, settings):
    weights, x, y = instance(model, 100, alpha, dtype=np.float32)
    found = descend(x, y, model, teacher=weights, epochs=400, **settings)
    assert found.converged, found.status
    assert (found.cosine > 0.99).all() and found.loss < 1e-3 * found.spread
    assert found.cosines.shape == (found.n_epochs + 1, len(found.layers))
    # The same from the weights themselves.
    overlap = symmetry(model).align(weights @ found.weights.T / 100)
    again = cosines(model, overlap, found.weights @ found.weights.T / 100, weights @ weights.T / 100)
    assert found.cosine == pytest.approx(again, abs=1e-12)
    assert found.overlap == pytest.approx(overlap, abs=1e-12)


def test_cosines_do_not_see_what_the_link_does_not(rng):
    """Signs of layers and a rotation of two rows; an estimate of zero has none."""
    model = Network(2, 3, (2, 1))
    weights = teacher(model, 60, 0)
    turn = np.eye(3)
    turn[:2, :2] = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    turn[2, 2] = -1.0
    estimate = 0.3 * turn @ weights
    own, truth = estimate @ estimate.T / 60, weights @ weights.T / 60
    overlap = symmetry(model).align(weights @ estimate.T / 60)
    assert cosines(model, overlap, own, truth) == pytest.approx([1.0, 1.0], abs=1e-12)
    assert (cosines(model, 0 * overlap, 0 * own, truth) == 0).all()


@pytest.mark.parametrize("settings", [{"method": "gd"}, {"batch": 16, "reuse": 2}], ids=["gd", "sgd"])
def test_storage_does_not_matter(settings, tmp_path):
    _, x, y = instance(TWO, 40, 2.0)
    settings = {"epochs": 3, **settings}
    wanted = descend(x, y, TWO, **settings).weights
    np.save(tmp_path / "x.npy", x)
    mapped = descend(np.load(tmp_path / "x.npy", mmap_mode="r"), y, TWO, **settings).weights
    assert (mapped == wanted).all()
    one = descend(lambda: [(x, y)], None, TWO, **settings).weights
    assert (one == wanted).all()
    single = descend(x.astype(np.float32), y, TWO, **settings).weights
    # float32: rounding of products of D terms.
    assert single == pytest.approx(wanted, abs=1e-4)
    if "method" in settings:
        blocks = descend(lambda: [(x[:30], y[:30]), (x[30:], y[30:])], None, TWO, **settings).weights
        assert blocks == pytest.approx(wanted, abs=1e-12)


def test_blocks_are_split_into_batches_each():
    _, x, y = instance(TWO, 40, 2.0)
    found = descend(lambda: [(x[:30], y[:30]), (x[30:], y[30:])], None, TWO, batch=20, epochs=30)
    assert found.alpha == 2.0 and found.losses[-1] < 0.5 * found.losses[0]


def test_seeds_decide_start_and_order():
    _, x, y = instance(ONE, 50, 1.0)
    first, again, other = (descend(x, y, ONE, rng=seed, epochs=2) for seed in (5, 5, 6))
    assert (first.weights == again.weights).all() and (first.weights != other.weights).any()
    assert first.seed == 5
    # The start is known beside the teacher of the same seed.
    assert np.std(descend(x, y, ONE, rng=5, rate=1e-9, epochs=1).weights) == pytest.approx(0.1, rel=0.4)


@pytest.mark.parametrize(("model", "rate"), [(Network(1, 2, activation="linear"), 50.0), (kernel_of("h[1]**2"), 1e6)])
def test_runs_that_diverge_end_with_the_best_weights(model, rate):
    weights, x, y = instance(model, 60, 2.0)
    found = descend(x, y, model, method="gd", rate=rate, start=0.5 * weights, teacher=weights)
    assert not found.converged and found.status.startswith("diverged in epoch")
    assert np.isfinite(found.weights).all() and found.loss == min(found.losses)
    assert len(found.losses) == len(found.residuals) == len(found.cosines) == found.n_epochs + 1
    with pytest.raises(ConvergenceError, match="lower rate"):
        descend(x, y, model, method="gd", rate=rate, start=0.5 * weights, throw=True)


def test_decay_beyond_what_the_data_say_ends_at_zero():
    weights, x, y = instance(ONE, 50, 1.0)
    found = descend(x, y, ONE, method="gd", rate=0.1, weight_decay=5.0, epochs=100, tol=0.0, teacher=weights)
    assert found.converged and "nothing is learned" in found.status
    assert np.abs(found.weights).max() < 1e-7


def test_what_settles_above_the_best_constant_is_not_converged():
    """Saturated attention has no slope: a fit that is none. A large rate leads there, too."""
    weights, x, y = instance(TWO, 50, 1.0)
    thrown = descend(x, y, TWO, method="gd", rate=200.0, start=0.5 * weights, tol=1e-2)
    assert not thrown.converged and thrown.status.startswith(("stuck", "diverged"))
    found = descend(x, y, TWO, method="gd", rate=1e-3, start=300 * teacher(TWO, 50, 3), teacher=weights)
    assert not found.converged and found.status.startswith("stuck")
    assert found.loss > found.spread


def test_a_callback_sees_every_epoch_and_can_end_the_run():
    weights, x, y = instance(TWO, 60, 2.0)
    steps = []
    found = descend(x, y, TWO, teacher=weights, callback=lambda step: steps.append(step) or len(steps) == 4)
    assert [step.epoch for step in steps] == [1, 2, 3, 4]
    assert found.n_epochs == 4 and not found.converged and "callback" in found.status
    assert (steps[-1].weights == found.weights).all()
    assert steps[2].loss == found.losses[3] and (steps[2].cosine == found.cosines[3]).all()


def test_descent_misses_the_first_layer_where_gamp_finds_it():
    """alpha = 1.2, the second layer known from the start, and GAMP that knows nothing."""
    weights, x, y = instance(TWO, 160, 1.2, dtype=np.float32)
    start = 0.1 * teacher(TWO, 160, 9)
    start[1] = weights[1]
    for settings in ({"method": "gd", "rate": 1.0}, {"rate": 0.2, "reuse": 5, "weight_decay": 1e-3}):
        found = descend(x, y, TWO, start=start, teacher=weights, epochs=60, **settings)
        assert found.cosine[1] > 0.9 > 0.5 > found.cosine[0]
    known = gamp(x, y, TWO, teacher=weights, damping=0.0, max_iter=60)
    assert cosines(TWO, known.overlap, known.self_overlap, weights @ weights.T / 160)[0] > 0.9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "newton"}, "method must be one of sgd, gd, adam"),
        ({"rate": 0.0}, "rate must be finite and > 0"),
        ({"rate": np.nan}, "rate must be finite and > 0"),
        ({"weight_decay": -1.0}, "weight_decay must be finite and >= 0"),
        ({"batch": 0}, "batch must be an integer >= 1"),
        ({"reuse": 0}, "reuse must be an integer >= 1"),
        ({"epochs": 0}, "epochs must be an integer >= 1"),
        ({"tol": -1.0}, "tol must be finite and >= 0"),
        ({"method": "gd", "batch": 5}, "batch and reuse belong to"),
        ({"method": "gd", "reuse": 2}, "batch and reuse belong to"),
        ({"start": np.zeros((2, 50))}, r"start must have shape \(P, D\) = \(1, 50\)"),
        ({"start": np.full((1, 50), np.nan)}, "start must be finite"),
        ({"teacher": np.zeros((1, 40))}, "teacher must have shape"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(settings, words):
    _, x, y = instance(ONE, 50, 0.5)
    with pytest.raises(ValueError, match=words):
        descend(x, y, ONE, **settings)


def test_bad_data_are_refused_as_gamp_does():
    _, x, y = instance(ONE, 50, 0.5)
    with pytest.raises(ValueError, match="swap the last two axes"):
        descend(np.swapaxes(x, 1, 2), y, ONE)
    with pytest.raises(ValueError, match=r"Y must have shape \(N, 2, 2\)"):
        descend(x, y[:, 0], ONE)
    with pytest.raises(ValueError, match="one output per sample"):
        descend(x, y[:5], ONE)
    bad = x.copy()
    bad[3, 1, 2] = np.inf
    with pytest.raises(ValueError, match="infinity in sample 3"):
        descend(bad, y, ONE)
    with pytest.raises(ValueError, match="start must give finite outputs"):
        linear = Network(1, 2, activation="linear")
        descend(x, y, linear, start=np.full((1, 50), 1e200))
    with pytest.raises(KernelNotFoundError, match=r"no gradient for tied tanh attention"):
        descend(x, y, Network(1, 2, activation=np.tanh))
