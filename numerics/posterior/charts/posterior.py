"""Moments of sampled posteriors of any network with a chart, for averages over outputs whose indices are known."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import Workers, threads_of
from ...core.errors import ConvergenceError
from ...model.charts import chart_of
from ...model.network import Network
from ..pieces import PIECES, SETS, log_masses, moments_of
from ..spread import SpreadPosterior
from .density import prior_of, with_noise
from .layout import constants_of, layout_of
from .points import drawn_points
from .sampler import Nodes, Outputs, Sums, posterior_sums

__all__ = ["ChartMoments", "ChartPosterior", "sign_flips"]

Array = NDArray[np.float64]


class ChartMoments(NamedTuple):
    """Moments of n posteriors, by sets of nodes and by pieces of them as of `Pieces`.

    Attributes
    ----------
    mean : list of ndarray, shape (n, P, M)
        E[h | y], in modes over the tokens.
    triangle : list of ndarray, shape (n, P M (P M + 1)/2)
        E[h h^T | y] of the P M modes in order, lower triangles row by row; empty where they are not asked for.
    log_z : list of ndarray, shape (n,)
        log Z_out up to a constant of the model.
    effective : ndarray, shape (n,)
        Number of independent nodes that the first set is worth.
    """

    mean: list[Array]
    triangle: list[Array]
    log_z: list[Array]
    effective: Array

    def second(self, rows: Sequence[int], of: int) -> Array:
        """E[h h^T | y] of some rows by one of the sets, shape (n, rows, M, rows, M)."""
        tokens = self.mean[of].shape[2]
        entries = (np.array(rows)[:, None] * tokens + np.arange(tokens)).ravel()
        shape = (len(rows), tokens)
        return np.asarray(self.triangle[of][:, _place(entries[:, None], entries)].reshape(-1, *shape, *shape))

    def square(self, of: int) -> Array:
        """E sum_m h_m h_m^T by one of the sets, shape (n, P, P)."""
        _, indices, tokens = self.mean[of].shape
        first = np.arange(indices) * tokens
        return np.asarray(
            sum(self.triangle[of][:, _place(first[:, None] + token, first + token)] for token in range(tokens))
        )


def _place(row: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where an entry of a symmetric matrix stands in its lower triangle."""
    larger = np.maximum(row, column)
    return np.asarray(larger * (larger + 1) // 2 + np.minimum(row, column))


class _Made(NamedTuple):
    """Of some outputs: means and products by sets of nodes and pieces, log Z, and what the first set is worth.

    Attributes
    ----------
    moments : ndarray, shape (n, SETS, k)
    log_z : ndarray, shape (n, SETS)
    effective : ndarray, shape (n,)
        Zero where one of the sets has no node.
    """

    moments: Array
    log_z: Array
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
        # Pairs of sets of nodes that outputs of one randomisation take turns with, at least, and numbers that all may
        # be: what outputs share is noise that more of them do not diminish.
        most_pairs, most_numbers = 32, 2**22
        # Draws that broad densities are fitted to.
        draws = 32
        pairs = min(most_pairs, per)
        each = replicas * pairs * nodes * (self.layout.dimension + len(self.layout.kinds) + 2)
        shifts = min(per // pairs, max(1, most_numbers // each))
        sets = pairs * shifts
        self._pair = (np.arange(per) % sets + sets * np.arange(replicas)[:, None]).ravel()
        half = nodes // 2
        self._nodes = Nodes(
            np.array([half - half // 2, half // 2]),
            drawn_points(self.layout, half, pairs * replicas, rng, shifts=shifts),
            rng.standard_normal((draws, model.indices + model.noise_rows, model.tokens)),
        )

    @property
    def modes(self) -> Array:
        """Modes over the tokens that moments are in."""
        return self.layout.modes

    @property
    def solved(self) -> float:
        """All entries of h but those that the chart has as coordinates, or leaves out."""
        return float(self.model.indices * self.model.tokens - self.layout.dimension - self.layout.free.sum())

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
        made = (
            self.part(h, omega, v, second=second)
            if self._spread is None
            else _together(self._spread(h, omega, v=v, second=second))
        )
        n, _, tokens = h.shape
        lost = int((made.effective == 0).sum())
        if lost:
            raise ConvergenceError(
                f"the sampled posterior (12) of {self.model.describe()} met {lost} of {n} outputs with no node at all; "
                "raise nodes, or take another seed"
            )
        # Independent nodes that half of the posteriors are worth at least: below, the bias of ratios has no estimate.
        least_worth = 8.0
        if n > 1 and (worth := float(np.median(made.effective))) < least_worth:
            raise ConvergenceError(
                f"half of the sampled posteriors (12) of {self.model.describe()} have an effective number of "
                f"nodes of {worth:.1f} of {self._nodes.counts.sum()} or less, too few for an error; raise nodes"
            )
        size = len(v) * tokens
        means, products = np.split(made.moments, [size], axis=2)
        return ChartMoments(
            [means[:, k].reshape(n, len(v), tokens) for k in range(SETS)],
            [products[:, k] for k in range(SETS)],
            list(made.log_z.T),
            made.effective,
        )

    def part(self, h: Array, omega: Array, v: Array, *, second: bool = True, start: int = 0) -> _Made:
        """Moments of a part of the outputs.

        Parameters
        ----------
        h, omega, v, second
            As in a call.
        start : int, optional
            Number of the first of these outputs among those that take the sets of nodes in turn.
        """
        n, rows, tokens = h.shape
        turned, covariance = with_noise(self.layout, omega, v)
        prior, root = prior_of(self.layout, covariance), np.asarray(np.linalg.cholesky(covariance), np.float64)
        # Rows of the noise stand behind the indices: the products of these are the first ones.
        seen, all_seen = _numbers(len(v) * tokens, second), _numbers(rows * tokens, second)
        kept = np.append(np.arange(len(v) * tokens), rows * tokens + np.arange(seen - len(v) * tokens))
        made = _Made(np.empty((n, SETS, seen)), np.empty((n, SETS)), np.empty(n))
        outputs = Outputs(np.ascontiguousarray(h), turned, self._flips, self._pair[start : start + n])
        # Means that the output does not depend on are no coordinates: their products are known beside.
        one, other = np.tril_indices(len(v) if second else 0)
        free, spread = len(v) * tokens + _place(one * tokens, other * tokens), prior.spread[one, other]

        # Outputs at a time.
        chunk = 64

        def work(first: int) -> None:
            part = slice(first, first + chunk)
            some = Outputs(outputs.truth[part], outputs.omega[part], outputs.flips, outputs.pair[part])
            count = len(some.pair)
            sums = Sums(np.empty(count), np.empty((count, 2 * PIECES, 1 + all_seen)), np.empty((count, 2)))
            posterior_sums(some, root, prior, self._nodes, self.layout, sums)
            moments, _ = moments_of(sums.pieces)
            made.moments[part] = moments[:, :, kept]
            made.moments[part][:, :, free] += spread
            made.log_z[part] = sums.log_scale[:, None] + log_masses(sums.pieces[..., 0])
            made.effective[part] = _worth(sums)

        with ThreadPoolExecutor(self._workers) as pool:
            list(pool.map(work, range(0, n, chunk)))
        return made


def _together(parts: Sequence[_Made]) -> _Made:
    """All parts as one."""
    return _Made(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _numbers(size: int, second: bool) -> int:
    """How many moments there are of so many entries."""
    return size + (size * (size + 1) // 2 if second else 0)


def _worth(sums: Sums) -> Array:
    """Number of independent nodes that the first set is worth; zero where one of the sets has none."""
    masses = sums.pieces[..., 0].reshape(-1, 2, PIECES).sum(axis=2)
    fine = (np.isfinite(masses) & (masses > 0)).all(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(fine, masses[:, 0] ** 2 / sums.squares[:, 0], 0.0))


def sign_flips(model: Network) -> Array:
    """Signs of the rows of h under which the output stays as it is: those of each head of each layer.

    Without noise the chart sums over the sign of a tied last layer of rank 1, and of every such layer of a sequence
    output, so that it is left out.
    """
    parts, summed = model.parts, set()
    if model.seen_last or model.chain is None:
        one = [n for n, part in enumerate(parts) if len(part) == 1 and part[0][0].stop - part[0][0].start == 1]
        last = len(parts) - model.heads
        summed = {n for n in one if not model.noise and (n >= last or model.output == "sequence")}
    chain = model.chain
    rows = [
        [row for kind in part for block in kind for row in range(block.start, block.stop)]
        for n, part in enumerate(parts)
        if n not in summed and (chain is None or not chain.fixed(part[0][0]))
    ]
    # Changes of sign at which peaks are looked for, at most: each is looked for at every output.
    most_flips = 16
    # Later layers first: they are learned first.
    rows = rows[::-1][: most_flips.bit_length() - 1]
    out = []
    for choice in product((1.0, -1.0), repeat=len(rows)):
        signs = np.ones(model.indices + model.noise_rows)
        for sign, block in zip(choice, rows, strict=True):
            signs[block] = sign
        out.append(signs)
    return np.array(out)
