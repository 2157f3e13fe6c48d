"""Channel averages of one attention layer: tied of rank 1 to 3, and untied of rank 1.

The posterior is summed exactly (`posterior.fibre_means`); the outer average over (omega, h) is randomised
quasi-Monte Carlo.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.cluster_pool import ClusterPool, Workers, parts_of
from ..model.network import Network
from ..posterior.fibre_means import ratio_nodes, tied_mean, untied_mean
from ..thresholds.exact import single_layer
from .averages import Averages, ChannelBase, controlled, matrix_root

__all__ = ["TiedLayer", "UntiedLayer"]

Array = NDArray[np.float64]


class TiedLayer(ChannelBase):
    """Averages of one tied layer of rank r <= 3, at overlaps q = s I.

    Rotations of the indices leave the output as it is, so that q = s I stays of this form, and G = g I.

    Parameters
    ----------
    model : Network
        Depth 1.
    points : sequence of ndarray, shape (n, 2 r M)
        Standard normal, one array per randomisation.
    workers : int, ClusterPool or None
        Of a cluster: they sum the posteriors. Threads are not used.
    """

    model: Network
    sampled = True

    def __init__(self, model: Network, points: Sequence[Array], workers: Workers = None) -> None:
        """Keep the points."""
        rank = model.indices
        self._workers = workers
        self.model = model
        self.layers = tuple(range(rank))
        self._growth = _exact_growth(model)
        self._replicas = len(points)
        normals = np.concatenate(points).reshape(-1, 2, rank, model.tokens)
        self._xi, self._zeta = normals[:, 0], normals[:, 1]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """All indices are learned together."""
        return (self.layers,)

    @property
    def shared(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """All have one overlap."""
        return (tuple((i, i) for i in self.layers),)

    def __call__(self, q: Array) -> Averages:
        """Averages at q = s I; control variates have mean zero by Nishimori's identities."""
        rank, tokens = self.model.indices, self.model.tokens
        scalar = float(q[0, 0])
        growth = np.full((self._replicas, rank), self._growth if scalar == 0 else np.nan)
        if scalar == 0:  # the link is even
            return Averages.unbiased(np.zeros((self._replicas, rank, rank)), growth, "monte-carlo")
        v = 1 - scalar
        omega = math.sqrt(scalar) * self._xi
        u = self._zeta / math.sqrt(v)
        h = omega + v * u
        g = (_means(tied_mean, h, omega, self._workers, layer=self.model, variance=v) - omega) / v
        squares = _dot(g, g)
        size = rank * tokens
        controls = [squares - _dot(g, u), _dot(u, u) - size / v, _dot(omega, u), _dot(omega, omega) - size * scalar]
        values = controlled(squares, controls, self._replicas) / rank
        return Averages.unbiased(values[:, None, None] * np.eye(rank), growth, "monte-carlo")


class UntiedLayer(ChannelBase):
    """Averages of one untied layer of rank 1: overlaps of keys and of queries, and between them.

    Parameters
    ----------
    model : Network
        Untied, rank 1.
    points : sequence of ndarray, shape (n, 4 M)
        Standard normal, one array per randomisation.
    workers : int, ClusterPool or None
        Of a cluster: they sum the posteriors. Threads are not used.
    """

    model: Network
    layers = (0, 1)
    sampled = True

    def __init__(self, model: Network, points: Sequence[Array], workers: Workers = None) -> None:
        """Keep the points."""
        self.model, self._workers = model, workers
        self._growth = _exact_growth(model)
        self._replicas = len(points)
        normals = np.concatenate(points).reshape(-1, 2, 2, model.tokens)
        self._xi, self._zeta = normals[:, 0], normals[:, 1]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Each is learned through the other."""
        return (self.layers,)

    def __call__(self, q: Array) -> Averages:
        """Averages at any q; control variates have mean zero by Nishimori's identities."""
        out = np.zeros((self._replicas, 2, 2))
        growth = np.full((self._replicas, 2), self._growth if not q.any() else np.nan)
        if not q.any():  # (k, q) -> (-k, -q) leaves the output as it is
            return Averages.unbiased(out, growth, "monte-carlo")
        v = np.eye(2) - q
        precision = np.asarray(np.linalg.inv(v), np.float64)
        omega = matrix_root(q) @ self._xi
        h = omega + np.linalg.cholesky(v) @ self._zeta
        settings = {"layer": self.model, "precision": precision, "count": ratio_nodes(self.model, h, precision)}
        mean = _means(untied_mean, h, omega, self._workers, **settings)
        g = precision @ (mean - omega)
        u = precision @ (h - omega)
        # (k, q) -> (k, -q) only renames outputs: without a correlation none appears.
        pairs = [(0, 0), (1, 1)] if q[0, 1] == 0 else [(0, 0), (1, 1), (0, 1)]
        for a, b in pairs:
            gg = (g[:, a] * g[:, b]).sum(axis=1)
            controls = [
                gg - 0.5 * (g[:, a] * u[:, b] + g[:, b] * u[:, a]).sum(axis=1),
                (u[:, a] * u[:, b]).sum(axis=1) - self.model.tokens * precision[a, b],
                (omega[:, a] * omega[:, b]).sum(axis=1) - self.model.tokens * q[a, b],
            ]
            out[:, a, b] = out[:, b, a] = controlled(gg, controls, self._replicas)
        return Averages.unbiased(out, growth, "monte-carlo")


def _means(mean: Callable[..., Array], h: Array, omega: Array, workers: Workers, **settings: Any) -> Array:
    """Posterior means of all outputs."""
    if not isinstance(workers, ClusterPool):
        return mean(h=h, omega=omega, **settings)
    # Outputs of a task of a cluster: of three indices, of which those of few tokens take 0.6 ms, and of fewer, which
    # take 0.04 ms or less.
    few, many = 128, 2048
    rows = [{"h": h[part], "omega": omega[part]} for part in parts_of(len(h), few if h.shape[1] == 3 else many)]
    return np.concatenate(workers.map(mean, rows, **settings))


def _dot(a: Array, b: Array) -> Array:
    return np.asarray((a * b).sum(axis=(1, 2)))


def _exact_growth(layer: Network) -> float:
    """Largest eigenvalue of the operator (15), from its closed form."""
    found = single_layer(layer.tokens, layer.ranks[0], layer.activation_name, layer.tied)
    assert found is not None and found.value is not None
    return 1 / float(found.value)
