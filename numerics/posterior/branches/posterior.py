"""Posterior as a sum over the branches of an output, with all signs of the layers."""

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import Workers, threads_of
from ...core.errors import UnreachableOutputError
from ...model.jacobians import jacobian_of
from ...model.network import Network
from ..charts.posterior import ChartMoments
from ..pieces import SETS
from .search import MOST, branches, equations_of, holding, log_slopes

__all__ = ["BranchPosterior", "Branches", "Preimages", "Summed"]

Array = NDArray[np.float64]

# Starts of the search for the branches of data: of three tokens one posterior in 1500 lacks something then. Of
# averages so many at least, and one more for so many nodes asked for: 64 nodes leave a thirtieth, 1024 one in 150.
_STARTS, _LEAST_STARTS, _NODES_OF_A_START = 512, 32, 8


class Branches(NamedTuple):
    """Indices that give some outputs.

    Attributes
    ----------
    points : ndarray, shape (n, K, P, M)
        One of the 2^P signs of the rows of each branch.
    log_weight : ndarray, shape (n, K)
        Minus the logarithm of |dy/dh|; -inf where there are fewer branches.
    """

    points: Array
    log_weight: Array

    def rows(self, part: slice) -> "Branches":
        """Those of some of the outputs."""
        return Branches(self.points[part], self.log_weight[part])


class Summed(NamedTuple):
    """Log Z of n posteriors, E[h | y] and E[h h^T | y], shapes (n,), (n, P, M) and (n, P M, P M)."""

    log_z: Array
    mean: Array
    second: Array


class Preimages:
    """The search for the indices that give an output.

    Parameters
    ----------
    model : Network
        `Network.branched`.
    rng : numpy.random.Generator
        Of the starts.
    workers : int or None
        Threads; all cores by default.
    starts : int, optional
        Of the search, of each output.
    """

    def __init__(
        self, model: Network, rng: np.random.Generator, workers: Workers = None, starts: int = _STARTS
    ) -> None:
        self.model, self._workers = model, threads_of(workers)
        self._derived = jacobian_of(model)  # kept: the equations hold addresses in it
        self._equations = equations_of(model, self._derived)
        self._starts = rng.standard_normal((starts, model.indices, model.tokens))
        self._signs = np.array(list(itertools.product((1.0, -1.0), repeat=model.indices)))

    def of_outputs(self, y: Array) -> Branches:
        """Branches of outputs, shape (n, M, M).

        Raises
        ------
        UnreachableOutputError
            No indices were found that give one of them.
        """
        # An output that fixes all has one branch: the first start that leads to one ends the search.
        points, counts = self._searched(y, 1 if self.model.unique_preimage else MOST)
        if not counts.all():
            raise UnreachableOutputError(
                f"no indices of {self.model.describe()} were found that give this y (troiani2025 (25)), from "
                f"{len(self._starts)} starts; check beta, the skip strength and whether the layers are tied"
            )
        points = points[:, : counts.max()]
        return self._weighed(points, np.arange(points.shape[1]) < counts[:, None])

    def of_indices(self, h: Array) -> tuple[Branches, float]:
        """Branches of the outputs of some indices, these among them; and the share of h that the search misses."""
        if self.model.unique_preimage:
            return Branches(h[:, None], np.zeros((len(h), 1))), 0.0
        points, counts = self._searched(self.model.link(h), MOST)
        there = np.arange(MOST) < counts[:, None]
        known = holding(points, counts, h)
        size = min(int(counts.max()) + 1, MOST)
        points, there = points[:, :size], there[:, :size]
        rows = np.flatnonzero(~known)
        place = np.minimum(counts[rows], size - 1)
        points[rows, place], there[rows, place] = h[rows], True
        return self._weighed(points, there), (len(rows) + 1) / (len(h) + 1)

    def _searched(self, y: Array, wanted: int) -> tuple[Array, NDArray[np.int64]]:
        """Branches of outputs, shape (n, MOST, P, M), until so many are found, and how many there are."""
        flat = np.ascontiguousarray(y.reshape(len(y), -1))
        points = np.zeros((len(y), MOST, self.model.indices, self.model.tokens))
        counts = np.zeros(len(y), np.int64)

        def work(part: slice) -> None:
            branches(flat[part], self._starts, wanted, self._equations, points[part], counts[part])

        self._in_parts(work, len(y))
        return points, counts

    def _weighed(self, points: Array, there: NDArray[np.bool_]) -> Branches:
        log_weight = np.full(there.shape, -np.inf)
        log_weight[there] = -log_slopes(np.ascontiguousarray(points[there]), self._equations)
        return Branches(points, log_weight)

    def summed(self, found: Branches, omega: Array, v: Array) -> Summed:
        """Moments at prior means of shape (n, P, M) and a prior covariance of shape (P, P) or (n, P, P)."""
        n, _, indices, tokens = found.points.shape
        log_z, mean = np.empty(n), np.empty((n, indices, tokens))
        second = np.empty((n, indices * tokens, indices * tokens))
        covariance = np.broadcast_to(v, (n, indices, indices))

        def work(part: slice) -> None:
            log_z[part], mean[part], second[part] = _sums(found.rows(part), self._signs, omega[part], covariance[part])

        self._in_parts(work, n)
        return Summed(log_z, mean, second)

    def _in_parts(self, work: Callable[[slice], None], n: int) -> None:
        # Outputs at a time.
        chunk = 64
        with ThreadPoolExecutor(self._workers) as pool:
            list(pool.map(work, [slice(start, start + chunk) for start in range(0, n, chunk)]))


