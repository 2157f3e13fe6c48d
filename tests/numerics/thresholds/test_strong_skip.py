"""Last-layer thresholds at strong skip connections: those of one layer, and how they differ, in powers of 1/c."""

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.linearization import single_layer_threshold, strong_skip_loss
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.choice import layer_threshold

NEAR, FAR = 400.0, 800.0
MODELS = {
    "tied": {},
    "linear": {"activation": "linear"},
    "untied": {"tied": False},
    "rank two": {"rank": 2},
}


def coefficient(skip: float, **model: object) -> float:
    """c^2 times the distance of the threshold from that of the last layer alone."""
    network = Network(**{"layers": 2, "tokens": 2, "skip": skip} | model)
    limit = single_layer_threshold(2, network.ranks[-1], network.activation, tied=network.tied)
    found = layer_threshold(network)
    # So that the coefficients, about 0.05 to 2, are known to 1e-4.
    assert found.converged and skip**2 * found.error < 1e-4
    return skip**2 * (float(found.value) - float(limit))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_there_is_no_term_of_first_order(model):
    """With a term in 1/c the coefficient of 1/c^2 would double from c = 400 to 800."""
    near, far = (coefficient(skip, **model) for skip in (NEAR, FAR))
    assert 0 < near == pytest.approx(far, rel=0.05)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_the_second_order_is_the_derived_one(activation):
    """The mean of the derived loss over the hidden layer; terms in 1/c^3 are extrapolated from two skip strengths."""
    entries = sp.symbols("D_11 D_12 D_21 D_22", real=True)
    loss = sp.lambdify(entries, strong_skip_loss(sp.Matrix(2, 2, entries)))
    x, w = np.polynomial.hermite_e.hermegauss(120)
    weight = np.outer(w, w).ravel() / w.sum() ** 2
    hidden = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 1, 2)
    layers = np.concatenate([hidden, np.zeros_like(hidden)], axis=1)
    # The layer without its skip connection.
    mixed = Network(2, 2, skip=1.0, activation=activation).mixing(layers) - np.eye(2)
    mixed -= np.einsum("n,nij->ij", weight, mixed)
    expected = weight @ loss(*mixed.reshape(-1, 4).T) / 36
    found = 2 * coefficient(FAR, activation=activation) - coefficient(NEAR, activation=activation)
    # What is left is of order 1/c^2: 63/c^2 for linear attention, whose layer is not bounded.
    assert found == pytest.approx(expected, rel=1e-3)
