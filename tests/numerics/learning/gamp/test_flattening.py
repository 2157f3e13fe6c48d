"""Flattened models: the same outputs, more to learn."""

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp import flatten, gamp, make_data, teacher
from attnlimits.numerics.learning.gamp.flattening import flat_samples, flat_weights
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.link.thresholds import threshold

MODELS = [
    Network(1, 4),
    Network(2, 2, skip=0.7, beta=1.3),
    Network(3, 3, (1, 2, 1)),
    Network(1, 3, 1, activation="softmax", tied=False),
    kernel_of("h[1,1]*h[2,2] + h[2,1]**2; sign(h[1,2])"),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.describe())
def test_outputs_are_those_of_the_model(model):
    dimension = 30
    weights = teacher(model, dimension, 0)
    x, y = make_data(model, weights, 1.0, 0, dtype=np.float64)
    flat = flatten(model)
    assert (flat.indices, flat.tokens) == (model.indices * model.tokens, 1)
    # Sums of 30 products beside zeros, in another order; the links amplify their rounding some ten times.
    assert flat.forward(x, weights) == pytest.approx(y, rel=1e-13, abs=1e-14 * max(1.0, np.abs(y).max()))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.describe())
def test_indices_are_stacked_token_by_token(model, rng):
    """By the definition (57): vec stacks columns."""
    h = rng.standard_normal((5, model.indices, model.tokens))
    vec = np.stack([one.T.reshape(-1, 1) for one in h])
    assert (flatten(model).link(vec) == model.link(h)).all()


def test_weights_are_blocks(rng):
    model = Network(2, 2)
    w = rng.standard_normal((2, 3))
    zero = np.zeros((2, 3))
    assert (flat_weights(model, w) == np.block([[w, zero], [zero, w]])).all()
    x = rng.standard_normal((4, 2, 3))
    assert (flat_samples(x, model) == np.stack([np.concatenate(one)[None] for one in x])).all()


def test_who_does_not_know_the_ties_needs_more_samples():
    """y = h_1 h_2, tied: one row w on both tokens. Untied on inputs of dimension 2 D, alpha N/D is half as large."""
    tied, free = kernel_of("h[1,1]*h[1,2]"), kernel_of("h[1]*h[2]")
    known, unknown = (float(threshold(kernel).value) for kernel in (tied, free))
    assert 2 * unknown > 1.5 * known
    # Between both thresholds the rows are learned by the one, and not by the other.
    dimension, alpha = 250, 0.5 * (known + 2 * unknown)
    weights = teacher(tied, dimension, 0)
    x, y = make_data(tied, weights, alpha, 0)
    found = gamp(x, y, tied, teacher=weights)
    assert found.overlap[0, 0] > 0.5
    flat = flat_weights(tied, weights)
    assert (flat[0, :dimension] == weights[0]).all() and (flat[1, dimension:] == weights[0]).all()
    blind = gamp(flat_samples(x, tied), y, free, teacher=flat)
    # Overlaps over the flattened dimension: that of a recovered row is 1/2.
    assert np.abs(blind.overlap).max() < 0.2


def test_bad_shapes_are_refused_in_a_sentence():
    model = Network(2, 2)
    with pytest.raises(ValueError, match=r"h must have shape \(..., P M, 1\) = \(..., 4, 1\)"):
        flatten(model).link(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="X must have shape"):
        flatten(model).forward(np.zeros((3, 4)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="with D of X"):
        flatten(model).forward(np.zeros((3, 2, 5)), np.zeros((2, 4)))
