"""State-evolution averages of three and more layers of softmax attention with two tokens.

Given omega of the hidden layers, the sums over the output and omega_L are those of two layers, for the law of (A, tau)
that the hidden layers have; the law and the hidden layers' means under it come from quasi-random nodes. What is left,
the average over the hidden layers' omega, is of smooth functions of a few variables: randomised quasi-Monte Carlo.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ...core.cluster_pool import ClusterPool, Recipe, Workers, parts_of, threads_of
from ...core.errors import ConvergenceError
from ...model.network import Network
from ...model.routes import DEEP_QUADRATURE
from ...quadrature.rules import normal_qmc
from ..averages import Averages, ChannelBase
from ..two_layers.nodes import Hidden
from ..two_layers.sums import output_sum, outputs, silent_sum
from .nodes import deposit, push

__all__ = ["CLOSEST", "DeepQuadrature", "sums_at"]

Array = NDArray[np.float64]

# What is neglected is exp(-log_accuracy); steps are finer than the Gaussians alone ask for, by `fineness`; step of the
# grid of (A, tau) v over the last indices' standard deviation. With an outer average, and where one law is all.
_MANY, _ALONE = (8.0, 1.0, 0.8), (10.0, 1.2, 0.4)
# Outputs v within this factor share one grid.
_BAND, _BANDS = 1.4, 6
# Densities below this one, over the largest possible, are not resolved by the grid.
_FLOOR = 1e-7
# The sum of all weights may miss one by so much.
_MASS = 2e-3
# One in so many points is summed by half the nodes, too.
_EVERY = 8
# Points of a task of a cluster: from 10 ms each.
_POINTS = 4
# By effort: nodes of the hidden layers, as a power of two, and what is left out of the rules for omega, exp(-this),
# with a factor for one, two, and more learned layers.
_LOG2_NODES, _LOG_OMEGA, _BY_LAYERS = (13, 14, 15), (5.5, 7.5, 9.5), (1.4, 1.0, 0.85)
# Scale of the map of omega_l/sqrt(q_ll): in units of (V_ll/q_ll)^(1/2), and at most; its step times the log-accuracy.
_SCALE_XI, _WIDEST_XI, _STEP_XI = 1.5, 2.2, 3.45
# Overlaps closer to one than this are sampled: the law has too few nodes that an output allows.
CLOSEST = 3e-4


class Point(NamedTuple):
    """Number of a point, which its nodes are drawn by; the hidden layers' xi; and whether each half is summed alone."""

    number: int
    xi: Array
    halve: bool


