"""Adaptive integration of a vector-valued function over intervals at whose start it may be singular."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...quadrature.rules import gauss_legendre

__all__ = ["adaptive"]

Array = NDArray[np.float64]

# Units of rounding in x - start that a panel may see: its innermost node lies at 1% of its end.
_ROUNDING = 200 * np.finfo(float).eps


def adaptive(
    f: Callable[[Array], Array],
    start: Array,
    end: Array,
    least: Array,
    tolerance: float,
    *,
    order: int = 10,
    depth: int = 24,
    most: int = 60_000,
) -> tuple[Array, Array]:
    """Integrate a vector-valued function over intervals that are dense towards `start`, refining where needed.

    Parameters
    ----------
    f : callable
        Maps points, shape (n,), to values, shape (n, k).
    start, end, least : ndarray, shape (m,)
        x = start + (end - start) t^2, with t from 0 to 1 in panels that grow threefold from `least`.
    tolerance : float
        Largest difference of a panel against its halves, in units of the function's own scale one.
    order, depth, most : int
        Nodes per panel, most halvings, most panels.

    Returns
    -------
    value, error : ndarray, shape (k,)
        The error is the sum of the last differences.
    """
    origin: list[float] = []
    length: list[float] = []
    low: list[float] = []
    high: list[float] = []
    for a, b, small in zip(start, end, least, strict=True):
        edges = [0.0, float(small)]
        while edges[-1] < 1 / 3:
            edges.append(3 * edges[-1])
        edges[-1] = 1.0
        for left, right in pairwise(edges):
            origin.append(a)
            length.append(b - a)
            low.append(left)
            high.append(right)
    nodes, weights = gauss_legendre(order)

    def panels(o: Array, span: Array, t0: Array, t1: Array) -> Array:
        t = 0.5 * (t0 + t1)[:, None] + 0.5 * (t1 - t0)[:, None] * nodes
        x = o[:, None] + span[:, None] * t**2
        w = np.abs(span)[:, None] * 2 * t * 0.5 * (t1 - t0)[:, None] * weights
        values = f(x.ravel())
        return np.asarray(np.einsum("nq,nqk->nk", w, values.reshape(*x.shape, -1)))

    o, span, t0, t1 = np.array(origin), np.array(length), np.array(low), np.array(high)
    whole = panels(o, span, t0, t1)
    value = np.zeros(whole.shape[1])
    error = np.zeros(whole.shape[1])
    used = len(o)
    for level in range(depth):
        middle = 0.5 * (t0 + t1)
        o2, span2 = np.concatenate([o, o]), np.concatenate([span, span])
        a, b = np.concatenate([t0, middle]), np.concatenate([middle, t1])
        parts = panels(o2, span2, a, b)
        used += len(a)
        n = len(o)
        difference = np.abs(whole - parts[:n] - parts[n:])
        # Near a start that is not zero, x - start is rounded: halving does not help against that.
        rounding = _ROUNDING * np.abs(o) / (np.abs(span) * t1**2) * np.abs(whole).max(axis=1)
        again = difference.max(axis=1) > np.maximum(tolerance, rounding)
        if level == depth - 1 or used > most:
            again[:] = False
        done = ~again
        value += (parts[:n] + parts[n:])[done].sum(axis=0)
        error += difference[done].sum(axis=0)
        if not again.any():
            break
        twice = np.concatenate([again, again])
        o, span, t0, t1, whole = o2[twice], span2[twice], a[twice], b[twice], parts[twice]
    return value, error
