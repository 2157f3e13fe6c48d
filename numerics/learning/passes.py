"""One iteration's pass over the data: every block of X is read once from memory, for both matrix products."""

import math
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..core.blas import one_blas_thread
from ..model.network import Network
from ..posterior.protocol import Model, Sampled, Scores
from .blocks import Array, Floats, Source, rows_of
from .data import check_samples, refuse_rows
from .heads import HeadScores, blocks_of, of_blocks, weight_rows
from .products import project, pull
from .reduction import Sums
from .sources import Blocks

__all__ = ["Block", "Passes", "Samples", "Swept", "noise_of", "scores_of", "shape_of", "sweep_block", "whole_sums"]


class Block:
    """Samples that are in memory at a time, and what the iteration keeps of each.

    Parameters
    ----------
    output : Scores
    onsager : ndarray, shape (n, P, M)
        Term of Onsager of the next pass.
    """

    def __init__(self, output: Scores, onsager: Array) -> None:
        self.output, self.onsager = output, onsager
        # g_out of the last pass.
        self.g = np.zeros(onsager.shape)

    @property
    def rows(self) -> int:
        """Number of samples."""
        return self.output.rows


class Passes(Protocol):
    """A data set that an iteration passes over, wherever its rows are.

    Attributes
    ----------
    dimension : int
        D, or D/H of H heads.
    """

    dimension: int

    @property
    def rows(self) -> int:
        """Number of samples passed over so far."""

    def sweep(self, weights: Array, V: Array) -> tuple[Array, Array]:
        """Run one pass, see `Samples.sweep`."""

    def remember(self, newest: Array, old: float) -> None:
        """Set the term of Onsager of the next pass, see `Samples.remember`."""

    @property
    def scores(self) -> list[Array]:
        """Scores g_out of the latest pass, of every block."""

    @property
    def terms(self) -> list[Array]:
        """Terms of Onsager of every block."""

    def recall(self, terms: list[Array]) -> None:
        """Set the terms of Onsager of the next pass."""

    def noise(self) -> Array | None:
        """Products of the errors of sampled scores, see `Samples.noise`."""


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
        output = scores_of(self.model, self._prepare(y), len(x))
        return Block(output, np.zeros(shape_of(self.model, len(x))))

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
        total = Sums()
        # Seconds of one core that a block must take to be worth its threads.
        short = 3e-3
        # Threads share the rows; what a denoiser asks of BLAS has no work for more.
        with one_blas_thread():
            for x, block in self.each():
                run = map if self._spent < short else self._pool.map
                swept = sweep_block(x, block, weights, V, run)
                self._spent = swept.seconds
                total.add(swept.pull, swept.curvature)
        pull, curvature = total.total()
        return whole_sums(pull, curvature, self.dimension)

    def remember(self, newest: Array, old: float) -> None:
        """Set the term of Onsager of the next pass: newest g, with a share `old` of the last one in it.

        Parameters
        ----------
        newest : ndarray, shape (P, P)
        old : float
        """
        for block in self.blocks:
            block.onsager *= old
            block.onsager += (1 - old) * (newest @ block.g)

    @property
    def scores(self) -> list[Array]:
        """Scores g_out of the latest pass, of every block; the next pass overwrites them."""
        return [block.g for block in self.blocks]

    @property
    def terms(self) -> list[Array]:
        """Terms of Onsager of every block; `remember` overwrites them."""
        return [block.onsager for block in self.blocks]

    def recall(self, terms: list[Array]) -> None:
        """Set the terms of Onsager of the next pass."""
        for block, term in zip(self.blocks, terms, strict=True):
            block.onsager = term

    def noise(self) -> Array | None:
        """Sum over samples of the products of the errors of their latest scores; None where none is sampled."""
        sampled = [noise for block in self.blocks if (noise := noise_of(block.output)) is not None]
        return sum(sampled[1:], sampled[0]) if sampled else None


