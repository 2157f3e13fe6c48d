"""Structure of the overlap of a network: which entries symmetries leave, and what is learned together."""

from typing import NamedTuple

from ..model.network import Network

__all__ = ["Entries", "Structure", "normals_of", "structure"]

Entries = tuple[tuple[int, int], ...]


class Structure(NamedTuple):
    """Entries of the overlap that symmetries leave free.

    Attributes
    ----------
    groups : tuple of tuple of int
        Rows that are learned together: those of one head of one layer.
    shared : tuple of tuple of (int, int)
        Entries, i <= j, that have one value.
    """

    groups: tuple[tuple[int, ...], ...]
    shared: tuple[Entries, ...]


def normals_of(model: Network) -> int:
    """Normal numbers that one output is made of: the means of its indices, their deviations, and the noise."""
    return (2 * model.indices + model.noise_rows) * model.tokens


def structure(model: Network) -> Structure:
    """Structure of the overlap of a network.

    Every block of coordinates meets the same weights, so that the blocks of a head share its overlaps. Keys and queries
    may be rotated together: their overlap with each other is a multiple of the identity, too. In the last layer it
    stays zero where its attention is the output (the sign of the queries only renames scores), elsewhere it does not.
    """
    groups, shared = [], []
    start = 0
    for layer, rank in enumerate(model.ranks, start=1):
        for _ in range(model.heads):
            blocks = [[start + k * rank + i for i in range(rank)] for k in range(model.kinds * model.heads)]
            groups.append(tuple(row for block in blocks for row in block))
            roles = [blocks[k * model.heads : (k + 1) * model.heads] for k in range(model.kinds)]
            shared += [tuple((row, row) for block in role for row in block) for role in roles]
            if model.kinds == 2 and (layer < model.layers or model.output == "sequence"):
                pairs = zip(*roles, strict=True)
                shared.append(tuple(pair for keys, queries in pairs for pair in zip(keys, queries, strict=True)))
            start += len(groups[-1])
    return Structure(tuple(groups), tuple(shared))
