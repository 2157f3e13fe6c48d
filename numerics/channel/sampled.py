"""Channel averages of deep attention whose posterior has no rule: any depth, tokens and activation, rank 1.

The outer average over (omega, h) is randomised quasi-Monte Carlo, the inner posterior importance sampling on the fibre
of the output (`posterior.deep`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.cluster_pool import Workers, threads_of
from ..model.network import Network
from ..posterior.deep.sampled import SampledPosterior
from .averages import NEARLY, Averages, ChannelBase, matrix_root
from .deep.linearised import LEAST, MANY, TIMES, Linearised
from .pieces import debiased_average, linear, product, stated

__all__ = ["DeepChannel"]

Array = NDArray[np.float64]


class DeepChannel(ChannelBase):
    """Averages over the output channel of `Network` at depth >= 2, rank 1.

    Every output's posterior is sampled by two independent sets of nodes, so that no square of a sampling error enters
    an average. What is left is the bias of a ratio of two sums, inverse to the number of nodes: halves and quarters of
    the nodes estimate it, of every average with its control variates. It is taken off, and `Averages.bias` is what may
    be left (`pieces`).

    Parameters
    ----------
    model : Network
        Depth >= 2, rank 1.
    points : sequence of ndarray, shape (n, 2 L M)
        Standard normal, one array per randomisation.
    nodes : int
        Inner nodes of each output; a power of two from 64.
    rng : numpy.random.Generator
        Randomises the inner nodes.
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster, which sample the posteriors.
    """

    model: Network
    sampled = True
    #: How the posteriors are sampled.
    posterior: type[SampledPosterior] = SampledPosterior

    def __init__(
        self,
        model: Network,
        points: Sequence[Array],
        *,
        nodes: int = 2048,
        rng: np.random.Generator,
        workers: Workers = None,
    ) -> None:
        """Keep the points of both averages: G is a smooth function of q."""
        depth, tokens = model.layers, model.tokens
        self.model = model
        self.layers = tuple(range(depth))
        self._replicas = len(points)
        normals = np.concatenate(points).reshape(-1, 2, depth, tokens)
        self._xi, self._zeta = normals[:, 0], normals[:, 1]
        self._workers = threads_of(workers)
        many = min(MANY, max(LEAST, TIMES * len(points[0])))
        self._linearised = Linearised(model, len(points), self._workers, points=many)
        self._posterior = self.posterior(model, nodes, len(points[0]), len(points), rng, workers)

    def __call__(self, q: Array) -> Averages:
        """Averages with control variates, which Nishimori's identities say vanish in the mean."""
        depth, tokens = self.model.layers, self.model.tokens
        v = np.eye(depth) - q
        precision = np.asarray(np.linalg.inv(v), np.float64)
        omega = matrix_root(q) @ self._xi
        h = omega + np.linalg.cholesky(v) @ self._zeta
        means, seconds = self._posterior(h, omega, v)
        learned = np.abs(q).max(axis=1) > 0
        # Of a layer without overlap the sign is free: its mean vanishes.
        g = [(precision @ (mean - omega)) * learned[:, None] for mean in means]
        u = precision @ (h - omega)
        nearly = bool(learned.any() and (1 - q.diagonal())[learned].max() < NEARLY)
        linearised = self._linearised(matrix_root(q), h, omega, v) if nearly else {}
        shape = (self._replicas, depth, depth)
        out, growth_bias = np.zeros(shape), np.zeros(depth)
        diagonal = not (q - np.diag(q.diagonal())).any()
        known = _Known(omega, means, seconds, g, u, precision, linearised, diagonal)
        both = [(a, b) for a in range(depth) for b in range(a, depth) if learned[a] and learned[b]]
        pairs = [(a, b) for a, b in both if a == b or not diagonal]
        with ThreadPoolExecutor(self._workers) as pool:
            entries = list(pool.map(lambda pair: self._entry(pair, known), pairs))
        orders = np.zeros((max((len(found) for _, found in entries), default=0), depth, depth))
        for (a, b), (of_each, found) in zip(pairs, entries, strict=True):
            out[:, a, b] = out[:, b, a] = of_each
            orders[: len(found), a, b] = orders[: len(found), b, a] = found
        growth = np.full((self._replicas, depth), np.nan)
        for a in np.flatnonzero(~learned).tolist():
            identity = np.eye(tokens)
            moments = [(second[:, a] - identity).reshape(len(h), -1) for second in seconds]
            true = (h[:, a, :, None] * h[:, a, None, :] - identity).reshape(len(h), -1)
            values = product(moments, moments)
            crossed = linear([(moment * true).sum(axis=1) for moment in moments])
            known_mean = (true**2).sum(axis=1) - tokens * (tokens + 1)
            growth[:, a], left = debiased_average(values, [values - crossed, known_mean], self._replicas)
            growth_bias[a] = stated(left)
        return Averages(out, growth, stated(orders), "monte-carlo", growth_bias=growth_bias, orders=orders)

    def _entry(self, pair: tuple[int, int], known: "_Known") -> tuple[Array, Array]:
        """An entry of G of each randomisation, and the orders of what their mean may be off by."""
        (a, b), g, u, precision = pair, known.g, known.u, known.precision
        tokens = self.model.tokens
        gg = product([x[:, a] for x in g], [x[:, b] for x in g])
        crossed = linear([0.5 * (x[:, a] * u[:, b] + x[:, b] * u[:, a]).sum(axis=1) for x in g])
        controls = [
            gg - crossed,
            (u[:, a] * u[:, b]).sum(axis=1) - tokens * precision[a, b],
            *known.linearised.get((a, b), []),
        ]
        if known.diagonal:
            # E[|h - omega|^2 | y] = E[|h|^2 | y] - (2 <h> - omega) omega, by the same nodes.
            omega = known.omega[:, a]
            squares = [
                np.einsum("nmm->n", second[:, a]) - ((2 * mean[:, a] - omega) * omega).sum(axis=1)
                for mean, second in zip(known.means, known.seconds, strict=True)
            ]
            controls.append(precision[a, a] ** 2 * linear(squares) - tokens * precision[a, a])
        return debiased_average(gg, controls, self._replicas)


class _Known(NamedTuple):
    """Of an entry: omega, posterior moments, scores, V^{-1} (h - omega), V^{-1}; controls; whether q is diagonal."""

    omega: Array
    means: list[Array]
    seconds: list[Array]
    g: list[Array]
    u: Array
    precision: Array
    linearised: dict[tuple[int, int], list[Array]]
    diagonal: bool
