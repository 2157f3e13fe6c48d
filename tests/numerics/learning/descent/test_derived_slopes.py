"""Slopes of the square loss that are derived: against differences, the slopes of tied attention, and a descent."""

import numpy as np
import pytest

from attnlimits.numerics.learning.descent import descend
from attnlimits.numerics.learning.descent.gradient import WORKER, square_loss
from attnlimits.numerics.learning.descent.objective import Objective
from attnlimits.numerics.learning.gamp import make_data, teacher
from attnlimits.numerics.model.derived_module import derived_module
from attnlimits.numerics.model.network import Network

READOUTS = [np.array([[1.0, 0.5], [-0.3, 0.8]])]
MODELS = [
    Network(2, 2, tied=False, skip=0.7, beta=1.3),
    Network(2, 3, (1, 2), tied=False, skip=0.7),
    Network(3, 2, tied=False),
    Network(2, 2, heads=2, readouts=READOUTS, beta=0.8),
    Network(2, 2, tied=False, activation="linear"),
    Network(2, 2, output="sequence"),
    Network(1, 2, heads=2),
]
LONGER = [Network(3, 2, (2, 1, 1), tied=False), Network(2, 2, 2, tied=False, activation="linear")]


@pytest.mark.slow_for(
    "untied softmax attention, L=3, M=2, rank 1, c=1, beta=1",
    "tied softmax attention, L=2, M=2, rank 1, c=1, beta=0.8, H=2",
    "untied softmax attention, L=2, M=3, rank 1,2, c=0.7, beta=1",
)
@pytest.mark.parametrize(
    "model",
    [*MODELS, *(pytest.param(model, marks=pytest.mark.slow) for model in LONGER)],
    ids=lambda model: model.describe(),
)
def test_slopes_are_differences_of_the_link(model, rng):
    h = rng.standard_normal((5, model.indices, model.tokens))
    y = model.link(rng.standard_normal(h.shape))

    def loss(at):
        return 0.5 * ((model.link(at) - y) ** 2).reshape(len(y), -1).sum(axis=1)

    value, slopes = square_loss(model)(h, y)
    assert value == pytest.approx(loss(h), rel=1e-12)
    step = 1e-5
    for p in range(model.indices):
        for m in range(model.tokens):
            moved = np.zeros_like(h)
            moved[:, p, m] = step
            # Third derivatives times step^2, and rounding over step.
            assert slopes[:, p, m] == pytest.approx(
                (loss(h + moved) - loss(h - moved)) / (2 * step), rel=1e-6, abs=1e-7
            )


@pytest.mark.slow_for("tied softmax attention, L=2, M=3, rank 1,2, c=0.5, beta=1")
@pytest.mark.parametrize("model", [Network(2, 2), Network(2, 3, (1, 2), skip=0.5)], ids=lambda model: model.describe())
def test_both_routes_to_the_slopes_of_tied_attention(model, rng):
    h = rng.standard_normal((7, model.indices, model.tokens))
    y = model.link(rng.standard_normal(h.shape))
    losses, slopes = np.empty(7), np.empty(h.shape)
    derived_module(WORKER, model).square_loss(h, y, np.array([model.skip, model.beta]), losses, slopes)
    value, wanted = square_loss(model)(h, y)
    assert losses == pytest.approx(value, rel=1e-12)
    assert slopes == pytest.approx(wanted, abs=1e-12)


def test_saturated_rows_have_finite_slopes():
    model = MODELS[1]
    value, slopes = square_loss(model)(np.full((1, 6, 3), 30.0) * np.arange(1, 4), np.zeros((1, 3, 3)))
    assert np.isfinite(value).all() and np.isfinite(slopes).all()


def test_an_untied_network_of_two_layers_is_learned(rng):
    model = Network(2, 2, tied=False)
    weights = teacher(model, 20, 0)
    x, y = make_data(model, weights, 20.0, 1, dtype=np.float64)
    near = weights + 0.3 * rng.standard_normal(weights.shape)
    found = descend(x, y, model, method="gd", start=near, teacher=weights, epochs=500, workers=1)
    assert found.converged, found.status
    assert found.losses[-1] < 0.05 * found.losses[0]
    assert found.layers == ("keys of layer 1", "queries of layer 1", "keys of layer 2", "queries of layer 2")
    assert found.cosine is not None and (found.cosine > 0.99).all()


@pytest.mark.parametrize(
    "model",
    [Network(1, 2, heads=2), Network(2, 2, heads=2, readouts=READOUTS), Network(1, 2, heads=2, tied=False)],
    ids=lambda model: model.describe(),
)
def test_gradients_of_heads_are_differences_of_the_loss(model, rng):
    """Every row of the weights meets all blocks of coordinates: in passes over all samples and in batches."""
    weights = teacher(model, 8, 0)
    x, y = make_data(model, weights, 1.5, 1, dtype=np.float64)
    objective = Objective(x, y, model, workers=1)
    at = weights + 0.3 * rng.standard_normal(weights.shape)
    loss, gradient = objective.whole(at)
    ((batch, outputs),) = objective.batches(None, rng)
    assert objective.gradient(batch, outputs, at) == pytest.approx(gradient, rel=1e-10, abs=1e-12)
    assert loss > objective.whole(weights)[0]
    step = 1e-5
    for place in np.ndindex(*weights.shape):
        moved = np.zeros_like(at)
        moved[place] = step
        slope = (objective.whole(at + moved)[0] - objective.whole(at - moved)[0]) / (2 * step)
        # Gradients are those of the loss times the columns of the weights; differences are good to step^2.
        assert gradient[place] == pytest.approx(weights.shape[1] * slope, rel=1e-5, abs=1e-7)


def test_two_heads_are_learned(rng):
    model = Network(2, 2, heads=2, readouts=READOUTS)
    weights = teacher(model, 20, 0)
    x, y = make_data(model, weights, 10.0, 1, dtype=np.float64)
    near = weights + 0.2 * rng.standard_normal(weights.shape)
    found = descend(x, y, model, method="gd", start=near, teacher=weights, epochs=300, workers=1)
    assert found.alpha == 10.0
    assert found.layers == tuple(f"head {head} of layer {layer}" for layer in (1, 2) for head in (1, 2))
    assert found.losses[-1] < 0.05 * found.losses[0]
    assert found.cosine is not None and (found.cosine > 0.99).all()
