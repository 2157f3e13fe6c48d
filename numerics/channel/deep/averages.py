"""Averages of three and more layers of softmax attention with two tokens, as accurate as asked."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import Workers
from ...core.standard_error import standard_error
from ...model.network import Network
from ...quadrature.rules import normal_qmc
from ..averages import Averages, Channel, ChannelBase, Refinable
from ..pieces import largest_bias
from ..sampled import DeepChannel
from .channel import CLOSEST, DeepQuadrature
from .hidden_lattice import METHOD, HiddenLattice, RoughLattice
from .three_layers import ThreeLayers

__all__ = ["DeepAverages"]

Array = NDArray[np.float64]


class _Sampling(NamedTuple):
    """An effort of sampled outputs: the least accuracy, points of each randomisation asked for, and nodes.

    Of three layers `nodes` is the effective number, of more layers as many as there are; None where the bias of few of
    them is to be at most `share` of the largest that is worth more outputs than nodes (`largest_bias`).
    """

    least: float
    samples: int
    nodes: int | None
    share: float = 1.0


# How averages are taken; generators are seeded by these numbers.
_SAMPLED, _BY_RULES, _BY_LATTICES, _BY_ROUGH_LATTICES = range(4)


class DeepAverages(Refinable, ChannelBase):
    """Averages at a diagonal overlap: sums over all outputs where hidden layers are hardly known, else sampled ones.

    Fine ones of three layers are sums over all outputs at larger overlaps of the hidden layers, too (`HiddenLattice`).

    Parameters
    ----------
    model : Network
        As for `DeepQuadrature`.
    accuracy : float
        Of what a call gives.
    replicas : int
        Independent randomisations.
    rng : numpy.random.Generator
    workers : int, ClusterPool or None
        Threads, or the workers of a cluster.
    """

    # Hidden layers known better than this, or more of them, ask for more points of omega than sampled outputs do: of
    # three layers, whose outputs are sampled at less cost, and of more.
    _wide, _most_of_three, _most_of_more = 0.35, 1, 3

    model: Network
    #: Where hidden layers are known.
    sampled = True
    finest = (8e-5, 4e-5)
    absolute = True

    def __init__(
        self, model: Network, accuracy: float, *, replicas: int, rng: np.random.Generator, workers: Workers = None
    ) -> None:
        self.model = model
        self.layers = tuple(range(model.layers))
        self.accuracy = accuracy
        self._replicas, self._workers = replicas, workers
        self._seed = int(rng.integers(1 << 62))
        # Finest accuracies of more layers than three, whose rules for omega grow as a power with the layers.
        finest_of_more = (4e-4, 8e-5)
        if model.layers > 3:
            self.finest = finest_of_more
        three = (
            _Sampling(5e-3, 1024, 32),
            _Sampling(2e-3, 4096, 64),
            _Sampling(1e-3, 8192, None),
            _Sampling(5e-4, 16384, None),
            _Sampling(2.5e-4, 32768, None),
            _Sampling(1.2e-4, 65536, None),
            # More outputs take too much memory.
            _Sampling(0.0, 65536, None, 0.25),
        )
        more = (
            _Sampling(5e-3, 1024, 1024),
            _Sampling(1e-3, 8192, 4096),
            _Sampling(3e-4, 32768, 8192),
            _Sampling(0.0, 65536, 16384),
        )
        self._efforts = three if model.layers == 3 else more
        self._most = self._most_of_three if model.layers == 3 else self._most_of_more
        self._made: dict[_Key, Channel] = {}
        self._known: dict[tuple[bytes, _Key], Averages] = {}

    def __call__(self, q: Array) -> Averages:
        """Averages at q."""
        return self.rough(q, self.accuracy)

    def rough(self, q: Array, accuracy: float) -> Averages:
        """Averages at q by an effort for this accuracy."""
        return self.alike(q, accuracy, None)

    def alike(self, q: Array, accuracy: float, neighbour: Averages | None) -> Averages:
        """The same, by lattices if the neighbour's are, sampled if not, in a range about the bounds of lattices."""
        return self._by(self._kind(q, accuracy, neighbour), q, accuracy)

    def beside(self, q: Array, accuracy: float, coarse: float, neighbour: Averages | None) -> Averages:
        """Averages at q for the ratio to those at another overlap, by which averages of this accuracy are moved."""
        if self._kind(q, accuracy, neighbour) == _BY_LATTICES:
            # With one layer known the fine averages have so few points that they are taken themselves.
            return self._by(_BY_ROUGH_LATTICES if q.diagonal()[:-1].all() else _BY_LATTICES, q, accuracy)
        return self.alike(q, coarse, neighbour)

    def _by(self, kind: int, q: Array, accuracy: float) -> Averages:
        """Averages taken in this way, kept."""
        # Least accuracy of each effort of the sums, and of the lattices.
        summed = (5e-3, 1e-3, 2e-4, 0.0)
        lattices = (8e-5, 0.0)
        efforts = {_SAMPLED: tuple(one.least for one in self._efforts), _BY_RULES: summed}.get(kind, lattices)
        effort = next(i for i, least in enumerate(efforts) if accuracy >= least)
        key = _Key(kind, effort, self._nodes(q, effort) if kind == _SAMPLED else 0)
        # Averages of one kind, effort and number of nodes that are kept with their points: a search takes turns.
        kept = 5
        if (q.tobytes(), key) not in self._known:
            made = self._made.pop(key, None) or self._make(key)
            self._made[key] = made
            for unused in list(self._made)[:-kept]:
                del self._made[unused]
            found = made(q)
            # Solvers come back to where they were, if at once.
            for old in list(self._known)[:-3]:
                del self._known[old]
            self._known[q.tobytes(), key] = found
        return self._known[q.tobytes(), key]

    def _nodes(self, q: Array, effort: int) -> int:
        """Nodes of each output for this effort: as many as their bias at q asks for, told by coarse averages there."""
        # Which effort of three layers tells the bias, and how far nodes are raised by it; nodes that take as long as
        # what an output takes beside them (40 us an output at 64 nodes, 101 at 256, 172 at 512).
        tells, most_nodes, beside = 1, 1024, 90
        wanted, known = self._efforts[effort], self._efforts[tells]
        if wanted.nodes is not None:
            return wanted.nodes
        assert known.nodes is not None
        off = _bias_over_noise(self._by(_SAMPLED, q, known.least)) * math.sqrt(wanted.samples / known.samples)
        nodes = known.nodes
        while nodes < most_nodes and off * known.nodes / nodes > wanted.share * largest_bias(nodes, beside):
            nodes *= 2
        return nodes

    def _kind(self, q: Array, accuracy: float, neighbour: Averages | None) -> int:
        """How averages of this accuracy are taken."""
        overlaps = q.diagonal()
        hidden = np.count_nonzero(overlaps[:-1])
        highest = overlaps[:-1].max()
        if not (overlaps[-1] <= 1 - CLOSEST and np.abs(q - np.diag(overlaps)).max() <= 1e-12):
            return _SAMPLED
        if highest <= self._wide and hidden <= self._most:
            return _BY_RULES
        # Up to this overlap of hidden layers, of which both are known, lattices have the error of outputs sampled for
        # the accuracy 3e-4 in a third of the time: at q = (.2, .03, .988) 7 s for 21 s.
        most_low, fine_of_low = 0.25, 5e-4
        low = hidden > 1 and highest <= most_low if neighbour is None else neighbour.method == METHOD
        # Of three layers, hidden layers that are known are summed over by lattices where finer averages than this are
        # asked for, which have as many points as those of sampled outputs take. Where both are known, up to this
        # overlap: their points increase as these approach one. Where one is, up to another: at q = (.97, 0, .96) .16 %
        # is stated of G_11, of which nodes of other seeds leave a fifth, and .68 % at .99. And from this overlap of the
        # last layer on: below it sums take longer, and lattices are not calibrated
        # (`tests/calibration/test_lattices.py`).
        finest, most_of_both, most_alone, least_last = 1.2e-4, 0.6, 0.97, 0.95
        if self.model.layers != 3 or accuracy >= (fine_of_low if low else finest):
            return _SAMPLED
        # So far beyond these bounds, and so far within them, in log(1 - q), averages are taken as those of a neighbour
        # are.
        wide = 0.1
        band = 0.0 if neighbour is None else wide if neighbour.method == METHOD else -wide
        most = most_of_both if hidden > 1 else most_alone
        beyond = 1 - highest < (1 - most) * math.exp(-band) or 1 - overlaps[-1] > (1 - least_last) * math.exp(band)
        return _SAMPLED if beyond else _BY_LATTICES

    def _make(self, key: "_Key") -> Channel:
        kind, effort, nodes = key
        rng = np.random.default_rng([self._seed, kind, effort])
        model, workers = self.model, self._workers
        if kind == _BY_RULES:
            return DeepQuadrature(model, effort, rng=rng, workers=workers)
        if kind in (_BY_LATTICES, _BY_ROUGH_LATTICES):
            made = HiddenLattice if kind == _BY_LATTICES else RoughLattice
            return made(model, effort, rng=rng, workers=workers)
        # Of three layers the points are those of so many times the randomisations asked for: quasi-random points of so
        # many variables gain little from a larger number of them, and Student's factor is 1.1 for 32 randomisations,
        # 1.5 for 8.
        chosen, split = (ThreeLayers, 4) if model.layers == 3 else (DeepChannel, 1)
        size, log2_n = 2 * model.layers * model.tokens, int(math.log2(self._efforts[effort].samples // split))
        points = [normal_qmc(size, log2_n, stream) for stream in rng.spawn(split * self._replicas)]
        return chosen(model, points, nodes=nodes, rng=rng, workers=workers)


class _Key(NamedTuple):
    """A kind of averages, its effort, and the nodes of each output where they are sampled."""

    kind: int
    effort: int
    nodes: int


def _bias_over_noise(found: Averages) -> float:
    """The largest ratio of bias and standard error, of all layers that are learned together and of each growth rate.

    Near recovery and thresholds every layer responds to all of them about alike: biases add, and squares of noise.
    """
    g = found.g.mean(axis=0).diagonal()
    learned = g != 0
    bias, noise = (x.diagonal()[learned] / g[learned] for x in (found.bias, standard_error(found.g)))
    growing = np.isfinite(found.growth).all(axis=0) & (found.growth_bias > 0)
    off = np.append(np.broadcast_to(found.growth_bias, growing.shape)[growing], bias.sum())
    scatter = np.append(standard_error(found.growth)[growing], np.linalg.norm(noise))
    return float((off / np.maximum(scatter, 1e-300))[off > 0].max(initial=0.0))
