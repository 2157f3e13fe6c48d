"""State-evolution averages of two layers of linear attention with two tokens, without sampling.

Rotations of the tokens turn the readout v = B_1 h_2 of the last layer, B_1 = c I + beta h_1^T h_1, into (rho, 0): what
is left are a sum over rho, over omega_1 and omega_2, and the posterior, a sum over h_1.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import Workers, parts_of
from ...core.errors import ConvergenceError
from ...model.network import Network
from ..two_layers.diagonal import CLOSEST, COARSE, DiagonalQuadrature
from ..two_layers.steps import widest_step
from .nodes import Nodes, nodes_at
from .sums import Grid, Rule, sums_at

__all__ = ["TwoLinearQuadrature", "summed_at"]

Array = NDArray[np.float64]
Point = tuple[float, float]

# Log-accuracy of the nodes beyond that of the sums over omega: for narrow posteriors, and more in proportion to the
# wider of them, on which B_1 bends; and how much further nodes reach.
_FINER, _WIDE, _FARTHER = 1.5, 8.0, 3.0
# Shares of the inverse variances of the prior and of what grows, and the distance of the zeros: of `widest_step`.
_MODE = (1.0, 1.0, 0.5)


class _Steps(NamedTuple):
    """What the sums at all lengths have in common.

    Attributes
    ----------
    model : two floats
        c and beta.
    overlaps : two floats
        q_11 and q_22.
    log_accuracy : float
    entropy : bool
        Whether log Z is averaged, too.
    """

    model: tuple[float, float]
    overlaps: tuple[float, float]
    log_accuracy: float
    entropy: bool


class TwoLinearQuadrature(DiagonalQuadrature):
    """Averages at a diagonal overlap by nested rules that converge exponentially.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, linear attention, rank 1.
    accuracy : float, optional
        Relative accuracy aimed at, 1e-13 to 1e-2; what is reported as the error is the distance of a coarser rule.
    workers : int, ClusterPool or None
        Threads, those of the machine by default; or the workers of a cluster, to which the lengths of the readout go at
        an accuracy of 1e-5 or finer.

    Notes
    -----
    q_12 stays zero: the signs of h_1 and of h_2 are free in y.

    References
    ----------
    troiani2025, (14), (95), (184)-(187).
    """

    activation = "linear"
    finest = 1e-13
    #: Whether log Z is averaged, too.
    entropy = False

    def __init__(self, model: Network, accuracy: float = 1e-6, workers: Workers = None) -> None:
        """Keep the model and the effort."""
        super().__init__(model, accuracy, workers)
        # Distance to one of the largest overlap of a curve, at c <= beta.
        closest = 5e-3
        # Strong skips leave few nodes of h_1, and the last layer far closer to one than the first.
        self.closest = max(CLOSEST, closest / max(1.0, model.skip / model.beta))

    def serves(self, q: Array) -> bool:
        """Whether the nodes at this overlap are no more than the sums are worth."""
        if not super().serves(q):
            return False
        # Overlaps below this one are not asked whether they take too many nodes.
        narrow = 0.9
        if q.diagonal().max() < narrow:
            return True
        steps = self._steps(*self._checked(q), 1.0)
        try:
            self._nodes(steps, _lengths(steps))
        except ConvergenceError:
            return False
        return True

    def _summed(self, q1: float, q2: float, share: float) -> Array:
        found = self._sums(self._steps(q1, q2, share))
        values = found[:2] / (1 - np.array([q1, q2])) ** 2
        return np.array([values[0] if q1 else 0.0, values[1] if q2 else 0.0, *np.where([q1, q2], math.nan, values)])

    def _steps(self, q1: float, q2: float, share: float) -> _Steps:
        # Log-accuracy of all sums beyond the one asked for, so that the distance of the coarser rule has that size.
        sure = 2.0
        # Log-accuracy that all sums take more there.
        growth = 3.0
        log_accuracy = (self._log_accuracy + sure) * share + (0.0 if q1 and q2 else growth)
        return _Steps((self.model.skip, self.model.beta), (q1, q2), log_accuracy, self.entropy)

    def _sums(self, steps: _Steps) -> Array:
        """Averages of both layers, of one and of log Z."""
        lengths = _lengths(steps)
        made = self._nodes(steps, lengths)
        heaviest = max(_heaviest(nodes) for nodes in made)
        if self._pool is None:
            with ThreadPoolExecutor(self._workers) as pool:
                parts = list(pool.map(_at_length, made, lengths, repeat(steps), repeat(heaviest)))
        else:
            # Lengths of a task of a cluster.
            rows = [{"lengths": lengths[part]} for part in parts_of(len(lengths), 2)]
            found = self._pool.map(summed_at, rows, steps=tuple(steps), heaviest=heaviest)
            parts = [one for part in found for one in part]
        total: Array = np.sum(parts, axis=0)
        self._check(float(total[2]), math.exp(-COARSE * self._log_accuracy), steps.overlaps[1])
        return total

    def _nodes(self, steps: _Steps, lengths: Sequence[tuple[float, float]]) -> list[Nodes]:
        """Nodes at each length."""
        most = _most(steps)
        counts = [0]

        def made(length: Point) -> Nodes | None:
            if sum(counts) > most:
                return None
            nodes = _nodes_at(steps, *length)
            counts.append(int(nodes.starts[-1]))
            return nodes

        with ThreadPoolExecutor(self._workers) as pool:
            found = [nodes for nodes in pool.map(made, lengths) if nodes is not None]
        if sum(counts) > most:
            q1, q2 = steps.overlaps
            raise ConvergenceError(
                f"the posterior at q = ({q1:.8g}, {q2:.8g}) takes more than {most} nodes of h_1, (95), "
                f"{self.model.describe()}: ask for a lower accuracy, or give samples"
            )
        return found


def summed_at(
    lengths: Sequence[tuple[float, float]], *, steps: tuple[Point, Point, float, bool], heaviest: float
) -> list[Array]:
    """Sums at some lengths, for a task of a cluster."""
    known = _Steps(*steps)
    return [_at_length(_nodes_at(known, *length), length, known, heaviest) for length in lengths]


def _lengths(steps: _Steps) -> list[tuple[float, float]]:
    """Nodes rho and weights rho d rho of the trapezoidal rule in Y, rho = c exp(Y - exp(-Y)).

    The sums are entire in v, so that nothing grows where rho < c, and rho d rho falls doubly exponentially there.
    """
    (skip, beta), log_accuracy = steps.model, steps.log_accuracy
    # |v| <= (c + beta |h_1|^2) |h_2| at the largest |h_1|^2 + |h_2|^2 that counts.
    most = 2 * (log_accuracy + _FARTHER)
    first = most * np.linspace(0.0, 1.0, 200)
    top = float(((skip + beta * first) * np.sqrt(most - first)).max())
    # Half-width of the strip in Y, rho = c exp(Y - exp(-Y)), on which sums over omega are analytic.
    strip = 0.5
    step = 2 * math.pi * strip / log_accuracy
    lowest, highest = math.floor(-math.log(log_accuracy) / step), math.ceil(math.log(top / skip) / step)
    y = step * np.arange(lowest, highest + 1)
    rho = skip * np.exp(y - np.exp(-y))
    weights = rho**2 * (1 + np.exp(-y)) * step
    return list(zip(rho.tolist(), weights.tolist(), strict=True))


def _most(steps: _Steps) -> int:
    """Most nodes that are worth it."""
    near = steps.log_accuracy**2 / (2 * math.pi) if steps.overlaps[0] else 1.0
    # Most nodes in all, and of these times the points omega_1 that each is near: a minute of a core.
    most_nodes, most_pairs = 3_000_000, 6e7
    return int(min(most_nodes, most_pairs / near))


def _nodes_at(steps: _Steps, rho: float, weight: float) -> Nodes:
    """Nodes at one length with all factors of the densities in their mass."""
    v1, v2 = (1 - q for q in steps.overlaps)
    # Log-accuracy of the nodes in units of that of the sums where nothing is known of a layer, whose growth rate weighs
    # squares of indices.
    silent = 1.5
    finer = steps.log_accuracy * (1.0 if all(steps.overlaps) else silent) + _FINER + _WIDE * max(v1, v2)
    # In units of log(1 + c/beta), as less of the output is of h_1 the larger the skip strength.
    weak = 2.0
    finer += weak * math.log1p(steps.model[0] / steps.model[1])
    nodes = nodes_at(steps.model, rho, (v1, v2), finer, _FARTHER, _most(steps))
    return nodes.weighted(weight / (2 * math.pi * v1 * v2))


def _heaviest(nodes: Nodes) -> float:
    """Logarithm of the largest mass with the distribution of h."""
    if not len(nodes.mass):
        return -math.inf
    squares = nodes.x**2 + nodes.y**2 + nodes.a**2 + nodes.b**2
    return float((np.log(nodes.mass) - 0.5 * squares).max())


def _at_length(nodes: Nodes, length: Point, steps: _Steps, heaviest: float) -> Array:
    """Sums at one length."""
    q2, log_accuracy = steps.overlaps[1], steps.log_accuracy
    step = widest_step(q2, log_accuracy, _MODE) if q2 else 1.0
    # In place of the measure of v where log Z is not averaged.
    no_measure = 1e300
    measure = math.log(2 * math.pi * length[1]) if steps.entropy else no_measure
    # A node of the largest mass is summed so much further, in log-accuracy.
    tail = 5.5
    rule = Rule(steps.overlaps, step, log_accuracy + tail, heaviest, measure)
    found: Array = sums_at(nodes, _grid(steps), rule)
    return found * step**2 / (2 * math.pi * q2) if q2 else found


def _grid(steps: _Steps) -> Grid:
    """Points omega_1 of the quarter x, y >= 0."""
    q1, reach = steps.overlaps[0], steps.log_accuracy + _FARTHER
    if not q1:
        return Grid(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1))
    step = widest_step(q1, steps.log_accuracy, _MODE)
    k = np.arange(math.floor(math.sqrt(2 * reach * q1) / step) + 1)
    x, y = (one.ravel() for one in np.meshgrid(k, k))
    log_density = -step * step * (x * x + y * y) / (2 * q1)
    kept = log_density > -reach
    x, y, log_density = x[kept], y[kept], log_density[kept]
    weight = np.exp(log_density) * step * step / (2 * math.pi * q1) * np.where(x, 2.0, 1.0) * np.where(y, 2.0, 1.0)
    return Grid(x * step, y * step, weight, log_density)
