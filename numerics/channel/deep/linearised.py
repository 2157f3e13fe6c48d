"""The posterior of a network linearised at omega: control variates that become exact as V -> 0.

With v = B_{L-1} h_L and J = dv/dh at omega, the posterior of h ~ N(omega, V) given J (h - omega) is Gaussian, and
g = V^{-1}(<h> - omega) = J^T (J V J^T)^{-1} J (h - omega). Given omega, E sum_m g_am g_bm is the trace of
J_a^T (J V J^T)^{-1} J_b.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...model.network import Network
from ...posterior.deep.mixing import Constants, apply_matrix, readout, solve
from ...quadrature.rules import normal_qmc

__all__ = ["LEAST", "MANY", "TIMES", "Linearised", "jacobians"]

Array = NDArray[np.float64]

#: Points of each randomisation for the means over omega, and so many times those of its outputs, of which the means are
#: to have no noise of their own; at least so many, which take less than their outputs do.
MANY, TIMES, LEAST = 1 << 16, 16, 1 << 12

# Of the central differences: a control variate may be a little off.
_STEP = 1e-4
# Seed of the points for the means over omega, and points per task.
_SEED, _CHUNK = 0x11EA4, 4096


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
            streams = (np.random.default_rng([_SEED, k]) for k in range(self._replicas))
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
            part = slice(start, start + _CHUNK)
            _linearised(omega[part], deviation[part], v, network, scores[part], traces[part])

        with ThreadPoolExecutor(self._workers) as pool:
            list(pool.map(work, range(0, len(omega), _CHUNK)))
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
    _jacobians(np.ascontiguousarray(h), _constants(model), out)
    return out


def _constants(model: Network) -> Constants:
    return Constants(model.skip, model.beta, model.activation == "linear")


@njit(cache=True, nogil=True, error_model="numpy")
def _jacobians(h: Array, network: Constants, out: Array) -> None:
    """Fill derivatives by central differences."""
    n, depth, size = h.shape
    up, down = np.empty(size), np.empty(size)
    base, sigma = np.empty((size, size)), np.empty((size, size))
    for i in range(n):
        x = h[i].copy()
        for layer in range(depth):
            for m in range(size):
                x[layer, m] = h[i, layer, m] + _STEP
                readout(x, network, base, sigma, up)
                x[layer, m] = h[i, layer, m] - _STEP
                readout(x, network, base, sigma, down)
                x[layer, m] = h[i, layer, m]
                for a in range(size):
                    out[i, layer, a, m] = (up[a] - down[a]) / (2 * _STEP)


@njit(cache=True, nogil=True, error_model="numpy")
def _linearised(omega: Array, deviation: Array, v: Array, network: Constants, scores: Array, traces: Array) -> None:
    """Fill scores, shape (n, L, M), and traces, shape (n, L, L); zero where the linearised output says nothing."""
    n, depth, size = omega.shape
    jacobian = np.empty((1, depth, size, size))
    gram, work, part = np.empty((size, size)), np.empty((size, size)), np.empty(size)
    seen, inverse = np.empty(size), np.empty((size, size))
    weighted = np.empty((depth, size, size))
    for i in range(n):
        _jacobians(omega[i : i + 1], network, jacobian)
        j = jacobian[0]
        gram[:], seen[:] = 0.0, 0.0
        for a in range(depth):
            apply_matrix(j[a], deviation[i, a], part)
            seen += part
            for b in range(depth):
                if v[a, b] != 0.0:
                    _add_product(j[a], j[b], v[a, b], gram)
        regular = True
        for m in range(size):
            work[:] = gram
            part[:] = 0.0
            part[m] = 1.0
            regular = regular and solve(work, part) > 0.0
            inverse[:, m] = part
        if not regular:
            inverse[:] = 0.0
        # J_a^T (J V J^T)^{-1}
        for a in range(depth):
            for m in range(size):
                for k in range(size):
                    total = 0.0
                    for s in range(size):
                        total += j[a, s, m] * inverse[s, k]
                    weighted[a, m, k] = total
        for a in range(depth):
            apply_matrix(weighted[a], seen, scores[i, a])
            for b in range(depth):
                trace = 0.0
                for m in range(size):
                    for k in range(size):
                        trace += weighted[a, m, k] * j[b, k, m]
                traces[i, a, b] = trace


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_product(left: Array, right: Array, factor: float, out: Array) -> None:
    """Add the factor times left right^T."""
    size = len(out)
    for a in range(size):
        for b in range(size):
            total = 0.0
            for k in range(size):
                total += left[a, k] * right[b, k]
            out[a, b] += factor * total