def scores_of(model: Model, output: Scores, rows: int) -> Scores:
    """Scores of the projections that a pass makes, from those of the outputs of `rows` samples."""
    if output.rows != rows:
        raise ValueError(f"Y must have one output per sample of X (troiani2025 (1)): {output.rows} for {rows}")
    return HeadScores(model, output) if isinstance(model, Network) and blocks_of(model) > 1 else output


def shape_of(model: Model, rows: int) -> tuple[int, int, int]:
    """Shape of the projections of `rows` samples: (n, P, M), or (n, rows of the weights, M H) of H heads."""
    return rows, weight_rows(model), model.tokens * blocks_of(model)


def noise_of(output: Scores) -> Array | None:
    """Products of the errors of the latest scores, None of scores that are not sampled."""
    return output.noise if isinstance(output, Sampled) else None


def whole_sums(pull: Array, curvature: Array, dimension: int) -> tuple[Array, Array]:
    """What a pass returns, from its sums over all samples."""
    return pull / math.sqrt(dimension), 0.5 * (curvature + curvature.T) / dimension


class Swept(NamedTuple):
    """Sums over the samples of a block, without their scale, and the seconds of one core that they took."""

    pull: Array
    curvature: Array
    seconds: float


#: `map`, or that of threads.
Run = Callable[[Callable[[slice], Swept], list[slice]], Iterable[Swept]]


def sweep_block(x: Floats, block: Block, weights: Array, V: Array, run: Run) -> Swept:
    """Pass over a block: its scores are set, and what the weights need of them is summed in an order that is fixed.

    Parameters
    ----------
    x : ndarray, shape (n, M, D)
    block : Block
    weights : ndarray, shape (P, D)
    V : ndarray, shape (P, P)
    run : callable
        `map`, or that of threads, which share the rows.
    """
    # Parts of a block that threads take, each with sums of its own: what is added up in which order does not depend on
    # the number of threads. At most so many, a power of two, of so many samples each; two as soon as there are that
    # many.
    lanes, shortest = 16, 512
    parts = min(lanes, 1 << max(len(x) >= shortest, (len(x) // shortest).bit_length() - 1))
    edges = np.linspace(0, len(x), parts + 1).astype(int)
    rows = np.ascontiguousarray(weights, dtype=x.dtype)
    total, curvature, seconds = np.zeros(weights.shape), np.zeros(V.shape), 0.0
    for lane in run(partial(_lane, x, block, rows, V), [slice(a, b) for a, b in pairwise(edges)]):
        total += lane.pull
        curvature += lane.curvature
        seconds += lane.seconds
    return Swept(total, curvature, seconds)


def _lane(x: Floats, block: Block, weights: Floats, V: Array, lane: slice) -> Swept:
    began = time.thread_time()
    total, curvature = np.zeros(weights.shape), np.zeros(V.shape)
    # Bytes of X that both products of a denoiser call share (in a core's share of the last cache), and least samples of
    # it: threads that meet in the interpreter too often wait for each other longer than for memory.
    call, least = 4 << 20, 256
    for inner in rows_of(x[lane], max(least, call // x[0].nbytes)):
        part = slice(lane.start + inner.start, lane.start + inner.stop)
        tokens = np.ascontiguousarray(x[part])
        omega = project(weights, tokens, block.onsager[part])
        _check_finite(omega, x, part)
        g, slope = block.output(omega, V, part)
        block.g[part] = g
        curvature += np.einsum("nam,nbm->ab", g, g) if slope is None else slope
        pull(np.ascontiguousarray(g), tokens, total)
    return Swept(total, curvature, time.thread_time() - began)


def _check_finite(omega: Array, x: Floats, part: slice) -> None:
    """NaN and infinity of X show in its projections."""
    # Of a finite sum all terms are finite, and it takes no array of flags.
    if math.isfinite(float(omega.sum())) or np.isfinite(omega).all():
        return
    for row in range(part.start, part.stop):
        if not np.isfinite(x[row]).all():
            raise ValueError(f"X must be finite, got NaN or infinity in sample {row}; leave such samples out, of Y too")
    raise OverflowError("W x / sqrt(D) exceeds the range of X's type; X must have entries of variance 1 (1)")
