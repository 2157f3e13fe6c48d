"""State-evolution averages of three and more layers of softmax attention with two tokens.

Given omega of the hidden layers, the sums over the output and omega_L are those of two layers, for the law of (A, tau)
that the hidden layers have; the law and the hidden layers' means under it come from quasi-random nodes. What is left,
the average over the hidden layers' omega, is of smooth functions of a few variables: a rule (`folded_rule`).
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.blas import one_blas_thread
from ...core.cluster_pool import ClusterPool, Recipe, Workers, parts_of, threads_of
from ...core.results import How
from ...model.network import Network
from ...model.routes import DEEP_QUADRATURE
from ..averages import Averages, ChannelBase
from .given_omega import GivenOmega, Resolution
from .point_values import PointValues

__all__ = [
    "CLOSEST",
    "DeepQuadrature",
    "Point",
    "averages_of",
    "folded_grid",
    "folded_rule",
    "resolutions",
    "sums_at",
]

Array = NDArray[np.float64]

# The points of the largest weights that hold this share of all are summed by the finer sums and by halves of their
# nodes, too.
_HELD = 0.9
# Overlaps closer to one than this are sampled: the law has too few nodes that an output allows.
CLOSEST = 3e-4


class Point(NamedTuple):
    """A point of the rule for the hidden layers' omega, and how it is summed.

    Attributes
    ----------
    number : int
        Its nodes are drawn by it.
    xi : ndarray, shape (L - 1, 2)
    resolution : Resolution
    half : {0, 1}, optional
        Which half of the nodes is summed alone; None for all of them.
    """

    number: int
    xi: Array
    resolution: Resolution
    half: int | None = None


class DeepQuadrature(ChannelBase):
    """Averages at a diagonal overlap.

    Parameters
    ----------
    model : Network
        Three or more layers, two tokens, softmax, rank 1, c > 0.
    effort : int
        0 to 3: nodes of the hidden layers and of their omega.
    rng : numpy.random.Generator
        Randomises the former.
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster, to which the points go.

    Notes
    -----
    Off the diagonal q stays zero: the sign of each layer is free in y. Nodes come with all changes of sign of the
    hidden layers' deviations, so that means of layers of small overlap are as accurate, relatively, as others.

    References
    ----------
    troiani2025, (14), (95), (184)-(187).
    """

    model: Network
    sampled = False

    # Resolutions of the sums, and finer ones by which some of the points are summed, too: the difference puts the sums
    # right. The grid is one of deviations, which are small at large overlaps of the last layer: from each of these on a
    # coarser one does. (With a hidden layer known: what the usual and the finer sums miss is .02 % and .003 % of the
    # last layer's averages below .75, .02 % and .002 % up to .94, and .2 % and .003 % beyond it. The coarsest sums
    # would miss up to 10 % of small averages of hidden layers at .83.)
    by_last = (
        (0.94, (Resolution(8.0, 1.0, 0.8), Resolution(10.0, 1.2, 0.4))),
        (0.75, (Resolution(10.0, 1.2, 0.4), Resolution(12.0, 1.4, 0.22))),
        (0.0, (Resolution(10.0, 1.2, 0.4), Resolution(13.0, 1.6, 0.16))),
    )
    # By effort: nodes of the hidden layers, as a power of two, and what is left out of the rules for omega, exp(-this),
    # with a factor for one, two, and more learned layers.
    log2_nodes, log_omega, by_layers = (13, 14, 15, 17), (5.5, 7.5, 9.5, 11.5), (1.4, 1.0, 0.85)

    def __init__(self, model: Network, effort: int, *, rng: np.random.Generator, workers: Workers = None) -> None:
        """Keep the nodes: G is a smooth function of q."""
        if not DEEP_QUADRATURE.serves(model):
            raise ValueError(f"needs three softmax layers or more, two tokens, rank 1; got {model.describe()}")
        self.model = model
        self.layers = tuple(range(model.layers))
        self._effort, self._workers = effort, threads_of(workers)
        self._pool = workers if isinstance(workers, ClusterPool) else None
        self._recipe = Recipe.of(deep_quadrature, model, effort, rng)
        # The nodes of the most effort take too much memory to be kept for each point.
        keep = effort < len(self.log2_nodes) - 1
        self._given = GivenOmega(model, self.log2_nodes[effort], int(rng.integers(1 << 62)), keep=keep)

    def __call__(self, q: Array) -> Averages:
        """Averages at q, twice, and what they may be off by.

        Raises
        ------
        ValueError
            q is not diagonal, or an overlap is closer to 1 than `CLOSEST`.
        ConvergenceError
            The nodes do not resolve the posterior.
        """
        if np.abs(q - np.diag(q.diagonal())).max() > 1e-12:
            raise ValueError("q must be diagonal, (14): y leaves the sign of each layer free")
        overlaps = q.diagonal()
        if not (overlaps.min() >= 0 and overlaps.max() <= 1 - CLOSEST):
            raise ValueError(f"q must be in [0, {1 - CLOSEST}] here, (14); got {overlaps}")
        found = self.values(overlaps)
        means = found.mean() - found.biased() + found.missed()
        off = found.left_by_sums() + found.scatter()
        return averages_of(overlaps, np.array([means, means]), off, "estimated")

    def values(self, overlaps: Array) -> PointValues:
        """Averages at the points of the rule for these overlaps, and what measures their errors."""
        known = np.flatnonzero(overlaps[:-1] > 0)
        times = self.by_layers[min(max(len(known), 1), len(self.by_layers)) - 1]
        rule, weights = folded_rule(overlaps[known], self.log_omega[self._effort] * times)
        n = len(rule)
        xi = np.zeros((n, self.model.layers - 1, 2))
        xi[:, known] = rule
        heaviest = np.argsort(-weights, kind="stable")
        resolved = heaviest[: 1 + np.searchsorted(np.cumsum(weights[heaviest]), _HELD)]
        # So many points, those of the largest weights, are taken twice, with other nodes, or the only one so many times
        # more: how these differ measures what random nodes leave.
        twice, more_times = 8, 7
        repeated = heaviest[:twice]
        times = 1 if len(known) else more_times
        usual, finer = resolutions(overlaps[-1])
        points = [
            *(Point(k * n + i, xi[i], usual) for k in range(1, times + 1) for i in repeated.tolist()),
            *(Point(i, xi[i], usual, half) for half in (0, 1) for i in resolved.tolist()),
            *(Point(i, xi[i], finer) for i in resolved.tolist()),
            *(Point(i, xi[i], usual) for i in range(n)),
        ]
        ends = np.cumsum([times * len(repeated), 2 * len(resolved), len(resolved)])
        again, halves, fine, values = np.split(self.at_points(overlaps, points), ends)
        again, halves = again.reshape(times, len(repeated), -1), halves.reshape(2, len(resolved), -1)
        return PointValues(xi, weights, values, repeated, resolved, again, halves, fine)

    def at_points(self, overlaps: Array, points: Sequence[Point]) -> Array:
        """Averages at some points, shape (n, L)."""
        if self._pool is None:
            with one_blas_thread(), ThreadPoolExecutor(self._workers) as pool:
                return np.array(list(pool.map(lambda point: self.at(overlaps, point), points)))
        # Points of a task of a cluster: from 10 ms each.
        rows = [{"points": points[part]} for part in parts_of(len(points), 4)]
        return np.concatenate(self._pool.map(sums_at, rows, recipe=self._recipe, overlaps=overlaps))

    def at(self, overlaps: Array, point: Point) -> Array:
        """Averages at one point, shape (L,)."""
        return self._given(overlaps, point.xi, point.number, point.resolution, half=point.half)


def deep_quadrature(model: Network, effort: int, rng: np.random.Generator) -> DeepQuadrature:
    """The quadrature of a worker, on one thread."""
    return DeepQuadrature(model, effort, rng=rng, workers=1)


def sums_at(points: Sequence[Point], *, recipe: Recipe, overlaps: Array) -> Array:
    """Averages at some points, by the nodes that this worker has drawn."""
    rule = recipe.made()
    with one_blas_thread():
        return np.array([rule.at(overlaps, point) for point in points])


def averages_of(overlaps: Array, means: Array, off: Array, how: How, method: str = "") -> Averages:
    """Averages from means over omega of E |<h_l> - omega_l|^2, or of growth rates, and what these may be off by.

    Parameters
    ----------
    overlaps : ndarray, shape (L,)
    means : ndarray, shape (n, L)
        Each of them by itself.
    off : ndarray, shape (L,)
    how, method
        As of `Averages`.
    """
    learned, variance, diagonal = overlaps > 0, 1 - overlaps, np.eye(len(overlaps))
    return Averages(
        np.where(learned, means / variance**2, 0.0)[:, :, None] * diagonal,
        np.where(learned, np.nan, means),
        np.where(learned, off / variance**2, 0.0) * diagonal,
        how,
        growth_bias=np.where(learned, 0.0, off),
        method=method,
    )


def resolutions(last: float) -> tuple[Resolution, Resolution]:
    """Usual and finer resolution of the sums at this overlap of the last layer."""
    return next(pair for least, pair in DeepQuadrature.by_last if last >= least)


def folded_rule(overlaps: Array, log_accuracy: float) -> tuple[Array, Array]:
    """Rule for xi = omega_l/sqrt(q_ll) of layers of these overlaps, one point of each orbit of the model's symmetries.

    The signs of the layers and the exchange of the tokens (all z) change nothing: x_l > 0 for all l and z_1 > 0 remain.
    Trapezoidal rules in Y, xi = scale sinh(Y), as of two layers: the sign of h_l is open at |omega_l|^2 ~ V_ll only.

    Parameters
    ----------
    overlaps : ndarray, shape (k,)
        Not zero.
    log_accuracy : float
        Points of less than exp(-log_accuracy) of the largest weight are left out, and the steps are as fine.
    """
    if not len(overlaps):
        return np.zeros((1, 0, 2)), np.ones(1)
    # Step of the map of omega_l/sqrt(q_ll) times the log-accuracy.
    step = 3.45
    points, total = folded_grid(overlaps, log_accuracy, step / log_accuracy, (True,) * (2 * len(overlaps)))
    keep = total > math.exp(-log_accuracy) * total.max()
    points, total = points[keep], total[keep] / total[keep].sum()
    # What is left out has large xi: second moments are put right, which small overlaps see alone.
    return points / np.sqrt(np.einsum("n,nij->ij", total, points**2)), total


def folded_grid(overlaps: Array, log_accuracy: float, step: float, halves: tuple[bool, ...]) -> tuple[Array, Array]:
    """All points of a trapezoidal rule, one of each orbit, and their weights, which are not normalised.

    Parameters
    ----------
    overlaps : ndarray, shape (k,)
        Not zero.
    log_accuracy : float
        Along each axis the points reach to where the normal density is exp(-log_accuracy) of its largest value.
    step : float
        In Y.
    halves : tuple of bool, length 2 k
        For each axis, x and z of one layer after the other: whether the points are half a step off the origin.
    """
    axes, masses = [], []
    # Scale of the map of omega_l/sqrt(q_ll): in units of (V_ll/q_ll)^(1/2), and at most.
    times, widest = 1.5, 2.2
    for number, q in enumerate(overlaps):
        scale = min(times * math.sqrt((1 - q) / q), widest)
        count = math.ceil(math.asinh(math.sqrt(2 * log_accuracy) / scale) / step)
        for mode in range(2):
            half = halves[2 * number + mode]
            y = step * (np.arange(count) + 0.5 if half else np.arange(count + 1.0))
            xi = scale * np.sinh(y)
            mass = np.cosh(y) * np.exp(-0.5 * xi * xi)
            if mode and number:
                other = slice(0 if half else 1, None)
                xi = np.concatenate([-xi[other][::-1], xi])
                mass = np.concatenate([mass[other][::-1], mass])
            elif not half:
                # Points on the plane are their own mirror images.
                mass[0] /= 2
            axes.append(xi)
            masses.append(mass)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(overlaps), 2)
    return points, reduce(np.multiply.outer, masses).ravel()
