"""Rectangles in the plane, rows of (left, bottom, width, height)."""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["chunks", "edges", "halves", "product", "refine"]

Array = NDArray[np.float64]


def chunks(n: int, size: int = 512) -> list[slice]:
    """Slices of so many rectangles at most."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def edges(radius: float, axis: float) -> Array:
    """Intervals of [-radius, radius], one edge near `axis` if that is inside: there the kernel changes fastest.

    Edges are multiples of a power of two, so that halving is exact and neighbours share their edge to the last bit:
    a gap of one rounding between them would cost 1e-16 of the width of a narrow posterior, whatever the digits.
    """
    # Rectangles at the start, per axis.
    coarse = 4
    cuts = np.linspace(-radius, radius, coarse + 1)
    if abs(axis) < radius:
        below = min(coarse - 1, max(1, round(coarse * (axis + radius) / (2 * radius))))
        cuts = np.append(np.linspace(-radius, axis, below + 1), np.linspace(axis, radius, coarse + 1 - below)[1:])
    unit = 2.0 ** (math.floor(math.log2(radius)) - 11)
    cuts = np.round(cuts / unit)
    cuts[0] -= 1
    cuts[-1] += 1
    return unit * np.unique(cuts)


def refine(cuts: Array, parts: int) -> Array:
    """Edges with every interval cut into equal parts."""
    fractions = np.arange(parts) / parts
    inner = cuts[:-1, None] + np.diff(cuts)[:, None] * fractions
    return np.append(inner.ravel(), cuts[-1])


def product(xs: Array, ys: Array) -> Array:
    """Rectangles between the edges, rows of (left, bottom, width, height), the second axis running faster."""
    left, bottom = np.meshgrid(xs[:-1], ys[:-1], indexing="ij")
    width, height = np.meshgrid(np.diff(xs), np.diff(ys), indexing="ij")
    return np.stack([left, bottom, width, height], axis=-1).reshape(-1, 4)


def halves(boxes: Array, axis: int) -> Array:
    """Return the first halves of rectangles along an axis, then the second ones."""
    first = boxes.copy()
    first[:, 2 + axis] *= 0.5
    second = first.copy()
    second[:, axis] += first[:, 2 + axis]
    return np.concatenate([first, second])
