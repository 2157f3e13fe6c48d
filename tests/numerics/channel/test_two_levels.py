"""Averages by few nodes that few outputs put right: against quadrature, and against their parts."""

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel import sampled
from attnlimits.numerics.channel.averages import matrix_root, regression
from attnlimits.numerics.channel.choice import channel, left_by_many, many_channel
from attnlimits.numerics.channel.two_levels import TwoLevels
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.deep.levels import BLOCKS, BlockedPosterior, FewNodesPosterior
from attnlimits.numerics.quadrature.rules import normal_qmc

Array = NDArray[np.float64]
PAIRS_OF_TOKENS = Network(layers=2, tokens=2)


def points(model: Network, log2_n: int, rng: np.random.Generator, replicas: int = 8) -> list[Array]:
    return [normal_qmc(2 * model.layers * model.tokens, log2_n, stream) for stream in rng.spawn(replicas)]


@pytest.mark.parametrize("model", [Network(2, 3), Network(3, 3), Network(2, 3, activation="linear")])
def test_a_block_is_a_posterior_by_few_nodes(model: Network) -> None:
    """The first block has the nodes that the same generator draws where there are few."""
    outer = points(model, 4, np.random.default_rng(0), 1)[0].reshape(-1, 2, model.layers, model.tokens)
    q = np.diag(np.linspace(0.2, 0.8, model.layers))
    v = np.eye(model.layers) - q
    omega = matrix_root(q) @ outer[:, 0]
    h = omega + np.sqrt(v) @ outer[:, 1]
    few = FewNodesPosterior(model, 64, len(h), 1, np.random.default_rng(1), 1)(h, omega, v)
    levels = BlockedPosterior(model, 64 * BLOCKS, len(h), 1, np.random.default_rng(1), 1).levels(h, omega, v)
    assert len(levels.blocks) == BLOCKS
    for found, expected in zip(levels.blocks[0].means, few.means, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    for found, expected in zip(levels.blocks[0].seconds, few.seconds, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    # All nodes scatter less than those of a block.
    spread = [np.abs(one.means[0] - one.means[1]).mean() for one in (levels.all, levels.blocks[0])]
    assert spread[0] < 0.6 * spread[1]


def test_outputs_share_few_sets_of_few_nodes() -> None:
    assert [FewNodesPosterior.pairs_of(per) for per in (8, 256, 1024, 4096)] == [8, 16, 32, 128]


def test_averages_are_those_of_quadrature_within_their_errors() -> None:
    """Two layers of two tokens, 16 seeds at each overlap: 99 % are within three errors, which are not too large."""
    off: list[float] = []
    for overlaps in ((0.0, 0.6), (0.3, 0.9), (0.6, 0.3), (0.2, 0.97)):
        q, learned = np.diag(overlaps), np.array(overlaps) > 0
        exact = channel(
            PAIRS_OF_TOKENS, samples=16, replicas=2, rng=np.random.default_rng(0), workers=1, accuracy=1e-5
        )(q)
        for seed in range(16):
            rng = np.random.default_rng(seed)
            outer, fewer = points(PAIRS_OF_TOKENS, 6, rng), points(PAIRS_OF_TOKENS, 4, rng)
            found = TwoLevels(PAIRS_OF_TOKENS, outer, fewer, nodes=64, rng=rng, workers=1)(q)
            error = (standard_error(found.g) + found.bias).diagonal()
            off += ((found.g - exact.g.mean(axis=0)).mean(axis=0).diagonal()[learned] / error[learned]).tolist()
            error = standard_error(found.growth) + found.growth_bias
            off += ((found.growth.mean(axis=0) - exact.growth.mean(axis=0))[~learned] / error[~learned]).tolist()
            assert (found.bias.diagonal()[learned] > 0).all() and (found.growth_bias[~learned] > 0).all()
    # Errors of eight randomisations have Student's factor, 1.5.
    assert len(off) == 128 and np.mean(np.abs(off) > 3) <= 0.01 and 0.6 < np.sqrt(np.mean(np.square(off))) < 1.1


def test_weights_of_control_variates_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few nodes are off by what a block is off by only with the same weights: those that many outputs give."""
    fits: list[int] = []

    def counted(values: Array, columns: Array) -> Array:
        fits.append(len(values))
        return regression(values, columns)

    monkeypatch.setattr(sampled, "regression", counted)
    model, rng = Network(3, 3), np.random.default_rng(0)
    found = TwoLevels(model, points(model, 6, rng), points(model, 4, rng), nodes=64, rng=rng, workers=1)
    found(np.diag([0.6, 0.0, 0.6]))
    assert fits == [8 * 64] * 3


def test_many_points_take_two_levels_where_layers_are_sampled() -> None:
    made = {
        model: many_channel(model, samples=16, replicas=2, rng=np.random.default_rng(0), workers=1, nodes=64)
        for model in (Network(2, 3), Network(2, 2, tied=False))
    }
    assert [isinstance(one, TwoLevels) for one in made.values()] == [True, False]
    assert [left_by_many(model) for model in made] == [0.25, 1.0]
