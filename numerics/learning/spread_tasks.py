"""What the workers of a cluster run on a block of rows, and how its sums are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from ..core.blas import one_blas_thread
from ..posterior.protocol import Model, Scores
from .blocks import Array, Floats
from .data import check_samples
from .heads import of_blocks
from .passes import Block, noise_of, scores_of, sweep_block
from .row_files import opened

__all__ = ["Part", "Prepared", "added", "itself", "prepared", "size_of", "swept"]

Rows = Path | Floats


class Part(NamedTuple):
    """Sums over some blocks, and of each of them its scores and the noise of these where they are sampled."""

    pull: Array
    curvature: Array
    scores: tuple[Array, ...]
    noise: tuple[Array | None, ...]


class Prepared:
    """Outputs of a block, prepared for scores. A copy for another process is prepared there: it has addresses."""

    def __init__(
        self, model: Model, prepare: Callable[[ArrayLike], Scores], y: Rows, shape: tuple[int, int, int]
    ) -> None:
        self.model, self.shape = model, shape
        self._prepare, self._y = prepare, y
        self.output = scores_of(model, prepare(opened("Y", y)), shape[0])

    def __reduce__(self) -> tuple[type[Prepared], tuple[object, ...]]:
        """Prepare again."""
        return Prepared, (self.model, self._prepare, self._y, self.shape)


def prepared(x: Rows, y: Rows, model: Model, prepare: Callable[[ArrayLike], Scores]) -> Prepared:
    """Prepare a block.

    Raises
    ------
    ValueError
        X has another shape or type than the passes take, or Y does not belong to it.
    OSError
        A file cannot be read on this worker.
    """
    n, m, dimension = of_blocks(check_samples(opened("X", x), model, "X_block"), model).shape
    return Prepared(model, prepare, y, (n, m, dimension))


def size_of(block: Prepared) -> tuple[int, int]:
    """Rows and dimension."""
    return block.shape[0], block.shape[2]


def itself(array: Array) -> Array:
    """An array that every worker gets from another one."""
    return array


def swept(x: Rows, block: Prepared, onsager: Array, weights: Array, V: Array) -> Part:
    """Pass over a block with its term of Onsager."""
    kept = Block(block.output, onsager)
    with _one_thread_for_all():
        found = sweep_block(of_blocks(opened("X", x), block.model), kept, weights, V, map)
    return Part(found.pull, found.curvature, (kept.g,), (noise_of(block.output),))


def added(parts: Sequence[Part]) -> Part:
    """Sums over the blocks of all parts, one part after the other as in `reduction.Sums`."""
    pull, curvature = parts[0].pull.copy(), parts[0].curvature.copy()
    for part in parts[1:]:
        pull += part.pull
        curvature += part.curvature
    scores = tuple(score for part in parts for score in part.scores)
    return Part(pull, curvature, scores, tuple(noise for part in parts for noise in part.noise))


_LOCK = Lock()
# Of every thread of this process that passes over a block a limit; the first one gives BLAS its threads back.
_limits: list[Any] = []


@contextmanager
def _one_thread_for_all() -> Iterator[None]:
    """Limit BLAS to one thread for as long as any thread of this process passes over a block."""
    with _LOCK:
        _limits.append(None if _limits else one_blas_thread())
    try:
        yield
    finally:
        with _LOCK:
            if len(_limits) > 1:
                _limits.pop()
            else:
                _limits.pop().restore_original_limits()
