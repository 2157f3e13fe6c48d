"""Parts of the user's own links, which share no entry of h, and the regions on which they are smooth."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..core.shown import few_lines

__all__ = ["Part", "Region", "joined"]

Array = NDArray[np.float64]
Entries = Sequence[Array]
Solve = Callable[[Array, Entries], tuple[Array, ...]]


@few_lines
@dataclass(frozen=True)
class Region:
    """Part of the space of h on which the link is smooth; entries of h are counted token by token.

    Attributes
    ----------
    bounds : dict
        Open intervals of single entries.
    depends : tuple of tuple of int
        Entries in each output.
    active : tuple of int
        Entries in an output or in a condition on several entries.
    output : callable
        Outputs from the entries.
    conditions : callable or None
        Functions of the entries, all positive on the region.
    branches : tuple of dict
        For each output, and each of its entries: how many solutions of y = g(h) in closed form, the solutions (NaN
        where not real; None if there are none), and the slope dg/dh.
    critical : tuple of tuple of float
        Values of each output at which densities are not smooth.
    centres : dict
        Values of entries at critical points.
    nondegenerate : bool
        Whether the region is the whole space, and its one output a polynomial whose critical points are nondegenerate.
    """

    bounds: dict[int, tuple[float, float]]
    depends: tuple[tuple[int, ...], ...]
    active: tuple[int, ...]
    output: Callable[[Entries], tuple[Array, ...]]
    conditions: Callable[[Entries], tuple[Array, ...]] | None
    branches: tuple[dict[int, tuple[int, Solve | None, Callable[[Entries], tuple[Array]]]], ...]
    critical: tuple[tuple[float, ...], ...]
    centres: dict[int, tuple[float, ...]]
    nondegenerate: bool

    def interval(self, entry: int) -> tuple[float, float]:
        """Bounds of one entry."""
        return self.bounds.get(entry, (-math.inf, math.inf))


@few_lines
@dataclass(frozen=True)
class Part:
    """Outputs that share no entry of h with the others.

    Attributes
    ----------
    outputs : tuple of int
        Their numbers.
    entries : tuple of int
        Entries of h in them.
    fixed : bool
        Whether y fixes h h^T on these entries, and not the sign of h: then no branches are needed.
    direction : tuple of float
        If not empty, a unit vector over these entries: it fixes only the square along it.
    regions : tuple of Region
    """

    outputs: tuple[int, ...]
    entries: tuple[int, ...]
    fixed: bool
    direction: tuple[float, ...]
    regions: tuple[Region, ...]


def joined(parts: Sequence[Part]) -> Part:
    """One part of several whose outputs are discrete, on the products of their regions.

    Examples
    --------
    >>> import attnlimits as al
    >>> both = joined(al.Link("sign(h[1]); abs(sign(h[2]) + 1)").kernel.parts)
    >>> both.entries, len(both.regions)
    ((0, 1), 4)
    """
    if len(parts) == 1:
        return parts[0]
    return Part(
        outputs=tuple(number for part in parts for number in part.outputs),
        entries=tuple(sorted(entry for part in parts for entry in part.entries)),
        fixed=False,
        direction=(),
        regions=tuple(_product(regions) for regions in product(*(part.regions for part in parts))),
    )


def _product(regions: Sequence[Region]) -> Region:
    """All of them at once: regions of different entries, on which outputs do not vary."""
    conditional = [region.conditions for region in regions if region.conditions is not None]

    def output(h: Entries) -> tuple[Array, ...]:
        return tuple(value for region in regions for value in region.output(h))

    def conditions(h: Entries) -> tuple[Array, ...]:
        return tuple(value for one in conditional for value in one(h))

    return Region(
        bounds={entry: ends for region in regions for entry, ends in region.bounds.items()},
        depends=tuple(used for region in regions for used in region.depends),
        active=tuple(sorted({entry for region in regions for entry in region.active})),
        output=output,
        conditions=conditions if conditional else None,
        branches=tuple(branch for region in regions for branch in region.branches),
        critical=tuple(values for region in regions for values in region.critical),
        centres={entry: values for region in regions for entry, values in region.centres.items()},
        nondegenerate=False,
    )
