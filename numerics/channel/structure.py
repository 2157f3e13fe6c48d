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
    for number, part in enumerate(model.parts, start=1):
        roles = [[list(range(rows.start, rows.stop)) for rows in kind] for kind in part]
        groups.append(tuple(row for role in roles for block in role for row in block))
        shared += [tuple((row, row) for block in role for row in block) for role in roles]
        last = number > len(model.parts) - model.heads
        if len(roles) == 2 and not (last and model.seen_last):
            pairs = zip(*roles, strict=True)
            shared.append(tuple(pair for keys, queries in pairs for pair in zip(keys, queries, strict=True)))
    return Structure(tuple(groups), (*shared, *_exchanged(model)))


def _exchanged(model: Network) -> tuple[Entries, ...]:
    """Pairs of rows of a readout whose overlap does not vanish, which classes that may be exchanged share."""
    if model.chain is None or not model.chain.informed:
        return ()
    rows = range(model.parts[-1][0][0].start, model.parts[-1][0][0].stop)
    pairs = tuple((i, j) for i in rows for j in rows if i < j)
    return (pairs,) if pairs and not model.chain.shown.odd(model.noise > 0) else ()
