"""What networks, models and layers refuse, and that all of them say why."""

import numpy as np
import pytest

from attnlimits.numerics.core.errors import UnreachableOutputError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.networks import apply_mixing, link, mixing
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.posterior.readout import invert_readout


@pytest.mark.parametrize("readouts", [3, "ab", [[[1.0, 0.0], [0.0]]], [["x", "y"]]])
def test_readouts_that_are_no_matrices_are_named(readouts):
    with pytest.raises(ValueError, match=r"readouts must be a sequence of arrays of numbers.*\(30\), here 1; got"):
        Network(2, 2, heads=2, readouts=readouts)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_activation_is_not_an_overflow(bad):
    network = Network(2, 2, activation=lambda z: np.where(z > 0, bad, z))
    with pytest.raises(ValueError, match=f"activation must be finite at every finite score .* got {bad} at the score"):
        link(np.ones((2, 2)), network)


def test_an_activation_that_fails_is_named():
    def fails(z):
        raise TypeError("no arrays")

    for activation in (fails, lambda z: "text", lambda z: None):
        with pytest.raises(ValueError, match="activation must"):
            link(np.ones((1, 2)), Network(1, 2, activation=activation))


def test_an_overflow_behind_a_sound_activation_is_one():
    with pytest.raises(OverflowError, match="exceeds float64"):
        link(1e200 * np.ones((2, 2)), Network(2, 2, activation=np.abs))
    with pytest.raises(OverflowError, match="exceeds float64"):
        Network(3, activation="linear").link(1e80 * np.ones((3, 2)))
    with pytest.raises(OverflowError, match="exceeds float64"):
        Network(3, activation="linear").mixing(1e200 * np.ones((3, 2)))


def test_what_is_no_array_is_named():
    for call in (
        lambda: link("h", Network(1, 2)),
        lambda: Network(1).link([[1.0], [2.0, 3.0]]),
        lambda: invert_readout(Network(1), "y"),
    ):
        with pytest.raises(ValueError, match="must be an array of numbers"):
            call()
    with pytest.raises(ValueError, match="leading shapes that fit"):
        apply_mixing(np.ones((3, 4, 2)), np.ones((2, 2, 2)), Network(1, 2, output="sequence"))


@pytest.mark.parametrize("model", [Network(3, 2, (1, 2, 1), 0.7, 1.3), Network(2, 3, 2, 1.4, 0.5, "linear")])
def test_the_model_of_the_main_text_is_a_network(model):
    """Link and mixing matrix of `Network`, against the recursion (4)-(6) written out."""
    h = np.random.default_rng(3).normal(size=(4, model.indices, model.tokens))
    for sample in h:
        matrix, start = np.eye(model.tokens), 0
        for rank in model.ranks:
            v = sample[start : start + rank] @ matrix.T
            start += rank
            scores = model.beta * v.T @ v
            attention = scores
            if model.activation == "softmax":
                attention = np.exp(scores) / np.exp(scores).sum(axis=1)[:, None]
            before, matrix = matrix, model.skip * matrix + attention @ matrix
        # Some ten roundings of the largest entries.
        np.testing.assert_allclose(model.link(sample), attention, rtol=1e-12, atol=1e-13 * np.abs(attention).max())
        np.testing.assert_allclose(model.mixing(sample), before, rtol=1e-12, atol=1e-13 * np.abs(before).max())
    sequence = Network(
        model.layers, model.tokens, model.ranks, heads=1, tied=True, output="sequence", skip=model.skip, beta=model.beta
    )
    if model.activation == "softmax":
        np.testing.assert_array_equal(mixing(h, sequence), link(h, sequence))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": 2.0}, "tokens must be an integer >= 2"),
        ({"rank": True}, "rank must be an integer >= 1"),
        ({"beta": True}, "beta must be a positive number"),
        ({"beta": "1"}, "beta must be a positive number"),
        ({"tied": "no"}, "tied must be True"),
        ({"activation": 1}, "activation must be one of softmax, linear"),
    ],
)
def test_bad_layers_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Network(layers=1, **{"tokens": 2, **arguments})


def test_a_layer_takes_numbers_of_numpy():
    assert Network(1, np.int64(3), np.int32(1), beta=np.float32(2)) == Network(1, 3, 1, beta=2.0)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_no_outputs_have_no_moments(activation):
    made = fibre_moments(Network(1, 3, activation=activation), np.zeros((0, 3, 3)))
    assert (made.log_z.shape, made.mean.shape, made.second.shape) == ((0,), (0, 1, 3), (0, 1, 3, 1, 3))
    assert fibre_moments(Network(1, 2), np.zeros((4, 0, 2, 2))).error.shape == (4, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_named(bad):
    for call in (fibre_moments, lambda layer, y: invert_readout(Network(1), y)):
        with pytest.raises(UnreachableOutputError, match="y must be finite, got NaN or infinity"):
            call(Network(1, 2), np.full((2, 2), bad))
