"""Data sets that are passed over again and again: arrays, or blocks that a function gives once more at every call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from numpy.typing import ArrayLike

from .blocks import Floats, Source, rows_of

__all__ = ["Blocks"]


class _Kept(Protocol):
    """What is kept of a block from pass to pass."""

    @property
    def rows(self) -> int:
        """Number of its samples."""


Kept = TypeVar("Kept", bound=_Kept)


class Blocks(ABC, Generic[Kept]):
    """A data set in blocks, of each of which something is kept from the first pass on.

    A source that has a method `tokens` gives blocks of x alone by it, which spares the outputs once they are known.

    Parameters
    ----------
    x : ndarray of shape (n, tokens, dimension), or callable
    y : array_like or None
        None if x is callable.
    rows : callable, optional
        Gives the samples per block of an array; all by default.

    Raises
    ------
    ValueError
        Outputs are missing or given twice; a function gives no blocks, or no pairs.
    """

    #: Of x and y, for messages.
    names: ClassVar[tuple[str, str]] = ("X", "Y")

    def __init__(self, x: ArrayLike | Source, y: ArrayLike | None, rows: Callable[[Floats], int] | None = None) -> None:
        self.blocks: list[Kept] = []
        self._source: Source
        big, small = self.names
        if callable(x):
            if y is not None:
                raise ValueError(
                    f"{small} must be None where {big} is a function: it gives blocks ({big}_block, {small}_block)"
                )
            self._source = x
            first = next(iter(x()), None)
            if first is None:
                raise ValueError(f"{big}() must give at least one block ({big}_block, {small}_block), got none")
            self.dimension: int = self._pair(first)[0].shape[2]
        else:
            if y is None:
                raise ValueError(
                    f"{small} must be given with {big}: one output per sample; or let {big} be a function of blocks"
                )
            array = self.checked(x, big)
            self.dimension = self.view(array).shape[2]
            outputs = self.outputs(array, y)
            parts = (
                [(array, outputs)] if rows is None else [(array[p], outputs[p]) for p in rows_of(array, rows(array))]
            )
            self._source = lambda: parts
            self.blocks += [self.keep(self.view(part), labels) for part, labels in parts]

    @property
    def rows(self) -> int:
        """Number of samples passed over so far."""
        return sum(block.rows for block in self.blocks)

    def outputs(self, x: Floats, y: ArrayLike) -> Any:
        """Check the outputs of an array, where they are checked as a whole."""
        return y

    @abstractmethod
    def checked(self, x: ArrayLike, name: str) -> Floats:
        """Return samples of a block, of shape (n, tokens, dimension), as they are."""

    def view(self, x: Floats) -> Floats:
        """Samples as the passes take them."""
        return x

    @abstractmethod
    def keep(self, x: Floats, y: ArrayLike) -> Kept:
        """What is kept of a block; raises ValueError where x and y do not fit."""

    def _pair(self, block: tuple[ArrayLike, ArrayLike]) -> tuple[Floats, ArrayLike]:
        big, small = self.names
        try:
            x, y = block
        except (TypeError, ValueError):
            raise ValueError(
                f"{big}() must give pairs ({big}_block, {small}_block), got {type(block).__name__}"
            ) from None
        return self.view(self.checked(x, f"{big}_block")), y

    def _parts(self) -> Iterable[tuple[Floats, ArrayLike | None]]:
        tokens = getattr(self._source, "tokens", None)
        if self.blocks and tokens is not None:
            return ((self.view(self.checked(x, f"{self.names[0]}_block")), None) for x in tokens())
        return map(self._pair, self._source())

    def each(self) -> Iterator[tuple[Floats, Kept]]:
        """Read the data once more, block by block."""
        big, first, number = self.names[0], not self.blocks, 0
        for number, (x, y) in enumerate(self._parts(), start=1):
            if x.shape[2] != self.dimension:
                raise ValueError(f"{big}_block must have D = {self.dimension} as the first one, got {x.shape[2]}")
            if first and y is not None:
                self.blocks.append(self.keep(x, y))
            block = self.blocks[number - 1] if number <= len(self.blocks) else None
            if block is None or block.rows != len(x):
                raise ValueError(
                    f"{big}() must give the same blocks at every call; block {number} has another number of samples"
                )
            yield x, block
        if number != len(self.blocks):
            raise ValueError(f"{big}() must give the same blocks at every call: first {len(self.blocks)}, now {number}")
