"""A region of a user's link with some entries of h known: its bounds, and moments over what is left."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model.links import Region
from .rules import CUT, interval_moments
from .work import Work

__all__ = ["KnownRegion", "moment_column"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class KnownRegion:
    """A region, with some entries of h known.

    Attributes
    ----------
    region : Region
    size : int
        Number P M of entries.
    scope : tuple of int
        Entries whose moments are wanted, sorted.
    known : dict of int to float
    output : int
        The output to solve for.
    plan : tuple of int
        Entry to solve for, then the others, the innermost first; empty for the plain order.
    charts : tuple of int
        Entries each of which is solved for on a share of the level sets; empty where one is solved for everywhere.
    even : bool
        Level sets are smooth over all of the other entries: rules of even nodes serve.
    work : Work
        What is left of the work of the average that this piece is part of.
    """

    region: Region
    size: int
    scope: tuple[int, ...]
    known: dict[int, float]
    output: int = 0
    plan: tuple[int, ...] = ()
    charts: tuple[int, ...] = ()
    even: bool = False
    work: Work = field(default_factory=Work, compare=False, repr=False)

    @cached_property
    def rest(self) -> tuple[int, ...]:
        """Entries in the scope that are not known."""
        return tuple(i for i in self.scope if i not in self.known)

    @cached_property
    def width(self) -> int:
        """Number of moments: 1, the rest, and products of two of it."""
        return moment_column(len(self.rest), len(self.rest), len(self.rest))

    @cached_property
    def active(self) -> tuple[int, ...]:
        """Entries of the rest that need quadrature."""
        return tuple(i for i in self.region.active if i not in self.known)

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """Outputs that vary with the rest."""
        return tuple(k for k, used in enumerate(self.region.depends) if any(i not in self.known for i in used))

    @cached_property
    def label(self) -> tuple[float | None, ...]:
        """Values of the outputs that do not vary, None for the others."""
        values = self.region.output(self.entries({}))
        return tuple(None if k in self.varying else float(value) for k, value in enumerate(values))

    @cached_property
    def free(self) -> dict[int, tuple[float, float, float]]:
        """Integrals of 1, x, x^2 of the entries in no formula."""
        return {i: interval_moments(*self.region.interval(i)) for i in self.rest if i not in self.active}

    @cached_property
    def free_mass(self) -> float:
        """Probability of the bounds of the entries in no formula."""
        return math.prod(m[0] for m in self.free.values())

    def limits(self, entry: int) -> tuple[float, float]:
        """Interval of an entry, cut where the normal law ends."""
        low, high = self.region.interval(entry)
        return max(low, -CUT), min(high, CUT)

    def entries(self, values: dict[int, Array]) -> list[Array]:
        """All entries of h, with what is known filled in; NaN for those in no formula."""
        return [values[i] if i in values else np.array(self.known.get(i, math.nan)) for i in range(self.size)]

    def inside(self, entries: Sequence[Array], but: int | None = None) -> NDArray[np.bool_]:
        """Whether active entries lie in the region (conditions, and the bounds of the entry `but`)."""
        ok: NDArray[np.bool_] = np.asarray(True)
        if but is not None:
            low, high = self.region.interval(but)
            ok = (entries[but] > low) & (entries[but] < high)
        if self.region.conditions is not None:
            for value in self.region.conditions(entries):
                ok = ok & (np.asarray(value) > 0)
        return ok

    def moments(self, weight: Array, values: dict[int, Array], rows: IntArray, count: int) -> Array:
        """Sums by row of weight times (1, h_i, h_i h_j) over the rest, i <= j; shape (count, 1 + n + n(n+1)/2)."""

        def total(column: Array) -> Array:
            return np.asarray(np.bincount(rows, column, minlength=count), dtype=np.float64)

        mean = {i: (m[1] / m[0], m[2] / m[0]) for i, m in self.free.items()} if self.free_mass > 0 else {}
        sums: dict[tuple[int, ...], Array] = {(): total(weight)}
        for a, i in enumerate(self.active):
            first = weight * values[i]
            sums[(i,)] = total(first)
            for j in self.active[a:]:
                sums[(i, j)] = total(first * values[j])

        def entry(powers: tuple[int, ...]) -> Array:
            inner = tuple(sorted(i for i in powers if i not in self.free))
            outer = [i for i in powers if i in self.free]
            factor = 1.0
            if len(outer) == 2 and outer[0] == outer[1]:
                factor = mean[outer[0]][1]
            else:
                factor = math.prod(mean[i][0] for i in outer)
            return factor * sums[inner]

        if self.free_mass == 0:
            return np.zeros((count, self.width))
        columns = [entry(())] + [entry((i,)) for i in self.rest]
        columns += [entry((i, j)) for a, i in enumerate(self.rest) for j in self.rest[a:]]
        return self.free_mass * np.stack(columns, axis=1)


def moment_column(i: int, j: int, n: int) -> int:
    """Column of h_i h_j, i <= j, among the moments."""
    return 1 + n + i * n - i * (i - 1) // 2 + (j - i)
