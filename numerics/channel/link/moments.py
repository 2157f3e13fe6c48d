"""Sums over the nodes of a fibre of the Gaussians that they are blurred to, on a grid of xi."""

import math
from collections.abc import Iterator
from functools import reduce
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
from numpy.typing import NDArray

from ...posterior.link.fibred import Fibre
from .axes import REACH, WINDOW, Axis
from .layers import blurred_layers

__all__ = ["CHUNK", "fibre_sums"]

Array = NDArray[np.float64]

# Side of the boxes of nodes that are blurred together, in standard deviations of the blur.
_BOX = 10.0
#: Nodes times points of a grid at once, which bounds the memory; and so many times as many of all moments of an axis.
CHUNK = 4_000_000
_MOMENTS = 8
# Nodes of a fibre beyond which layers are looked for, least mean number of nodes of one, and layers at once.
_FEW, _LAYER, _AT_ONCE = 500, 8, 16


def fibre_sums(fibre: Fibre, points: Array, axes: list[Axis], second: bool) -> Array:
    """Integrals of 1, h_a and, if wanted, h_a h_b, a <= b, with the density of xi, shape (moments, grid)."""
    k = len(axes)
    found = _moments(fibre.weight, points, axes, 2 if second else 1)
    order: list[tuple[int, ...]] = [(), *((a,) for a in range(k))]
    if second:
        order += list(combinations_with_replacement(range(k), 2))
    return np.stack([found[tuple(factors.count(a) for a in range(k))].ravel() for factors in order])


def _moments(weight: Array, points: Array, axes: list[Axis], order: int) -> dict[tuple[int, ...], Array]:
    """Integrals of all products of powers of h with the density of xi, up to some order, by their exponents.

    Nodes that share an entry are a layer: they are blurred along the other axes first, and all layers along this one.
    """
    shared = [np.unique(points[:, a]) for a in range(len(axes))] if len(axes) > 1 and len(points) > _FEW else []
    fewest = min(map(len, shared), default=len(points))
    if fewest * _LAYER > len(points):
        return _of_nodes(weight, points, axes, order)
    a = next(a for a, values in enumerate(shared) if len(values) == fewest)
    others = [axis for b, axis in enumerate(axes) if b != a]
    number = np.searchsorted(shared[a], points[:, a])
    by_layer = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[by_layer], np.arange(fewest + 1))
    weight, rest = weight[by_layer], np.delete(points, a, axis=1)[by_layer]
    out = {
        (*key[:a], power, *key[a:]): np.zeros((axes[a].size, *(axis.size for axis in others)))
        for power in range(order + 1)
        for key in _exponents(len(others), order - power)
    }
    for begin in range(0, fewest, _AT_ONCE):
        values = shared[a][begin : begin + _AT_ONCE]
        centre = math.sqrt(axes[a].known) * values
        window = axes[a].window(centre)
        density = axes[a].density(axes[a].points[window], centre)
        if not len(density):
            continue
        stacked = _of_layers(ends[begin : begin + len(values) + 1], weight, rest, others, order)
        for power in range(order + 1):
            for key in _exponents(len(others), order - power):
                out[(*key[:a], power, *key[a:])][window] += np.tensordot(density * values**power, stacked[key], 1)
    return {key: np.moveaxis(value, 0, a) for key, value in out.items()}


def _of_layers(
    ends: NDArray[np.int64], weight: Array, points: Array, axes: list[Axis], order: int
) -> dict[tuple[int, ...], Array]:
    """The same of each layer by itself, shape (layers, *grid), where the nodes lie one layer after the other."""
    keys = _exponents(len(axes), order)
    if len(axes) == 2:
        grids = np.array([[axis.start, axis.step, axis.size, axis.known, axis.left] for axis in axes])
        found = blurred_layers(ends, weight, points, grids, WINDOW, order)
        return {key: found[:, k] for k, key in enumerate(keys)}
    parts = [slice(*pair) for pair in pairwise(ends.tolist())]
    layers = [_of_nodes(weight[own], points[own], axes, order) for own in parts]
    return {key: np.stack([layer[key] for layer in layers]) for key in keys}


def _exponents(axes: int, order: int) -> list[tuple[int, ...]]:
    """Exponents of all products of powers, up to some order."""
    return [key for key in product(range(order + 1), repeat=axes) if sum(key) <= order]


def _of_nodes(weight: Array, points: Array, axes: list[Axis], order: int) -> dict[tuple[int, ...], Array]:
    """The same node by node."""
    keys = _exponents(len(axes), order)
    moments = np.stack([weight * np.prod(points ** np.array(key), axis=1) for key in keys])
    centres = points * np.sqrt([axis.known for axis in axes])
    out = np.zeros((len(keys), *(axis.size for axis in axes)))
    for nodes in _boxes(centres, axes, len(keys)):
        windows = tuple(axis.window(centres[nodes, a]) for a, axis in enumerate(axes))
        density = [
            axis.density(axis.points[window], centres[nodes, a])
            for a, (axis, window) in enumerate(zip(axes, windows, strict=True))
        ]
        shape = [len(one) for one in density]
        if min(shape) == 0:
            continue
        first = reduce(
            lambda x, y: (x[:, None] * y[None]).reshape(-1, x.shape[1]), density[:-1], np.ones((1, len(nodes)))
        )
        last = (moments[:, None, nodes] * density[-1][None]).reshape(-1, len(nodes))
        block = (first @ last.T).reshape(*shape[:-1], len(keys), shape[-1])
        out[(slice(None), *windows)] += np.moveaxis(block, -2, 0)
    return dict(zip(keys, out, strict=True))


def _boxes(centres: Array, axes: list[Axis], moments: int) -> Iterator[NDArray[np.int64]]:
    """Nodes that lie in one box, or all of them where windows fill the grid anyway, for so many moments."""
    widths = np.array([math.sqrt(axis.left) for axis in axes])
    varied = [a for a, axis in enumerate(axes) if axis.known > 0]
    index = np.arange(len(centres))
    boxes = [index]
    if any((WINDOW + _BOX) * widths[a] < REACH for a in varied):
        cell = np.floor(centres[:, varied] / (_BOX * widths[varied])).astype(np.int64)
        _, number = np.unique(cell, axis=0, return_inverse=True)
        order = np.argsort(number.ravel(), kind="stable")
        boxes = np.split(order, np.flatnonzero(np.diff(number.ravel()[order])) + 1)
    along = max(math.prod(axis.size for axis in axes[:-1]), moments * axes[-1].size // _MOMENTS)
    most = max(1, CHUNK // along)
    for box in boxes:
        for begin in range(0, len(box), most):
            yield box[begin : begin + most]
