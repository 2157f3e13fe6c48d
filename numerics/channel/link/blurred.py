"""Averages over omega of the posterior of h on one fibre after the other: sums of Gaussians on a grid.

Along the eigenvectors of the covariance K of omega, omega_d = sqrt(K_d) xi_d with xi ~ N(0, I), and given h
xi_d ~ N(sqrt(K_d) h_d, 1 - K_d) independently. So the joint density of xi and the output is the law of h on the fibre,
blurred along each axis; a trapezoidal rule in xi converges exponentially, as it does for a Gaussian.
"""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations_with_replacement, pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...posterior.link.fibred import Fibre, FibredRule
from .layers import blurred_layers

__all__ = ["Blurred", "averages", "scaled"]

Array = NDArray[np.float64]

# Standard deviations beyond which a Gaussian counts as zero: of xi itself, and of what a node adds to its density.
_REACH, _WINDOW = 7.6, 7.6
# Side of the boxes of nodes that are blurred together, in standard deviations of the blur.
_BOX = 10.0
# Nodes times points of a grid at once, which bounds the memory.
_CHUNK = 4_000_000
# Sums of all outputs that noise mixes, and outputs that are mixed at once.
_HELD, _MIXED = 40_000_000, 64
# Nodes of a fibre beyond which layers are looked for, least mean number of nodes of one, and layers at once.
_FEW, _LAYER, _AT_ONCE = 500, 8, 16
# Densities below this are not divided by.
_TINY = 1e-250


class Blurred(NamedTuple):
    """Averages over omega and the outputs.

    Attributes
    ----------
    score : ndarray, shape (k, k)
        E g g^T, g = V^{-1}(E[h | y, omega] - omega).
    change : ndarray, shape (k, k, k, k), or None
        E of products of two entries of dg/domega.
    log_density : float
        E log Z_out(y; omega, V).
    defect : float
        Of the rule for h.
    """

    score: Array
    change: Array | None
    log_density: float
    defect: float


