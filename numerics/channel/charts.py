"""Averages over the output channel of any network that has a chart: both averages are sampled.

The outer average over (omega, h) is randomised quasi-Monte Carlo, the inner posterior importance sampling on the chart
that derive prints (`posterior.charts`). Overlaps have the structure that the symmetries of the weights leave: q I_r for
the keys and the queries of every head of a layer, and p I_r between the two where the layer has both; none between
layers or heads.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.cluster_pool import Workers
from ..model.network import Network
from ..posterior.charts.posterior import ChartMoments, ChartPosterior
from ..posterior.pieces import SETS
from .averages import Averages, ChannelBase, matrix_root
from .operator import Operator, operator_of_normals, turn_of
from .pieces import LINEAR, debiased_average, linear, product, rows_product, stated
from .structure import Entries, structure

__all__ = ["AT_ONCE", "ChartChannel", "OutputPosterior"]

Array = NDArray[np.float64]

#: Growth rate of what is learned from the first samples on.
AT_ONCE = 1e9


class OutputPosterior(Protocol):
    """Posteriors of outputs whose indices are known, as `ChartPosterior` has them."""

    @property
    def modes(self) -> Array:
        """Modes over the tokens that moments are in, shape (M, M)."""

    @property
    def solved(self) -> float:
        """Entries of h that an output fixes."""

    def __call__(self, h: Array, omega: Array, v: Array, *, second: bool = True) -> ChartMoments:
        """Moments given the outputs of indices h."""


class _Sampled(NamedTuple):
    """Modes of the indices of the outputs and of the means of their prior, its precision, their posterior's moments."""

    h: Array
    omega: Array
    precision: Array
    moments: ChartMoments


class _Scores(NamedTuple):
    """By sets of nodes and pieces of them: g = V^{-1} (E[h] - omega), and `LINEAR` of sum_m E[u_m u_m^T] - V^{-1}."""

    first: list[Array]
    second: list[Array]


