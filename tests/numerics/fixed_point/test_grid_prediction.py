"""Prediction errors of links of few entries: closed forms, the sums of one-index functions, samples, and refusals."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.fixed_point.grid_prediction import GridErrors
from attnlimits.numerics.fixed_point.link_prediction import LinkErrors
from attnlimits.numerics.fixed_point.prediction_error import prediction_errors

LINKS = ("h[1]*h[2]", "h[1]**2+h[2]**2", "erf(h[1])*h[2]", "h[1]*Abs(h[2])", "h[1]+h[2]*h[3]", "sign(h[1])*h[2]")


def overlap(size: int, seed: int, coupled: bool = False) -> np.ndarray:
    """A random overlap, diagonal or not."""
    rng = np.random.default_rng(seed)
    if not coupled:
        return np.diag(rng.uniform(0.02, 0.98, size))
    axes, values = np.linalg.qr(rng.standard_normal((size, size)))[0], rng.uniform(0.02, 0.98, size)
    return (axes * values) @ axes.T


@pytest.mark.parametrize("seed", range(4))
def test_a_product_in_closed_form(seed):
    """By Isserlis: E g(h) g(h') = E g(h) g(omega) = q_11 q_22 + q_12^2, E g(omega)^2 = q_11 q_22 + 2 q_12^2."""
    q = overlap(2, seed, coupled=seed > 1)
    product = q[0, 0] * q[1, 1]
    found, off, _ = GridErrors(al.Link("h[1]*h[2]").kernel)(q)
    assert np.abs(found - [1 - product - q[0, 1] ** 2, 1 - product]).max() < 1e-12
    assert (off < 1e-10).all()


@pytest.mark.parametrize("text", ["h[1]**2+h[2]**2", "sign(h[1])+sign(h[2])", "tanh(h[1])+3*erf(h[2])"])
@pytest.mark.parametrize("seed", range(2))
def test_sums_of_functions_of_one_entry(text, seed):
    """The other quadrature, which takes the terms of a sum one by one."""
    kernel, q = al.Link(text).observed, overlap(2, seed)
    sums, grid = LinkErrors(kernel), GridErrors(kernel)
    assert sums.served and grid.served
    (one, left, _), (other, off, _) = sums(q), grid(q)
    assert (np.abs(one - other) <= left + off).all() and (off < 1e-9).all()


@pytest.mark.parametrize("text", LINKS)
@pytest.mark.parametrize("coupled", [False, True])
def test_errors_against_samples(text, coupled):
    link = al.Link(text).observed
    q = overlap(link.indices, 7, coupled=coupled and link.indices > 1)
    found = GridErrors(link)(q)
    if found is None:
        assert coupled  # a kink beside the axes
        return
    rng, root = np.random.default_rng(3), np.linalg.cholesky
    omega, spread = root(q), root(np.eye(len(q)) - q)
    values = []
    for _ in range(16):
        xi, first, second = rng.standard_normal((3, 2**14, len(q), 1))
        y, z, w = link.link(omega @ xi + spread @ first), link.link(omega @ xi + spread @ second), link.link(omega @ xi)
        values.append([0.5 * np.mean((y - z) ** 2), np.mean((y - w) ** 2)])
    mean, error = np.mean(values, axis=0), np.std(values, axis=0) / 4
    assert (np.abs(found[0] - mean) <= 4 * error).all()
    assert (found[1] <= 1e-4).all()


@pytest.mark.parametrize("text", LINKS)
def test_stated_errors_cover_finer_panels(text, monkeypatch):
    """The rules but the last, against all of them."""
    from attnlimits.numerics.fixed_point import grid_prediction

    kernel = al.Link(text).observed
    for seed in range(3):
        q = overlap(kernel.indices, seed)
        fine = GridErrors(kernel)
        whole = fine(q)
        with monkeypatch.context() as patched:
            patched.setattr(grid_prediction, "_UNRESOLVED", np.inf)
            fine._rules = fine._rules[:2]
            value, off, _ = fine(q)
        assert whole is None or (np.abs(value - whole[0]) <= off + whole[1]).all()


def test_label_noise_is_of_the_label_that_is_seen():
    """`sign(h[1]*h[2])` at overlaps of its axes: the mean of the label that is seen predicts it."""
    link = al.Link("sign(h[1]*h[2])", label_noise="0.2")
    q = np.diag([0.6, 0.3])
    best, plugin = prediction_errors(link.observed, q)
    # E sign(h) sign(h') = (2/pi) asin(q); of labels that are flipped with probability 0.2 a mean keeps 1 - 2 * 0.2.
    kept = 0.6
    product = np.prod(2 / np.pi * np.arcsin(q.diagonal()))
    assert best.value == pytest.approx(1 - kept**2 * product, abs=max(1e-9, 5 * best.error))
    assert plugin.value > best.value


def test_predictions_are_of_the_outputs_as_written():
    """A link is reduced to what holds the same, and 2 h is predicted twice as badly as h."""
    for text, best in (("2*h[1]", 4 * 0.5), ("exp(h[1])", np.exp(2.0) - np.exp(1.5)), ("h[1]", 0.5)):
        found = al.evolve(al.Link(text), 0.5)
        assert found.overlap[0, 0] == pytest.approx(0.5, abs=1e-12)
        assert found.prediction_error.value == pytest.approx(best, abs=1e-12)
        answer = al.free_energy.answer(al.Link(text), 0.5)
        optimal = al.free_energy.bayes_optimal(answer.free, answer.points[0])
        assert optimal.prediction_error.value == pytest.approx(best, abs=1e-9)


def test_more_entries_are_sampled():
    assert not GridErrors(al.Link("h[1]*h[2]*h[3]*h[4]").kernel).served
    best, _ = prediction_errors(al.Link("h[1]*h[2]*h[3]*h[4]").kernel, 0.5 * np.eye(4))
    assert best.how == "monte-carlo" and abs(best.value - (1 - 0.5**4)) < 5 * best.error
