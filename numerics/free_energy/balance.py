"""Where the overlaps are stationary: q = F(alpha G(q)) as the alpha that every group of indices asks for.

With w = -log(1 - q), a stationary group has alpha = qhat(q)/G(q); these functions do not depend on alpha, so that an
evaluation serves all alphas and the derivative of Phi by q is (alpha - alpha_l) G/2.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..channel.link.channel import LinkChannel
from ..channel.two_layers.diagonal import DiagonalQuadrature
from ..core.errors import ConvergenceError
from ..model.link_symmetry import exchanges
from ..priors import Prior, gain, without_samples
from .psi_out import OutputEntropy

__all__ = ["GroupBalance"]

Array = NDArray[np.float64]


class GroupBalance:
    """Logarithms of the alphas at which the groups are stationary.

    Parameters
    ----------
    output : OutputEntropy
    prior : Prior
    closest : float, optional
        Distance to one of the largest overlap.
    """

    def __init__(self, output: OutputEntropy, prior: Prior, closest: float | None = None) -> None:
        self.output, self.prior = output, prior
        # Distance to one of the largest overlap that averages are asked for; closer, those of two layers take long.
        usual, of_two = 1e-6, 3e-4
        if closest is None:
            channel = output.channel
            closest = max(of_two, channel.closest) if isinstance(channel, DiagonalQuadrature) else usual
        if not 0 < closest < 0.1:
            raise ValueError(f"closest must be in (0, 0.1), got {closest!r}")
        self.closest, self.top = closest, -math.log(closest)
        #: Whether some overlaps may reach one without the others: the outputs of attention tell of all layers or none.
        self.apart = isinstance(output.channel, LinkChannel) and len(output.groups) > 1
        #: Overlaps at which the averages were not resolved.
        self.unresolved: list[Array] = []
        #: What is known of the weights without samples.
        self.given = without_samples(prior, output.size).diagonal()
        self._orders = _exchanges(output)
        self._known: dict[bytes, Array] = {}

    def __call__(self, w: Array) -> Array:
        """Log alpha of each group; -inf for one that any alpha sets off, inf where the output does not depend on it.

        NaN where the averages are not resolved, which is noted.
        """
        order = self._order(w)
        chosen = w[order]
        key = chosen.tobytes()
        if key not in self._known:
            try:
                self._known[key] = self._evaluate(chosen)
            except ConvergenceError:
                self.unresolved.append(self.overlaps(w))
                self._known[key] = np.full(len(w), math.nan)
        log_alphas = np.empty(len(w))
        log_alphas[order] = self._known[key]
        return log_alphas

    def missing(self, points: Sequence[Array]) -> list[Array]:
        """Those of some points that are to be evaluated, one of each that an exchange makes equal."""
        chosen = {w[self._order(w)].tobytes(): w for w in points}
        return [w for key, w in chosen.items() if key not in self._known]

    def accept(self, w: Array, log_alphas: Array) -> None:
        """Take the logarithms of alpha that a worker has evaluated at w."""
        order = self._order(w)
        if (key := w[order].tobytes()) not in self._known:
            self._known[key] = log_alphas[order]
            if np.isnan(log_alphas).all():
                self.note([self.overlaps(w)])

    def _order(self, w: Array) -> list[int]:
        """Of those in which the output sees no difference, the one in which w comes last: one of them is evaluated."""
        return max(self._orders, key=lambda order: w[order].tolist())

    def note(self, unresolved: list[Array]) -> None:
        """Note overlaps at which another one did not resolve the averages."""
        for q in unresolved:
            if not any(np.array_equal(q, other) for other in self.unresolved):
                self.unresolved.append(q)

    def overlaps(self, w: Array) -> Array:
        """Overlaps of the groups."""
        return -np.expm1(-w)

    def _evaluate(self, w: Array) -> Array:
        output = self.output
        q = output.matrix(self.overlaps(w))
        averages = output.averages(q)
        g = averages.g.mean(axis=0)
        qhat = self.prior.inverse(q)
        log_alphas = np.empty(len(w))
        # Where G at zero overlap counts as positive: such an index is learned at any alpha > 0.
        surely = 1e-9
        for k, group in enumerate(output.groups):
            mean = float(np.mean([g[i, i] for i in group]))
            if w[k] > 0:
                log_alphas[k] = math.log(qhat[group[0], group[0]] / mean) if mean > 0 else math.inf
            elif mean > surely or self.given[group[0]] > 0:
                log_alphas[k] = -math.inf
            else:
                log_alphas[k] = -math.log(max(gain(self.prior) * self._growth(q, group), 1e-300))
        return log_alphas

    def _growth(self, q: Array, group: tuple[int, ...]) -> float:
        """Growth rate over alpha of a small overlap of a group, of rows of covariance I."""
        if (both := self.output.channel.operator(q)) is not None:
            operator = both[1].mean(axis=0)
            return float(np.mean([sum(operator[i, i, j, j] for j in group) for i in group]))
        growth = self.output.averages(q).growth[:, list(group)].mean(axis=0)
        return float(np.mean(growth))

    def slopes(self, w: Array, free: list[int]) -> Array:
        """Derivatives of log alpha of the free groups by their w."""
        here = self(w)[free]
        columns = []
        # Step of w for derivatives.
        step = 0.03
        for k in free:
            moved = w.copy()
            moved[k] += step if w[k] + step <= self.top else -step
            columns.append((self(moved)[free] - here) / (moved[k] - w[k]))
        return np.array(columns).T


def _exchanges(output: OutputEntropy) -> list[list[int]]:
    """Orders of the groups that leave the averages as they are; the first one is that in which they are.

    Samples of a link do not have its symmetries.
    """
    channel, groups = output.channel, output.groups
    orders = [list(range(len(groups)))]
    if isinstance(channel, LinkChannel) and not channel.sampled and len(groups) == channel.model.indices:
        found = exchanges(channel.model, np.zeros((len(groups), len(groups))))
        orders += [list(order) for order in found if list(order) != orders[0]]
    return orders
