"""Three or more softmax layers over two tokens: nodes that solve for either of the last two layers, and stay."""

from dataclasses import dataclass

import numpy as np

from ...core.typing import Array
from ...model.network import Network
from ...quadrature.rules import normal_qmc
from ..charts.density import plain_prior
from ..charts.frozen import Weighed
from ..charts.layout import token_modes
from ..deep.frozen import Channel, Draws, freeze_deep
from ..deep.signs import Folded, weigh_signs
from ..protocol import Settings
from ..readout import invert_readout
from .frozen import LIGHT, WORTH, FrozenPosterior, Given, last_long, squared_step
from .outputs import named_rows

__all__ = ["DeepPairPosterior"]


class DeepPairPosterior(FrozenPosterior):
    """Posteriors of L >= 3 tied softmax layers of rank 1 over two tokens.

    Every output has as many nodes as make them worth enough: outputs that the estimate finds unlikely take up to
    sixty-four times as many as the others. They stay where they are until (omega, V) has moved away from them.

    Parameters
    ----------
    model : Network
    y : ndarray, shape (n, 2, 2)
    settings : Settings
    """

    def __init__(self, model: Network, y: Array, settings: Settings) -> None:
        super().__init__(model, len(y), token_modes(2))
        self._v = np.ascontiguousarray(named_rows(lambda part: invert_readout(model, part)[0], y) @ self.modes)
        # Most nodes of an output.
        most = 65536
        self._most = settings.nodes or most
        # Nodes of each set and half, sets, and share of the nodes that are solved for the last layer.
        usual_nodes, usual_sets, for_last = 512, 64, 0.5
        half = min(usual_nodes, max(16, self._most // 2))
        sets = max(usual_sets, self._most // (2 * half))
        streams = settings.rng.spawn(2 * sets)
        size = int(np.log2(half))
        points = np.array([normal_qmc(2 * (model.layers - 1), size, stream) for stream in streams])
        normal = np.ascontiguousarray(points.swapaxes(1, 2).reshape(sets, 2, 2 * (model.layers - 1), 1 << size))
        self._draws = Draws(normal, round(for_last * normal.shape[3]))
        self._kept: list[_Kept | None] = [None] * self.rows

    def given(self, omega: Array, V: Array) -> Given:
        """Means in modes, and the prior."""
        return Given(np.ascontiguousarray(omega @ self.modes), V, plain_prior(V, 2))

    def weighed(self, row: int, mean: Array, given: Given) -> Weighed:
        """Moments of one output, by the nodes that it has or by new ones."""
        kept, least = self._kept[row], 2 * self._draws.normal.shape[3]
        count = least
        if kept is not None:
            found = _moments(kept.nodes, mean, given)
            if last_long(found.worth, kept.worth, squared_step(mean, kept.mean, given.prior)):
                return found
            count = max(least, kept.count // 2)
        while True:
            count = min(count, self._most)
            nodes = self._drawn(row, count // least, mean, given)
            found = _moments(nodes, mean, given)
            self._kept[row] = _Kept(nodes, count, found.worth, mean)
            if found.worth > WORTH or count == self._most:
                return found
            count *= 2

    def prior_moments(self) -> Array:
        """E[h_l h_l^T | y] of every layer and output at omega = 0, V = I, shape (n, L, M, M)."""
        depth = self.model.indices
        given = self.given(np.zeros((self.rows, depth, 2)), np.eye(depth))
        out = np.empty((self.rows, depth, 2, 2))
        for row in range(self.rows):
            self.weighed(row, given.means[row], given)
            kept = self._kept[row]
            assert kept is not None
            h = kept.nodes.modes
            height = kept.nodes.log_base - 0.5 * (h**2).sum(axis=(1, 2))
            weight = np.exp(height - height.max())
            out[row] = np.einsum("n,nlk,nlj->lkj", weight / weight.sum(), h, h)
        return np.asarray(self.modes.T @ out @ self.modes)

    def _drawn(self, row: int, sets: int, mean: Array, given: Given) -> Folded:
        """New nodes of one output, from so many sets, which outputs take in turn."""
        depth, V = len(mean), given.covariance
        precisions, roots = np.zeros((3, depth, depth)), np.empty((2, depth - 1, depth - 1))
        precisions[0] = given.prior.precision[0]
        for number, left_out in enumerate((depth - 1, depth - 2)):
            rest = np.ix_(*2 * [[k for k in range(depth) if k != left_out]])
            precisions[1 + number][rest], roots[number] = np.linalg.inv(V[rest]), np.linalg.cholesky(V[rest])
        channel = Channel((self.model.skip, self.model.beta), precisions, roots)
        which = (row + np.arange(max(1, sets))) % len(self._draws.normal)
        found: Folded = freeze_deep(self._v[row], mean, channel, self._draws, which, LIGHT)
        return found


@dataclass(frozen=True, slots=True)
class _Kept:
    """Nodes of an output, how many were drawn, what they were worth, and the prior's mean then."""

    nodes: Folded
    count: int
    worth: float
    mean: Array


def _moments(nodes: Folded, mean: Array, given: Given) -> Weighed:
    found: Weighed = weigh_signs(nodes, mean, given.prior.precision[0], given.prior.log_norm)
    return found