def _sums(found: Branches, signs: Array, omega: Array, v: Array) -> Summed:
    """Moments of a few outputs."""
    n, count, indices, tokens = found.points.shape
    precision = np.linalg.inv(v)
    points = (found.points[:, :, None] * signs[:, :, None]).reshape(n, count * len(signs), indices, tokens)
    away = points - omega[:, None]
    height = np.repeat(found.log_weight, len(signs), axis=1)
    height = height - 0.5 * np.einsum("nkpm,npq,nkqm->nk", away, precision, away, optimize=True)
    top = height.max(axis=1, keepdims=True)
    weight = np.exp(height - top)
    mass = weight.sum(axis=1, keepdims=True)
    log_norm = 0.5 * tokens * (np.linalg.slogdet(v)[1] + indices * math.log(2 * math.pi))
    flat = points.reshape(n, count * len(signs), indices * tokens)
    weight /= mass
    mean = np.einsum("nk,nki->ni", weight, flat)
    second = np.swapaxes(weight[:, :, None] * flat, 1, 2) @ flat
    return Summed((top + np.log(mass))[:, 0] - log_norm, mean.reshape(n, indices, tokens), second)


class BranchPosterior:
    """Posteriors of outputs whose indices are known, for averages: all sets of nodes are the same, the branches.

    Parameters
    ----------
    model : Network
    nodes : int
        As of `ChartPosterior`: more of them are more starts of the search.
    per, replicas : int
        Not used.
    rng : numpy.random.Generator
    workers : int, ClusterPool or None

    Attributes
    ----------
    modes : ndarray, shape (M, M)
        The identity: moments are of the tokens.
    solved : float
        Entries of h that an output fixes: all.
    missed : float
        Share of the posterior that the branches lack, estimated by how often the search misses h.
    """

    def __init__(
        self, model: Network, nodes: int, per: int, replicas: int, rng: np.random.Generator, workers: Workers = None
    ) -> None:
        del per, replicas
        self.modes = np.eye(model.tokens)
        self.solved = float(model.indices * model.tokens)
        self.missed = 0.0
        self._preimages = Preimages(model, rng, workers, _LEAST_STARTS + nodes // _NODES_OF_A_START)
        self._known: tuple[Array, Branches] | None = None

    def __call__(self, h: Array, omega: Array, v: Array, *, second: bool = True) -> ChartMoments:
        """Moments given the outputs of indices h, whose branches are kept: of the same h they are the same."""
        if self._known is None or not np.array_equal(self._known[0], h):
            found, self.missed = self._preimages.of_indices(np.ascontiguousarray(h))
            self._known = h, found
        made = self._preimages.summed(self._known[1], omega, v)
        place = np.tril_indices(made.second.shape[1])
        triangle = made.second[:, place[0], place[1]] if second else np.empty((len(h), 0))
        worth = np.full(len(h), np.inf)
        return ChartMoments([made.mean] * SETS, [triangle] * SETS, [made.log_z] * SETS, worth)
