"""Samples in parts, in the order given: arrays, or blocks that a function gives once more at every call."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array, Floats, Source, rows_of
from .channels import Channel
from .checks import CITE
from .data import check_samples, rows_at_a_time

__all__ = ["Parts"]


class Parts:
    """Samples of which any range of rows can be read, and the first ones be learned from.

    Parameters
    ----------
    x : array_like of shape (n, T, d), or callable
        As in `amp`; memory-mapped if wanted.
    y : array_like of shape (n, T, T), or None where x is a function
    output : Channel
    """

    def __init__(self, x: ArrayLike | Source, y: ArrayLike | None, output: Channel) -> None:
        self.output = output
        self._array: tuple[Floats, Array] | None = None
        if callable(x):
            if y is not None:
                raise ValueError("y must be None where x is a function: it gives blocks (x_block, y_block)")
            self._source = x
            shapes = [block.shape for block, _ in self.rows(0, None)]
            if not shapes:
                raise ValueError("x() must give at least one block (x_block, y_block), got none")
            sizes = sorted({shape[2] for shape in shapes})
            if len(sizes) > 1:
                raise ValueError(f"blocks of x must have the same d ({CITE}, model), got {sizes[0]} and {sizes[-1]}")
            self.samples, self.dimension = sum(shape[0] for shape in shapes), sizes[0]
            return
        if y is None:
            raise ValueError("y must be given with x: one output per sample; or let x be a function of blocks")
        samples = check_samples(x, output.tokens)
        labels = output.check(y)
        if len(labels) != len(samples):
            raise ValueError(f"x and y must have as many samples, got {len(samples)} and {len(labels)} ({CITE}, model)")
        self._array = samples, labels
        self.samples, self.dimension = len(samples), samples.shape[2]

    def rows(self, begin: int, end: int | None) -> Iterator[tuple[Floats, Array]]:
        """Blocks of the rows from one number to another; `end` None is the last."""
        if self._array is not None:
            x, y = self._array[0][begin:end], self._array[1][begin:end]
            for part in rows_of(x, rows_at_a_time(*x.shape[1:])):
                yield x[part], y[part]
            return
        at = 0
        for block in self._source():
            x, y = check_samples(block[0], self.output.tokens), self.output.check(block[1])
            if len(x) != len(y):
                raise ValueError(f"x and y must have as many samples, got {len(x)} and {len(y)} ({CITE}, model)")
            kept = slice(max(begin - at, 0), None if end is None else max(end - at, 0))
            at += len(x)
            if len(x[kept]):
                yield x[kept], y[kept]
            if end is not None and at >= end:
                return

    def whole(self) -> tuple[Floats, Array]:
        """All rows in memory."""
        if self._array is not None:
            return self._array
        x, y = zip(*self.rows(0, None), strict=True)
        return np.concatenate(x), np.concatenate(y)

    def first(self, end: int) -> tuple[Floats | Source, Array | None]:
        """The first rows, as `amp` takes them."""
        if self._array is not None:
            return self._array[0][:end], self._array[1][:end]
        return lambda: self.rows(0, end), None
