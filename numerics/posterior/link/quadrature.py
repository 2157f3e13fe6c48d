"""Integrals of 1, h and h h^T over the level sets and the regions of a user's link.

A `Piece` is a region with some entries of h known. Entries of the rest that neither the output nor a condition on
several entries holds are integrated in closed form; the others by branches y -> h (where the output varies) or over
the region (where it does not).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from ...model.links import Region
from .levels import LevelSets
from .rules import LineRule
from .volumes import Volumes
from .work import Work

__all__ = ["Piece", "by_label", "pieces"]


@dataclass(frozen=True)
class Piece(LevelSets, Volumes):
    """A region, with some entries of h known."""

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """Orders of integration that are open: the entry that is solved for comes first."""
        return [(u, *others) for u in self.solvable for others in permutations([i for i in self.active if i != u])]

    def ordered(self, order: tuple[int, ...]) -> "Piece":
        """The piece with an order of integration."""
        piece = replace(self, plan=order)
        return replace(piece, even=piece.smooth)

    def by_charts(self) -> "list[Piece]":
        """A piece for each entry that can be solved for, on its share of the level sets."""
        charts = tuple(self.solvable)
        orders = [(u, *(i for i in self.active if i != u)) for u in charts]
        return [replace(self, plan=order, charts=charts if len(charts) > 1 else ()) for order in orders]

    def planned(self, coarser: LineRule, finer: LineRule) -> "Piece":
        """The piece with the order of integration under which two rules agree best at a few y."""
        orders = self.orders
        if len(orders) == 1:
            return self
        rng = np.random.default_rng(0)
        h = {i: rng.normal(size=2000) for i in self.active}
        for i, x in h.items():
            low, high = self.limits(i)
            h[i] = x[(x > low) & (x < high)]
        count = min(len(x) for x in h.values())
        entries = self.entries({i: x[:count] for i, x in h.items()})
        ok = np.broadcast_to(self.inside(entries), (count,))
        y = np.broadcast_to(self.value(entries), (count,))[ok][:6]
        if not len(y):
            return self
        best, least = self, math.inf
        for order in orders:
            piece = self.ordered(order)
            coarse, fine = piece.density(y, coarser), piece.density(y, finer)
            size = np.abs(fine).max(axis=1, keepdims=True) + 1e-300
            difference = float((np.abs(coarse - fine) / size).max())
            # Only a clear gain is worth more branches.
            if difference < 0.3 * least:
                best, least = piece, difference
        return best


def pieces(
    regions: Sequence[Region], size: int, scope: tuple[int, ...], known: dict[int, float], work: Work
) -> list[Piece]:
    """Regions of a part of a link that the known entries allow, which share the work of one average."""
    made = []
    for region in regions:
        if all(region.interval(i)[0] < x < region.interval(i)[1] for i, x in known.items()):
            piece = Piece(region, size, scope, known, work=work)
            if piece.active or bool(np.all(piece.inside(piece.entries({})))):
                made.append(piece)
    return made


def by_label(parts: Sequence[Piece]) -> list[tuple[tuple[float | None, ...], list[Piece]]]:
    """Pieces with the same values of the outputs that do not vary: no others can have given the same y."""
    found: list[tuple[tuple[float | None, ...], list[Piece]]] = []
    for piece in parts:
        with np.errstate(all="ignore"):
            own = piece.label
        for label, group in found:
            if all(_same_value(a, b) for a, b in zip(label, own, strict=True)):
                group.append(piece)
                break
        else:
            found.append((own, [piece]))
    return found


def _same_value(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    # Two values of the link this close are one.
    same = 1e-11
    return math.isclose(a, b, rel_tol=same, abs_tol=same)
