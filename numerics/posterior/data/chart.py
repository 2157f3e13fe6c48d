"""Any network with a chart: posteriors sampled on it by nodes that stay where they are while the prior moves little."""

from dataclasses import dataclass

import numpy as np

from ...core.typing import Array
from ...model.charts import chart_of
from ...model.network import Network
from ..charts.density import Target, prior_of, with_noise
from ..charts.frozen import Frozen, Weighed, freeze, weigh
from ..charts.layout import constants_of, layout_of
from ..charts.outputs import output_data
from ..charts.points import Points, drawn_points
from ..charts.posterior import sign_flips
from ..charts.seeking import Search
from ..protocol import Settings
from .frozen import LIGHT, WORTH, FrozenPosterior, Given, last_long, squared_step
from .outputs import named_rows

__all__ = ["ChartedPosterior"]

# Nodes of each output, of both sets: at first, and at most.
_FIRST, _MOST = 256, 2048


class ChartedPosterior(FrozenPosterior):
    """Posteriors of the outputs of a network that has a chart.

    Every output has nodes of its own, which stay where they are from call to call, so that its scores are smooth
    functions of (omega, V) and an iteration with them converges. They are drawn anew, around peaks that are looked for
    from the last ones and from draws of the prior, where (omega, V) has moved away from them; and more of them where it
    moves by less than their error.

    Parameters
    ----------
    model : Network
        With a chart (`derive.charts`).
    y : ndarray, shape (n, HM, M)
    settings : Settings
    """

    def __init__(self, model: Network, y: Array, settings: Settings) -> None:
        self._chart = chart_of(model)  # kept: the layout holds addresses in it
        self.layout = layout_of(self._chart, constants_of(model))
        super().__init__(model, len(y), self.layout.modes)
        self._data: Array = named_rows(lambda part: output_data(model, self.layout, part), y)
        self._most = settings.nodes or _MOST
        self._flips = sign_flips(model)
        # Pairs of sets of nodes that outputs take turns with: sums over outputs that share one share its error, and
        # slopes are small differences of such sums. Draws from the prior among which peaks are looked for.
        most_pairs, draws = 256, 64
        pairs = min(most_pairs, self.rows)
        self._points = drawn_points(self.layout, self._most // 2, pairs, settings.rng)
        self._draws = settings.rng.standard_normal((draws, len(self.layout.free), model.tokens))
        self._kept: list[_Kept | None] = [None] * self.rows

    def given(self, omega: Array, V: Array) -> Given:
        """Means and prior of the indices and of the rows of the noise."""
        means, covariance = with_noise(self.layout, omega, V)
        return Given(means, covariance, prior_of(self.layout, covariance))

    def prior_moments(self) -> Array:
        """E[h h^T | y] of every output at omega = 0, V = I, shape (n, P, M, P, M)."""
        indices, tokens = self.model.indices, self.model.tokens
        modes, rows = self.layout.modes, len(self.layout.free)
        prior, search = prior_of(self.layout, np.eye(rows)), self._search(np.eye(rows))
        out = np.empty((self.rows, indices, tokens, indices, tokens))
        for row in range(self.rows):
            target = Target(self._data[row], np.zeros((rows, tokens)), prior, self.layout)
            nodes = self._drawn(row, self._most, target, search)
            nodes.modes[:, self.layout.free, 0] = 0.0
            height = nodes.log_base - 0.5 * (nodes.modes**2).sum(axis=(1, 2))
            weight = np.exp(height - height.max())
            second = np.einsum("n,npk,nql->pkql", weight / weight.sum(), nodes.modes, nodes.modes, optimize=True)
            second[:, 0, :, 0] += prior.spread
            seen = second[:indices, :, :indices]
            out[row] = np.einsum("ka,pkql,lb->paqb", modes, seen, modes, optimize=True)
        return out

    def _search(self, covariance: Array) -> Search:
        """Where peaks are looked for that nothing is known of."""
        root = np.asarray(np.linalg.cholesky(covariance), np.float64)
        return Search(root, self._draws, self._flips, np.empty((0, self.layout.dimension)))

    def _drawn(self, row: int, nodes: int, target: Target, search: Search) -> Frozen:
        """New nodes of one output."""
        counts = np.array([nodes // 2 - nodes // 4, nodes // 4])
        points = Points(*(array[row % len(array)] for array in self._points))
        found: Frozen = freeze(counts, points, search, target, LIGHT)
        return found

    def weighed(self, row: int, mean: Array, given: Given) -> Weighed:
        """Moments of one output, by the nodes that it has or by new ones."""
        kept, nodes = self._kept[row], _FIRST
        if kept is not None:
            found: Weighed = weigh(kept.frozen, mean, given.prior, self.layout.free)
            step, nodes = squared_step(mean, kept.latest, given.prior), kept.nodes
            kept.latest = mean
            if step * found.worth < 1 and nodes < self._most:
                nodes *= 2
            elif last_long(found.worth, kept.worth, squared_step(mean, kept.omega, given.prior)):
                return found
        search = self._search(given.covariance)
        if kept is not None:
            search = _beginning(search, kept.frozen)
        target = Target(self._data[row], mean, given.prior, self.layout)
        while True:
            nodes = min(nodes, self._most)
            frozen = self._drawn(row, nodes, target, search)
            found = weigh(frozen, mean, given.prior, self.layout.free)
            self._kept[row] = _Kept(frozen, nodes, found.worth, mean, mean)
            if found.worth > WORTH or nodes == self._most:
                return found
            nodes, search = 2 * nodes, _beginning(search, frozen)


@dataclass(slots=True)
class _Kept:
    """Nodes of an output, how many were drawn and what they were worth; the prior's mean then, and at the last call."""

    frozen: Frozen
    nodes: int
    worth: float
    omega: Array
    latest: Array


def _beginning(search: Search, nodes: Frozen) -> Search:
    """The search from the peaks of some nodes."""
    return Search(search.root, search.draws, search.flips, nodes.peaks)
