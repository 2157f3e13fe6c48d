"""Arrays that nodes on a chart and steps to its peaks use anew: those of one point, and those of eight at once.

Numbers of eight nodes stand in flat arrays, those of all for one coordinate or entry after those for the one before
(`generated.lanes`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.lanes import LANES

from ...arithmetic.references import lend
from .layout import Layout

__all__ = ["Block", "Lanes", "Scratch", "new_scratch"]

Array = NDArray[np.float64]
#: Eight numbers, which compiled code holds in a register; Python has none.
Lanes = Any


class Block(NamedTuple):
    """Numbers of eight nodes.

    Attributes
    ----------
    z : ndarray, shape (F LANES,)
        Coordinates.
    work : ndarray, shape (F LANES,)
        A number by coordinate.
    entries : ndarray
        Coordinates as a chart takes them, then the signs.
    h, modes : ndarray, shape (P M LANES,)
        Indices, and their modes over the tokens.
    kept : ndarray, shape (LANES,)
        1 for nodes that count, 0 for those that left the range of a variable.
    weight : ndarray, shape (LANES,)
        A number by node.
    sums : ndarray, shape ((1 + k) LANES,)
        Mass, sum of the modes and of their products, by lane.
    """

    z: Array
    work: Array
    entries: Array
    h: Array
    modes: Array
    kept: Array
    weight: Array
    sums: Array


def _new_block(layout: Layout) -> Block:
    """Arrays for one chart; coordinates are zero."""
    tokens, free = len(layout.modes), layout.dimension
    size = len(layout.free) * tokens
    entries = len(layout.hidden) * tokens + len(layout.kinds) + layout.signs
    counts = free, free, entries, size, size, 1, 1, 1 + size + size * (size + 1) // 2
    return Block(*(np.zeros(count * LANES) for count in counts))


class Scratch(NamedTuple):
    """Arrays that every node and every step to a peak uses anew.

    Attributes
    ----------
    entries : ndarray
        Coordinates as a chart takes them.
    told : ndarray
        Variables and signs as it gives them.
    h, modes, moved, middle : ndarray, shape (P, M)
        Indices, their modes over the tokens, a product, and modes at the middle of a difference.
    z, signs, data, work : ndarray
        Coordinates, signs, what an output fixes, and numbers by coordinate.
    gradient, trial : ndarray, shape (F,)
    tangent : ndarray, shape (P, M, F)
        Derivatives of the modes.
    hessian, factor : ndarray, shape (F, F)
    block : Block
        Of nodes or of neighbours of a point.
    """

    entries: Array
    told: Array
    h: Array
    modes: Array
    moved: Array
    middle: Array
    z: Array
    signs: Array
    data: Array
    work: Array
    gradient: Array
    trial: Array
    tangent: Array
    hessian: Array
    factor: Array
    block: Block


def new_scratch(layout: Layout) -> Scratch:
    """Arrays for one chart."""
    shape, free, variables = (len(layout.free), len(layout.modes)), layout.dimension, len(layout.kinds)
    vector, square = (free,), (free, free)
    return Scratch(
        entries=np.empty(len(layout.hidden) * shape[1] + variables + layout.signs),
        told=np.empty(variables + layout.signs),
        h=np.empty(shape),
        modes=np.empty(shape),
        moved=np.empty(shape),
        middle=np.empty(shape),
        z=np.empty(vector),
        signs=np.empty(layout.signs),
        data=np.empty(layout.data),
        work=np.empty(vector),
        gradient=np.empty(vector),
        trial=np.empty(vector),
        tangent=np.empty((*shape, free)),
        hessian=np.empty(square),
        factor=np.empty(square),
        block=lend(_new_block(layout)),
    )
