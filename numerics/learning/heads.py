"""Networks of several heads on data: the weights of a head meet every block of D/H coordinates of the tokens.

To the weights, shape (rows, D/H), a sample of M tokens of dimension D is one of M H tokens of dimension D/H: the blocks
of each token one after the other. Of one head nothing changes.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.errors import KernelNotFoundError
from ..model.network import Network
from ..posterior.protocol import Model, Sampled, Scores
from .blocks import Array, Floats

Whole = NDArray[np.int64]

__all__ = [
    "HeadScores",
    "blocks_of",
    "of_blocks",
    "require_one_head",
    "to_blocks",
    "to_indices",
    "weight_blocks",
    "weight_rows",
]


def weight_rows(model: Model) -> int:
    """Rows of the weights: one for each index, or for several heads one for all the blocks that it meets."""
    return model.weight_rows if isinstance(model, Network) else model.indices


def blocks_of(model: Model) -> int:
    """Blocks of coordinates of a token, as many as heads."""
    return model.heads if isinstance(model, Network) else 1


def weight_blocks(model: Model) -> list[tuple[str, slice]]:
    """Names and rows of the weights that are learned as one: layers, keys and queries, of each of several heads."""
    if not isinstance(model, Network) or model.heads == 1:
        return model.blocks
    found, first = [], 0
    for layer, rank in enumerate(model.ranks, start=1):
        where = "" if model.layers == 1 else f" of layer {layer}"
        for head in range(1, model.heads + 1):
            for kind in ("",) if model.tied else ("keys of ", "queries of "):
                found.append((f"{kind}head {head}{where}", slice(first, first + rank)))
                first += rank
    return found


def require_one_head(what: str, model: Model) -> None:
    """Refuse several heads where weights are taken for those of the indices.

    Raises
    ------
    KernelNotFoundError
        The model has several heads.
    """
    if blocks_of(model) > 1:
        raise KernelNotFoundError(
            f"{what} takes one head, got {model.describe()}; `gamp` from a random start takes more"
        )


def of_blocks(x: Floats, model: Model) -> Floats:
    """Samples of shape (N, M, D) as (N, M H, D/H); correlated tokens as the independent ones that they are made of."""
    if isinstance(model, Network) and model.chain is not None and model.chain.root is not None:
        return np.matmul(np.linalg.inv(model.chain.root).astype(x.dtype), x)
    heads = blocks_of(model)
    return x if heads == 1 else x.reshape(len(x), x.shape[1] * heads, x.shape[2] // heads)


def _places(model: Network) -> tuple[Whole, Whole]:
    """Of each index the row of the weights, and the block that it meets."""
    rows: list[int] = []
    blocks: list[int] = []
    first = 0
    for rank in model.ranks:
        for _ in range(model.heads * model.kinds):
            for block in range(model.heads):
                rows += range(first, first + rank)
                blocks += [block] * rank
            first += rank
    return np.array(rows), np.array(blocks)


def to_indices(h: Array, model: Model) -> Array:
    """Indices, shape (n, P, M), from projections of the blocks, shape (n, rows, M H)."""
    if not isinstance(model, Network) or model.heads == 1:
        return h
    rows, blocks = _places(model)
    apart = h.reshape(len(h), h.shape[1], model.tokens, model.heads)
    return np.ascontiguousarray(np.moveaxis(apart, 3, 2)[:, rows, blocks])


def to_blocks(g: Array, model: Model) -> Array:
    """Slopes in the projections of the blocks, shape (n, rows, M H), from those in the indices, shape (n, P, M)."""
    if not isinstance(model, Network) or model.heads == 1:
        return g
    rows, blocks = _places(model)
    apart = np.empty((len(g), model.weight_rows, model.heads, model.tokens))
    apart[:, rows, blocks] = g
    return np.ascontiguousarray(np.moveaxis(apart, 2, 3).reshape(len(g), model.weight_rows, -1))


class HeadScores:
    """Scores of the projections of the blocks, from those of the indices.

    Parameters
    ----------
    model : Network
    output : Scores
        Of the outputs of its indices.
    """

    def __init__(self, model: Network, output: Scores) -> None:
        self.rows = output.rows
        self._model, self.output = model, output
        self._row, self._block = _places(model)

    @property
    def noise(self) -> Array:
        """Products of the errors of the latest scores, of `Sampled` outputs; zero of others."""
        total = np.zeros((self._model.weight_rows,) * 2)
        if isinstance(self.output, Sampled):
            together = self._block[:, None] == self._block
            np.add.at(total, (self._row[:, None], self._row[None, :]), self.output.noise * together)
        return total

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score some of the outputs; omega has shape (n, rows, M H)."""
        row, block = self._row, self._block
        together = block[:, None] == block
        g, curvature = self.output(to_indices(omega, self._model), V[np.ix_(row, row)] * together, part)
        scores = to_blocks(g, self._model)
        if curvature is None:
            return scores, None
        total = np.zeros_like(V)
        np.add.at(total, (row[:, None], row[None, :]), curvature * together)
        return scores, total
