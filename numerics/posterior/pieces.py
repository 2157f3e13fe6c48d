"""Moments of a posterior by two independent sets of nodes, and by pieces of these, from sums over the pieces.

By pieces one sees what a ratio of two sums over few nodes is off by (`channel.pieces`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["PIECES", "SETS", "Pieces", "log_masses", "moments_of"]

Array = NDArray[np.float64]

#: Pieces of each set of nodes, and sets of moments: by each set and by both, and by halves and quarters of each set.
PIECES, SETS = 4, 7
# Mass of a piece below which its nodes hold nothing of the posterior: one over it would not be a number.
_LEAST_MASS = float(np.finfo(np.float64).tiny)


class Pieces(NamedTuple):
    """Posterior moments by the first set of nodes, by the second, and by both; and the same by pieces of them.

    These show what a ratio of two sums over few nodes is off by: means over the halves of the first set, of the second,
    and means over the quarters of the first set, of the second.

    Attributes
    ----------
    means : list of ndarray, shape (n, L, M)
        E[h | y].
    seconds : list of ndarray, shape (n, L, M, M)
        E[h_l h_l^T | y] of each layer.
    """

    means: list[Array]
    seconds: list[Array]


def moments_of(sums: Array) -> tuple[Array, int]:
    """The k moments of sums (n, 2 PIECES, 1 + k), shape (n, SETS, k), as of `Pieces`; and how many rows have no node.

    Those rows have none in one of the two sets; of pieces without nodes the means are those of the others.
    """
    sets, halves, quarters = _sums_by_parts(sums)
    lost = int((~(np.isfinite(sets).all(axis=2) & (sets[..., 0] > 0))).any(axis=1).sum())
    out = np.empty((len(sums), SETS, sums.shape[2] - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        out[:, :2] = sets[..., 1:] / sets[..., :1]
        whole = sets.sum(axis=1)
        out[:, 2] = whole[:, 1:] / whole[:, :1]
    out[:, 3:5], out[:, 5:] = _mean_moments(halves), _mean_moments(quarters)
    return out, lost


def log_masses(masses: Array) -> Array:
    """Logarithms of the mean mass of a set from those of its pieces, (n, 2 PIECES), shape (n, SETS), as of `Pieces`.

    Pieces without nodes have no logarithm: the mean is that of the others.
    """
    sets, halves, quarters = _sums_by_parts(masses)
    out = np.empty((len(masses), SETS))
    with np.errstate(divide="ignore"):
        out[:, :2], out[:, 2] = np.log(sets), np.log(0.5 * sets.sum(axis=1))
    out[:, 3:5], out[:, 5:] = _mean_logarithm(2 * halves), _mean_logarithm(PIECES * quarters)
    return out


def _sums_by_parts(pieces: Array) -> tuple[Array, Array, Array]:
    """Sums of pieces, (n, 2 PIECES, ..): of each set, (n, 2, ..), of its halves, (n, 2, 2, ..), and of its quarters."""
    quarters = pieces.reshape(len(pieces), 2, PIECES, *pieces.shape[2:])
    halves = quarters.reshape(len(pieces), 2, 2, PIECES // 2, *pieces.shape[2:]).sum(axis=3)
    return halves.sum(axis=2), halves, quarters


def _mean_logarithm(masses: Array) -> Array:
    """Mean over the pieces, (n, 2, pieces), of the logarithm of their mass, without those that have no node."""
    found = masses > _LEAST_MASS
    logarithm = np.log(np.where(found, masses, 1.0))
    return np.asarray(logarithm.sum(axis=2) / np.maximum(found.sum(axis=2), 1))


def _mean_moments(sums: Array) -> Array:
    """Mean over the pieces, (n, 2, pieces, 1 + k), of their moments, without those that have no node."""
    mass = sums[..., :1]
    found = mass > _LEAST_MASS
    count = np.maximum(found.sum(axis=2), 1)
    return np.asarray((sums[..., 1:] * np.where(found, 1 / np.where(found, mass, 1.0), 0.0)).sum(axis=2) / count)
