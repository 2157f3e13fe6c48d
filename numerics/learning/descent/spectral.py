"""Spectral initialisation: where GAMP goes first from nothing, as the leading eigenvectors of one matrix of the data.

Around What = 0 the scores of GAMP are linear, g = G omega with G = Cov[h | y] - I, and its iteration grows by the
factor lambda along What = W_1 if

    lambda W_1 = (1/D) sum_mu T(y^mu) [W_1 x^mu] x^muT,    T = G (I + G / lambda)^{-1},

which is exact algebra: omega = W_1 x / sqrt(D) - g / lambda. As lambda -> 1, its value at the threshold, T becomes
I - Cov[h | y]^{-1}; for one token and index that is the preprocessing 1 - 1 / E[h^2 | y], the best there is at every
alpha. An output that fixes a direction of h makes it infinite: lambda stays a little above 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ...core.errors import ConvergenceError
from ...core.random import seeded
from ...core.results import Origin, Result
from ...core.validation import positive
from ...model.routes import require
from ...posterior.choice import posterior
from ...posterior.protocol import Model
from ..blocks import Array, Source, stream
from ..heads import require_one_head
from ..passes import Samples
from .moments import Group, groups, prior_moments

__all__ = ["SpectralResult", "spectral_method", "spectral_start"]

# lambda of the preprocessing. Closer to 1 the overlap rises by less than 0.02, and Lanczos takes ten times longer.
_GROWTH = 1.1


@dataclass(frozen=True, repr=False)
class SpectralResult(Result):
    """Weights that the leading eigenvectors give.

    Attributes
    ----------
    weights : ndarray, shape (P, D)
        Rows of a layer are eigenvectors of its matrix; those of indices that an output couples mix its leading ones at
        random, as a start of GAMP from nothing would. Scaled to What What^T / D = overlap.
    overlap : ndarray, shape (P,)
        Expected overlap of each row with the teacher and with itself; 1/D where the threshold is not reached.
    eigenvalues : tuple of ndarray
        Leading eigenvalues of each group of indices, the largest first.
    growth : ndarray, shape (groups,)
        alpha times the largest eigenvalue of the operator (15) of the group, over these samples: above 1 what it sees
        is learned from nothing.
    passes : int
        Products with the matrix.
    origin : Origin
        Model and settings.
    """

    weights: Array
    overlap: Array
    eigenvalues: tuple[Array, ...]
    growth: Array
    passes: int
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """Sizes, expected overlaps and growth."""
        yield f"weights {' x '.join(map(str, self.weights.shape))}, {self.passes} products with the matrix"
        yield "expected overlap " + ", ".join(f"{q:.6g}" for q in self.overlap[:4])
        yield "growth " + ", ".join(f"{g:.6g}" for g in self.growth[:4])


def spectral_start(
    X: ArrayLike | Source,
    Y: ArrayLike | None,
    model: Model,
    *,
    tol: float = 1e-4,
    nodes: int | None = None,
    rng: np.random.Generator | int | None = 0,
    workers: int | None = None,
) -> Array:
    """Return the weights of `spectral_method`, shape (P, D): a start for `gamp` or `descend`."""
    return spectral_method(X, Y, model, tol=tol, nodes=nodes, rng=rng, workers=workers).weights


def spectral_method(
    X: ArrayLike | Source,
    Y: ArrayLike | None,
    model: Model,
    *,
    tol: float = 1e-4,
    nodes: int | None = None,
    rng: np.random.Generator | int | None = 0,
    workers: int | None = None,
) -> SpectralResult:
    """Estimate weights by the leading eigenvectors of sum_mu T(y^mu) [. x^mu] x^muT / D, by Lanczos.

    Parameters
    ----------
    X, Y, model, nodes, workers
        As in `gamp`.
    tol : float
        Relative accuracy of the eigenvalues, > 0.
    rng : Generator, int or None, optional
        Of Lanczos' first vector, of mixtures and of nodes.

    Returns
    -------
    SpectralResult

    Raises
    ------
    ValueError
        Data that do not fit; the message says what to do.
    KernelNotFoundError
        No denoiser for this model.
    ConvergenceError
        Lanczos does not settle.

    Notes
    -----
    Every product is one pass over X; no matrix of D x D is formed. Where no output couples two indices the overlap
    follows from the law of the eigenvectors as D grows: with sums over the samples, K = G (I + (1/lambda - R) G)^{-1}
    and R the solution of R^{-1} = sum tr(G K) / D, it is (R^{-2} - sum tr(K^2) / D) / (R^{-2} + sum tr(G K^2) / D), or
    0 if that is negative (by the cavity method, not proved; the tests compare it with eigenvectors). For indices that
    are coupled it is a guess, half of 1 - 1/growth. Indices with E[h | y] != 0 are seen at any alpha; they start from
    one iteration of GAMP.

    References
    ----------
    troiani2025, (15)-(16), (104)-(112).
    """
    require("gamp", model)
    require_one_head("the spectral start", model)
    tol = positive("tol", tol, "(15)")
    seed, generator = seeded(rng)
    generator = generator if seed < 0 else stream(seed, 5)
    matrix = _Matrix(X, Y, model, nodes, int(generator.integers(2**31)), workers)
    # All blocks are read once by it.
    pull = matrix.means()
    blocks, dimension, p = matrix.blocks, matrix.dimension, model.indices
    weights, overlap = np.empty((p, dimension)), np.empty(p)
    eigenvalues, growth = [], []
    # Overlap, over 1/D, of what is not found, and the largest of what is.
    nothing, most = 1.0, 0.99
    for number, group in enumerate(matrix.groups):
        slopes = np.concatenate([block.slopes[number] for block in blocks])
        values, vectors = matrix.leading(number, group, tol, generator)
        eigenvalues.append(values)
        growth.append(_growth(slopes, group, model.tokens) / dimension)
        if group.width == 1:
            weights[group.rows] = vectors[:, 0]
            q = _overlap(np.concatenate([block.values[number] for block in blocks]), dimension)
        else:
            weights[group.rows] = np.einsum("k,kpd->pd", generator.standard_normal(len(vectors)), vectors)
            q = 0.5 * (1 - 1 / growth[-1]) if growth[-1] > 1 else 0.0
        overlap[group.rows] = min(max(q, nothing / dimension), most)
        size = float((weights[group.rows] ** 2).sum()) / dimension
        weights[group.rows] *= math.sqrt(float(overlap[group.rows].sum()) / size)
    # Mean square of E[h | y] above which an index is seen by itself, without its square.
    seen = (np.concatenate([block.mean for block in blocks]) ** 2).mean(axis=(0, 2)) > 1e-6
    if seen.any():
        # C sum g x^T / sqrt(D), C = (I + A)^{-1}: the first iteration of GAMP from What = 0.
        precision = np.eye(p) - sum(block.own for block in blocks) / dimension
        first = np.linalg.solve(precision[np.ix_(seen, seen)], pull[seen])
        weights[seen], overlap[seen] = first, np.minimum((first**2).sum(axis=1) / dimension, most)
    origin = Origin.of(model, tol=tol, nodes=nodes, seed=seed)
    return SpectralResult(weights, overlap, tuple(eigenvalues), np.array(growth), matrix.passes, origin)


class _Linear:
    """Scores that are linear: T times the projections of one group, or E[h | y]."""

    def __init__(self, model: Model, shape: list[Group], mean: Array, covariances: list[Array]) -> None:
        self.rows, self.mean = len(mean), mean
        self.group: int | None = None
        self._shape = shape
        self.slopes, self.values, self._products = [], [], []
        self.own = np.zeros((model.indices, model.indices))
        for group, covariance in zip(shape, covariances, strict=True):
            values, vectors = np.linalg.eigh(covariance)
            # Rounding, or the noise of sampled posteriors, below zero.
            values = np.maximum(values, 0.0) - 1
            self.slopes.append((vectors * values[:, None]) @ np.swapaxes(vectors, 1, 2))
            self.values.append(values)
            factors = values / (1 + values / _GROWTH)
            self._products.append((vectors * factors[:, None]) @ np.swapaxes(vectors, 1, 2))
            blocks = self.slopes[-1].reshape(len(values), group.width, model.tokens, group.width, -1)
            own = np.einsum("nambm->ab", blocks)
            self.own[group.rows, group.rows] = own if group.width > 1 else own * np.eye(group.count)

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        slopes = np.zeros_like(V)
        if self.group is None:
            return self.mean[part], slopes
        g = np.zeros_like(omega)
        rows = _rows(self._shape[self.group])
        seen = omega[:, rows]
        g[:, rows] = (self._products[self.group][part] @ seen.reshape(len(seen), -1, 1)).reshape(seen.shape)
        return g, slopes


def _rows(group: Group) -> slice:
    """Rows that carry a vector of the group: all alike, they need one."""
    return slice(group.rows.start, group.rows.start + group.width)


class _Matrix:
    """Products with the matrix of a group, by passes over the samples."""

    def __init__(
        self,
        x: ArrayLike | Source,
        y: ArrayLike | None,
        model: Model,
        nodes: int | None,
        node_seed: int,
        workers: int | None,
    ) -> None:
        self.groups, self._indices, self.passes = groups(model), model.indices, 0
        self.blocks: list[_Linear] = []

        def prepare(outputs: ArrayLike) -> _Linear:
            channel = posterior(model, outputs, nodes=nodes, rng=node_seed)
            self.blocks.append(_Linear(model, self.groups, *prior_moments(model, channel)))
            return self.blocks[-1]

        self._samples = Samples(x, y, model, prepare, workers)
        self.dimension = self._samples.dimension

    def means(self) -> Array:
        """sum_mu E[h | y^mu] x^muT / sqrt(D)."""
        return self._pull(np.zeros((self._indices, self.dimension)))

    def _pull(self, weights: Array) -> Array:
        return self._samples.sweep(weights, np.eye(self._indices))[0]

    def leading(self, number: int, group: Group, tol: float, rng: np.random.Generator) -> tuple[Array, Array]:
        """Largest eigenvalues of a group, one per row, and their vectors, shape (count, width, D) and norm sqrt(D)."""
        dimension = self.dimension
        size, count = group.width * dimension, group.count
        for block in self.blocks:
            block.group = number

        def product(vector: Array) -> Array:
            self.passes += 1
            weights = np.zeros((self._indices, dimension))
            weights[_rows(group)] = vector.reshape(group.width, dimension)
            return np.asarray(self._pull(weights)[_rows(group)].ravel())

        # Entries up to which the matrix is written out.
        small = 64
        if size <= max(small, 2 * count):
            dense = np.stack([product(column) for column in np.eye(size)])
            if not np.isfinite(dense).all():
                raise OverflowError("products of X exceed the range of float64; X must have entries of variance 1 (1)")
            values, vectors = np.linalg.eigh(0.5 * (dense + dense.T))
        else:
            operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
            try:
                values, vectors = eigsh(operator, count, which="LA", tol=tol, v0=rng.standard_normal(size))
            except ArpackNoConvergence as error:
                raise ConvergenceError(
                    f"Lanczos has not found the {count} leading eigenvectors of the spectral start (15) to {tol:g} in "
                    f"{self.passes} products; raise tol"
                ) from error
        order = np.argsort(values)[::-1][:count]
        return values[order], vectors.T[order].reshape(count, group.width, dimension) * math.sqrt(dimension)


def _growth(slopes: Array, group: Group, tokens: int) -> float:
    """N times the largest eigenvalue of X -> mean of sum_mm' G_mm' X G_mm'^T (15)."""
    w = group.width
    g = slopes.reshape(len(slopes), w, tokens, w, tokens)
    operator = np.einsum("nambk,ncmdk->acbd", g, g, optimize=True).reshape(w * w, w * w)
    return float(np.abs(np.linalg.eigvalsh(0.5 * (operator + operator.T))).max())


def _overlap(values: Array, dimension: int) -> float:
    """Squared cosine similarity of the leading eigenvector with the teacher, from the eigenvalues of G."""

    def rest(r: float) -> Array:
        return values / (1 + (1 / _GROWTH - r) * values)

    def excess(r: float) -> float:
        return r * float((values * rest(r)).sum()) / dimension - 1

    # It rises from -1 to infinity, where the denominator of the largest G vanishes.
    end = 1 / _GROWTH + 1 / float(values.max())
    if not (math.isfinite(end) and excess(end * (1 - 1e-9)) > 0):
        return 0.0
    r = float(brentq(excess, 0.0, end * (1 - 1e-9)))
    k = rest(r)
    top = 1 / r**2 - float((k**2).sum()) / dimension
    return top / (1 / r**2 + float((values * k**2).sum()) / dimension) if top > 0 else 0.0
