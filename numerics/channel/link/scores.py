"""Posterior scores of a group of entries of h over randomised quasi-random (omega, h), and their averages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import ClusterPool, Recipe, Workers
from ...core.errors import ConvergenceError
from ...model.links import LinkKernel, Part
from ...posterior.link.cells import Nodes
from ...posterior.link.moments import Group, Sums
from ...quadrature.rules import normal_qmc
from ..averages import controlled, matrix_root
from .entries import covariance

__all__ = ["SampledGroup", "Scores", "Sizes", "scores_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Posterior scores V^{-1}(E[h | y] - omega) of a group.

    Attributes
    ----------
    score : ndarray, shape (replicas, n, 3, k)
        From each half of the inner nodes, and from both.
    truth : ndarray, shape (replicas, n, k)
        V^{-1}(h - omega), whose posterior mean is the score.
    change : ndarray, shape (replicas, n, 2, k, k), or None
        d g / d omega from each half.
    precision : ndarray, shape (k, k)
        V^{-1}.
    """

    score: Array
    truth: Array
    change: Array | None
    precision: Array

    def product(self, a: int, b: int) -> tuple[Array, float]:
        """E g_a g_b of each randomisation, and what it may be biased by."""

        def both(x: Array, y: Array) -> Array:
            return 0.5 * (x[..., a] * y[..., b] + x[..., b] * y[..., a])

        one, two, pooled = (self.score[:, :, i] for i in range(3))
        # A mean over n nodes is off by some b/n: halves twice as much as both together. The truth knows nothing of the
        # nodes, so its products with their difference show b. Products of different halves add no variance.
        shift = 0.5 * (one + two) - pooled
        correction = 4 * both(shift, self.truth)
        gg = both(one, two) - correction
        gu = both(pooled - shift, self.truth)
        uu = both(self.truth, self.truth) - self.precision[a, b]
        value = controlled(gg.ravel(), [(gg - gu).ravel(), uu.ravel()], len(gg))
        return value, 0.5 * abs(float(correction.mean()))

    def operator(self) -> Array:
        """E of products of the changes, shape (replicas, k, k, k, k): [a, b, c, d] is that of (a, b) and (c, d)."""
        assert self.change is not None
        r, n, _, k, _ = self.change.shape
        one, two = (self.change[:, :, i].reshape(r, n, k * k) for i in range(2))
        cross = np.swapaxes(one, 1, 2) @ two / n
        return np.asarray(0.5 * (cross + np.swapaxes(cross, 1, 2)).reshape(r, k, k, k, k))


class Sizes(NamedTuple):
    """Points of each randomisation, number of these, and what multiplies the number of inner nodes."""

    samples: int
    replicas: int
    inner: int


class OfOne(NamedTuple):
    """Scores of one randomisation as in `Scores`, and how many outputs meet no inner node, or few effective ones."""

    score: Array
    truth: Array
    change: Array | None
    lost: int
    few: int


def _count(dimension: int) -> int:
    # Inner nodes along one entry, and over several.
    line, space = 96, 256
    return line if dimension == 1 else space


