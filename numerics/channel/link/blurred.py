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
from .axes import Axis, Folding, mirrored, scaled
from .moments import CHUNK, fibre_sums
from .totals import totals

__all__ = ["Blurred", "averages"]

Array = NDArray[np.float64]


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
    # Sums are fastest along the axis with most points.
    order = sorted(range(len(axes)), key=lambda a: axes[a].size)
    axes, vectors = [axes[a] for a in order], vectors[:, order]
    parts = [_part(rule, vectors, own, second) for own in _slabs(rule, axes, second)]
    # Outputs that are left out have the averages of their mirror.
    turned = [rule.turned] if rule.turned else []
    score = mirrored(folding.averaged(scaled(np.sum([part.score for part in parts], axis=0), vectors)), turned)
    change = None
    if second:
        changes = [part.change for part in parts if part.change is not None]
        change = mirrored(folding.averaged(scaled(np.sum(changes, axis=0), vectors)), turned)
    return Blurred(score, change, math.fsum(part.log_density for part in parts), rule.defect)


def _slabs(rule: FibredRule, axes: list[Axis], second: bool) -> Iterator[list[Axis]]:
    """Parts of the grid along its first axis, where noise mixes more sums than are held at once."""
    first, size = axes[0], math.prod(axis.size for axis in axes)
    moments = 1 + len(axes) + second * len(axes) * (len(axes) + 1) // 2
    held = size * moments * (len(rule.nodes.measure) if rule.mixing else 1)
    # Sums of all outputs that noise mixes.
    most_held = 40_000_000
    most = max(1, first.size // math.ceil(held / most_held))
    for begin in range(0, first.size, most):
        yield [first.part(begin, min(begin + most, first.size)), *axes[1:]]


def _part(rule: FibredRule, vectors: Array, axes: list[Axis], second: bool) -> Blurred:
    """Averages over a part of the grid, along the eigenvectors."""
    left = np.array([axis.left for axis in axes])
    grid = np.meshgrid(*(axis.points for axis in axes), indexing="ij")
    omega = np.stack([math.sqrt(axis.known) * xi.ravel() for axis, xi in zip(axes, grid, strict=True)])
    weights = reduce(np.multiply.outer, [axis.weights for axis in axes]).ravel()
    # Of xi alone: the density is that of xi and y together.
    varied = [xi.ravel() for axis, xi in zip(axes, grid, strict=True) if axis.known > 0]
    log_prior = np.sum([np.zeros(omega.shape[1]), *(-0.5 * (xi * xi + math.log(2 * math.pi)) for xi in varied)], axis=0)
    by_output = _by_output(rule, vectors, axes, second)
    found = [totals(sums, measure, weights, omega, log_prior, left) for sums, measure in by_output]
    score, change = (np.sum([one[part] for one in found], axis=0) for part in range(2))
    log_density = math.fsum(one[2] for one in found)
    return Blurred(score, _of_entries(change, len(axes)) if second else None, log_density, rule.defect)


def _by_output(rule: FibredRule, vectors: Array, axes: list[Axis], second: bool) -> Iterator[tuple[Array, Array]]:
    """Sums over the fibres of some outputs, as densities of the output, and the measures of these."""
    found = fibre_sums(rule.nodes, vectors, axes, second)
    if rule.mixing is None:
        for own, sums in found:
            measure = rule.nodes.measure[own]
            sums /= measure[:, None, None]
            yield sums, measure
        return
    sums = np.concatenate([one for _, one in found])
    shape = sums.shape[1:]
    flat = sums.reshape(len(sums), -1)
    # Outputs that are mixed at once.
    mixed = 64
    count = min(max(1, CHUNK // flat.shape[1]), mixed)
    for near, density, measure in rule.mixing.blocks(count):
        yield (density @ flat[near]).reshape(-1, *shape), measure


def _eigen(covariance: Array) -> tuple[Array, Array]:
    """Eigenvalues in [0, 1) and eigenvectors; of a diagonal matrix as it stands."""
    if np.count_nonzero(covariance - np.diag(covariance.diagonal())):
        values, vectors = np.linalg.eigh(covariance)
    else:
        values, vectors = covariance.diagonal(), np.eye(len(covariance))
    return np.where(values < 1e-14, 0.0, values), vectors


def _of_entries(change: Array, k: int) -> Array:
    """The change of pairs a <= b of entries, by all pairs, shape (k, k, k, k)."""
    number = np.zeros((k, k), dtype=np.int64)
    for place, (a, b) in enumerate(combinations_with_replacement(range(k), 2)):
        number[a, b] = number[b, a] = place
    return np.asarray(change[number[:, :, None, None], number])
