"""Eight nodes on a chart at once are what each of them is by itself."""

import numpy as np
import pytest
from numba import njit

from attnlimits.generated.lanes import LANES, store
from attnlimits.numerics.arithmetic.references import lend
from attnlimits.numerics.model.charts import chart_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.charts.block import log_posteriors
from attnlimits.numerics.posterior.charts.density import Target, log_posterior, prior_of, read
from attnlimits.numerics.posterior.charts.layout import constants_of, layout_of
from attnlimits.numerics.posterior.charts.scratch import new_scratch

MODELS = [
    Network(2, 2, 2),
    Network(2, 2, tied=False),
    Network(2, 3),
    Network(2, 2, activation="linear"),
    Network(1, 3, 3),
    Network(1, 2, tied=False, output="sequence"),
    Network(2, 2, tied=False, output="sequence"),
    Network(2, 2, noise=0.1),
    Network(2, 2, activation="tanh(z) + z"),
    Network(2, 2, heads=2, readouts=(((1, 0.3), (-0.2, 0.8)),)),
]


@njit
def _together(nodes, signs, target, scratch, heights, modes):
    scratch.block.z[:] = nodes
    store(heights, 0, log_posteriors(scratch.block, signs, target))
    modes[:] = scratch.block.modes


@njit
def _alone(z, signs, target, scratch):
    return log_posterior(z, signs, target, scratch)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.describe())
def test_eight_nodes_have_the_density_and_the_indices_of_each(model, rng):
    chart = chart_of(model)
    layout = layout_of(chart, constants_of(model))
    scratch = new_scratch(layout)
    shape = (len(layout.free), model.tokens)
    lent = lend(scratch)
    data, signs, z = np.empty(layout.data), np.empty(layout.signs), np.empty(layout.dimension)
    # More nodes of one output, a part of them where there are no indices: its coordinates moved.
    read(rng.standard_normal(shape), lend(layout), data, z, signs, lent)
    covariance = np.diag(rng.uniform(0.3, 0.9, shape[0]))
    omega = rng.standard_normal(shape)
    target = lend(Target(data, omega, lend(prior_of(layout, covariance)), lend(layout)))
    heights, modes = np.empty(LANES), np.empty((*shape, LANES))
    for _ in range(20):
        nodes = z + rng.standard_normal((LANES, len(z))) * rng.choice([0.1, 1.0, 3.0])
        _together(nodes.T.ravel(), signs, target, lent, heights, modes.ravel())
        for lane, node in enumerate(nodes):
            height = _alone(node.copy(), signs, target, lent)
            if np.isfinite(height):
                np.testing.assert_allclose(heights[lane], height, rtol=1e-10, atol=1e-10)
                size = np.abs(scratch.modes).max()
                np.testing.assert_allclose(modes[..., lane], scratch.modes, rtol=1e-9, atol=1e-12 * (1e3 + size))
            else:
                assert not -np.inf < heights[lane] < np.inf
