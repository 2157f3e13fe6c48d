"""A list of blocks as a model: its indices, constants, what it shows, and its forward pass."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .attention import Attention
from .correlation import Correlation, token_covariance
from .grammar import read_blocks
from .masks import as_mask
from .mlp import MLP
from .norm import Norm
from .protocol import Array, Block, Last, Shown, Tokens
from .readout import Output, Readout
from .residual import Residual

__all__ = ["Chain", "Rows", "chain_of"]


class Rows(NamedTuple):
    """Rows of weights of one kind: of which block, their letter, and where they are among all."""

    number: int
    role: str
    start: int
    size: int

    @property
    def slice(self) -> slice:
        """Where they are."""
        return slice(self.start, self.start + self.size)


def chain_of(blocks: str | Sequence[Block], tokens: int, covariance: str | ArrayLike | None = None) -> "Chain":
    """Return the list of blocks as it was given, after correlated tokens if there are any.

    Raises
    ------
    ValueError
        The list is empty or holds something else, shows nothing, or its parts do not fit each other.
    """
    made = read_blocks(blocks) if isinstance(blocks, str) else tuple(blocks)
    known = (Attention, Residual, Norm, MLP, Readout, Output, Correlation)
    for block in made:
        if not isinstance(block, known):
            raise ValueError(f"a block is one of al.blocks (Attention, Residual, Norm, ..), got {block!r}")
    if covariance is not None:
        matrix = token_covariance(covariance, tokens)
        if not np.array_equal(matrix, np.eye(tokens)):
            made = (Correlation(tuple(tuple(map(float, row)) for row in matrix)), *made)
    return Chain(tokens, made)


@dataclass(frozen=True)
class Chain:
    """Tokens that pass through blocks one after the other.

    Parameters
    ----------
    tokens : int
        M.
    blocks : tuple of Block

    Raises
    ------
    ValueError
        Nothing is shown at the end, something is shown before it, no weights are left to learn, or sizes do not fit.
    """

    tokens: int
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        """Check that the parts fit."""
        if not self.blocks or not isinstance(self.blocks[-1], Last):
            raise ValueError(
                "the last block must show something: an attention its weights, readout(..) what it reads, output(..) "
                "the tokens that leave"
            )
        if not self.rows:
            raise ValueError("a network needs a block with weights that read tokens: attention(..) or readout(..)")
        for number, block in enumerate(self.blocks, start=1):
            if isinstance(block, Last):
                shown = block.shown(self.tokens)
                if not shown.attention and number < len(self.blocks):
                    raise ValueError(f"{block.text()} shows what is observed: it must be the last block")
            if isinstance(block, Residual) and block.over >= number:
                raise ValueError(f"{block.text()} leads around {block.over} blocks, but {number - 1} are before it")
        for number, mlp in self._seen_mlps:
            later, given = sum(rows.size for rows in self.rows if rows.number > number), len(np.asarray(mlp.overlaps))
            if given != later:
                raise ValueError(
                    f"overlaps of {mlp.text()} must have a row for each of {later} later rows of weights, got {given}"
                )

    @property
    def _seen_mlps(self) -> list[tuple[int, MLP]]:
        """Places of the mlps whose overlaps are planted."""
        numbered = enumerate(self.blocks, start=1)
        return [(n, block) for n, block in numbered if isinstance(block, MLP) and block.overlaps is not None]

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """All rows of weights that read tokens, block by block."""
        found: list[Rows] = []
        start = 0
        for number, block in enumerate(self.blocks, start=1):
            for role, count in block.rows:
                found.append(Rows(number, role, start, count))
                start += count
        return tuple(found)

    @property
    def indices(self) -> int:
        """P."""
        return sum(rows.size for rows in self.rows)

    @cached_property
    def groups(self) -> tuple[tuple[Rows, ...], ...]:
        """Rows that are learned together: those of one block."""
        numbers = list(dict.fromkeys(rows.number for rows in self.rows))
        return tuple(tuple(rows for rows in self.rows if rows.number == number) for number in numbers)

    @property
    def names(self) -> list[tuple[str, slice]]:
        """Names and rows of the weights: of a layer, or keys and queries of it; of an mlp, a readout."""
        words = {"h": "layer {}", "k": "keys of layer {}", "q": "queries of layer {}", "a": "mlp {}", "w": "readout"}
        found = []
        for layer, group in enumerate(self.groups, start=1):
            found += [(words[rows.role].format(layer), rows.slice) for rows in group]
        return found

    @property
    def planted(self) -> bool:
        """Whether later weights have overlaps with what an mlp adds."""
        return bool(self._seen_mlps)

    @cached_property
    def constants(self) -> Array:
        """Numbers of all blocks, then the planted overlaps: mlp by mlp, for each of its rows all later rows."""
        own = [x for block in self.blocks for x in block.numbers(self.tokens)]
        for number, mlp in self._seen_mlps:
            table = np.asarray(mlp.overlaps)
            first = min(rows.start for rows in self.rows if rows.number > number)
            order = sorted(
                (rows.number, row, rows.role, rows.start - first + row)
                for rows in self.rows
                if rows.number > number
                for row in range(rows.size)
            )
            own += [float(table[place, j]) for j in range(mlp.width) for *_, place in order]
        return np.array(own)

    @property
    def request(self) -> dict[str, object]:
        """What derives it is told."""
        return {"tokens": self.tokens, "blocks": [block.request(self.tokens) for block in self.blocks]}

    @property
    def shown(self) -> Shown:
        """What is observed."""
        last = self.blocks[-1]
        assert isinstance(last, Last)
        return last.shown(self.tokens)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which entries of an output its rows have, in the shape of the output."""
        found = self.shown
        return np.ones(found.shape, dtype=bool) if found.mask is None else np.array(found.mask)

    @property
    def informed(self) -> bool:
        """Whether outputs inform of the last rows at once: what a readout shows is linear in its weights."""
        return bool(self.shown.read)

    @property
    def log_unit(self) -> float:
        """Logarithm of the unit of the means of the last queries, which untied softmax layers do not show.

        B 1 = kappa 1 where all before are softmax layers and residuals; elsewhere no mean is left out.
        """
        last, kinds = self.rows[-1], {block.kind for block in self.blocks}
        layers = [block for block in self.blocks if type(block) is Attention]
        if last.role != "q" or kinds & {"norm", "correlation"} or any(x.activation != "softmax" for x in layers):
            return 0.0
        states = [Tokens(np.ones((1, self.tokens, 1)))]
        for block in self.blocks[:-1]:
            roles = (*block.rows, ("a", 1), ("u", 1)) if type(block) is MLP else block.rows
            states.append(block.forward(states, {role: np.zeros((count, 1)) for role, count in roles}))
        kappa = float(states[-1].x[0, 0, 0])
        return last.size * (math.log(abs(kappa) * self.tokens) - 0.5 * math.log(self.tokens))

    def fixed(self, rows: slice) -> bool:
        """Whether no change of sign or rotation of these rows leaves the outputs as they are.

        Those of a readout, and of all that planted overlaps tie together.
        """
        own = next(part for part in self.rows if part.slice == rows)
        return own.role in ("a", "w") or any(own.number > number for number, _ in self._seen_mlps)

    def text(self) -> str:
        """The list in the words of the command line."""
        return " | ".join(text for block in self.blocks if (text := block.text()))

    @property
    def covariance(self) -> tuple[tuple[float, ...], ...] | None:
        """Covariance of the tokens, None where they are independent."""
        first = self.blocks[0]
        return first.covariance if isinstance(first, Correlation) else None

    @cached_property
    def root(self) -> Array | None:
        """Symmetric root of that, shape (M, M)."""
        first = self.blocks[0]
        return first.root if isinstance(first, Correlation) else None

    def plain(self) -> dict[str, object] | None:
        """Arguments of a `Network` without a list that is this one: tied or untied layers around which residuals lead.

        None if there is none.
        """
        blocks = list(self.blocks)
        sequence = isinstance(blocks[-1], Output) and blocks[-1].token is None
        if sequence:
            blocks.pop()
        layers = [block for block in blocks if type(block) is Attention]
        skips = [block for block in blocks if isinstance(block, Residual)]
        wanted = [kind for _ in layers for kind in (Attention, Residual)]
        if not layers or [type(block) for block in blocks] != (wanted if sequence else wanted[:-1]):
            return None
        first = layers[0]
        same = all((x.tied, x.beta, x.activation) == (first.tied, first.beta, first.activation) for x in layers)
        seen = all(as_mask(x.mask, self.tokens) is None for x in layers)
        strengths = {(x.strength, x.over) for x in skips} or {(1.0, 1)}
        if not same or not seen or len(strengths) > 1 or next(iter(strengths))[1] != 1:
            return None
        return {
            "layers": len(layers),
            "rank": tuple(x.rank for x in layers),
            "skip": next(iter(strengths))[0],
            "beta": first.beta,
            "activation": first.activation,
            "tied": first.tied,
            "output": "sequence" if sequence else "last",
        }

    def forward(self, x: Array, weights: Array, directions: Sequence[Array]) -> Array:
        """Run the blocks by their definition.

        Parameters
        ----------
        x : ndarray, shape (..., D, M)
            Independent tokens as columns.
        weights : ndarray, shape (P, D)
            Of all rows that read tokens and are seen.
        directions : sequence of ndarray, shape (k, D)
            U of every mlp in its order; of one whose overlaps are not planted A above U, shape (2 k, D).

        Returns
        -------
        ndarray
            What is shown; tokens and their mean as columns, shape (..., D, M) or (..., D, 1).
        """
        states = [Tokens(np.swapaxes(x, -1, -2))]
        left = list(directions)
        for number, block in enumerate(self.blocks, start=1):
            own = {rows.role: weights[rows.slice] for rows in self.rows if rows.number == number}
            if isinstance(block, MLP) and block.width:
                own["u"] = left.pop(0)
                if not block.rows:
                    own["a"], own["u"] = own["u"][: block.width], own["u"][block.width :]
            states.append(block.forward(states, own))
        shown = states[-1].shown
        assert shown is not None
        return np.swapaxes(shown, -1, -2) if self.shown.tokens else shown
