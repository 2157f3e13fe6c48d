"""Averages of two layers at diagonal overlaps by quadrature: what softmax and linear attention have in common."""

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from ...core.blas import one_blas_thread
from ...core.cluster_pool import ClusterPool, Workers, threads_of
from ...core.errors import ConvergenceError
from ...model import kinds
from ...model.network import Network
from ..averages import Averages, ChannelBase, interval
from .steps import MODEST

__all__ = ["CLOSEST", "COARSE", "DiagonalQuadrature", "is_diagonal"]

Array = NDArray[np.float64]

# The rule that measures the error has this share of the log-accuracy.
COARSE = 0.8
# The sum of all weights may miss one by so many times the accuracy.
_MASS = 100.0
# Overlaps closer to one would take too many nodes.
CLOSEST = 3e-5


class DiagonalQuadrature(ChannelBase):
    """Averages at a diagonal overlap by nested rules that converge exponentially.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, rank 1.
    accuracy : float, optional
        Relative accuracy aimed at, `finest` to 1e-2; what is reported as the error is the distance of a coarser rule.
    workers : int, ClusterPool or None
        Threads, those of the machine by default; or the workers of a cluster, to which parts of the sums go at an
        accuracy of 1e-5 or finer.

    Notes
    -----
    q_12 stays zero: the signs of h_1 and of h_2 are free in y.

    References
    ----------
    troiani2025, (14), (95), (184)-(187).
    """

    # Below these, G_11/q_11 and G_22/q_22 are lines.
    _small = (1e-3, 1e-4)

    model: Network
    layers = (0, 1)
    sampled = False
    accuracy: float
    # Entries of h that y fixes: it has two.
    solved = 2.0
    #: Activation of the layers that are served, and the finest accuracy.
    activation: str
    finest = 1e-10
    #: Distance to one of the largest overlap that a curve asks for.
    closest: float = CLOSEST

    def __init__(self, model: Network, accuracy: float = 1e-6, workers: Workers = None) -> None:
        """Keep the model and the effort."""
        if not (kinds.two_by_two(model) and model.activation == self.activation):
            raise ValueError(f"needs two {self.activation} layers, two tokens and rank 1, got {model.describe()}")
        if not self.finest <= accuracy <= 1e-2:
            raise ValueError(f"accuracy must be in [{self.finest:g}, 1e-2], got {accuracy!r}")
        self.model = model
        self.accuracy = accuracy
        # Accuracy from which on points take longer than to send them to a cluster.
        worth_sending = 1e-5
        self._pool = workers if isinstance(workers, ClusterPool) and accuracy <= worth_sending else None
        self._workers = threads_of(None if isinstance(workers, ClusterPool) else workers)
        # Beside a cluster the sums of one point have the order that one thread gives them.
        self._within = 1 if isinstance(workers, ClusterPool) else self._workers
        self._log_accuracy = math.log(10.0 / accuracy)
        self._known: dict[tuple[float, float, float], Array] = {}

    def __call__(self, q: Array) -> Averages:
        """Averages at q, as the two ends of an interval around the value by the finer of two rules.

        Raises
        ------
        ValueError
            q is not diagonal, or an overlap is closer to 1 than the rules resolve.
        ConvergenceError
            The rules do not resolve the posterior.
        """
        ends = interval(*self.refinements(q))
        return Averages.unbiased(np.array([np.diag(end[:2]) for end in ends]), ends[:, 2:], "estimated")

    def rough(self, q: Array) -> Averages:
        """Averages by the finer rule alone, twice; raises as a call does."""
        one = self._averages(*self._checked(q), 1.0)
        return Averages.unbiased(np.array([np.diag(one[:2])] * 2), np.array([one[2:]] * 2), "estimated")

    def refinements(self, q: Array) -> Array:
        """G_11, G_22 and the growth rates by the rule and by a coarser one, shape (2, 4); raises as a call does."""
        at = self._checked(q)
        return np.array([self._averages(*at, share) for share in (1.0, COARSE)])

    def serves(self, q: Array) -> bool:
        """Whether the rules resolve this overlap, and at a cost that is worth it."""
        return is_diagonal(q) and bool(q.diagonal().max() <= 1 - CLOSEST)

    def _checked(self, q: Array) -> tuple[float, float]:
        if not is_diagonal(q):
            raise ValueError(
                f"q must be diagonal, (14): y leaves the signs of h_1 and h_2 free; got q_12 = {q[0, 1]:g}"
            )
        q1, q2 = (float(x) for x in q.diagonal())
        if not (0 <= min(q1, q2) and max(q1, q2) <= 1 - CLOSEST):
            raise ValueError(f"q must be in [0, {1 - CLOSEST}] here, (14); got {q1:g} and {q2:g}")
        return q1, q2

    def _averages(self, q1: float, q2: float, share: float) -> Array:
        """G_11, G_22 and the growth rates of both layers, NaN where the overlap is not zero.

        Below `_small`, G_ll/q_ll lies between the growth rate and its value there.
        """
        key = (q1, q2, share)
        if key not in self._known:
            if 0 < q1 < self._small[0]:
                self._known[key] = self._between(0, q1, q2, share)
            elif 0 < q2 < self._small[1]:
                self._known[key] = self._between(1, q1, q2, share)
            else:
                # A small overlap leaves small differences of posterior means.
                least = min(x for x in (q1, q2, MODEST) if x)
                finer = share * (1 + math.log(MODEST / least) / self._log_accuracy)
                with one_blas_thread():  # the products are small
                    self._known[key] = self._summed(q1, q2, finer)
        return self._known[key]

    def _between(self, layer: int, q1: float, q2: float, share: float) -> Array:
        here = (q1, q2)[layer]
        ends = [(end, q2) if layer == 0 else (q1, end) for end in (0.0, self._small[layer])]
        zero, small = (self._averages(*end, share) for end in ends)
        part = here / self._small[layer]
        out: Array = zero + part * (small - zero)
        out[layer] = here * (zero[2 + layer] + part * (small[layer] / self._small[layer] - zero[2 + layer]))
        out[2 + layer] = np.nan
        return out

    @abstractmethod
    def _summed(self, q1: float, q2: float, share: float) -> Array:
        """What `_averages` returns, by the rules themselves, for this share of the log-accuracy."""

    def _check(self, mass: float, accuracy: float, q2: float) -> None:
        if not abs(mass - 1) <= max(_MASS * accuracy, 1e-9):
            raise ConvergenceError(
                f"the weights of the quadrature sum to {mass:.9g} instead of 1 at q_22 = {q2:.8g}, (95), "
                f"{self.model.describe()}: ask for a higher accuracy"
            )


def is_diagonal(q: Array) -> bool:
    """Whether nothing couples the layers, to rounding."""
    return bool(np.abs(q - np.diag(q.diagonal())).max() <= 1e-12)
