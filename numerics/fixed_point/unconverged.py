"""How far a fixed point may be from where an iteration has ended without having come to it.

G grows with q (15), and so does F(alpha G(q)): from where it raises q the iteration leads up to a fixed point above,
from where it lowers q down to one below. Between 0 and I nothing else is known without further evaluations.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..core.standard_error import SIGMAS, standard_error
from .balance import free_entries, sharing
from .state import Problem, State

__all__ = ["COVERED", "covering_error", "direction_of", "distances"]

Array = NDArray[np.float64]

#: What a result states of its error where it did not converge.
COVERED = "the error covers the fixed point wherever the rest of the iteration leads"


def distances(q: Array, direction: int) -> Array:
    """Bounds of |q*_ij - q_ij| for a fixed point q* between 0 and I.

    Parameters
    ----------
    q : ndarray, shape (P, P)
    direction : {1, 0, -1}
        Whether q* - q is known to be positive semidefinite (1), q - q* (-1), or neither.
    """
    x = np.clip(q.diagonal(), 0.0, 1.0)
    if direction:
        # A positive semidefinite matrix below I - q, or below q.
        reach = 1 - x if direction > 0 else x
        return np.asarray(np.sqrt(np.outer(reach, reach)))
    # Entries off the diagonal of a matrix between 0 and I are at most 1/2.
    out = 0.5 + np.abs(q)
    np.fill_diagonal(out, np.maximum(x, 1 - x))
    return out


def direction_of(problem: Problem, state: State, unknown: float = 0.0) -> int:
    """Whether the iteration raises all that is free beyond doubt (1), lowers it (-1), or neither (0).

    `unknown` is a relative error of the averages that they do not state.
    """
    if state.averages is None or not math.isfinite(state.residual):
        return 0  # the averages are not those of q
    known = state.averages
    images, mean = problem.image(known.g), problem.image(known.g.mean(axis=0))
    off = SIGMAS * standard_error(images) if known.sampled else 0.5 * np.ptp(images, axis=0)
    off = off + np.abs(problem.image((1 + unknown) * known.g.mean(axis=0) + known.bias) - mean)
    rows, columns = state.entries
    if (rows == columns).all():
        moves, doubt = (mean - state.q)[rows, rows], off[rows, rows]
    else:
        active = sorted(set(rows.tolist()))
        block = np.ix_(active, active)
        moves, doubt = np.linalg.eigvalsh((mean - state.q)[block]), np.full(1, np.linalg.norm(off[block]))
    return int((moves > doubt).all()) - int((moves < -doubt).all())


def _largest_rates(problem: Problem, state: State) -> Array:
    """Growth rates by the randomisation that has the largest."""
    return np.asarray(problem.rising * (state.known.growth.max(axis=0) + state.known.growth_bias))


def covering_error(problem: Problem, state: State, unknown: float = 0.0) -> Array:
    """Error of the overlap of a state that did not converge, shape (P, P): it covers where the iteration may lead.

    Indices of zero overlap that may still be learned are among it.

    Parameters
    ----------
    problem : Problem
    state : State
    unknown : float, optional
        Relative error of the averages that they do not state.
    """
    error = np.zeros_like(state.q)
    direction = direction_of(problem, state, unknown) if state.free else -1
    silent = [i for i in sorted(state.silent) if not state.q[i, i]]
    if direction < 0:
        # At smaller overlaps the growth rates are smaller still.
        silent = [i for i in silent if not _largest_rates(problem, state)[i] <= 1]
        direction = 0 if silent else direction
    # With a free entry go those that symmetry sets to it.
    free = [pair for entry in state.free for pair in sharing(problem.averages, entry)]
    learned = [i for i, j in free if i == j]
    pairs = tuple(pair for pair in state.free if pair[0] != pair[1])
    found = distances(state.q, direction)
    for entry in free_entries(problem.averages, sorted({*learned, *silent}), pairs):
        for i, j in sharing(problem.averages, entry):
            error[i, j] = error[j, i] = found[entry]
    return error
