"""The estimate of message passing on its way: what is kept of its iterations, whether it has settled, or turns."""

import math

import numpy as np

from ...posterior.protocol import Model
from ..blocks import Array
from ..symmetry import symmetry
from .results import GAMPStep

__all__ = ["DEAD", "QUIET", "Course", "DivergedError", "first_covariance", "guarded", "resolved"]

#: Overlap with itself, over 1/D, below which the start has died out, altogether or in a direction.
DEAD = 1e-3
# A direction below it counts as died out once it is smaller than at some time in the last `_WAIT` iterations, and all
# others have been settled for more than `QUIET`: one that turns while it grows shrinks now and then, and one that
# waits for others to be learned shrinks until they are.
_WAIT, QUIET = 20, 30
# Overlap with itself, over the largest, that is made of rounding.
_ROUNDING = 1e-26
# Variances below this count as it: what is known better is not resolved by the denoisers, nor by float32 data.
_EXACT = 1e-6


class DivergedError(Exception):
    """An iterate cannot be a posterior mean; the message gives the reason."""


class Course:
    """The estimate, from a start with C = I - What What^T / D on, and what is kept of its iterations."""

    def __init__(self, weights: Array, truth: Array | None, model: Model) -> None:
        own = weights @ weights.T / weights.shape[1]
        self.weights, self.covariance = weights, first_covariance(own)
        self._truth, self._gauge = truth, symmetry(model)
        self.history, self.selves = [self.overlap(weights)], [own]
        self.changes: list[float] = []
        self.dampings: list[float] = []
        self._best = (math.inf, weights, self.covariance, 0)
        self._spectra = [np.linalg.eigvalsh(own)]
        #: Whether a direction is too small to count, and shrinks.
        self.dormant = False
        self._learned = float(np.trace(own))
        self._step, self._restarted = np.zeros(weights.shape), 0

    def overlap(self, weights: Array) -> Array | None:
        """Overlap with the teacher, if it is known."""
        return None if self._truth is None else self._gauge.align(self._truth @ weights.T / weights.shape[1])

    def move(self, weights: Array, covariance: Array, share: float, step: Array) -> None:
        """Take the next estimate, with the share of the old one in it, and the step by which it is judged."""
        dimension = weights.shape[1]
        own = weights @ weights.T / dimension
        self.weights, self.covariance, self._step = weights, covariance, step
        change, self.dormant = _change(step, weights, np.max(self._spectra[-_WAIT:], axis=0) * dimension)
        self._spectra.append(np.linalg.eigvalsh(own))
        self.changes.append(change)
        self.dampings.append(share)
        self.history.append(self.overlap(weights))
        self.selves.append(own)
        # Of those that have learned about as much, the one that moved least.
        if self.changes[-1] <= self._best[0] or np.trace(own) > 2 * self._learned:
            self._best = (self.changes[-1], weights, covariance, len(self.changes))
            self._learned = float(np.trace(own))

    def end(self, settled: bool, nothing: float, newest: Array) -> str:
        """Why the latest iteration is the last one; empty if it is not."""
        if float(self.selves[-1].diagonal().max()) < nothing:
            return "the start has died out, nothing is learned"
        if settled:
            return f"What moved by {self.changes[-1]:.1e} of its norm, or less, in every direction"
        if float(np.linalg.eigvalsh(newest)[-1]) < _EXACT:
            return f"the weights are recovered, C < {_EXACT:g}"
        return ""

    def turns(self) -> bool:
        """Whether the estimate moves on and on, and comes no closer to anything, nor grows."""
        if not self.changes:
            return False
        size, change = self._directions()[1:]
        # Iterations of a window, without damping; a run turns where its least change is more than this part of that of
        # the window before, and no direction has grown by more than the other one. Windows are longer while what moves
        # is smaller than a start: between complex multipliers above 1 in size it grows now and then only.
        usual, longer, fallen, grown = 60, 2, 0.5, 1.1
        window = math.ceil(usual / (1 - self.dampings[-1])) * (1 if size[np.argmax(change / size)] >= 1 else longer)
        if len(self.changes) < 2 * window:
            return False
        if min(self.changes[-window:]) <= fallen * min(self.changes[-2 * window : -window]):
            return False
        latest = np.max(self._spectra[-window:], axis=0)
        before = np.max(self._spectra[-2 * window : -window], axis=0)
        return not bool((latest > grown * np.maximum(before, _ROUNDING * before.max())).any())

    def restart(self, tol: float) -> Array | None:
        """Matrix by which the next direction gets the size of a start, once those that are learned have settled.

        The iteration is linear in a direction that is as small as this, so that it takes the place of the iterations in
        which the direction grows. It is given once for each number of directions that are learned; None otherwise.
        """
        if not self.changes:
            return None
        vectors, size, change = self._directions()
        # Overlap with itself, over 1/D, below which an iteration is linear in a direction.
        linear = 1e-2
        learned, small = size >= 1, (size < linear) & (size > _ROUNDING * size.max())
        if learned.sum() <= self._restarted or not small.any() or (change > tol**2 * size)[learned].any():
            return None
        self._restarted = int(learned.sum())
        following = np.argmax(np.where(small, size, 0.0))
        matrix = np.eye(len(size)) + (1 / math.sqrt(size[following]) - 1) * np.outer(*2 * [vectors[:, following]])
        self.weights = matrix @ self.weights
        return matrix

    def _directions(self) -> tuple[Array, Array, Array]:
        """Eigenvectors of What What^T, and the squared norms of What and of its latest step in them."""
        vectors = np.linalg.eigh(self.weights @ self.weights.T)[1]
        size, change = (((vectors.T @ rows) ** 2).sum(axis=1) for rows in (self.weights, self._step))
        return vectors, np.maximum(size, np.finfo(float).tiny), change

    def restore(self) -> int:
        """Go back to the best estimate; the number of its iteration."""
        _, self.weights, self.covariance, iteration = self._best
        return iteration

    def step(self) -> GAMPStep:
        """The latest iteration as a callback gets it."""
        return GAMPStep(
            len(self.changes),
            self.weights.copy(),
            self.covariance.copy(),
            self.selves[-1],
            self.history[-1],
            self.changes[-1],
            self.dampings[-1],
        )


