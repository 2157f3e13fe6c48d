"""Posteriors of deep attention by two independent sets of nodes each, drawn once: importance sampling on the fibre."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ...core.cluster_pool import Workers, threads_of
from ...core.errors import ConvergenceError
from ...core.quantiles import chi_squared_quantile
from ...model.network import Network
from ...quadrature.sobol import sobol
from ..pieces import PIECES, SETS, Pieces, moments_of
from ..sampled import posterior_moments
from ..spread import SpreadPosterior
from ..student import freedom
from .draws import Draws
from .mixing import Constants
from .search import Outputs

__all__ = ["PAIRS", "SampledPosterior"]

Array = NDArray[np.float64]
Task = TypeVar("Task")
Found = TypeVar("Found")

#: Pairs of sets of nodes of each randomisation; outputs that share one share its error, too.
PAIRS = 16


class SampledPosterior:
    """Posteriors of rank 1 at depth >= 2, whatever the number of tokens and the activation.

    Parameters
    ----------
    model : Network
    nodes : int
        Of each output, in both sets; a power of two from 64.
    per, replicas : int
        Outputs of each randomisation, which share its pairs of sets, and number of these.
    rng : numpy.random.Generator
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster.
    """

    # Outputs per task of a thread.
    chunk = 32

    def __init__(
        self, model: Network, nodes: int, per: int, replicas: int, rng: np.random.Generator, workers: Workers
    ) -> None:
        self.model = model
        self._workers = threads_of(workers)
        self._spread = SpreadPosterior.over(workers, type(self), (model, nodes, per, replicas), rng)
        self._invertible = model.activation == "linear" or model.tokens == 2
        self._draw(nodes, per, replicas, rng)

    def _draw(self, nodes: int, per: int, replicas: int, rng: np.random.Generator) -> None:
        """Draw the nodes, and choose which of them each of the `per` outputs takes."""
        half = nodes // 2
        # The prior finds everything unless it is narrow, where the others are for.
        rest = 3 * half // 16
        self._counts = np.array([half - 2 * rest, rest, rest] if self._invertible else [half - rest, 0, rest])
        dimension = (self.model.layers - 1) * self.model.tokens
        pairs = min(PAIRS, per)
        streams = rng.spawn(2 * pairs * replicas)
        uniform = np.array([sobol(dimension + 1, half, stream) for stream in streams])
        uniform = np.clip(uniform, 2.0**-31, 1 - 2.0**-31).reshape(-1, 2, half, dimension + 1)
        self._pair = (np.arange(per) % pairs + pairs * np.arange(replicas)[:, None]).ravel()
        # The nodes of a draw, of both sets, stand together.
        ends = np.cumsum(self._counts)
        laid = [uniform[:, :, end - count : end] for count, end in zip(self._counts, ends, strict=True)]
        together = np.concatenate([part.reshape(len(uniform), -1, dimension + 1) for part in laid], axis=1)
        self._nodes = np.ascontiguousarray(np.swapaxes(ndtri(together[..., :dimension]), 1, 2))
        nu, of_peaks = freedom(dimension), together[:, nodes - 2 * rest :, dimension]
        self._tails = np.sqrt(nu / chi_squared_quantile(of_peaks, nu))

    def __call__(self, h: Array, omega: Array, v: Array) -> Pieces:
        """Posteriors given the outputs of indices h, under N(omega, v); shapes (n, L, M) and (L, L).

        Outputs take the pairs of sets in turn.

        Raises
        ------
        ConvergenceError
            An output that no node gives.
        """
        parts = [self.part(h, omega, v)] if self._spread is None else self._spread(h, omega, v=v)
        n, depth, tokens = h.shape
        self._all_met(sum(lost for _, lost in parts), n)
        moments = parts[0][0] if len(parts) == 1 else np.concatenate([found for found, _ in parts])
        means = [moments[:, k, : depth * tokens].reshape(n, depth, tokens) for k in range(SETS)]
        seconds = [moments[:, k, depth * tokens :].reshape(n, depth, tokens, tokens) for k in range(SETS)]
        return Pieces(means, seconds)

    def part(self, h: Array, omega: Array, v: Array, start: int = 0) -> tuple[Array, int]:
        """Moments of a part of the outputs as of `Pieces`, and how many outputs have no node.

        Parameters
        ----------
        h, omega, v : ndarray
            As in a call.
        start : int, optional
            Number of the first of these outputs among those that take the sets of nodes in turn.

        Returns
        -------
        moments : ndarray, shape (n, SETS, L M + L M M)
        lost : int
        """
        n, depth, tokens = h.shape
        others = [[i for i in range(depth) if i != left_out] for left_out in (depth - 1, depth - 2)]
        roots = np.array([np.linalg.cholesky(v[np.ix_(keep, keep)]) for keep in others])
        # The peaks are solved for the wider of the last two layers.
        before = bool(self._invertible and v[-1, -1] < v[-2, -2])
        precision = np.asarray(np.linalg.inv(v), np.float64)
        sums = np.empty((n, 2 * PIECES, 1 + depth * tokens * (1 + tokens)))
        model, pair = self.model, np.resize(self._pair, start + n)[start:]
        firsts = 2 * (np.cumsum(self._counts) - self._counts)
        solved = np.array([depth - 1, depth - 2, depth - 2 if before else depth - 1])
        network = Constants(model.skip, model.beta, model.activation == "linear")
        draws = Draws(roots, self._counts, firsts, solved, self._nodes, self._tails)

        def work(part: slice) -> None:
            posterior_moments(Outputs(h[part], omega[part], pair[part]), precision, draws, network, sums[part])

        self._run(work, [slice(first, first + self.chunk) for first in range(0, n, self.chunk)])
        return moments_of(sums)

    def _run(self, work: Callable[[Task], Found], tasks: list[Task]) -> list[Found]:
        with ThreadPoolExecutor(self._workers) as pool:
            return list(pool.map(work, tasks))

    def _all_met(self, lost: int, n: int) -> None:
        if lost:
            raise ConvergenceError(
                f"the sampled posterior (12) of {self.model.describe()} met {lost} of {n} outputs with no node at all; "
                "raise nodes, or take another seed"
            )
