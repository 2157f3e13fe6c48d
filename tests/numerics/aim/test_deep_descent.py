"""Layers learned together by descent: the gradient, one layer as `descend` has it, and the bound from below."""

import numpy as np
import pytest

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import indices, make_data, teacher
from attnlimits.numerics.aim.deep_descent import deep_loss, descend_layers
from attnlimits.numerics.aim.gd import descend, loss_and_gradient
from attnlimits.numerics.aim.layers import deep_outputs
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.papers.boncoraglio2025.figures import deep_runs


def network(rng, d, tokens, layers, n, skip=0.7, beta=1.3):
    S = [teacher(d, 0.5, rng) for _ in range(layers)]
    x = rng.standard_normal((n, tokens, d))
    return x, deep_outputs(np.stack([indices(x, s) for s in S]), skip, beta), S


@pytest.mark.parametrize(("layers", "tokens"), [(1, 2), (2, 2), (3, 3)])
def test_gradient_by_central_differences(rng, layers, tokens):
    x, y, _ = network(rng, 5, tokens, layers, 12)
    weights = [rng.standard_normal((5, 2 + number)) for number in range(layers)]
    _, slopes = deep_loss(x, y, weights, 0.7, 1.3)
    for number in range(layers):
        for place in ((0, 0), (3, 1), (4, 1)):
            values = []
            for step in (1e-5, -1e-5):
                moved = [W.copy() for W in weights]
                moved[number][place] += step
                values.append(deep_loss(x, y, moved, 0.7, 1.3)[0])
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(slopes[number][place], rel=1e-6, abs=1e-7)


def test_one_layer_is_that_of_descend(rng):
    S, output = teacher(8, 0.5, 1), channel("softmax")
    x, y = make_data(S, 0.4, output, 1)
    W = rng.standard_normal((8, 4))
    value, slope = loss_and_gradient(x, y, output, W)
    found, slopes = deep_loss(x, y, [W], 1.0)
    assert found == pytest.approx(value, rel=1e-12) and np.allclose(slopes[0], slope, atol=1e-12)
    alone = descend(x, y, output, 0.5, steps=60, teacher=S, rng=3)
    deep = descend_layers(x, y, [0.5], 1.0, steps=60, teachers=[S], rng=3)
    assert deep.errors[0] == pytest.approx(alone.single, rel=1e-9) and deep.loss == pytest.approx(alone.loss[0])


def test_many_samples_recover_two_layers():
    x, y, S = network(np.random.default_rng(2), 8, 2, 2, 400, skip=1.0, beta=1.0)
    found = descend_layers(x, y, [0.5, 0.5], 1.0, teachers=S, rng=0, steps=1500)
    assert found.converged and found.loss < 1e-5 * found.first_loss and found.errors.max() < 1e-3


def test_one_layer_ends_as_the_descent_on_it_does(rng):
    """Steps that are too large, and too few: the same verdict in the same words."""
    x, y, _ = network(rng, 8, 2, 1, 30, skip=1.0, beta=1.0)
    for rate, steps in [(1e6, 60), (0.1, 20)]:
        alone = descend(x, y, channel("softmax"), 0.5, rate=rate, steps=steps, students=1, rng=3)
        deep = descend_layers(x, y, [0.5], 1.0, rate=rate, steps=steps, rng=3)
        assert not deep.converged and deep.status == alone.status


def test_stored_errors_of_the_last_layer_are_above_the_bound():
    """With the first layer unknown it is learned no better than with it known."""
    runs = deep_runs.stored()
    assert [run["alpha"] for run in runs] == list(deep_runs.ALPHAS)
    means = []
    for run in runs:
        errors = np.array(run["errors"])
        mean, error = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
        assert errors.shape == (deep_runs.SEEDS, 2)
        bound = evolve(run["alpha"], deep_runs.RHO, channel("softmax")).mmse.value
        assert mean[1] > bound - 3 * error[1]
        means.append(mean)
    # More samples, smaller errors of both; with many of them both are learned.
    assert (np.diff(np.array(means), axis=0) < 0.1).all() and means[-1].max() < 0.3 < means[0].min()


def test_refusals(rng):
    x, y, S = network(rng, 5, 2, 2, 6)
    with pytest.raises(ValueError, match="at least one layer"):
        descend_layers(x, y, [], 1.0)
    with pytest.raises(ValueError, match="teachers must be as many"):
        descend_layers(x, y, [0.5], 1.0, teachers=S)
    with pytest.raises(ValueError, match="as many samples"):
        descend_layers(x, y[:-1], [0.5, 0.5], 1.0)
