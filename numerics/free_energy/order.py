"""In which order stationary points are given: by their free entropy, and those of one free entropy by what they are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .stationary import StationaryPoint

__all__ = ["in_order"]

# Free entropies are sums of terms of order one: closer than this they differ by rounding.
_TIED = 1e-12
# Digits of overlaps by which equal points are ordered; distinct points are 1e-3 apart.
_DIGITS = 6


def in_order(points: Iterable[StationaryPoint]) -> tuple[StationaryPoint, ...]:
    """Stationary points, the one of the largest free entropy first.

    Of those that symmetry or a transition makes equal, stable ones come first, and then those of larger overlaps, from
    the first index on: rounding does not decide which maximum is named.
    """
    rest = sorted(points, key=lambda point: -point.free_entropy.value)
    out: list[StationaryPoint] = []
    while rest:
        top = rest[0].free_entropy.value
        tied = rest[:1]
        for point in rest[1:]:
            value = point.free_entropy.value
            if value == top or (math.isfinite(top) and top - value <= _TIED * max(1.0, abs(top))):
                tied.append(point)
        out += sorted(tied, key=lambda p: (not p.stable, (-p.overlap.diagonal().round(_DIGITS)).tolist()))
        rest = rest[len(tied) :]
    return tuple(out)
