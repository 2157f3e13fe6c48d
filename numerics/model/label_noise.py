"""Noise of discrete outputs: each is one of K labels, and is replaced by one of the others with some probability."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from ..core.ties import merged

__all__ = ["LabelNoise", "labels_of"]

# Of the standard library: labels are read where SciPy is not loaded.
_erfc = np.vectorize(math.erfc, otypes=[np.float64])

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Points h at which labels are looked for, and the deviations that they are drawn with.
_POINTS, _NARROW, _WIDE = 2**16, 0.1, 10.0
# Outputs that differ by less, relative to the largest label, are one label.
_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """Law of the label that is seen, given that of h.

    Attributes
    ----------
    probability : float
        That a label is replaced by another one; each of the others is as likely.
    labels : ndarray, shape (K, outputs)
        In ascending order.

    Examples
    --------
    >>> noise = LabelNoise(0.1, np.array([[-1.0], [1.0]]))
    >>> noise.matrix
    array([[0.9, 0.1],
           [0.1, 0.9]])
    >>> round(noise.kept, 12)
    0.8
    """

    probability: float
    labels: Array

    @property
    def matrix(self) -> Array:
        """Probability of every label given each: symmetric, shape (K, K)."""
        count = len(self.labels)
        return np.where(np.eye(count, dtype=bool), 1 - self.probability, self.probability / (count - 1))

    @property
    def centre(self) -> Array:
        """Mean of the labels, shape (outputs,)."""
        return np.asarray(self.labels.mean(axis=0))

    @property
    def prediction(self) -> tuple[Array, Array]:
        """Matrix A and vector b with which A x + b are the errors of predicting what is seen.

        x: the errors for the label of h, of its posterior mean and of the plug-in g(omega); E |g(omega) - c|^2 and
        E |g(h) - c|^2, c the centre. The best predictor of what is seen is its own mean, r E[g(h) | omega] + (1 - r) c.
        """
        r = self.kept
        spread = float(((self.labels - self.centre) ** 2).sum(axis=1).mean())
        return np.array([[r * r, 0, 0, r * (1 - r)], [0, r, 1 - r, 0]]), np.full(2, (1 - r) * spread)

    def seen(self, errors: Array) -> Array:
        """Errors of predicting the label that is seen, from what `prediction` takes."""
        matrix, added = self.prediction
        return np.asarray(matrix @ errors + added)

    @property
    def kept(self) -> float:
        """Probability r of seeing the label itself and not, as with 1 - r, any of the K drawn at random."""
        return 1 - self.probability * len(self.labels) / (len(self.labels) - 1)

    def mixed(self, tensors: Array) -> Array:
        """What belongs to each label that is seen, from what belongs to each of at most K labels of h; first axis."""
        if len(tensors) > len(self.labels):
            raise ConvergenceError(self._rare)
        return np.tensordot(self.matrix[:, : len(tensors)], tensors, 1)

    @property
    def _rare(self) -> str:
        return (
            f"the link has more than the {len(self.labels)} labels that were found at {_POINTS} random h, and label "
            "noise depends on their number: some of them are too rare"
        )

    def certain(self, y: Array) -> Integers:
        """`number` of outputs that are labels.

        Raises
        ------
        ConvergenceError
            Some are not among those that were found.
        """
        found = self.number(y)
        if (found < 0).any():
            raise ConvergenceError(self._rare)
        return found

    def number(self, y: Array) -> Integers:
        """Number of the label of each output, shape (n,) of (n, outputs); -1 where it is none."""
        found = np.full(len(y), -1)
        allowed = _SAME * (1 + np.abs(self.labels).max())
        for k, label in enumerate(self.labels):
            found[(np.abs(y - label) <= allowed).all(axis=1)] = k
        return found

    def replaced(self, number: Integers, normals: Array) -> Integers:
        """Numbers of the labels that are seen, from a standard normal variable for each; -1 stays."""
        uniform = 0.5 * _erfc(-normals / math.sqrt(2))
        others = len(self.labels) - 1
        # Where it is replaced, the same variable decides by which of the others.
        with np.errstate(divide="ignore", invalid="ignore"):
            step = 1 + np.minimum((uniform / self.probability * others).astype(np.int64), others - 1)
        moved = (uniform < self.probability) & (number >= 0)
        return np.where(moved, (number + step) % len(self.labels), number)

    def observed(self, y: Array, normals: Array) -> Array:
        """Outputs as they are seen, from standard normal variables of the same shape, of which the first counts."""
        return np.asarray(self.labels[self.replaced(self.number(y), normals[:, 0])])


def labels_of(link: Callable[[Array], Array], indices: int, tokens: int) -> Array:
    """Values that discrete outputs take on open sets of h, by random h of all sizes: shape (K, outputs)."""
    rng = np.random.default_rng(0)
    deviation = np.exp(rng.uniform(np.log(_NARROW), np.log(_WIDE), (_POINTS, indices, tokens)))
    y = link(deviation * rng.standard_normal((_POINTS, indices, tokens)))
    return np.unique(np.apply_along_axis(merged, 0, y), axis=0)
