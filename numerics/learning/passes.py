"""One iteration's pass over the data: every block of X is read once from memory, for both matrix products."""

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from ..model.network import Network
from ..posterior.protocol import Model, Scores
from .blocks import Array, Floats, Source, rows_of
from .data import check_samples, refuse_rows
from .heads import HeadScores, blocks_of, of_blocks, weight_rows
from .products import project, pull
from .sources import Blocks

__all__ = ["Block", "Samples"]

# Parts of a block that threads take, each with sums of its own: what is added up in which order does not depend on the
# number of threads. At most so many, a power of two, of so many samples each; two as soon as there are that many.
_LANES, _SHORTEST = 16, 512
# Bytes of X that both products of a denoiser call share (in a core's share of the last cache), and least samples of it:
# threads that meet in the interpreter too often wait for each other longer than for memory.
_CALL, _LEAST = 4 << 20, 256
# Seconds of one core that a block must take to be worth its threads.
_SHORT = 3e-3


class Block:
    """Samples that are in memory at a time, and what the iteration keeps of each.

    Parameters
    ----------
    output : Scores
    shape : tuple of int
        (n, P, M).
    """

    def __init__(self, output: Scores, shape: tuple[int, int, int]) -> None:
        self.output = output
        # g_out of the last pass, and the term of Onsager of the next one.
        self.g = np.zeros(shape)
        self.onsager = np.zeros(shape)

    @property
    def rows(self) -> int:
        """Number of samples."""
        return self.output.rows


class Samples(Blocks[Block]):
    """A data set that is passed over: an array, or blocks that a function gives again for every pass.

    Weights, scores and `dimension` are those of the blocks of D/H coordinates where there are H heads (`heads`).

    Parameters
    ----------
    x : ndarray of shape (N, M, D), or callable
    y : array_like or None
        None if x is callable.
    model : Network or LinkKernel
    prepare : callable
        Makes the `Scores` of a block of y.
    workers : int, optional
        Threads; all cores by default.
    """

    def __init__(
        self,
        x: ArrayLike | Source,
        y: ArrayLike | None,
        model: Model,
        prepare: Callable[[ArrayLike], Scores],
        workers: int | None = None,
    ) -> None:
        self.model = model
        self._prepare = prepare
        # Kept from pass to pass: threads take longer to start than few samples to pass over.
        self._pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)
        # Seconds of one core that the last block took.
        self._spent = math.inf
        # It looks for libraries, which takes longer than a pass over few samples.
        self._threads = ThreadpoolController()
        super().__init__(x, y)

    def checked(self, x: ArrayLike, name: str) -> Floats:
        """As `check_samples` has it."""
        return check_samples(x, self.model, name)

    def view(self, x: Floats) -> Floats:
        """Blocks of D/H coordinates."""
        return of_blocks(x, self.model)

    def keep(self, x: Floats, y: ArrayLike) -> Block:
        """Scores of the outputs, and what the iteration keeps."""
        refuse_rows(self.model, len(x))
        output = self._prepare(y)
        if output.rows != len(x):
            raise ValueError(f"Y must have one output per sample of X (troiani2025 (1)): {output.rows} for {len(x)}")
        heads = blocks_of(self.model)
        if isinstance(self.model, Network) and heads > 1:
            output = HeadScores(self.model, output)
        return Block(output, (len(x), weight_rows(self.model), self.model.tokens * heads))

    def sweep(self, weights: Array, V: Array) -> tuple[Array, Array]:
        """Run one pass: omega = W x / sqrt(D) - Onsager, g = g_out(y, omega, V), and what the weights need of g.

        Parameters
        ----------
        weights : ndarray, shape (P, D)
        V : ndarray, shape (P, P)

        Returns
        -------
        pull : ndarray, shape (P, D)
            sum over samples of g x^T, over sqrt(D).
        curvature : ndarray, shape (P, P)
            - sum over samples and tokens of d g_m / d omega_m, over D; of g g^T where slopes are not known, the same
            in the mean (Nishimori).
        """
        total, curvature = np.zeros(weights.shape), np.zeros(V.shape)
        # Threads share the rows; what a denoiser asks of BLAS has no work for more.
        with self._threads.limit(limits=1, user_api="blas"):
            for x, block in self.each():
                parts = min(_LANES, 1 << max(len(x) >= _SHORTEST, (len(x) // _SHORTEST).bit_length() - 1))
                edges = np.linspace(0, len(x), parts + 1).astype(int)
                lanes = [slice(a, b) for a, b in pairwise(edges)]
                rows = np.ascontiguousarray(weights, dtype=x.dtype)
                run = map if self._spent < _SHORT else self._pool.map
                self._spent = 0.0
                for part, slope, spent in run(partial(_lane, x, block, rows, V), lanes):
                    total += part
                    curvature += slope
                    self._spent += spent
        scale = math.sqrt(self.dimension)
        return total / scale, 0.5 * (curvature + curvature.T) / self.dimension


def _lane(x: Floats, block: Block, weights: Floats, V: Array, lane: slice) -> tuple[Array, Array, float]:
    began = time.thread_time()
    total, curvature = np.zeros(weights.shape), np.zeros(V.shape)
    for inner in rows_of(x[lane], max(_LEAST, _CALL // x[0].nbytes)):
        part = slice(lane.start + inner.start, lane.start + inner.stop)
        tokens = np.ascontiguousarray(x[part])
        omega = project(weights, tokens, block.onsager[part])
        _check_finite(omega, x, part)
        g, slope = block.output(omega, V, part)
        block.g[part] = g
        curvature += np.einsum("nam,nbm->ab", g, g) if slope is None else slope
        pull(np.ascontiguousarray(g), tokens, total)
    return total, curvature, time.thread_time() - began


def _check_finite(omega: Array, x: Floats, part: slice) -> None:
    """NaN and infinity of X show in its projections."""
    # Of a finite sum all terms are finite, and it takes no array of flags.
    if math.isfinite(float(omega.sum())) or np.isfinite(omega).all():
        return
    for row in range(part.start, part.stop):
        if not np.isfinite(x[row]).all():
            raise ValueError(f"X must be finite, got NaN or infinity in sample {row}; leave such samples out, of Y too")
    raise OverflowError("W x / sqrt(D) exceeds the range of X's type; X must have entries of variance 1 (1)")
