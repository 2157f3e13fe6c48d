"""Averages over omega of the posterior of h on one fibre after the other: sums of Gaussians on a grid.

Along the eigenvectors of the covariance K of omega, omega_d = sqrt(K_d) xi_d with xi ~ N(0, I), and given h
xi_d ~ N(sqrt(K_d) h_d, 1 - K_d) independently. So the joint density of xi and the output is the law of h on the fibre,
blurred along each axis; a trapezoidal rule in xi converges exponentially, as it does for a Gaussian.
"""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...posterior.link.fibred import FibredRule
from .axes import Axis, Folding, scaled
from .moments import CHUNK, fibre_sums

__all__ = ["Blurred", "averages"]

Array = NDArray[np.float64]

# Sums of all outputs that noise mixes, and outputs that are mixed at once.
_HELD, _MIXED = 40_000_000, 64
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
    axes = [Axis.of(value, step) for value in known]
    folding = Folding.of(flips, axes, vectors)
    axes = [axis.folded if a in folding.axes else axis for a, axis in enumerate(axes)]
    parts = [_part(rule, vectors, own, second) for own in _slabs(rule, axes, second)]
    score = folding.averaged(scaled(np.sum([part.score for part in parts], axis=0), vectors))
    change = None
    if second:
        changes = [part.change for part in parts if part.change is not None]
        change = np.sum(changes, axis=0).reshape((len(axes),) * 4)
        change = folding.averaged(scaled(change, vectors))
    return Blurred(score, change, math.fsum(part.log_density for part in parts), rule.defect)


def _slabs(rule: FibredRule, axes: list[Axis], second: bool) -> Iterator[list[Axis]]:
    """Parts of the grid along its first axis, where noise mixes more sums than are held at once."""
    first, size = axes[0], math.prod(axis.size for axis in axes)
    moments = 1 + len(axes) + second * len(axes) * (len(axes) + 1) // 2
    held = size * moments * (len(rule.fibres) if rule.mixing else 1)
    most = max(1, first.size // math.ceil(held / _HELD))
    for begin in range(0, first.size, most):
        yield [first.part(begin, min(begin + most, first.size)), *axes[1:]]


def _part(rule: FibredRule, vectors: Array, axes: list[Axis], second: bool) -> Blurred:
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


def _by_output(rule: FibredRule, vectors: Array, axes: list[Axis], second: bool) -> Iterator[tuple[Array, float]]:
    """Sums over the fibre of each output, as densities of the output, and the measures of the outputs."""
    if rule.mixing is None:
        for fibre in rule.fibres:
            yield fibre_sums(fibre, fibre.points @ vectors, axes, second) / fibre.measure, fibre.measure
        return
    sums = np.stack([fibre_sums(fibre, fibre.points @ vectors, axes, second) for fibre in rule.fibres])
    shape = sums.shape[1:]
    flat = sums.reshape(len(sums), -1)
    count = min(max(1, CHUNK // flat.shape[1]), _MIXED)
    for near, density in rule.mixing.blocks(count):
        for mixed in density @ flat[near]:
            yield mixed.reshape(shape), rule.mixing.step


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
