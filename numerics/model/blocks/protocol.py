"""What a block of a network is to the numerics: its numbers, its words, and what it does to given tokens."""

from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..activations import Activation
from .masks import Mask

__all__ = ["Array", "Block", "Last", "Shown", "Tokens"]

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
    activation : str or ScoreFunction
        What acts last on what is shown: of a softmax noise is added to the scores, else to every entry.
    mask : tuple of tuple of bool, optional
        Which entries the rows of an attention have.
    charted : bool
        Whether what an output without noise leaves open of the indices may have coordinates.
    tokens : bool
        Whether it is the tokens that leave the network, or their mean.
    read : {"", "linear", "values", "shares"}
        Of a readout with weights, in which outputs are linear, what it shows of each of its rows: the number itself,
        a function of it, or a share among all.
    """

    shape: tuple[int, int]
    activation: Activation
    mask: Mask | None = None
    charted: bool = True
    tokens: bool = False
    read: str = ""

    @property
    def softmax(self) -> bool:
        """Whether rows are those of a softmax."""
        return self.activation == "softmax"

    @property
    def attention(self) -> bool:
        """Whether it is the attention of the last block."""
        return not self.read and not self.tokens

    def noise_rows(self, tokens: int) -> int:
        """Rows of M independent numbers that the noise of one output is made of."""
        rows, columns = self.shape
        count = rows * (columns - self.softmax)
        return -(-count // tokens)

    def odd(self, noisy: bool) -> bool:
        """Whether changing the sign of one row of a readout changes signs of what it shows alone."""
        # Without noise a monotone function shows what the linear one does.
        return self.read == "linear" or (self.read == "values" and (self.activation == "linear" or not noisy))


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


@runtime_checkable
class Last(Block, Protocol):
    """A block that shows something if it is the last one."""

    def shown(self, tokens: int) -> Shown:
        """What it shows of M tokens.

        Raises
        ------
        ValueError
            It is of another number of tokens.
        """
