"""Thresholds of layers before the last: against the quadrature of two layers, state evolution, and refusals."""

import pytest

import attnlimits as al
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.thresholds.hidden_layer import hidden_layer

SLOW = pytest.mark.slow
CASES = {
    "three tokens": (al.Network(layers=2, tokens=3), 1),
    "untied": (al.Network(layers=2, tokens=2, tied=False), 1),
    "first of three": (al.Network(layers=3, tokens=2), 1),
    "second of three": (al.Network(layers=3, tokens=2), 2),
}


@pytest.mark.parametrize(
    ("activation", "samples"),
    [("softmax", 256), pytest.param("softmax", 2048, marks=SLOW), pytest.param("linear", 2048, marks=SLOW)],
)
def test_two_layers_as_by_quadrature(activation, samples):
    """Linear layers are learned first to last."""
    model = al.Network(layers=2, tokens=2, activation=activation)
    found = hidden_layer(model, 1, samples=samples)
    truth = al.threshold(model, layer=1, digits=4)
    assert abs(float(found.value) - float(truth.value)) < 3 * found.error + truth.error
    assert found.error < 0.06 * float(found.value) and found.converged
    assert found.subspace == "layer 1" and found.eigenvector[0, 0] == 1


@pytest.mark.parametrize(("model", "layer"), CASES.values(), ids=CASES)
@SLOW
def test_the_fixed_point_has_the_layer_beyond_it(model, layer):
    """By state evolution a little below and above, from other points."""
    found = al.threshold(model, layer=layer)
    size = found.eigenvector.diagonal() > 0
    away = max(0.05 * float(found.value), 4 * found.error)
    below, above = (
        al.evolve(model, float(found.value) + shift, samples=512, rng=1).overlap.diagonal()[size]
        for shift in (-away, away)
    )
    assert (below == 0).all() and (above > 0).any()
    assert found.error < 0.1 * float(found.value)


def test_refusals():
    with pytest.raises(ValueError, match="with the others known exactly"):
        al.threshold(al.Network(layers=3, tokens=2), layer=1, given="perfect")
    with pytest.raises(ValueError, match="leave out digits"):
        al.threshold(al.Network(layers=2, tokens=3), layer=1, digits=4)
    with pytest.raises(KernelNotFoundError, match="no threshold of a layer before the last"):
        al.threshold(al.Network(layers=3, tokens=3, output="sequence"), layer=1)