class ChartChannel(ChannelBase):
    """Averages of a network by its chart.

    Every output's posterior is sampled by two independent sets of nodes, so that no square of a sampling error enters
    an average. What is left is the bias of a ratio of two sums: halves and quarters of the nodes estimate it, of every
    average with its control variates. It is taken off, and `Averages.bias` is what may be left (`pieces`).

    Parameters
    ----------
    model : Network
    points : sequence of ndarray, shape (n, normals_of(model))
        Standard normal, one array per randomisation.
    nodes : int
        Inner nodes of each output.
    rng : numpy.random.Generator
        Randomises the inner nodes.
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster, which sample the posteriors.
    """

    sampled = True
    smooth = False
    #: What gives the moments.
    posterior: Callable[..., OutputPosterior] = ChartPosterior

    def __init__(
        self,
        model: Network,
        points: Sequence[Array],
        *,
        nodes: int = 1024,
        rng: np.random.Generator,
        workers: Workers = None,
    ) -> None:
        """Keep the points of both averages: G is a smooth function of q."""
        self.model = model
        self.layers = tuple(range(model.indices))
        self.structure = structure(model)
        self.share = 1 / model.heads**2
        # What a readout shows is linear in its weights: E[h | y] does not vanish.
        self._informed = self.groups[-1:] if model.chain is not None and model.chain.informed else ()
        self._replicas, self._nodes = len(points), nodes
        normals = np.concatenate(points).reshape(sum(map(len, points)), -1, model.tokens)
        self._xi, self._zeta, self._noise = np.split(normals, [model.indices, 2 * model.indices], axis=1)
        self._posterior = self.posterior(model, nodes, len(points[0]), len(points), rng, workers)
        self._known: dict[bytes, tuple[Array, float]] = {}
        self._latest: tuple[bytes, _Sampled] | None = None

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Rows of one head of one layer."""
        return self.structure.groups

    @property
    def shared(self) -> tuple[Entries, ...]:
        """Those of the structure."""
        return self.structure.shared

    def __call__(self, q: Array) -> Averages:
        """Averages with control variates, which Nishimori's identities say vanish in the mean."""
        # Keys of a layer that are known inform of its queries, and they of them.
        growing = [group for group in self.groups if not q[list(group)].any()]
        silent = {row for group in growing for row in group}
        found = self._moments(q)
        scores = _scores(found)
        controls = self._controls(q, found, scores)
        shape = (self._replicas, len(q), len(q))
        # The next orders of an entry and of its controls, and a share of what is taken off.
        out, orders = np.zeros(shape), np.zeros((len(controls) + 2, *shape[1:]))
        for entries in self.structure.shared:
            if entries[0][0] in silent:
                continue
            of_each, left = self._score(entries, scores, controls)
            for i, j in entries:
                out[:, i, j] = out[:, j, i] = of_each
                orders[:, i, j] = orders[:, j, i] = left
        growth, off = np.full(shape[:2], np.nan), np.zeros(shape[1])
        for group in growing:
            rows = list(group)
            if group in self._informed:
                growth[:, rows] = AT_ONCE
                continue
            rates, _, off[rows] = self._table(group, found.moments, found.h[:, rows]).largest()
            growth[:, rows] = rates[:, None]
        return Averages(out, growth, stated(orders), "monte-carlo", growth_bias=off, orders=orders)

    def derivative(self, q: Array) -> Array:
        """Mean of dG[i, j]/dq[k, l]: E sum_mm' dg_mm' dq dg_mm'^T, as g is a martingale in q; dg = dg/domega.

        Parameters
        ----------
        q : ndarray, shape (P, P)

        Returns
        -------
        ndarray, shape (P, P, P, P)
            Entries [i, j] that symmetry ties together have their mean.
        """
        _, _, precision, moments = self._moments(q)
        prior = np.einsum("ik,mn->imkn", np.linalg.inv(precision), np.eye(self.model.tokens))
        rows = range(len(q))
        first, other = (
            moments.second(rows, k) - np.einsum("nim,nkp->nimkp", moments.mean[k], moments.mean[k]) - prior
            for k in range(2)
        )
        first, other = (np.einsum("ai,nimkp,kb->nambp", precision, x, precision, optimize=True) for x in (first, other))
        both = np.einsum("nimkp,njmlp->ijkl", first, other, optimize=True) / len(first)
        out = 0.5 * self.model.heads**2 * (both + both.transpose(1, 0, 3, 2))
        for entries in self.structure.shared:
            rows, columns = np.array(entries).T
            mean = 0.5 * (out[rows, columns] + out[columns, rows]).mean(axis=0)
            out[rows, columns] = out[columns, rows] = mean
        return np.asarray(out)

    @property
    def solved(self) -> float:
        """All entries of h but those that the chart has as coordinates, or leaves out."""
        return self._posterior.solved

    def log_density(self, q: Array) -> Array:
        """E log Z_out(q) - E log Z_out(0) of each randomisation, both at the same outputs."""
        return self._densities(q)[0]

    def log_density_bias(self, q: Array) -> float:
        """Half of what the logarithm of a mean over the nodes is off by; the other half is taken off the mean."""
        return self._densities(q)[1]

    def _densities(self, q: Array) -> tuple[Array, float]:
        """`log_density` and its bias; kept."""
        key = q.tobytes()
        if key not in self._known:
            self._known[key] = self._log_densities(q) if q.any() else (np.zeros(self._replicas), 0.0)
        return self._known[key]

    def _log_densities(self, q: Array) -> tuple[Array, float]:
        """Outputs have one law at all overlaps: differences at one output are free of what depends on it alone."""
        h, omega, precision, moments = self._moments(q)
        outputs = np.append(h @ self._posterior.modes, self._noise, axis=1)
        nothing = self._posterior(outputs, np.zeros_like(h), np.eye(len(q)), second=False)
        values = [here - there for here, there in zip(moments.log_z, nothing.log_z, strict=True)]
        value = linear(values)
        u, size = precision @ (h - omega), h[0].size
        controls = [
            (u * (h - omega)).sum(axis=(1, 2)) - size,
            (h**2).sum(axis=(1, 2)) - size,
            (omega**2).sum(axis=(1, 2)) - self.model.tokens * np.trace(q),
        ]
        # Where log Z_out(q)/Z_out(0) scatters by less than this, the mean of Z_out(0)/Z_out(q) is seen in samples.
        narrow = 0.7
        if value[0].std() < narrow:
            # E Z_out(0)/Z_out(q) = 1, which next to zero overlap leaves the square of the logarithm.
            controls.append(linear([np.exp(-value) - 1 for value in values]))
        of_each, orders = debiased_average(value, controls, self._replicas, self._nodes)
        return of_each, float(stated(orders))

    def _moments(self, q: Array) -> "_Sampled":
        """Those at q; the latest are kept, as slopes are asked for where averages have just been taken."""
        key = q.tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._sampled(q)
        return self._latest[1]

    def _sampled(self, q: Array) -> "_Sampled":
        v = np.eye(len(q)) - q
        h, omega = self._indices(q, v)
        moments = self._posterior(np.append(h, self._noise, axis=1), omega, v)
        # Moments are of the modes of the tokens.
        modes = self._posterior.modes.T
        return _Sampled(h @ modes, omega @ modes, np.asarray(np.linalg.inv(v), np.float64), moments)

    def _indices(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Indices of the outputs, and the means of their prior."""
        omega = matrix_root(q) @ self._xi
        return omega + np.linalg.cholesky(v) @ self._zeta, omega

    def _score(self, entries: Entries, scores: "_Scores", controls: list[Array]) -> tuple[Array, Array]:
        """E sum_m g_m g_m^T at entries that have one value: of each randomisation, and the orders of its mean's bias.

        The weights of a head meet all H blocks of D/H coordinates: in units of N/D they add up to H^2 times the mean.
        """
        products = [product([x[:, i] for x in scores.first], [x[:, j] for x in scores.first]) for i, j in entries]
        of_each, left = debiased_average(np.mean(products, axis=0), controls, self._replicas, self._nodes)
        times = self.model.heads**2
        return times * of_each, times * left

    def _controls(self, q: Array, found: "_Sampled", scores: "_Scores") -> list[Array]:
        """Controls of all entries, the mean of each kind over the entries that symmetry makes alike.

        E[u u^T | y] - V^{-1}, u = V^{-1} (h - omega): outputs have one law at all omega, whose second derivatives
        vanish. Where something is known, omega omega^T less its mean, and omega g^T, as g has none given omega. The
        first and the last vanish given omega: so do their products with omega omega^T of the same head.
        """
        omega, known = found.omega, bool(q.any())
        squares = _symmetric(omega, omega) - self.model.tokens * q
        crossed = [_symmetric(omega, x) for x in scores.first[:LINEAR]] if known else []
        controls = []
        for group in self.groups:
            own = [entries for entries in self.structure.shared if entries[0][0] in group]
            vanishing = [linear([_of(x, entries) for x in scores.second]) for entries in own]
            if q[group[0]].any():
                vanishing += [linear([_of(x, entries) for x in crossed]) for entries in own]
                by_omega = [_of(squares, entries) for entries in own]
                controls += [*by_omega, *(one * other for one in vanishing for other in by_omega)]
            controls += vanishing
        return controls

    def operators_at_rest(self, groups: Sequence[tuple[int, ...]]) -> list[Operator]:
        """Operator (15) from zero overlap on the overlaps that symmetries leave of each of some groups.

        Parameters
        ----------
        groups : sequence of tuple of int
            Out of `groups`.
        """
        h = np.append(self._zeta, self._noise, axis=1)
        moments = self._posterior(h, np.zeros_like(self._zeta), np.eye(self.model.indices))
        modes = self._zeta @ self._posterior.modes.T
        found = []
        for group in groups:
            found.append(self._table(group, moments, modes[:, list(group)]))
        return found

    def _table(self, group: tuple[int, ...], moments: ChartMoments, h: Array) -> Operator:
        """Operator (15) on the overlaps of a group of zero overlap from second moments, and the basis it refers to."""
        size, tokens = len(group), self.model.tokens
        # Moments of all rows and tokens, less those of the prior, as rows of numbers.
        identity = np.eye(size * tokens).ravel()
        parts = [moments.second(group, k).reshape(len(h), -1) - identity for k in range(SETS)]
        true = np.einsum("nim,njk->nimjk", h, h).reshape(len(h), -1) - identity
        place = {row: number for number, row in enumerate(group)}
        basis = []
        for entries in self.structure.shared:
            if entries[0][0] in place:
                matrix = np.zeros((size, size))
                for i, j in entries:
                    matrix[place[i], place[j]] = matrix[place[j], place[i]] = 1.0
                basis.append(matrix / np.linalg.norm(matrix))
        table = np.empty((self._replicas, len(basis), len(basis)))
        bias = np.empty(table.shape[1:])
        for s, t in itertools.combinations_with_replacement(range(len(basis)), 2):
            turn = turn_of(basis[s], basis[t], tokens)
            turned = [part @ turn for part in parts]
            value = product(turned, parts)
            crossed = linear([rows_product(part, true) for part in turned[:LINEAR]])
            known = rows_product(true @ turn, true) - operator_of_normals(basis[s], basis[t], tokens)
            of_each, left = debiased_average(value, [value - crossed, known], self._replicas, self._nodes)
            table[:, s, t] = table[:, t, s] = of_each
            bias[s, t] = bias[t, s] = stated(left)
        times = self.model.heads**2
        return Operator(times * table, np.array(basis), times * bias)


def _scores(found: _Sampled) -> _Scores:
    """First and second derivatives of the density of the output by omega, over it."""
    _, omega, precision, moments = found
    squares, both = [], np.kron(precision, precision)
    for k, mean in enumerate(moments.mean[:LINEAR]):
        # (h - omega)(h - omega)^T = h h^T - a omega^T - omega a^T, a = h - omega/2.
        square = moments.square(k) - 2 * _symmetric(mean - 0.5 * omega, omega)
        turned = square.reshape(len(square), -1) @ both
        squares.append(turned.reshape(square.shape) - omega.shape[2] * precision)
    return _Scores([precision @ (mean - omega) for mean in moments.mean], squares)


def _symmetric(a: Array, b: Array) -> Array:
    """sum_m a_m b_m^T, symmetrised, of each output."""
    both = a @ b.transpose(0, 2, 1)
    return np.asarray(0.5 * (both + both.transpose(0, 2, 1)))


def _of(matrices: Array, entries: Entries) -> Array:
    """Mean of entries that symmetry makes alike, of each output."""
    return np.asarray(np.mean([matrices[:, i, j] for i, j in entries], axis=0))