class _Axis(NamedTuple):
    """Grid of xi along one axis: its points begin at `start`; variances `known` of omega and `left` of h given it.

    `half`: what is below zero is left out, and what is above stands for it.
    """

    start: float
    step: float
    size: int
    known: float
    left: float
    half: bool = False

    @property
    def folded(self) -> "_Axis":
        """Its upper half, for both."""
        return self._replace(start=0.0, size=self.size // 2 + 1, half=True)

    def part(self, begin: int, end: int) -> "_Axis":
        """Points of these numbers."""
        return self._replace(start=self.start + begin * self.step, size=end - begin)

    @staticmethod
    def of(known: float, step: float) -> "_Axis":
        """Grid that resolves what is blurred by 1 - known; one point where omega does not vary."""
        left = 1 - known
        if known <= 0:
            return _Axis(0.0, 1.0, 1, 0.0, 1.0)
        width = step * math.sqrt(left)
        half = math.ceil(_REACH / width)
        return _Axis(-half * width, width, 2 * half + 1, known, left)

    @property
    def points(self) -> Array:
        """Values of xi."""
        return np.asarray(self.start + self.step * np.arange(self.size))

    @property
    def weights(self) -> Array:
        """Weights of the trapezoidal rule; 1 where there is one point, whatever h is."""
        weights = np.full(self.size, self.step if self.known > 0 else 1.0)
        if self.half:
            weights[self.points > 0] *= 2
        return weights

    def window(self, centre: Array) -> slice:
        """Points of the grid near any of these centres."""
        if self.known <= 0:
            return slice(0, 1)
        far = _WINDOW * math.sqrt(self.left)
        low = math.floor((float(centre.min()) - far - self.start) / self.step)
        high = math.ceil((float(centre.max()) + far - self.start) / self.step) + 1
        return slice(min(max(low, 0), self.size), min(max(high, 0), self.size))

    def density(self, xi: Array, centre: Array) -> Array:
        """Density of xi given centres, shape (xi, centres)."""
        if self.known <= 0:
            return np.ones((1, len(centre)))
        scale = 1 / math.sqrt(self.left)
        z = scale * (xi[:, None] - centre)
        return np.asarray(np.exp(-0.5 * z * z) * (scale / math.sqrt(2 * math.pi)))


class _Folding(NamedTuple):
    """Changes of sign of xi under which everything stays, used to leave out half of each of these axes.

    Attributes
    ----------
    axes : tuple of int
        Axes of which the lower half is left out.
    signs : ndarray, shape (n, k)
        All changes of sign that this stands for.
    """

    axes: tuple[int, ...]
    signs: Array

    @staticmethod
    def of(flips: Sequence[tuple[int, ...]], axes: list["_Axis"], vectors: Array) -> "_Folding":
        """As many axes as there are independent changes of sign; none along axes that mix the entries."""
        k = len(axes)
        nothing = _Folding((), np.ones((1, k)))
        if np.count_nonzero(vectors - np.eye(k)):
            return nothing
        pivots: list[int] = []
        signs = nothing.signs
        for flip in flips:
            own = np.array(flip, dtype=np.float64)
            # What changes no axis that is left out yet, up to those before it, is independent of them.
            own = own * next(s for s in signs if all(s[p] == own[p] for p in pivots))
            varied = [a for a in range(k) if own[a] < 0 and axes[a].known > 0]
            if varied:
                pivots.append(varied[0])
                signs = np.concatenate([signs, signs * own])
        return _Folding(tuple(pivots), signs)

    def averaged(self, tensor: Array) -> Array:
        """Average of a tensor over the changes of sign."""
        return np.asarray(np.mean([scaled(tensor, np.diag(sign)) for sign in self.signs], axis=0))


def averages(
    rule: FibredRule, covariance: Array, step: float, second: bool, flips: Sequence[tuple[int, ...]] = ()
) -> Blurred:
    """Averages at one covariance of omega.

    Parameters
    ----------
    rule : FibredRule
        Of k entries.
    covariance : ndarray, shape (k, k)
        Of omega; h given omega has what is left to the identity.
    step : float
        Of the grid of xi, in standard deviations of the blur.
    second : bool
        Whether `change` is wanted.
    flips : sequence of tuple of int
        Changes of sign of the entries that leave the output as it is.
    """
    known, vectors = _eigen(covariance)
    axes = [_Axis.of(value, step) for value in known]
    folding = _Folding.of(flips, axes, vectors)
    axes = [axis.folded if a in folding.axes else axis for a, axis in enumerate(axes)]
    parts = [_part(rule, vectors, own, second) for own in _slabs(rule, axes, second)]
    score = folding.averaged(scaled(np.sum([part.score for part in parts], axis=0), vectors))
    change = None
    if second:
        changes = [part.change for part in parts if part.change is not None]
        change = np.sum(changes, axis=0).reshape((len(axes),) * 4)
        change = folding.averaged(scaled(change, vectors))
    return Blurred(score, change, math.fsum(part.log_density for part in parts), rule.defect)


def _slabs(rule: FibredRule, axes: list[_Axis], second: bool) -> Iterator[list[_Axis]]:
    """Parts of the grid along its first axis, where noise mixes more sums than are held at once."""
    first, size = axes[0], math.prod(axis.size for axis in axes)
    moments = 1 + len(axes) + second * len(axes) * (len(axes) + 1) // 2
    held = size * moments * (len(rule.fibres) if rule.mixing else 1)
    most = max(1, first.size // math.ceil(held / _HELD))
    for begin in range(0, first.size, most):
        yield [first.part(begin, min(begin + most, first.size)), *axes[1:]]


def _part(rule: FibredRule, vectors: Array, axes: list[_Axis], second: bool) -> Blurred:
    """Averages over a part of the grid, along the eigenvectors."""
    k = len(axes)
    left = np.array([axis.left for axis in axes])
    grid = np.meshgrid(*(axis.points for axis in axes), indexing="ij")
    omega = np.stack([math.sqrt(axis.known) * xi.ravel() for axis, xi in zip(axes, grid, strict=True)])
    weights = reduce(np.multiply.outer, [axis.weights for axis in axes]).ravel()
    # Of xi alone: the density is that of xi and y together.
    varied = [xi.ravel() for axis, xi in zip(axes, grid, strict=True) if axis.known > 0]
    log_prior = np.sum([np.zeros(omega.shape[1]), *(-0.5 * (xi * xi + math.log(2 * math.pi)) for xi in varied)], axis=0)
    score, change, log_density = np.zeros((k, k)), np.zeros((k * k, k * k)), 0.0
    for sums, measure in _by_output(rule, vectors, axes, second):
        there = sums[0] > _TINY
        zero = sums[0, there]
        share = measure * weights[there] * zero
        mean = sums[1 : 1 + k, there] / zero
        g = (mean - omega[:, there]) / left[:, None]
        score += (share * g) @ g.T
        log_density += float(share @ (np.log(zero) - log_prior[there]))
        if second:
            jacobian = _jacobian(sums[1 + k :, there] / zero, mean, left)
            change += (share * jacobian) @ jacobian.T
    return Blurred(score, change if second else None, log_density, rule.defect)


def _by_output(rule: FibredRule, vectors: Array, axes: list[_Axis], second: bool) -> Iterator[tuple[Array, float]]:
    """Sums over the fibre of each output, as densities of the output, and the measures of the outputs."""
    if rule.mixing is None:
        for fibre in rule.fibres:
            yield _sums(fibre, fibre.points @ vectors, axes, second) / fibre.measure, fibre.measure
        return
    sums = np.stack([_sums(fibre, fibre.points @ vectors, axes, second) for fibre in rule.fibres])
    shape = sums.shape[1:]
    flat = sums.reshape(len(sums), -1)
    count = min(max(1, _CHUNK // flat.shape[1]), _MIXED)
    for near, density in rule.mixing.blocks(count):
        for mixed in density @ flat[near]:
            yield mixed.reshape(shape), rule.mixing.step


def scaled(tensor: Array, by: Array) -> Array:
    """Multiply every axis of a tensor by a matrix."""
    for axis in range(tensor.ndim):
        tensor = np.moveaxis(np.tensordot(by, tensor, (1, axis)), 0, axis)
    return tensor


def _eigen(covariance: Array) -> tuple[Array, Array]:
    """Eigenvalues in [0, 1) and eigenvectors; of a diagonal matrix as it stands."""
    if np.count_nonzero(covariance - np.diag(covariance.diagonal())):
        values, vectors = np.linalg.eigh(covariance)
    else:
        values, vectors = covariance.diagonal(), np.eye(len(covariance))
    return np.where(values < 1e-14, 0.0, values), vectors


def _jacobian(second: Array, mean: Array, left: Array) -> Array:
    """Posterior covariance as dg/domega = V^{-1} Cov V^{-1} - V^{-1}, shape (k k, n)."""
    k, n = mean.shape
    out = np.empty((k, k, n))
    for column, (a, b) in enumerate(combinations_with_replacement(range(k), 2)):
        out[a, b] = out[b, a] = (second[column] - mean[a] * mean[b]) / (left[a] * left[b])
    for a in range(k):
        out[a, a] -= 1 / left[a]
    return out.reshape(k * k, n)


def _sums(fibre: Fibre, points: Array, axes: list[_Axis], second: bool) -> Array:
    """Integrals of 1, h_a and, if wanted, h_a h_b, a <= b, with the density of xi, shape (moments, grid)."""
    k = len(axes)
    found = _moments(fibre.weight, points, axes, 2 if second else 1)
    order: list[tuple[int, ...]] = [(), *((a,) for a in range(k))]
    if second:
        order += list(combinations_with_replacement(range(k), 2))
    return np.stack([found[tuple(factors.count(a) for a in range(k))].ravel() for factors in order])


def _moments(weight: Array, points: Array, axes: list[_Axis], order: int) -> dict[tuple[int, ...], Array]:
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
    ends: NDArray[np.int64], weight: Array, points: Array, axes: list[_Axis], order: int
) -> dict[tuple[int, ...], Array]:
    """The same of each layer by itself, shape (layers, *grid), where the nodes lie one layer after the other."""
    keys = _exponents(len(axes), order)
    if len(axes) == 2:
        grids = np.array([[axis.start, axis.step, axis.size, axis.known, axis.left] for axis in axes])
        found = blurred_layers(ends, weight, points, grids, _WINDOW, order)
        return {key: found[:, k] for k, key in enumerate(keys)}
    parts = [slice(*pair) for pair in pairwise(ends.tolist())]
    layers = [_of_nodes(weight[own], points[own], axes, order) for own in parts]
    return {key: np.stack([layer[key] for layer in layers]) for key in keys}


def _exponents(axes: int, order: int) -> list[tuple[int, ...]]:
    """Exponents of all products of powers, up to some order."""
    return [key for key in product(range(order + 1), repeat=axes) if sum(key) <= order]


def _of_nodes(weight: Array, points: Array, axes: list[_Axis], order: int) -> dict[tuple[int, ...], Array]:
    """The same node by node."""
    keys = _exponents(len(axes), order)
    moments = np.stack([weight * np.prod(points ** np.array(key), axis=1) for key in keys])
    centres = points * np.sqrt([axis.known for axis in axes])
    out = np.zeros((len(keys), *(axis.size for axis in axes)))
    for nodes in _boxes(centres, axes):
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


def _boxes(centres: Array, axes: list[_Axis]) -> Iterator[NDArray[np.int64]]:
    """Nodes that lie in one box, or all of them where windows fill the grid anyway."""
    widths = np.array([math.sqrt(axis.left) for axis in axes])
    varied = [a for a, axis in enumerate(axes) if axis.known > 0]
    index = np.arange(len(centres))
    boxes = [index]
    if any((_WINDOW + _BOX) * widths[a] < _REACH for a in varied):
        cell = np.floor(centres[:, varied] / (_BOX * widths[varied])).astype(np.int64)
        _, number = np.unique(cell, axis=0, return_inverse=True)
        order = np.argsort(number.ravel(), kind="stable")
        boxes = np.split(order, np.flatnonzero(np.diff(number.ravel()[order])) + 1)
    most = max(1, _CHUNK // math.prod(axis.size for axis in axes[:-1]))
    for box in boxes:
        for begin in range(0, len(box), most):
            yield box[begin : begin + most]
