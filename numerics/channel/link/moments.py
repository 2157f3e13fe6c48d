"""Sums over the nodes of fibres of the Gaussians that they are blurred to, on a grid of xi."""

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
from numpy.typing import NDArray

from ...posterior.link.nodes import Nodes
from .axes import WINDOW, Axis
from .blur import AXES, Grids, blur

__all__ = ["CHUNK", "fibre_sums"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Sums that are found at once: what caches hold.
CHUNK = 300_000


def fibre_sums(nodes: Nodes, vectors: Array, axes: list[Axis], second: bool) -> Iterator[tuple[slice, Array]]:
    """Integrals of 1, h_a and, if wanted, h_a h_b, a <= b, with the density of xi: fibres, and theirs by moments.

    Parameters
    ----------
    nodes : Nodes
    vectors : ndarray, shape (k, k)
        Columns are the directions of the axes, along which h is taken.
    axes : list of Axis
        The one with most points last.
    second : bool

    Yields
    ------
    slice, ndarray of shape (fibres, moments, grid)
    """
    order: list[tuple[int, ...]] = [(), *((a,) for a in range(len(axes)))]
    if second:
        order += list(combinations_with_replacement(range(len(axes)), 2))
    exponents = np.array([[factors.count(a) for a in range(len(axes))] for factors in order])
    # Entries that are missing are those of axes of one point, before the others.
    points = nodes.points @ np.pad(vectors, ((0, 0), (AXES - len(axes), 0)))
    layered = sum(axis.size > 1 for axis in axes) == AXES
    most = max(1, CHUNK // (len(order) * math.prod(axis.size for axis in axes)))
    for begin in range(0, len(nodes.measure), most):
        ends = nodes.ends[begin : begin + most + 1]
        own = slice(ends[0], ends[-1])
        here, weight, ends = points[own], nodes.weight[own], ends - ends[0]
        sums = (_by_fibres if layered else _blurred)(ends, weight, here, axes, exponents)
        yield slice(begin, begin + len(ends) - 1), sums.reshape(*sums.shape[:2], -1)


def _blurred(ends: IntArray, weight: Array, points: Array, axes: list[Axis], exponents: IntArray) -> Array:
    """Sums of each set of nodes, shape (sets, moments, *grid), at points of shape (n, 3)."""
    missing = AXES - len(axes)
    out = blur(ends, weight, points, Grids.of(axes, WINDOW), np.pad(exponents, ((0, 0), (missing, 0))))
    return out.reshape(*out.shape[:2], *out.shape[2 + missing :])


def _by_fibres(ends: IntArray, weight: Array, points: Array, axes: list[Axis], exponents: IntArray) -> Array:
    """The same, where nodes of a fibre that share an entry are blurred along the others, then all along this one."""
    out = []
    for begin, end in pairwise(ends.tolist()):
        own = weight[begin:end], points[begin:end]
        found = _layers(*own, axes, exponents)
        out.append(_blurred(np.array([0, end - begin]), *own, axes, exponents)[0] if found is None else found)
    return np.stack(out)


def _layers(weight: Array, points: Array, axes: list[Axis], exponents: IntArray) -> Array | None:
    """Sums of one fibre, shape (moments, *grid), where its nodes share an entry."""
    # Nodes of a fibre beyond which layers are looked for, least mean number of nodes of one, and layers at once.
    few, layer, at_once = 500, 8, 16
    if len(points) <= few:
        return None
    shared = [np.unique(points[:, a]) for a in range(len(axes))]
    fewest = min(map(len, shared))
    if fewest * layer > len(points):
        return None
    a = next(a for a, values in enumerate(shared) if len(values) == fewest)
    others = [axis for b, axis in enumerate(axes) if b != a]
    number = np.searchsorted(shared[a], points[:, a])
    by_layer = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[by_layer], np.arange(fewest + 1))
    weight, rest = weight[by_layer], points[by_layer]
    rest[:, : a + 1] = np.roll(rest[:, : a + 1], 1, axis=1)
    kinds = np.array([key for key in product(range(3), repeat=2) if sum(key) <= exponents.sum(axis=1).max()])
    place = {tuple(key): k for k, key in enumerate(kinds.tolist())}
    out = np.zeros((len(exponents), axes[a].size, *(axis.size for axis in others)))
    for begin in range(0, fewest, at_once):
        values = shared[a][begin : begin + at_once]
        centre = math.sqrt(axes[a].known) * values
        window = axes[a].window(centre)
        density = axes[a].density(axes[a].points[window], centre)
        if not len(density):
            continue
        own = ends[begin : begin + len(values) + 1]
        nodes = slice(own[0], own[-1])
        stacked = _blurred(own - own[0], weight[nodes], rest[nodes], others, kinds)
        for k, powers in enumerate(exponents.tolist()):
            power = powers.pop(a)
            out[k][window] += np.tensordot(density * values**power, stacked[:, place[tuple(powers)]], 1)
    return np.moveaxis(out, 1, 1 + a)
