"""A network as a list of blocks, and its link: the third model beside `Architecture` and a link of one's own."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from ..links.activation import read_activation
from ..shown import in_html
from ..straightline import Recorded, record
from ..tape import Tape
from .attention import Attention
from .correlation import Correlation
from .mlp import MLP
from .norm import Norm
from .output import Output
from .protocol import Block, Direction, Place, State, overlap_symbol, row_symbols
from .readout import Readout
from .residual import Residual

__all__ = ["Composition", "composition_of"]

#: Blocks by their names: a new one is a file and a line of these.
_KINDS = {
    "attention": Attention,
    "correlation": Correlation,
    "mlp": MLP,
    "norm": Norm,
    "output": Output,
    "readout": Readout,
    "residual": Residual,
}


@in_html
@dataclass(frozen=True)
class Composition:
    """Tokens that pass through blocks one after the other, as a sequence multi-index model.

    Parameters
    ----------
    tokens : int
        M >= 2.
    blocks : tuple of Block
        The last one shows what is observed: an attention its matrix, an `Output` tokens, a `Readout` what it reads.

    Raises
    ------
    ValueError
        Nothing is observed, or a residual leads around more blocks than there are.
    """

    tokens: int
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if not self.blocks or type(self.blocks[-1]) not in (Attention, Output, Readout):
            raise ValueError("the last block must show something: an attention, an output of tokens or a readout")
        for number, block in enumerate(self.blocks, start=1):
            if isinstance(block, Residual) and block.over >= number:
                raise ValueError(f"residual {number} leads around {block.over} blocks, but {number - 1} are before it")

    @property
    def name(self) -> str:
        """A name that tells apart any two of them."""
        return f"blocks_m{self.tokens}_{hashlib.sha256(repr(self.blocks).encode()).hexdigest()[:12]}"

    @property
    def title(self) -> str:
        """Its blocks."""
        return f"{', '.join(type(block).__name__.lower() for block in self.blocks)}, M = {self.tokens}"

    @property
    def indices(self) -> int:
        """P, the rows of all weights that read tokens."""
        return sum(count for block in self.blocks for _, count in block.roles)

    @property
    def constants(self) -> tuple[sp.Symbol, ...]:
        """Those of the blocks in their order, then the planted overlaps: mlp by mlp, for each unit all later rows."""
        own: list[sp.Symbol] = []
        planted: list[sp.Symbol] = []
        for number, block in enumerate(self.blocks, start=1):
            place = self._place(number, ())
            own += [
                place.constant(name, **({"real": True} if name.startswith("root") else {})) for name in block.constants
            ]
            if isinstance(block, MLP) and block.planted:
                later = sorted(
                    (n, row, role)
                    for n, other in enumerate(self.blocks[number:], start=number + 1)
                    for role, count in other.roles
                    for row in range(count)
                )
                units = (Direction(number, j + 1) for j in range(block.width))
                planted += [overlap_symbol(unit, (n, role), row) for unit in units for n, row, role in later]
        return (*own, *planted)

    @property
    def free_means(self) -> tuple[int, ...]:
        """Rows of h, from 0, whose mean over the tokens the output does not depend on.

        Queries of softmax layers, as long as B 1 is a multiple of 1: norms and correlated tokens spoil that.
        """
        kinds = [isinstance(block, Norm | Correlation) for block in self.blocks]
        layers = [block for block in self.blocks if type(block) is Attention]
        if any(kinds) or any(block.activation != "softmax" for block in layers):
            return ()
        free: list[int] = []
        start = 0
        for block in self.blocks:
            for role, count in block.roles:
                free += range(start, start + count) if role == "q" else ()
                start += count
        return tuple(free)

    def index_matrices(self) -> tuple[sp.Matrix, ...]:
        """Symbols of the indices, block by block."""
        return tuple(
            row_symbols(role, number, count, self.tokens)
            for number, block in enumerate(self.blocks, start=1)
            for role, count in block.roles
        )

    def before(self, tape: Tape, count: int) -> tuple[State, ...]:
        """What the first blocks receive on a tape, and what the last of these gives."""
        size = self.tokens
        states = [State(sp.eye(size), sp.zeros(size, 0))]
        for number, block in enumerate(self.blocks[:count], start=1):
            if not block.joins:
                states[-1] = states[-1].named(tape, number - 1)
            states.append(block.apply(tape, self._place(number, tuple(states))))
        return tuple(states)

    def _place(self, number: int, inputs: tuple[State, ...]) -> Place:
        return Place(number, self.tokens, inputs)


@record.register
def _(model: Composition, tape: Tape) -> Recorded:
    last = model.before(tape, len(model.blocks))[-1]
    seen = last.shown
    assert seen is not None
    shown = sp.Matrix(*seen.shape, lambda i, j: tape.put(f"shown_{i + 1}_{j + 1}", seen[i, j]))
    return Recorded(shown, last.stages, last.rows, last.scores)


def composition_of(tokens: int, blocks: Sequence[Mapping[str, Any]]) -> Composition:
    """Return the network of a request: of each block its kind, and its parameters by their names.

    Parameters
    ----------
    tokens : int
    blocks : sequence of mapping
        As JSON holds them: {"kind": "attention", "rank": 1, "mask": [[true, false], [true, true]]}.

    Raises
    ------
    ValueError
        A block is not known, or an activation cannot be read.
    """
    made = []
    for told in blocks:
        kind = _KINDS.get(told["kind"])
        if kind is None:
            raise ValueError(f"a block is one of {', '.join(sorted(_KINDS))}, got {json.dumps(told['kind'])}")
        values = {name: value for name, value in told.items() if name != "kind"}
        if isinstance(values.get("activation"), str):
            values["activation"] = read_activation(values["activation"])
        if values.get("mask") is not None:
            values["mask"] = tuple(tuple(bool(x) for x in row) for row in values["mask"])
        made.append(kind(**values))
    return Composition(tokens, tuple(made))
