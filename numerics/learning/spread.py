"""Passes over rows that are spread over the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.cluster import LARGE_GRAPHS, await_future, cluster_failures
from ..posterior.protocol import Model, Scores
from .blocks import Array
from .passes import shape_of, whole_sums
from .reduction import FAN
from .row_files import RowFiles
from .spread_tasks import Part, added, itself, prepared, size_of, swept

if TYPE_CHECKING:
    import dask.array
    from distributed import Client

__all__ = ["Spread"]

# What the cluster is to complete.
_PASS = "a pass over X"

Placed = list[Any]


class Spread:
    """A data set whose rows stay on the workers of a cluster, as a `Samples` of the same blocks would pass over it.

    A pass sends the weights to every worker, which sums over its blocks; the sums are added in a tree whose form the
    number of blocks determines, so that their bits do not depend on the number of workers, and are those of `Samples`.

    Rows and prepared outputs are results of tasks that the scheduler can repeat. What has a memory of the earlier
    iterations, the term of Onsager, is here, N P M numbers in all, and is sent to the block with every pass; the scores
    come back with the sums. So a worker that is lost costs its blocks: they are read and prepared elsewhere, and pass
    once more with the weights of this iteration. What other workers have summed is kept until the pass is complete. Of
    posteriors whose nodes stay from call to call (networks on charts) the nodes are lost and drawn anew, and the
    numbers move by the sampling error that the result states.

    Parameters
    ----------
    client : distributed.Client
    x : RowFiles or dask array of shape (N, M, D)
        Files that the workers see under the same names, mapped block by block in every pass; or an array, whose chunks
        the workers keep in memory.
    y : dask array, array_like or None
        Outputs of an array.
    model : Network or LinkKernel
    prepare : callable
        Makes the `Scores` of a block of y; it travels to the workers.

    Raises
    ------
    ValueError
        Data of a wrong shape, type or kind.
    ClusterError
        The cluster was lost, or cannot run the tasks.
    """

    def __init__(
        self,
        client: Client,
        x: RowFiles | dask.array.Array,
        y: ArrayLike | dask.array.Array | None,
        model: Model,
        prepare: Callable[[ArrayLike], Scores],
    ) -> None:
        self.client, self._name, self._number = client, token_hex(4), 0
        homes: list[str | None]
        with cluster_failures(_PASS):
            if isinstance(x, RowFiles):
                # The workers may have been started in other folders.
                self._x, ys = [[path.absolute() for path in paths] for paths in zip(*x.blocks, strict=True)]
                homes = _shares(client, len(ys))
            else:
                self._x, ys = _chunks(client, x, y)
                homes = [None] * len(ys)
            self._blocks = self._map(prepared, [self._x, ys], homes, "prepare", model=model, prepare=prepare)
            sizes = self._gathered(self._map(size_of, [self._blocks], [None] * len(ys), "size"))
        self.dimension = sizes[0][1]
        for _, dimension in sizes:
            if dimension != self.dimension:
                raise ValueError(f"blocks of X must have one dimension, got D = {self.dimension} and {dimension}")
        self._onsager = [np.zeros(shape_of(model, rows)) for rows, _ in sizes]
        self._last = Part(np.empty(0), np.empty(0), (), ())

    @property
    def rows(self) -> int:
        """Number of samples."""
        return sum(len(each) for each in self._onsager)

    def sweep(self, weights: Array, V: Array) -> tuple[Array, Array]:
        """Run one pass, see `Samples.sweep`."""
        with cluster_failures(_PASS):
            self._number += 1
            where = self.client.who_has(self._blocks)
            homes = [next(iter(where.get(block.key, ())), None) for block in self._blocks]
            everywhere = self._map(itself, [[weights]], [None], "weights")[0]
            columns: list[Placed] = [self._x, self._blocks, self._onsager]
            # Kept until the pass is complete: of a worker that is lost, only what it had is to be done again.
            passes = [self._map(swept, columns, homes, "pass", weights=everywhere, V=V)]
            while len(passes[-1]) > 1:
                groups = [passes[-1][k : k + FAN] for k in range(0, len(passes[-1]), FAN)]
                passes.append(self._map(added, [groups], [None] * len(groups), f"add{len(passes)}"))
            self._last = self._gathered(passes[-1])[0]
        return whole_sums(self._last.pull, self._last.curvature, self.dimension)

    def remember(self, newest: Array, old: float) -> None:
        """Set the term of Onsager of the next pass, see `Samples.remember`."""
        # New arrays: a worker within this process may still read the last ones.
        pairs = zip(self._onsager, self._last.scores, strict=True)
        self._onsager = [old * onsager + (1 - old) * (newest @ g) for onsager, g in pairs]

    @property
    def scores(self) -> list[Array]:
        """Scores g_out of the latest pass, of every block."""
        return list(self._last.scores)

    @property
    def terms(self) -> list[Array]:
        """Terms of Onsager of every block."""
        return self._onsager

    def recall(self, terms: list[Array]) -> None:
        """Set the terms of Onsager of the next pass."""
        self._onsager = terms

    def noise(self) -> Array | None:
        """Products of the errors of sampled scores, see `Samples.noise`."""
        sampled = [noise for noise in self._last.noise if noise is not None]
        return sum(sampled[1:], sampled[0]) if sampled else None

    def close(self) -> None:
        """Let the workers forget their blocks."""
        self._x, self._blocks = [], []

    def _map(
        self,
        function: Callable[..., object],
        columns: Sequence[Placed],
        homes: Sequence[str | None],
        what: str,
        **settings: object,
    ) -> Placed:
        """Futures of a function of the rows of these columns, each at its home or else where the scheduler wants."""
        import dask

        futures: Placed = [None] * len(homes)
        with dask.config.set(LARGE_GRAPHS):
            for home in dict.fromkeys(homes):
                numbers = [number for number, each in enumerate(homes) if each == home]
                found = self.client.map(
                    function,
                    *([column[number] for number in numbers] for column in columns),
                    key=[f"gamp_{what}-{self._name}-{self._number}-{number}" for number in numbers],
                    pure=False,
                    **({} if home is None else {"workers": [home], "allow_other_workers": True}),
                    **settings,
                )
                for number, future in zip(numbers, found, strict=True):
                    futures[number] = future
        return futures

    def _gathered(self, futures: Placed) -> list[Any]:
        """Results of futures."""
        for future in futures:
            await_future(self.client, future)
        return list(self.client.gather(futures))


def _shares(client: Client, count: int) -> list[str | None]:
    """Workers of the blocks: each has consecutive ones, as many as its share of all threads."""
    threads = client.nthreads()
    edges = [0, *accumulate(threads.values())]
    if not edges[-1]:
        return [None] * count
    bounds = [round(count * edge / edges[-1]) for edge in edges]
    return [home for home, (a, b) in zip(threads, pairwise(bounds), strict=True) for _ in range(a, b)]


def _chunks(client: Client, x: object, y: Any) -> tuple[Placed, Placed]:
    """Chunks of rows of dask arrays, in the memory of the workers."""
    import dask.array

    if not isinstance(x, dask.array.Array):
        raise ValueError(
            "X must be a dask array or a folder of .npy blocks where there is a client, got "
            f"{type(x).__name__}; dask.array.from_array(X, chunks=(rows, -1, -1)) makes one"
        )
    if y is None or x.ndim != 3 or not len(x):
        raise ValueError(f"X must have shape (N, M, D) and one output per sample in Y, got {x.shape}, Y {np.shape(y)}")
    if np.isnan(x.chunks[0]).any():
        raise ValueError("X must have chunks of known sizes; call X.compute_chunk_sizes()")
    if len(y) != len(x):
        raise ValueError(f"Y must have one output per sample of X (troiani2025 (1)): {len(y)} for {len(x)}")
    columns = [x.rechunk({1: -1, 2: -1})]
    if isinstance(y, dask.array.Array):
        columns.append(y.rechunk({0: x.chunks[0], **dict.fromkeys(range(1, y.ndim), -1)}))
    futures = client.compute([part for column in columns for part in column.to_delayed().ravel()])
    if len(columns) == 2:
        return futures[: len(futures) // 2], futures[len(futures) // 2 :]
    array = np.asarray(y)
    return futures, [array[a:b] for a, b in pairwise([0, *accumulate(x.chunks[0])])]
