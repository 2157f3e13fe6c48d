"""Posteriors of three layers of softmax attention with two tokens: those of `SampledPosterior`, by cheaper nodes."""

import math
from copy import deepcopy
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...quadrature.rules import normal_qmc
from ..pieces import PIECES, SETS, moments_of
from .effort import Outputs, scatter
from .mixture import SUMS, Nodes, Prior, mixture_sums
from .sampled import PAIRS, SampledPosterior

__all__ = ["MixturePosterior"]

Array = NDArray[np.float64]

_MODES = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)
# Nodes of each half that an output can have, as powers of two, and sets of them in all randomisations.
_SIZES = ((7, 512), (9, 256), (11, 128), (13, 32), (15, 16))


class _Class(NamedTuple):
    """Outputs with the same number of nodes, and the set that each of them takes."""

    nodes: Nodes
    outputs: NDArray[np.int64]


class MixturePosterior(SampledPosterior):
    """Posteriors under priors of independent layers.

    Here `nodes` is the effective size that half of the nodes of an output is to have: as their weights differ, outputs
    have from 128 nodes in each half to 32 768.
    """

    # Outputs of a task of a thread, times their nodes.
    _task = 1 << 18

    def _draw(self, nodes: int, per: int, replicas: int, rng: np.random.Generator) -> None:
        # The generators of `SampledPosterior`'s nodes, unused: those that are spawned next stay the same.
        rng.spawn(2 * min(PAIRS, per) * replicas)
        self._effective = nodes
        self._streams = rng.spawn(1 + len(_SIZES))
        self._per, self._replicas = per, replicas
        self._drawn: dict[int, Nodes] = {}

    @cached_property
    def _pilot(self) -> Nodes:
        return self._nodes_of(0, self._streams[-1])

    def _of_size(self, number: int) -> Nodes:
        """Nodes of outputs of this class, drawn when the first of them comes."""
        if number not in self._drawn:
            self._drawn[number] = self._nodes_of(number, self._streams[number])
        return self._drawn[number]

    def _nodes_of(self, number: int, rng: np.random.Generator) -> Nodes:
        log2, sets = _SIZES[number]
        sets = min(max(1, sets // self._replicas), self._per)
        # Of a copy: two tasks may draw the same nodes at a time.
        streams = deepcopy(rng).spawn(2 * sets * self._replicas)
        draws = np.array([normal_qmc(4, log2, stream) for stream in streams])
        draws = draws.swapaxes(1, 2)
        densities = np.exp(0.5 * (draws[:, 2] ** 2 + draws[:, 3] ** 2))
        laid = np.concatenate([draws, densities[:, None]], axis=1).reshape(-1, 2, 5, 1 << log2)
        of_outputs = np.arange(self._per * self._replicas) * sets // self._per
        # Share of the nodes that are solved for the last layer.
        for_last = 0.5
        return Nodes(np.ascontiguousarray(laid), of_outputs, round(for_last * (1 << log2)))

    def part(self, h: Array, omega: Array, v: Array, start: int = 0) -> tuple[Array, int]:
        """Moments of a part of the outputs, v diagonal; see `SampledPosterior.part`."""
        model = self.model
        readout = (h[:, 2:] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0] @ _MODES
        outputs = Outputs(readout, omega @ _MODES, h @ _MODES)
        prior = Prior(np.ascontiguousarray(v.diagonal()), (model.skip, model.beta))
        made = np.empty((len(h), SETS, 18))

        def work(task: _Class) -> int:
            chosen = task.outputs
            sums = np.empty((len(chosen), 2 * PIECES, SUMS))
            mixture_sums(outputs.readout[chosen], outputs.omega[chosen], prior, task.nodes, sums)
            moments, lost = moments_of(sums[:, :, :-1])
            # From modes to tokens.
            layers = moments.reshape(-1, SETS, 3, 5)
            made[chosen, :, :6] = (layers[..., :2] @ _MODES).reshape(-1, SETS, 6)
            seconds = _MODES @ layers[..., [2, 3, 3, 4]].reshape(-1, SETS, 3, 2, 2) @ _MODES
            made[chosen, :, 6:] = seconds.reshape(-1, SETS, 12)
            return lost

        return made, sum(self._run(work, self._tasks(self._classes(outputs, prior, start), start)))

    def nodes_over_effective(self, outputs: Outputs, prior: Prior, start: int = 0) -> Array:
        """What the nodes of each output are to be multiplied by, shape (n,), because their weights differ."""
        found, pilot = np.empty(len(outputs.readout)), self._pilot
        sets = pilot.sets[start:]

        def work(part: slice) -> None:
            few = Outputs(*(x[part] for x in outputs))
            scatter(few, prior, Nodes(pilot.draws, sets[part], pilot.for_last), found[part])

        size = self._task >> _SIZES[0][0]
        self._run(work, [slice(first, first + size) for first in range(0, len(found), size)])
        return found

    def _classes(self, outputs: Outputs, prior: Prior, start: int) -> NDArray[np.int64]:
        """Which of the numbers of nodes each output is to have: the nearest in its logarithm."""
        middles = np.exp2([0.5 * (_SIZES[i][0] + _SIZES[i + 1][0]) for i in range(len(_SIZES) - 1)])
        return np.searchsorted(middles, self._effective * self.nodes_over_effective(outputs, prior, start))

    def _tasks(self, classes: NDArray[np.int64], start: int) -> list[_Class]:
        """Outputs of each class in parts that take about as long as each other, those with most nodes first."""
        tasks = []
        for number in sorted(set(classes.tolist()), reverse=True):
            members, nodes = np.flatnonzero(classes == number), self._of_size(number)
            size = self._task >> _SIZES[number][0]
            tasks += [
                _Class(Nodes(nodes.draws, nodes.sets[start + part], nodes.for_last), part)
                for part in (members[first : first + size] for first in range(0, len(members), size))
            ]
        return tasks
