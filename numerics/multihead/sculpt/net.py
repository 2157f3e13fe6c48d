"""Step 7, paper: a net in the hull, regression for every tuple of its points, validation."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ...core.shown import few_lines
from ...learning.blocks import Array
from ..batch import Batch
from .hull import Hull
from .programs import Box

__all__ = ["Net", "best_tuples", "grid", "search"]


@few_lines
@dataclass(frozen=True)
class Net:
    """The m-tuples of points of a grid in the box that were tried, and how well each explains the outputs.

    Attributes
    ----------
    box : Box
    points : ndarray, shape (c, m - 1)
        In hull coordinates.
    tuples : ndarray, shape (T, m)
        Indices of points, increasing in a tuple.
    error : ndarray, shape (T,)
        |Y - sum_i A_i X W_i|^2 / |Y|^2 at the best W_i.
    """

    box: Box
    points: Array
    tuples: NDArray[np.int64]
    error: Array

    def matrices(self, hull: Hull, number: int) -> Array:
        """The Theta_i of a tuple, shape (m, d, d)."""
        return hull.proxy + np.tensordot(self.points[self.tuples[number]], hull.directions, 1)


def grid(box: Box, heads: int) -> Array:
    """Points of the net in hull coordinates, shape (c, m - 1)."""
    # Points per axis, two for more heads. All tuples would number (g^(m-1) choose m).
    points = {1: 1, 2: 31, 3: 7, 4: 5, 5: 3}
    size = points.get(heads, 2)
    axes = [np.linspace(low, high, size) for low, high in zip(box.low, box.high, strict=True)]
    return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=-1) if axes else np.zeros((1, 0))


def search(x: Array, y: Array, hull: Hull, box: Box, heads: int) -> Net:
    """Least squares of the outputs on every m-tuple of the net (paper; the affine hull replaces the span of the paper).

    All regressors A_c X enter one Gram matrix. The patterns of the first heads of a tuple are eliminated from it once
    for all tuples that begin with them. For four heads and more there are too many tuples: a search among those that
    add the best points one by one, which affords a finer net (heuristic).

    Parameters
    ----------
    x, y : ndarray, shape (n, k, d)
    hull : Hull
    box : Box
    heads : int
    """
    points = grid(box, heads)
    batch = Batch(x, y)
    d, count = batch.dim, len(points)
    mixed = batch.mixed(batch.attention(hull.proxy + np.tensordot(points, hull.directions, 1)))
    gram = mixed @ mixed.T
    # Of the trace of a Gram matrix per column: neighbouring points of the net see nearly the same patterns.
    ridge = 1e-9
    gram[np.diag_indices(len(gram))] += ridge * np.trace(gram) / len(gram)
    # Heads up to which all tuples are tried; above, the best branches at every point of a tuple. In the tests of both,
    # five branches found the best tuple of all.
    exhaustive, branches = 3, 5
    found = _Search(d, None if heads <= exhaustive else branches)
    found.visit(_Branch(gram, mixed @ batch.y.T, np.arange(count), heads, [], 0.0))
    tuples, explained = found.tuples()
    return Net(box, points, tuples, 1.0 - explained / batch.size)


def best_tuples(net: Net, number: int) -> list[int]:
    """Tuples of least error that pairwise share at most m - 2 points: neighbours lead to one and the same minimum."""
    m = net.tuples.shape[1]
    chosen: list[int] = []
    # Decimals of errors that are compared: rounding, over the root of the ridge, is below 1e-11.
    decimals = 9
    # Saturated patterns are the same at many points of the net: of equal errors the first is taken.
    for candidate in np.argsort(np.round(net.error, decimals), kind="stable"):
        mine = set(net.tuples[candidate].tolist())
        if all(len(mine & set(net.tuples[other].tolist())) <= max(0, m - 2) for other in chosen):
            chosen.append(int(candidate))
            if len(chosen) == number:
                break
    return chosen


class _Branch(NamedTuple):
    """A tuple with `left` more points to come: its points `head`, the squares `sure` that they explain, and the rest.

    `gram` and `cross` are those of the points `names`, less what the patterns of the head explain.
    """

    gram: Array
    cross: Array
    names: NDArray[np.int64]
    left: int
    head: list[int]
    sure: float


class _Search:
    """Tuples with their explained squares, found depth first; blocks of the Gram matrix are named by their points."""

    def __init__(self, dim: int, branches: int | None) -> None:
        self.dim = dim
        self.branches = branches
        self.heads: list[list[int]] = []
        self.lasts: list[NDArray[np.int64]] = []
        self.explained: list[Array] = []

    def visit(self, branch: _Branch) -> None:
        """Add the points that are left."""
        gram, cross, names, left, head, sure = branch
        count, d = len(names), self.dim
        if left == 1:
            self.heads.append(head)
            self.lasts.append(names)
            self.explained.append(sure + _explained(_diagonal(gram, d), cross.reshape(count, d, d)))
            return
        if self.branches is None:
            chosen = np.arange(count - left + 1)
        else:
            gain = _explained(_diagonal(gram, d), cross.reshape(count, d, d))
            chosen = np.argsort(-gain, kind="stable")[: self.branches]
        for i in chosen.tolist():
            # All tuples: those of later points only, every set once. The best branches: any other point.
            rest = np.arange(i + 1, count) if self.branches is None else np.delete(np.arange(count), i)
            self._with(i, rest, branch)

    def _with(self, i: int, rest: NDArray[np.int64], branch: _Branch) -> None:
        """Add a point to the tuple, and search the rest."""
        gram, cross, names, left, head, sure = branch
        head = [*head, int(names[i])]
        d, count = self.dim, len(rest)
        here = slice(i * d, (i + 1) * d)
        kept = (rest[:, None] * d + np.arange(d)).ravel()
        try:
            factor = cholesky(gram[here, here], lower=True, check_finite=False)
        except LinAlgError:
            return  # the same patterns as of the heads before: tuples without this point are as good
        taken = solve_triangular(factor, np.hstack([gram[here][:, kept], cross[here]]), lower=True, check_finite=False)
        across, mine = taken[:, :-d], taken[:, -d:]
        sure += float(np.vdot(mine, mine))
        if left > 2 or self.branches is not None:
            less = gram[np.ix_(kept, kept)] - across.T @ across
            self.visit(_Branch(less, cross[kept] - across.T @ mine, names[rest], left - 1, head, sure))
            return
        # The last head needs the blocks on the diagonal only.
        columns = across.reshape(d, count, d).transpose(1, 0, 2)
        blocks = _diagonal(gram, d)[rest] - columns.transpose(0, 2, 1) @ columns
        self.heads.append(head)
        self.lasts.append(names[rest])
        self.explained.append(sure + _explained(blocks, (cross[kept] - across.T @ mine).reshape(count, d, d)))

    def tuples(self) -> tuple[NDArray[np.int64], Array]:
        """Every set of points once, and what it explains."""
        parts = [
            np.column_stack([np.tile(head, (len(last), 1)), last])
            for head, last in zip(self.heads, self.lasts, strict=True)
        ]
        sets, first = np.unique(np.sort(np.concatenate(parts), axis=1), axis=0, return_index=True)
        return sets.astype(np.int64), np.concatenate(self.explained)[first]


def _diagonal(gram: Array, d: int) -> Array:
    """Blocks on the diagonal, shape (c, d, d)."""
    count = len(gram) // d
    each = np.arange(count)
    return np.asarray(gram.reshape(count, d, count, d)[each, :, each])


def _explained(blocks: Array, cross: Array) -> Array:
    """tr(C^T B^{-1} C) of every block B."""
    return np.asarray(np.einsum("cab,cab->c", cross, np.linalg.solve(blocks, cross)))
