"""Posteriors of data by nodes that stay where they are while the prior moves little: scores, slopes, errors."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ...core.errors import ConvergenceError
from ...core.results import How
from ...core.typing import Array
from ...model.network import Network
from ..charts.density import Prior, energy
from ..charts.frozen import Weighed

__all__ = ["LIGHT", "WORTH", "FrozenPosterior", "Given", "last_long", "squared_step"]

#: Independent nodes that those of an output are worth at least, or it gets more. The slopes of a score have the square
#: of its width in them: where they are known to less, an iteration amplifies what they are off by.
WORTH = 200.0
#: Part of the weight of an output that nodes are left out with.
LIGHT = 1e-4


class Given(NamedTuple):
    """Prior of a pass: means in modes over the tokens, shape (n, P, M), covariance, and what nodes need of it."""

    means: Array
    covariance: Array
    prior: Prior


class FrozenPosterior(ABC):
    """Posteriors whose outputs have nodes of their own, which stay where they are from call to call.

    Scores are then smooth functions of (omega, V), and their slopes those of the sums over the nodes, so that an
    iteration with them converges.

    Parameters
    ----------
    model : Network
    rows : int
        Number of outputs.
    modes : ndarray, shape (M, M)
        Orthogonal: from tokens to modes.

    Attributes
    ----------
    noise : ndarray, shape (P, P)
        Sum over outputs and tokens of the products of the errors of the latest scores, from two sets of nodes.
    """

    how: How = "monte-carlo"

    def __init__(self, model: Network, rows: int, modes: Array) -> None:
        self.rows, self.model, self.modes = rows, model, modes
        self._errors, self._products = np.zeros((2, rows, model.indices, model.indices))

    @abstractmethod
    def given(self, omega: Array, V: Array) -> Given:
        """What a pass needs of the prior N(omega, V)."""

    @abstractmethod
    def weighed(self, row: int, mean: Array, given: Given) -> Weighed:
        """Moments of one output at a mean of the prior, by the nodes that it has or by new ones."""

    @property
    def noise(self) -> Array:
        """Products of the errors of the latest scores."""
        return np.asarray(self._errors.sum(axis=0))

    def products(self, part: slice) -> Array:
        """Sum of g g^T of the latest scores of some rows, by two independent sets of nodes."""
        return np.asarray(self._products[part].sum(axis=0))

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        precision, indices = np.asarray(np.linalg.inv(V), np.float64), len(V)
        given = self.given(omega, V)
        means, second, lost = np.empty((3, *omega.shape)), np.zeros(V.shape), 0
        for number, row in enumerate(range(*part.indices(self.rows))):
            found = self.weighed(row, given.means[number], given)
            lost += not found.worth > 0
            means[:, number] = found.mean[:, :indices]
            second += found.second[:indices, :indices]
        if lost:
            raise ConvergenceError(
                f"the posterior (12) of {self.model.describe()} is nowhere finite that was looked at, for {lost} of "
                f"{len(omega)} outputs; raise nodes, take another seed, or check that model and data match"
            )
        one, two, both = precision @ means
        apart = 0.5 * (one - two)
        self._errors[part] = apart @ apart.swapaxes(1, 2)
        # The square of a sampled mean would have its variance on top.
        crossed = one @ two.swapaxes(1, 2)
        self._products[part] = 0.5 * (crossed + crossed.swapaxes(1, 2))
        curvature = omega.size / len(V) * precision - precision @ second @ precision + self.products(part)
        return both @ self.modes, curvature


def squared_step(mean: Array, other: Array, prior: Prior) -> float:
    """Squared distance of two means of a prior in its widths, of each index and token."""
    step = mean - other
    return 2 * float(energy(step, np.zeros_like(step), prior.precision, np.empty_like(step))) / step.size


def last_long(worth: float, was: float, moved: float) -> bool:
    """Whether nodes stay: by what they are worth and were when they were drawn, and the squared step since then."""
    # Nodes are drawn anew where the prior's mean has moved by this part of its width, or where they are worth less than
    # this part of what they were.
    most_moved, worn = 0.5, 0.6
    return worth > worn * was and moved < most_moved**2
