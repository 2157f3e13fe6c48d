"""The posterior of a network linearised at omega: control variates that become exact as V -> 0.

With v = B_{L-1} h_L and J = dv/dh at omega, the posterior of h ~ N(omega, V) given J (h - omega) is Gaussian, and
g = V^{-1}(<h> - omega) = J^T (J V J^T)^{-1} J (h - omega). Given omega, E sum_m g_am g_bm is the trace of
J_a^T (J V J^T)^{-1} J_b.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import lend
from ...model.network import Network
from ...posterior.deep.mixing import LOOPS, Constants, Mixed, block_of, new_mixed, readout, solve
from ...quadrature.rules import normal_qmc

__all__ = ["LEAST", "MANY", "TIMES", "Linearised", "jacobians"]

Array = NDArray[np.float64]

#: Points of each randomisation for the means over omega, and so many times those of its outputs, of which the means are
#: to have no noise of their own; at least so many, which take less than their outputs do.
MANY, TIMES, LEAST = 1 << 16, 16, 1 << 12


class Linearised:
    """Control variates of the averages of one network.

    Parameters
    ----------
    model : Network
        Rank 1.
    replicas : int
        Randomisations.
    workers : int, optional
        Threads; all cores by default.
    points : int, optional
        Of each randomisation for the means over omega; the next power of two is taken.
    """

    # Seed of the points for the means over omega, and points per task.
    _seed, _chunk = 0x11EA4, 4096

    def __init__(self, model: Network, replicas: int, workers: int | None = None, *, points: int = MANY) -> None:
        self._model, self._replicas = model, replicas
        self._log2 = math.ceil(math.log2(points))
        self._workers = workers or os.cpu_count() or 1
        self._many: list[Array] = []

    def __call__(self, root: Array, h: Array, omega: Array, v: Array) -> dict[tuple[int, int], list[Array]]:
        """Controls of E sum_m g_am g_bm for each pair of layers, of zero mean.

        Parameters
        ----------
        root, v : ndarray, shape (L, L)
            q^{1/2} and V.
        h, omega : ndarray, shape (n, L, M)
            Points, those of one randomisation after those of another.
        """
        layers = range(self._model.layers)
        scores, traces = self._linear(omega, h - omega, v)
        if not self._many:
            size = self._model.layers * self._model.tokens
            streams = (np.random.default_rng([self._seed, k]) for k in range(self._replicas))
            self._many = [normal_qmc(size, self._log2, stream) for stream in streams]
        means = np.empty((len(self._many), *v.shape))
        for k, points in enumerate(self._many):
            many = root @ points.reshape(-1, *omega.shape[1:])
            means[k] = self._linear(many, np.zeros_like(many), v)[1].mean(axis=0)
        means = np.repeat(means, len(h) // len(means), axis=0)
        return {
            (a, b): [
                (scores[:, a] * scores[:, b]).sum(axis=1) - traces[:, a, b],
                traces[:, a, b] - means[:, a, b],
            ]
            for a in layers
            for b in layers
        }

    def _linear(self, omega: Array, deviation: Array, v: Array) -> tuple[Array, Array]:
        """Scores and traces."""
        network, omega = _constants(self._model), np.ascontiguousarray(omega)
        scores, traces = np.empty_like(omega), np.empty((len(omega), *v.shape))

        def work(start: int) -> None:
            part = slice(start, start + self._chunk)
            points = (omega[part], deviation[part])
            _linearised(points, v, network, lend(_new_work(*omega.shape[1:])), scores[part], traces[part])

        with ThreadPoolExecutor(self._workers) as pool:
            list(pool.map(work, range(0, len(omega), self._chunk)))
        return scores, traces


def jacobians(model: Network, h: Array) -> Array:
    """Derivatives of v = B_{L-1} h_L by the indices, dv_a/dh_lm, shape (n, L, M, M) with a before m.

    Parameters
    ----------
    model : Network
        Rank 1.
    h : ndarray, shape (n, L, M)
    """
    out = np.empty((*h.shape, model.tokens))
    _jacobians(np.ascontiguousarray(h), _constants(model), lend(_new_work(*h.shape[1:])), out)
    return out


def _constants(model: Network) -> Constants:
    return Constants(model.skip, model.beta, model.activation == "linear")


class _Work(NamedTuple):
    """Arrays that every block of points uses anew, the points last.

    Attributes
    ----------
    h, deviation : ndarray, shape (L, M, points)
    jacobian : ndarray, shape (L, M, M, points)
        dv_a/dh_lm, a before m.
    up, down : ndarray, shape (M, points)
        Outputs next to a point.
    gram : ndarray, shape (M, M, points)
        J V J^T.
    columns : ndarray, shape (M, M, points)
        Columns of its inverse.
    weighted : ndarray, shape (L, M, M, points)
        J_a^T (J V J^T)^{-1}.
    mixed : Mixed
    """

    h: Array
    deviation: Array
    jacobian: Array
    up: Array
    down: Array
    gram: Array
    columns: Array
    weighted: Array
    mixed: Mixed


def _new_work(depth: int, size: int) -> _Work:
    """Arrays for a network."""
    points = block_of(size)
    layers, vector = (depth, size, points), (size, points)
    square, squares = (size, size, points), (depth, size, size, points)
    return _Work(
        np.empty(layers),
        np.empty(layers),
        np.empty(squares),
        np.empty(vector),
        np.empty(vector),
        np.empty(square),
        np.empty(square),
        np.empty(squares),
        new_mixed(size, points),
    )


@njit(cache=True, **LOOPS)
def _put_last(x: Array, first: int, n: int, out: Array) -> None:
    """Put n points, shape (n, L, M), last."""
    for layer in range(x.shape[1]):
        for m in range(x.shape[2]):
            for j in range(n):
                out[layer, m, j] = x[first + j, layer, m]


@njit(cache=True, **LOOPS)
def _set_jacobians(n: int, network: Constants, work: _Work) -> None:
    """Derivatives of a block by central differences."""
    h, mixed, up, down = work.h, work.mixed, work.up, work.down
    depth, size = h.shape[0], h.shape[1]
    # Of the central differences: a control variate may be a little off.
    step = 1e-4
    for layer in range(depth):
        for m in range(size):
            for j in range(n):
                h[layer, m, j] += step
            readout(h, network, n, mixed, up)
            for j in range(n):
                h[layer, m, j] -= 2 * step
            readout(h, network, n, mixed, down)
            for j in range(n):
                h[layer, m, j] += step
            for a in range(size):
                for j in range(n):
                    work.jacobian[layer, a, m, j] = (up[a, j] - down[a, j]) / (2 * step)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _jacobians(h: Array, network: Constants, work: _Work, out: Array) -> None:
    """Fill derivatives."""
    (n, depth, size), block = h.shape, work.h.shape[2]
    for first in range(0, n, block):
        count = min(block, n - first)
        _put_last(h, first, count, work.h)
        _set_jacobians(count, network, work)
        for j in range(count):
            for layer in range(depth):
                for a in range(size):
                    for m in range(size):
                        out[first + j, layer, a, m] = work.jacobian[layer, a, m, j]


@njit(cache=True, **LOOPS)
def _set_gram(n: int, v: Array, work: _Work) -> None:
    """J V J^T, and the columns of its inverse; these are zero where it is singular."""
    jacobian, gram, columns, det = work.jacobian, work.gram, work.columns, work.up[0]
    depth, size = jacobian.shape[0], jacobian.shape[1]
    for m in range(size):
        for k in range(size):
            unit = 1.0 if m == k else 0.0
            for j in range(n):
                gram[m, k, j], columns[m, k, j] = 0.0, unit
            for a in range(depth):
                for b in range(depth):
                    if v[a, b] != 0.0:
                        for s in range(size):
                            for j in range(n):
                                gram[m, k, j] += v[a, b] * jacobian[a, m, s, j] * jacobian[b, k, s, j]
    for j in range(n):
        det[j] = 1.0
    solve(gram, columns, n, det)
    for m in range(size):
        for k in range(size):
            for j in range(n):
                columns[m, k, j] = columns[m, k, j] if det[j] > 0.0 else 0.0


@njit(cache=True, **LOOPS)
def _set_scores(first: int, n: int, work: _Work, scores: Array, traces: Array) -> None:
    """Scores and traces of a block."""
    jacobian, columns, weighted, seen, row = work.jacobian, work.columns, work.weighted, work.down, work.up[0]
    depth, size = jacobian.shape[0], jacobian.shape[1]
    for k in range(size):
        for j in range(n):
            seen[k, j] = 0.0
        for a in range(depth):
            for m in range(size):
                for j in range(n):
                    seen[k, j] += jacobian[a, k, m, j] * work.deviation[a, m, j]
    for a in range(depth):
        for m in range(size):
            for k in range(size):
                for j in range(n):
                    weighted[a, m, k, j] = 0.0
                for s in range(size):
                    for j in range(n):
                        weighted[a, m, k, j] += jacobian[a, s, m, j] * columns[k, s, j]
            for j in range(n):
                row[j] = 0.0
            for k in range(size):
                for j in range(n):
                    row[j] += weighted[a, m, k, j] * seen[k, j]
            for j in range(n):
                scores[first + j, a, m] = row[j]
        for b in range(depth):
            for j in range(n):
                row[j] = 0.0
            for m in range(size):
                for k in range(size):
                    for j in range(n):
                        row[j] += weighted[a, m, k, j] * jacobian[b, k, m, j]
            for j in range(n):
                traces[first + j, a, b] = row[j]


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _linearised(
    points: tuple[Array, Array], v: Array, network: Constants, work: _Work, scores: Array, traces: Array
) -> None:
    """Fill scores, shape (n, L, M), and traces, shape (n, L, L); zero where the linearised output says nothing."""
    (omega, deviation), block = points, work.h.shape[2]
    for first in range(0, len(omega), block):
        count = min(block, len(omega) - first)
        _put_last(omega, first, count, work.h)
        _put_last(deviation, first, count, work.deviation)
        _set_jacobians(count, network, work)
        _set_gram(count, v, work)
        _set_scores(first, count, work, scores, traces)
