"""Moments of sampled posteriors of any network with a chart, for averages over outputs whose indices are known."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import Workers, threads_of
from ...core.errors import ConvergenceError
from ...model.charts import chart_of
from ...model.network import Network
from ..spread import SpreadPosterior
from .density import prior_of, with_noise
from .layout import constants_of, layout_of
from .points import drawn_points
from .sampler import Nodes, Outputs, Sums, posterior_sums

__all__ = ["ChartMoments", "ChartPosterior", "sign_flips"]

Array = NDArray[np.float64]

# Pairs of sets of nodes that outputs take turns with; outputs at a time; draws that broad densities are fitted to.
_PAIRS, _CHUNK, _DRAWS = 32, 64, 32
# Independent nodes that half of the posteriors are worth at least: below, the bias of ratios has no estimate.
_LEAST_WORTH = 8.0
# Changes of sign at which peaks are looked for, at most: each is looked for at every output.
_MOST_FLIPS = 16


class ChartMoments(NamedTuple):
    """Moments of n posteriors, each by the first set of nodes, the second, and both.

    Attributes
    ----------
    mean : list of ndarray, shape (n, P, M)
        E[h | y], in modes over the tokens.
    second : list of ndarray, shape (n, P, M, P, M)
        E[h h^T | y], in modes over the tokens.
    log_z : list of ndarray, shape (n,)
        log Z_out up to a constant of the model.
    effective : ndarray, shape (n,)
        Number of independent nodes that the first set is worth.
    """

    mean: list[Array]
    second: list[Array]
    log_z: list[Array]
    effective: Array


class ChartPosterior:
    """Sampled posteriors of a network, by nodes that are drawn once: moments are smooth functions of (omega, V).

    Parameters
    ----------
    model : Network
        With a chart (`derive.charts`).
    nodes : int
        Of each output; half of them in each of two independent sets.
    per, replicas : int
        Outputs of one randomisation, and randomisations: those of different ones share no nodes.
    rng : numpy.random.Generator
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster.
    """

    def __init__(
        self, model: Network, nodes: int, per: int, replicas: int, rng: np.random.Generator, workers: Workers = None
    ) -> None:
        self.model = model
        self._spread = SpreadPosterior.over(workers, type(self), (model, nodes, per, replicas), rng)
        self._chart = chart_of(model)  # kept: the layout holds addresses in it
        self.layout = layout_of(self._chart, constants_of(model))
        self._workers = threads_of(workers)
        self._flips = sign_flips(model)
        pairs = min(_PAIRS, per)
        self._pair = (np.arange(per) % pairs + pairs * np.arange(replicas)[:, None]).ravel()
        half = nodes // 2
        self._nodes = Nodes(
            np.array([half - half // 2, half // 2]),
            drawn_points(self.layout, half, pairs * replicas, rng),
            rng.standard_normal((_DRAWS, model.indices + model.noise_rows, model.tokens)),
        )

    def __call__(self, h: Array, omega: Array, v: Array, *, second: bool = True) -> ChartMoments:
        """Moments given the outputs of indices h.

        Parameters
        ----------
        h : ndarray, shape (n, P + K, M)
            Indices, and the K rows of the noise of the output if it has any.
        omega : ndarray, shape (n, P, M)
            Means of the prior of the indices.
        v : ndarray, shape (P, P)
            Covariance of the prior, positive definite.
        second : bool
            Whether second moments are wanted; otherwise they are empty.

        Raises
        ------
        ConvergenceError
            An output has no node at all.
        """
        n, rows, tokens = h.shape
        if self._spread is None:
            sums = self.part(h, omega, v, second=second)
        else:
            parts = self._spread(h, omega, v=v, second=second)
            sums = Sums(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        mass = sums.first[..., 0]
        lost = int((~(np.isfinite(mass) & (mass > 0))).any(axis=1).sum())
        if lost:
            raise ConvergenceError(
                f"the sampled posterior (12) of {self.model.describe()} met {lost} of {n} outputs with no node at all; "
                "raise nodes, or take another seed"
            )
        spread = prior_of(self.layout, with_noise(self.layout, omega[:0], v)[1]).spread
        found = _moments(sums, spread, (rows, tokens), len(v))
        if n > 1 and (worth := float(np.median(found.effective))) < _LEAST_WORTH:
            raise ConvergenceError(
                f"half of the sampled posteriors (12) of {self.model.describe()} have an effective number of "
                f"nodes of {worth:.1f} of {self._nodes.counts.sum()} or less, too few for an error; raise nodes"
            )
        return found

    def part(self, h: Array, omega: Array, v: Array, *, second: bool = True, start: int = 0) -> Sums:
        """Sums over the nodes of a part of the outputs, of which moments are made.

        Parameters
        ----------
        h, omega, v, second
            As in a call.
        start : int, optional
            Number of the first of these outputs among those that take the sets of nodes in turn.
        """
        n, rows, tokens = h.shape
        size = rows * tokens
        turned, covariance = with_noise(self.layout, omega, v)
        prior, root = prior_of(self.layout, covariance), np.asarray(np.linalg.cholesky(covariance), np.float64)
        sums = Sums(
            np.empty(n),
            np.empty((n, 2, 1 + size)),
            np.empty((n, 2, size, size) if second else (n, 2, 0, 0)),
            np.empty((n, 2)),
        )
        outputs = Outputs(np.ascontiguousarray(h), turned, self._flips, self._pair[start : start + n])

        def work(first: int) -> None:
            part = slice(first, first + _CHUNK)
            some = Outputs(outputs.truth[part], outputs.omega[part], outputs.flips, outputs.pair[part])
            posterior_sums(some, root, prior, self._nodes, self.layout, Sums(*(array[part] for array in sums)))

        with ThreadPoolExecutor(self._workers) as pool:
            list(pool.map(work, range(0, n, _CHUNK)))
        return sums


def _moments(sums: Sums, spread: Array, shape: tuple[int, int], indices: int) -> ChartMoments:
    """Moments of the first rows; `spread` is the covariance of the means that the output does not depend on."""
    n = len(sums.log_scale)
    both = [sums.first[:, 0], sums.first[:, 1], sums.first.sum(axis=1)]
    mean = [part[:, 1:].reshape(n, *shape)[:, :indices] / part[:, :1, None] for part in both]
    second: list[Array] = []
    if sums.second.shape[2]:
        products = [sums.second[:, 0], sums.second[:, 1], sums.second.sum(axis=1)]
        for part, first in zip(products, both, strict=True):
            value = (part / first[:, :1, None]).reshape(n, *shape, *shape)
            value[:, :, 0, :, 0] += spread
            second.append(value[:, :indices, :, :indices])
    counts = [1.0, 1.0, 2.0]
    log_z = [sums.log_scale + np.log(part[:, 0] / count) for part, count in zip(both, counts, strict=True)]
    return ChartMoments(mean, second, log_z, sums.first[:, 0, 0] ** 2 / sums.squares[:, 0])


def sign_flips(model: Network) -> Array:
    """Signs of the rows of h under which the output stays as it is: those of each head of each layer.

    Without noise the chart sums over the sign of a tied last layer of rank 1, and of every such layer of a sequence
    output, so that it is left out.
    """
    rows: list[list[int]] = []
    start = 0
    for layer, rank in enumerate(model.ranks, start=1):
        width = rank * model.kinds * model.heads
        for _ in range(model.heads):
            seen = layer == model.layers or model.output == "sequence"
            if not seen or not model.tied or rank > 1 or model.noise:
                rows.append(list(range(start, start + width)))
            start += width
    # Later layers first: they are learned first.
    rows = rows[::-1][: _MOST_FLIPS.bit_length() - 1]
    out = []
    for choice in product((1.0, -1.0), repeat=len(rows)):
        signs = np.ones(model.indices + model.noise_rows)
        for sign, block in zip(choice, rows, strict=True):
            signs[block] = sign
        out.append(signs)
    return np.array(out)
