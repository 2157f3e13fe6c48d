"""A stationary point of Phi, and the order of several: by free entropy; those of one free entropy by what they are."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.results import Estimate, Result

__all__ = ["StationaryPoint", "in_order"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class StationaryPoint(Result):
    """A stationary point of Phi, which is a fixed point of the state evolution.

    Attributes
    ----------
    overlap, overlap_error : ndarray, shape (P, P)
    free_entropy : Estimate
        Phi(q) - Phi(0); +inf or -inf where it diverges towards recovery.
    kind : {"maximum", "saddle", "minimum", "recovered"}
        By the Hessian of Phi, qhat at its infimum; "recovered": an overlap at one.
    eigenvalues : ndarray
        Of the Hessian by the overlaps of the groups, largest first; empty if recovered.
    stable : bool
        Under state evolution.
    residual : float
        Largest |F(q) - q|, to first order.
    """

    overlap: Array
    overlap_error: Array
    free_entropy: Estimate
    kind: str
    eigenvalues: Array
    stable: bool
    residual: float


def in_order(points: Iterable[StationaryPoint]) -> tuple[StationaryPoint, ...]:
    """Stationary points, the one of the largest free entropy first.

    Of those that symmetry or a transition makes equal, stable ones come first, and then those of larger overlaps, from
    the first index on: rounding does not decide which maximum is named.
    """
    rest = sorted(points, key=lambda point: -point.free_entropy.value)
    out: list[StationaryPoint] = []
    # Digits of overlaps by which equal points are ordered; distinct points are 1e-3 apart.
    digits = 6
    while rest:
        top = rest[0].free_entropy.value
        tied = rest[:1]
        for point in rest[1:]:
            value = point.free_entropy.value
            # Free entropies are sums of terms of order one: closer than this they differ by rounding.
            if value == top or (math.isfinite(top) and top - value <= 1e-12 * max(1.0, abs(top))):
                tied.append(point)
        out += sorted(tied, key=lambda p: (not p.stable, (-p.overlap.diagonal().round(digits)).tolist()))
        rest = rest[len(tied) :]
    return tuple(out)
