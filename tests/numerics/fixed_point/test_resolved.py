"""Imbalances of sampled averages: what their noise explains moves nothing at small overlaps."""

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.fixed_point.resolved import is_within_noise, resolved_imbalance
from attnlimits.numerics.fixed_point.stopping import Evaluation

Array = NDArray[np.float64]


def evaluation(noise: Array, imbalance: Array, *, sampled: bool = True) -> Evaluation:
    """Averages of one whose standard errors are these, at some imbalance."""
    scatter = np.linspace(-1, 1, 8)[:, None] / standard_error(np.linspace(-1, 1, 8)) * noise
    g = np.zeros((8, 2, 2))
    g[:, [0, 1], [0, 1]] = 1 + scatter
    found = Averages.unbiased(g, np.full((8, 2), np.nan), "monte-carlo" if sampled else "estimated")
    return Evaluation(np.full(2, 0.01), found, -imbalance, imbalance)


def test_only_what_noise_does_not_explain_is_followed() -> None:
    """Of the layer that is known to a tenth; the other is known, and its imbalance counts whole."""
    noise = np.array([0.1, 0.01])
    for imbalance, followed in (
        ([0.25, 0.25], [0.15, 0.25]),
        ([-0.25, -0.25], [-0.15, -0.25]),
        ([0.09, 0.009], [0.0, 0.009]),
    ):
        resolved = resolved_imbalance(evaluation(noise, np.array(imbalance)), [0, 1])
        np.testing.assert_allclose(resolved, followed, atol=1e-12)


def test_rules_are_followed_whole() -> None:
    imbalance = np.array([0.05, -0.05])
    here = evaluation(np.array([0.1, 0.1]), imbalance, sampled=False)
    np.testing.assert_array_equal(resolved_imbalance(here, [0, 1]), imbalance)
    assert not is_within_noise(here, [0, 1])


@pytest.mark.parametrize(("imbalance", "within"), [(0.02, True), (0.04, False), (-0.04, False), (1e-3, True)])
def test_a_search_ends_within_the_noise(imbalance: float, within: bool) -> None:
    here = evaluation(np.array([0.03, 0.03]), np.array([0.0, imbalance]))
    assert is_within_noise(here, [0, 1]) is within
