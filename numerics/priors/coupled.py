"""Entries of a row that are coupled: which they are, and the qhat of their overlap by a root search."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root
from scipy.sparse.csgraph import connected_components

from ..core.errors import ConvergenceError
from .gaussian import Gaussian
from .protocol import Prior

__all__ = ["coupled_groups", "coupled_inverse"]

Array = NDArray[np.float64]

# Entries below this share of the largest are rounding.
_NOTHING = 1e-15

# Disagreement of F(qhat) with q, of its largest entry, that is small enough: what the rules over three entries resolve.
_CLOSE = 1e-6


def coupled_inverse(prior: Prior, q: Array) -> Array:
    """Solve F(qhat) = q for a matrix that is not diagonal, from the qhat of the Gaussian prior."""
    size = len(q)
    rows, columns = np.triu_indices(size)
    target = Gaussian().inverse(q)
    scale = float(np.abs(target).max())

    def matrix(entries: Array) -> Array:
        out = np.zeros((size, size))
        out[rows, columns] = out[columns, rows] = entries
        return out

    def rest(entries: Array) -> Array:
        # F (I - F)^{-1} is qhat for the Gaussian prior, and grows with it for others.
        qhat = scale * matrix(entries)
        return (np.linalg.solve(prior.mmse(qhat), prior.overlap(qhat)) - target)[rows, columns] / scale

    found = scale * matrix(root(rest, target[rows, columns] / scale, tol=1e-12).x)
    off = float(np.abs(prior.overlap(found) - q).max())
    if not off <= _CLOSE * float(np.abs(q).max()):
        raise ConvergenceError(
            f"no qhat with F(qhat) = q for the {prior.describe()} was found (14): off by {off:.1e}; "
            "take a diagonal overlap"
        )
    return found


def coupled_groups(matrix: Array) -> list[list[int]]:
    """Indices that entries off the diagonal connect, in order; those of the size of rounding do not.

    Examples
    --------
    >>> coupled_groups(np.array([[1.0, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]]))
    [[0, 2], [1]]
    """
    size = np.abs(matrix)
    count, labels = connected_components(size > _NOTHING * size.max(initial=0.0), directed=False)
    return [np.flatnonzero(labels == k).tolist() for k in range(count)]
