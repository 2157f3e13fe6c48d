"""What a block of a network is to the numerics: its numbers, its words, and what it does to given tokens."""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Block", "Shown", "Tokens"]

Array = NDArray[np.float64]


class Tokens(NamedTuple):
    """Tokens at finite dimension, and what the latest block shows of them.

    Attributes
    ----------
    x : ndarray, shape (n, M, D)
        Tokens as rows.
    shown : ndarray or None
        Its attention, or what it reads.
    """

    x: Array
    shown: Array | None = None


class Shown(NamedTuple):
    """What a network shows through its last block.

    Attributes
    ----------
    shape : tuple of int
        Of one output.
    softmax : bool
        Whether its rows are those of a softmax, the scores of which noise is added to; else noise is on every entry.
    tokens : bool
        Whether it is the tokens that leave the network.
    """

    shape: tuple[int, int]
    softmax: bool
    tokens: bool = False

    def noise_rows(self, tokens: int) -> int:
        """Rows of M independent numbers that the noise of one output is made of."""
        rows, columns = self.shape
        count = rows * (columns - self.softmax)
        return -(-count // tokens)


class Block(Protocol):
    """A block of a network.

    Attributes
    ----------
    kind : str
        Its name, in the words of the command line and for what derives it.
    """

    kind: ClassVar[str]

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """Weights that read tokens: a letter and a number of rows for each kind of them."""

    def request(self, tokens: int) -> dict[str, object]:
        """Its parameters that change the derivation, as JSON holds them."""

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """Its constants, in the order of the derivation."""

    def text(self) -> str:
        """It in the words of the command line."""

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """Tokens behind it, by definition: from what it and the blocks before received, and its weights."""
