"""Which nodes are kept."""

import numpy as np
import pytest

from attnlimits.numerics.posterior.charts.frozen import heavy_nodes


@pytest.mark.parametrize("light", [0.0, 1e-6, 0.1])
def test_what_is_left_out_is_as_light_as_it_may_be(light):
    log_weight = 8 * np.random.default_rng(0).standard_normal(400) - 900.0
    heavy = heavy_nodes(log_weight, light)
    assert (np.diff(heavy) > 0).all()
    weight = np.exp(log_weight - log_weight.max())
    left = np.delete(weight, heavy)
    assert left.sum() <= light * weight.sum()
    # The next one would be too much.
    assert left.sum() + weight[heavy].min() > light * weight.sum()
    assert left.max(initial=0.0) <= weight[heavy].min()


def test_equal_nodes_and_none():
    np.testing.assert_array_equal(heavy_nodes(np.zeros(4), 0.5), [2, 3])
    assert heavy_nodes(np.empty(0), 0.5).shape == (0,)
