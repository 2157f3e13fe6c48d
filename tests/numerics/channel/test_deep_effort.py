"""Sampled outputs of three layers: points of each accuracy, and nodes by what coarse averages state of their bias."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.channel.deep.averages import DeepAverages
from attnlimits.numerics.channel.pieces import largest_bias
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.model.network import Network

Array = NDArray[np.float64]
LEARNED, SILENT = np.diag([0.9, 0.85, 0.998]), np.diag([0.9, 0.0, 0.998])
# Standard errors of 4096 points of each randomisation, relative; bias of one node.
NOISE, OF_ONE = 3e-3, 0.1


class Known(ChannelBase):
    """Averages whose noise falls as the root of the outputs, and whose bias falls as the nodes."""

    made: list["Known"]
    #: Bias of one node.
    bias = OF_ONE

    def __init__(self, model: Network, points: Sequence[Array], *, nodes: int, **settings: Any) -> None:
        self.points, self.nodes = points, nodes
        self.made.append(self)

    def __call__(self, q: Array) -> Averages:
        size = len(self.points)
        scatter = np.linspace(-1, 1, size)[:, None]
        scatter *= NOISE * np.sqrt(2**15 / (size * len(self.points[0]))) / standard_error(scatter)
        learned, n = q.diagonal() > 0, self.bias / self.nodes
        g = np.zeros((size, 3, 3))
        g[:, range(3), range(3)] = np.where(learned, 1 + scatter, 0.0)
        growth = np.where(learned, np.nan, 1 + scatter)
        bias, growth_bias = np.diag(np.where(learned, n, 0.0)), np.where(learned, 0.0, n)
        return Averages(g, growth, bias, "monte-carlo", growth_bias=growth_bias)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> type[Known]:
    monkeypatch.setattr("attnlimits.numerics.channel.deep.averages.ThreeLayers", Known)
    monkeypatch.setattr(Known, "made", [], raising=False)
    return Known


def averages(replicas: int = 8) -> DeepAverages:
    return DeepAverages(Network(3), 1e-2, replicas=replicas, rng=np.random.default_rng(0), workers=1)


def test_bias_and_noise_are_worth_the_same_at_the_largest_bias() -> None:
    """Twice the nodes, and as many fewer outputs as leave the sum of both: the same cost."""
    for nodes, beside in ((64, 90.0), (512, 90.0), (256, 330.0)):
        bias = largest_bias(nodes, beside)
        outputs = ((1 + bias) - bias / 2) ** -2
        assert outputs * (2 * nodes + beside) == pytest.approx(nodes + beside)


def test_nodes_rise_with_the_outputs(known: type[Known]) -> None:
    """Noise falls, and bias is to fall with it; coarse averages have the nodes of the table."""
    deep = averages()
    nodes = []
    for accuracy in (1e-2, 2e-3, 1e-3, 2.5e-4, 1.2e-4):
        deep.rough(LEARNED, accuracy)
        nodes.append(known.made[-1].nodes)
    assert nodes[:2] == [32, 64] and nodes[2:] == sorted(nodes[2:]) and nodes[2] < nodes[-1]


@pytest.mark.parametrize("q", [LEARNED, SILENT])
@pytest.mark.parametrize(("accuracy", "outputs"), [(1e-3, 2**16), (2.5e-4, 2**18)])
def test_bias_stays_below_what_is_worth_nodes(known: type[Known], q: Array, accuracy: float, outputs: int) -> None:
    """By those nodes, and not by half of them: of all layers together, and of the growth rate of a silent one."""
    deep = averages()
    found = deep.rough(q, accuracy)
    channel = known.made[-1]
    assert sum(map(len, channel.points)) == outputs
    learned = q.diagonal() > 0
    ratio = found.bias.diagonal().sum() / np.linalg.norm(standard_error(found.g).diagonal())
    if not learned.all():
        ratio = max(ratio, found.growth_bias[1] / standard_error(found.growth)[1])
    assert 64 < channel.nodes < 1024
    assert ratio <= largest_bias(channel.nodes, 90) and 2 * ratio > largest_bias(channel.nodes // 2, 90)


def test_outputs_without_bias_have_the_fewest_nodes(known: type[Known], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Known, "bias", 0.0)
    deep = averages()
    for accuracy in (1e-3, 5e-4):
        deep.rough(LEARNED, accuracy)
        assert known.made[-1].nodes == 64


def test_points_are_shared_among_more_randomisations(known: type[Known], monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times those asked for: Student's factor is nearly one. The same outputs whatever the nodes."""
    for replicas in (2, 8):
        deep = averages(replicas)
        deep.rough(LEARNED, 1e-2)
        assert [len(x) for x in known.made[-1].points] == [256] * 4 * replicas
    other = averages()
    for bias in (0.0, 0.1):
        monkeypatch.setattr(Known, "bias", bias)
        other.rough(LEARNED if bias else SILENT, 1e-3)
    few, many = (one for one in known.made[-4:] if len(one.points[0]) == 2048)
    assert few.nodes < many.nodes
    np.testing.assert_array_equal(few.points, many.points)


def test_averages_are_kept_and_old_points_are_not(known: type[Known]) -> None:
    """Where a search has been is not computed again; points of six efforts are too many to be kept."""
    deep = averages()
    first = deep.rough(LEARNED, 1e-2)
    assert deep.rough(LEARNED, 1e-2) is first
    for accuracy in (2e-3, 1e-3, 5e-4, 2.5e-4, 1.2e-4):
        deep.rough(SILENT, accuracy)
    made = len(known.made)
    deep.rough(SILENT, 2e-3)
    assert len(known.made) == made
    deep.rough(LEARNED, 1e-2)
    assert len(known.made) == made + 1