def first_covariance(self_overlap: Array) -> Array:
    """C of a first estimate: what is left of I (Nishimori); I if nothing is left, for then it is no posterior mean."""
    rest = np.eye(len(self_overlap)) - self_overlap
    # Least eigenvalue of I - What What^T / D that counts as a covariance.
    left = 1e-3
    return rest if np.linalg.eigvalsh(rest)[0] > left else np.eye(len(rest))


def _change(step: Array, weights: Array, before: Array) -> tuple[float, bool]:
    """Return the change of What over its norm, in that eigenvector of What What^T where it is largest.

    An index that has hardly been learned yet, beside others that have, grows by steps that are small beside these. One
    whose squared norm is smaller than `DEAD`, and than it was `before`, is left out; whether there is one is
    returned, too. So is one that is made of rounding, for which nothing needs to be waited.
    """
    vectors = np.linalg.eigh(weights @ weights.T)[1]
    now, moved = vectors.T @ weights, vectors.T @ step
    size, change = ((rows**2).sum(axis=1) for rows in (now, moved))
    shrinks, rounding = (size <= DEAD) & (size <= before), size <= _ROUNDING * size.max()
    alive = ~(shrinks | rounding)
    return math.sqrt(float((change[alive] / size[alive]).max(initial=0.0))), bool((shrinks & ~rounding).any())


def guarded(weights: Array) -> Array:
    """Return the estimate, or raise DivergedError where no posterior mean is that large."""
    own = weights @ weights.T / weights.shape[1]
    # Overlap with itself beyond which the iteration has left what a posterior mean can be, by far.
    lost = 4.0
    if not np.isfinite(own).all() or np.linalg.eigvalsh(own)[-1] > lost:
        raise DivergedError(f"What What^T / D exceeds {lost:g}, and that of a posterior mean stays below 1")
    return weights


def resolved(covariance: Array) -> Array:
    """Covariances, shape (.., P, P), with eigenvalues that are at least the smallest that denoisers resolve."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.maximum(values, _EXACT)[..., None, :]) @ np.swapaxes(vectors, -1, -2))
