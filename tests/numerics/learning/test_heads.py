"""Several heads on data: the same samples as the network itself sees, and one weight for all blocks."""

import numpy as np
import pytest

from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.learning.data import check_samples, informed_start, make_data, teacher
from attnlimits.numerics.learning.descent.spectral import spectral_start
from attnlimits.numerics.learning.gamp import gamp
from attnlimits.numerics.learning.heads import HeadScores, of_blocks, to_indices
from attnlimits.numerics.model import networks
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.choice import posterior

TWO = Network(2, 2, heads=2, readouts=[((1.0, 0.3), (-0.4, 0.8))])
MODELS = [TWO, Network(2, 3, (2, 1), tied=False, heads=2, readouts=[np.eye(2)]), Network(2, 2, (2, 1))]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.describe())
def test_data_are_the_outputs_of_the_network(model):
    weights = teacher(model, 48, 0)
    x, y = make_data(model, weights, 0.5, 1)
    by_definition = networks.forward(np.swapaxes(x, 1, 2).astype(np.float64), weights, model)
    assert x.shape == (24, model.tokens, 48)
    np.testing.assert_allclose(y, by_definition, atol=1e-13)


def test_indices_are_those_of_the_network(rng):
    weights, x = teacher(MODELS[1], 24, 0), rng.standard_normal((5, 3, 24))
    projected = np.swapaxes(of_blocks(x, MODELS[1]) @ weights.T, 1, 2) / np.sqrt(12)
    wanted = networks.indices(np.swapaxes(x, 1, 2), weights, MODELS[1])
    np.testing.assert_allclose(to_indices(projected, MODELS[1]), wanted, atol=1e-13)


def test_scores_of_blocks_are_those_of_the_indices(rng):
    """A step of the projections changes log Z by the scores, whichever index it moves: g is the gradient."""
    y = TWO.link(rng.standard_normal((6, TWO.indices, 2)))
    root = rng.standard_normal((4, 4))
    v = 0.5 * np.eye(4) + 0.02 * root @ root.T
    omega = rng.standard_normal((6, 4, 4))
    part = slice(0, 6)
    scores, slopes = HeadScores(TWO, posterior(TWO, y))(omega, v, part)
    rows, blocks = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    of_indices = v[np.ix_(rows, rows)] * (blocks[:, None] == blocks)
    g, curvature = posterior(TWO, y)(to_indices(omega, TWO), of_indices, part)
    np.testing.assert_array_equal(to_indices(scores, TWO), g)
    assert slopes[1, 2] == pytest.approx(curvature[2, 4] + curvature[3, 5])


def test_dimensions_are_multiples_of_the_heads():
    with pytest.raises(ValueError, match="multiple of the 2 heads"):
        teacher(TWO, 51)
    with pytest.raises(ValueError, match="multiple of the 2 heads"):
        check_samples(np.zeros((3, 2, 51)), TWO)
    x, y = make_data(TWO, teacher(TWO, 40, 0), 1.0, 0)
    with pytest.raises(KernelNotFoundError, match="takes one head"):
        spectral_start(x, y, TWO)


def test_gamp_learns_heads():
    """Far above the threshold of the last layer, from half of what there is to learn."""
    weights = teacher(TWO, 120, 0)
    x, y = make_data(TWO, weights, 1.0, 0)
    start = informed_start(weights, 0.5, 0)
    found = gamp(x, y, TWO, teacher=weights, start=start, nodes=128, max_iter=8)
    assert found.weights.shape == (4, 60) and found.alpha == 1.0
    # The last layer is learned; finite dimensions move the first one about.
    assert np.diag(found.overlap)[2:].min() > 0.7 and np.diag(found.overlap).min() > 0.3
    assert "the sampling of the posteriors adds" in found.status