class DeepQuadrature(ChannelBase):
    """Averages at a diagonal overlap.

    Parameters
    ----------
    model : Network
        Three or more layers, two tokens, softmax, rank 1, c > 0.
    effort : int
        0, 1 or 2: nodes of the hidden layers and of their omega.
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

    def __init__(self, model: Network, effort: int, *, rng: np.random.Generator, workers: Workers = None) -> None:
        """Keep the nodes: G is a smooth function of q."""
        if not DEEP_QUADRATURE.serves(model):
            raise ValueError(f"needs three softmax layers or more, two tokens, rank 1; got {model.describe()}")
        self.model = model
        self.layers = tuple(range(model.layers))
        hidden = model.layers - 1
        self._effort, self._workers = effort, threads_of(workers)
        self._pool = workers if isinstance(workers, ClusterPool) else None
        self._recipe = Recipe.of(deep_quadrature, model, effort, rng)
        log2 = _LOG2_NODES[effort]
        signs = min(hidden, log2 - 6)
        self._signs = 1 - 2 * (np.arange(1 << signs)[:, None] >> np.arange(hidden) & 1)
        self._log2 = log2 - signs
        self._seed = int(rng.integers(1 << 62))
        self._sets: dict[int, Array] = {}
        # The least T, as of two layers with this skip.
        ratio = (model.skip / (1 + model.skip)) ** hidden
        self._skip = ratio / (1 - ratio)

    def __call__(self, q: Array) -> Averages:
        """Averages at q, twice.

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
        known = np.flatnonzero(overlaps[:-1] > 0)
        points, weights = _folded_rule(overlaps[known], self._effort)
        xi = np.zeros((len(points), self.model.layers - 1, 2))
        xi[:, known] = points
        # Of the means, half the nodes are off by twice what all of them are: some points tell it of all.
        some = range(0, len(xi), _EVERY)
        both = [Point(i, xi[i], True) for i in some] + [Point(i, xi[i], False) for i in range(len(xi))]
        coarse, values = np.split(self._all(overlaps, both), [len(some)])
        share = weights[::_EVERY] / weights[::_EVERY].sum()
        means = weights @ values - share @ (coarse - values[::_EVERY])
        variance = 1 - overlaps
        learned = overlaps > 0
        g = np.diag(np.where(learned, means / variance**2, 0.0))
        growth = np.where(learned, np.nan, means)
        return Averages.unbiased(np.array([g, g]), np.array([growth, growth]), "estimated")

    def _all(self, overlaps: Array, points: Sequence[Point]) -> Array:
        """Averages at some points, shape (n, L)."""
        if self._pool is None:
            with threadpool_limits(1, "blas"), ThreadPoolExecutor(self._workers) as pool:
                return np.array(list(pool.map(lambda point: self.at(overlaps, point), points)))
        rows = [{"points": points[part]} for part in parts_of(len(points), _POINTS)]
        return np.concatenate(self._pool.map(sums_at, rows, recipe=self._recipe, overlaps=overlaps))

    def _normals(self, index: int) -> Array:
        """Standard normals of a point's nodes, shape (L - 1, 2, n): both halves are nodes on their own."""
        if index not in self._sets:
            hidden = self.model.layers - 1
            base = normal_qmc(2 * hidden, self._log2, np.random.default_rng([self._seed, index]))
            self._sets[index] = base.reshape(-1, hidden, 2)
        signed = self._sets[index][:, None] * self._signs[None, :, :, None]
        return np.ascontiguousarray(signed.reshape(-1, *signed.shape[2:]).transpose(1, 2, 0))

    def at(self, overlaps: Array, point: Point) -> Array:
        """E |<h_l> - omega_l|^2, or growth rates, of all layers given the hidden layers' xi; halved: twice."""
        zeta = self._normals(point.number)
        hidden = overlaps[:-1, None]
        moved = np.sqrt(1 - hidden)[:, :, None] * zeta
        where = push((np.sqrt(hidden) * point.xi)[:, :, None] + moved, self.model.skip, self.model.beta)
        functions = [
            mine if overlap > 0 else np.array([mine[0] ** 2 - 1, mine[0] * mine[1], mine[1] ** 2 - 1])
            for mine, overlap in zip(moved, overlaps, strict=False)
        ]
        count = zeta.shape[2]
        cuts = (slice(count // 2), slice(count // 2, count)) if point.halve else (slice(count),)
        last = float(overlaps[-1])
        return np.mean([self._sums(where[:, cut], [f[:, cut] for f in functions], last) for cut in cuts], axis=0)

    def _sums(self, where: Array, functions: list[Array], last: float) -> Array:
        """Sums over outputs and omega_L for nodes of equal weight."""
        sd = math.sqrt(1 - last)
        log_accuracy, fineness, grid = _MANY if any(len(f) == 2 for f in functions) else _ALONE
        law = Hidden(np.full(where.shape[1], 1 / where.shape[1]), *np.zeros((2, where.shape[1])), *where)
        if last == 0:
            silent = [
                silent_sum(law, _three(f), multiplicity, self._skip, log_accuracy, fineness)
                for f, multiplicity in zip(functions, self._multiplicity(functions), strict=True)
            ]
            return self._checked([one.first for one in silent], silent[0].last, silent[0].mass, last)
        out, after, mass = np.zeros(len(functions)), 0.0, 0.0
        v, dv = outputs(law, self._skip, sd, log_accuracy, fineness)
        values = np.concatenate([law.weight[None], law.weight * np.concatenate(functions)])
        edges = np.searchsorted(v, v[-1] * _BAND ** np.arange(-_BANDS, 1.0), side="right")
        # From the largest outputs, which ask for the finest grid, down; each grid moves on to the next.
        for start, end in reversed(list(zip([0, *edges[:-1]], edges, strict=True))):
            if end == start:
                continue
            where, values = deposit(where, values, grid * sd / float(v[end - 1]))
            weight = values[0]
            nodes = Hidden(weight, *np.zeros((2, len(weight))), *where)
            means = values[1:] / np.where(np.abs(weight) > 1e-300, weight, 1e-300)
            floor = _FLOOR * float(where[1].max()) / (2 * math.pi * (1 - last))
            row = 0
            for layer, multiplicity in enumerate(self._multiplicity(functions)):
                f = means[row : row + len(functions[layer])]
                row += len(f)
                band, accuracy = (v[start:end], dv[start:end]), (log_accuracy, fineness)
                found = output_sum(nodes, _three(f), multiplicity, last, band, accuracy, floor=floor)
                out[layer] += found.first
            after, mass = after + found.last, mass + found.mass
        return self._checked(out, after, mass, last)

    @staticmethod
    def _multiplicity(functions: list[Array]) -> list[tuple[float, float, float]]:
        """Two means of a layer of which something is known, or three second moments."""
        return [(1.0, 1.0, 0.0) if len(f) == 2 else (1.0, 2.0, 1.0) for f in functions]

    def _checked(self, first: ArrayLike, after: float, mass: float, last: float) -> Array:
        if not abs(mass - 1) <= _MASS:
            raise ConvergenceError(
                f"the weights of the averages (95) of {self.model.describe()} sum to {mass:.6g} instead of 1 at "
                f"q_LL = {last:.6g}: raise nodes, or ask for a smaller overlap"
            )
        return np.append(first, after)


def deep_quadrature(model: Network, effort: int, rng: np.random.Generator) -> DeepQuadrature:
    """The quadrature of a worker, on one thread."""
    return DeepQuadrature(model, effort, rng=rng, workers=1)


def sums_at(points: Sequence[Point], *, recipe: Recipe, overlaps: Array) -> Array:
    """Averages at some points, by the nodes that this worker has drawn."""
    rule = recipe.made()
    with threadpool_limits(1, "blas"):
        return np.array([rule.at(overlaps, point) for point in points])


def _three(functions: Array) -> tuple[Array, Array, Array]:
    """Three functions of the nodes, the missing ones zero."""
    first, second, third = np.concatenate([functions, np.zeros((3 - len(functions), functions.shape[1]))])
    return first, second, third


def _folded_rule(overlaps: Array, effort: int) -> tuple[Array, Array]:
    """Rule for xi = omega_l/sqrt(q_ll) of layers of these overlaps, one point of each orbit of the model's symmetries.

    The signs of the layers and the exchange of the tokens (all z) change nothing: x_l > 0 for all l and z_1 > 0 remain.
    Trapezoidal rules in Y, xi = scale sinh(Y), as of two layers: the sign of h_l is open at |omega_l|^2 ~ V_ll only.
    """
    if not len(overlaps):
        return np.zeros((1, 0, 2)), np.ones(1)
    log_accuracy = _LOG_OMEGA[effort] * _BY_LAYERS[min(len(overlaps), len(_BY_LAYERS)) - 1]
    axes, masses = [], []
    for number, q in enumerate(overlaps):
        scale = min(_SCALE_XI * math.sqrt((1 - q) / q), _WIDEST_XI)
        step = _STEP_XI / log_accuracy
        y = step * (np.arange(math.ceil(math.asinh(math.sqrt(2 * log_accuracy) / scale) / step)) + 0.5)
        xi = scale * np.sinh(y)
        mass = np.cosh(y) * np.exp(-0.5 * xi * xi)
        both = np.concatenate([-xi[::-1], xi]), np.concatenate([mass[::-1], mass])
        axes += [xi, both[0] if number else xi]
        masses += [mass, both[1] if number else mass]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(overlaps), 2)
    total = reduce(np.multiply.outer, masses).ravel()
    keep = total > math.exp(-log_accuracy) * total.max()
    points, total = points[keep], total[keep] / total[keep].sum()
    # What is left out has large xi: second moments are put right, which small overlaps see alone.
    return points / np.sqrt(np.einsum("n,nij->ij", total, points**2)), total