class SampledGroup:
    """A group by randomised quasi-Monte Carlo."""

    # Share of the points that may find no solution of y = g(h), and effective number of inner nodes.
    _lost, _few = 2e-3, 4.0

    # Points with fewer effective nodes get this many times as many.
    _scarce, _more = 16.0, 16

    def __init__(
        self,
        kernel: LinkKernel,
        parts: Sequence[Part],
        sizes: Sizes,
        rng: np.random.Generator,
        workers: Workers = None,
    ) -> None:
        # Points of a randomisation from which on it takes longer, 10 ms, than to send it to a cluster.
        worth_sending = 1024
        worth = sizes.samples * sizes.inner >= worth_sending
        self._pool = workers if isinstance(workers, ClusterPool) and worth else None
        self._recipe = Recipe.of(SampledGroup, kernel, parts, sizes, rng)
        self.group = Group(kernel, parts)
        self.entries = self.group.entries
        self.replicas = sizes.replicas
        k = len(self.entries)
        bits = max(4, math.ceil(math.log2(sizes.samples)))
        self._nodes: list[list[tuple[Nodes, Nodes]]] = []
        dimensions = [self.group.dimension(kind) for kind in range(len(self.group.kinds))]
        points = []
        self._outputs: list[tuple[Array, NDArray[np.int64]]] = []
        for stream in rng.spawn(sizes.replicas):
            outer, within = stream.spawn(2)
            normals = normal_qmc(2 * k + self.group.random, bits, outer)
            points.append(normals[:, : 2 * k])
            self._outputs.append(self.group.observed(*self.group.link(normals[:, :k]), normals[:, 2 * k :]))
            self._nodes.append(
                [
                    (
                        Nodes.make(d, _count(d) * sizes.inner, own),
                        Nodes.make(d, _count(d) * sizes.inner * self._more, own),
                    )
                    for d, own in zip(dimensions, within.spawn(len(dimensions)), strict=True)
                ]
            )
        self._points = np.array(points)

    def _posterior(
        self, kind: int, y: Array, omega: Array, cov: Array, nodes: tuple[Nodes, Nodes], second: bool
    ) -> Sums:
        """Posterior sums, with more nodes where they are scarce: level sets near extrema are small."""
        sums = self.group.posterior(kind, y, omega, cov, nodes[0], second)
        total = sums.zero.sum(axis=1)
        rows = np.flatnonzero((total**2 < self._scarce * sums.squares) | ~(sums.zero > 1e-280).all(axis=1))
        if len(rows) and len(nodes[0].x) > 2:
            again = self.group.posterior(kind, y[rows], omega[rows], cov, nodes[1], second)
            for name in ("zero", "first", "second", "squares"):
                if (values := getattr(sums, name)) is not None:
                    values[rows] = getattr(again, name)
        return sums

    def __call__(self, q: Array, second: bool) -> Scores:
        """Posterior scores at the overlap q."""
        if self._pool is None:
            found = [self.randomisation(replica, q, second) for replica in range(self.replicas)]
        else:
            rows = [{"replica": replica} for replica in range(self.replicas)]
            found = self._pool.map(scores_of, rows, recipe=self._recipe, q=q, second=second)
        lost, few, n = sum(one.lost for one in found), sum(one.few for one in found), self._points.shape[1]
        if lost + 0.1 * few > self._lost * self.replicas * n:
            raise ConvergenceError(
                f"the posterior of entries {', '.join(str(e + 1) for e in self.entries)} of h, token by token, is not "
                f"resolved by {max(len(nodes[1].x) for nodes in self._nodes[0])} inner nodes at q = {q.tolist()}: of "
                f"{self.replicas * n} outputs {lost} meet none and {few} fewer than {self._few:g} effective ones "
                "(12); raise `inner` (--nodes), or the noise"
            )
        change = np.array([one.change for one in found]) if second else None
        precision = np.linalg.inv(np.eye(len(self.entries)) - covariance(self.entries, q)).astype(np.float64)
        return Scores(np.array([one.score for one in found]), np.array([one.truth for one in found]), change, precision)

    def randomisation(self, replica: int, q: Array, second: bool) -> OfOne:
        """Posterior scores of one randomisation at the overlap q."""
        k = len(self.entries)
        known = covariance(self.entries, q)
        cov = np.eye(k) - known
        spread, precision = matrix_root(known @ cov), np.linalg.inv(cov).astype(np.float64)
        points = self._points[replica]
        score = np.zeros((len(points), 3, k))
        change = np.zeros((len(points), 2, k, k)) if second else None
        lost = few = 0
        # omega given h: the outputs do not depend on q, and jumps of the link make none in the averages.
        shift = points[:, :k] @ cov - points[:, k:] @ spread
        omega = points[:, :k] - shift
        y, kinds = self._outputs[replica]
        for kind, nodes in enumerate(self._nodes[replica]):
            rows = np.flatnonzero(kinds == kind)
            if not len(rows):
                continue
            sums = self._posterior(kind, y[rows], omega[rows], cov, nodes, second)
            total = sums.zero.sum(axis=1)
            bad = ~(np.isfinite(total) & (sums.zero > 1e-280).all(axis=1))
            lost += int(bad.sum())
            few += int((total[~bad] ** 2 < self._few * sums.squares[~bad]).sum())
            # The last one is of both halves; where one of them found nothing it stands for both.
            zero = np.concatenate([sums.zero, total[:, None]], axis=1)
            first = np.concatenate([sums.first, sums.first.sum(axis=1, keepdims=True)], axis=1)
            zero[bad] = np.maximum(total[bad, None], 1e-280)
            first[bad] = first[bad, 2:]
            mean = first / zero[:, :, None]
            score[rows] = mean @ precision
            if change is not None and sums.second is not None:
                both = sums.second / zero[:, :2, None, None]
                variance = both - mean[:, :2, :, None] * mean[:, :2, None, :]
                variance[bad] = cov
                change[rows] = precision @ variance @ precision - precision
        return OfOne(score, shift @ precision, change, lost, few)


def scores_of(replica: int, *, recipe: Recipe, q: Array, second: bool) -> OfOne:
    """Posterior scores of one randomisation, by the points and nodes that this worker has drawn."""
    group: SampledGroup = recipe.made()
    return group.randomisation(replica, q, second)
