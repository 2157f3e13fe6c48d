"""What a block is: it acts on the state of the tokens, symbolically.

After some blocks the tokens are X = B X_0 + E U / sqrt(D): X_0 are the tokens that enter, independent standard normal,
and the rows of U, in R^D and of norm sqrt(D), directions that blocks have added. B (M x M) and E (M x K) are functions
of the indices h = W X_0^T / sqrt(D) alone, and so is what later blocks see of the tokens: a row w has

    w X^T / sqrt(D) = h_w B^T + t_w E^T,   t_w = w U^T / D,

where t_w vanishes as D^{-1/2} unless the overlaps of w with U are planted. In the norm of a token the added directions
count for nothing: |x_m|^2 / D = (B B^T)_mm up to D^{-1/2}.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import sympy as sp

from ..attention import Mask
from ..straightline import Stage
from ..tape import Tape

__all__ = ["Block", "Direction", "Place", "State", "Weightless", "overlap_symbol", "row_symbols"]


def row_symbols(role: str, number: int, count: int, tokens: int) -> sp.Matrix:
    """Return the indices of a block, one real symbol ``<role><number>_<row>_<token>`` per entry."""
    return sp.Matrix(count, tokens, lambda k, m: sp.Symbol(f"{role}{number}_{k + 1}_{m + 1}", real=True))


class Direction(NamedTuple):
    """A row of U, whose overlaps with later rows are planted: the block that added it, and its number there."""

    block: int
    number: int


def overlap_symbol(direction: Direction, rows: tuple[int, str], row: int) -> sp.Symbol:
    """Return the planted overlap of a direction with a row of weights, whose block and letter are given."""
    number, role = rows
    return sp.Symbol(f"t{direction.block}_{direction.number}_{role}{number}_{row + 1}", real=True)


class Place(NamedTuple):
    """Where a block stands.

    Attributes
    ----------
    number : int
        In the list, from 1.
    tokens : int
        M.
    inputs : tuple of State
        What the blocks before received, in their order, and what this one receives.
    """

    number: int
    tokens: int
    inputs: "tuple[State, ...]"

    def rows(self, role: str, count: int) -> sp.Matrix:
        """Indices of the block, `count` x M."""
        return row_symbols(role, self.number, count, self.tokens)

    def constant(self, name: str, **assumptions: bool) -> sp.Symbol:
        """Constant of the block."""
        return sp.Symbol(f"{name}{self.number}", **(assumptions or {"positive": True}))

    def seen(self, tape: Tape, role: str, count: int) -> sp.Matrix:
        """What rows of weights see of the tokens that enter: h B^T + t E^T, `count` x M."""
        state, h = self.inputs[-1], self.rows(role, count)
        value = h * state.mixing.T
        if state.directions:
            value += self.overlaps(role, count) * state.added.T
        return sp.Matrix(
            count, self.tokens, lambda k, m: tape.put(f"{role}b{self.number}_{k + 1}_{m + 1}", value[k, m])
        )

    def overlaps(self, role: str, count: int) -> sp.Matrix:
        """Overlaps t of rows of weights with the directions added so far, `count` x K."""
        directions = self.inputs[-1].directions
        return sp.Matrix(count, len(directions), lambda k, j: overlap_symbol(directions[j], (self.number, role), k))


@dataclass(frozen=True)
class State:
    """The tokens X = B X_0 + E U / sqrt(D), and what is observed if nothing follows.

    Attributes
    ----------
    mixing : sympy.Matrix
        B, M x M.
    added : sympy.Matrix
        E, M x K.
    directions : tuple of Direction
        The rows of U.
    shown : sympy.Matrix or None
        What the latest block shows, if that is no function of the tokens that leave it: its attention, its readout.
    rows : tuple of (sympy.Matrix, Mask or None)
        Scores whose row-wise softmax that is.
    stages : tuple of Stage
        Of the attention before.
    scores : sympy.Matrix or None
        What an activation of one's own acts on, where its values are shown.
    """

    mixing: sp.Matrix
    added: sp.Matrix
    directions: tuple[Direction, ...] = ()
    shown: sp.Matrix | None = None
    rows: tuple[tuple[sp.Matrix, Mask | None], ...] = ()
    stages: tuple[Stage, ...] = ()
    scores: sp.Matrix | None = None

    def named(self, tape: Tape, number: int) -> "State":
        """The same with a name for every entry."""
        mixing, added = (
            sp.Matrix(*m.shape, lambda i, j, m=m, x=x: tape.put(f"{x}{number}_{i + 1}_{j + 1}", m[i, j]))
            for x, m in (("b", self.mixing), ("e", self.added))
        )
        return replace(self, mixing=mixing, added=added)


class Weightless:
    """What a block has that brings no indices and no numbers."""

    joins: ClassVar[bool] = False

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        """None."""
        return ()

    @property
    def constants(self) -> tuple[str, ...]:
        """None."""
        return ()


class Block(Protocol):
    """A block of a network.

    Attributes
    ----------
    joins : bool
        Whether it adds to what the block before gives, entry by entry, so that this needs no names of its own.
    """

    joins: ClassVar[bool]

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        """Indices that it brings: a letter and a number of rows for each kind."""

    @property
    def constants(self) -> tuple[str, ...]:
        """Names of its numbers, to which its place is added."""

    def apply(self, tape: Tape, place: Place) -> State:
        """State of the tokens behind it, from the last of `place.inputs`."""
