"""What all strategies do at the end: solve for the fixed point further where that matters, and give its error."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.standard_error import SIGMAS, standard_error
from .balance import AT_RECOVERY, RECOVERED, Entries, sharing
from .error import blocked, fixed_point_error, growth_error, linear_error
from .growth import rates, released, undecided
from .state import DEAD, FAINT, Problem, Solution, State
from .unconverged import covering_error

__all__ = ["Measured", "measured", "outlined", "postprocess", "stated"]

Array = NDArray[np.float64]


class Measured(NamedTuple):
    """A state, the error of its overlap, and what the averages leave in doubt.

    Attributes
    ----------
    state : State
    error : ndarray, shape (P, P)
    doubt : str
    growth : ndarray, shape (P,)
        Error of the growth rates over alpha; empty where it was not wanted.
    eigenvalues : ndarray
        Of F' over the free entries, largest first.
    """

    state: State
    error: Array
    doubt: str = ""
    growth: Array = np.zeros(0)
    eigenvalues: Array = np.zeros(0)


def postprocess(problem: Problem, state: State) -> Solution:
    """Fixed point with its error."""
    return stated(problem, measured(problem, state))


def outlined(problem: Problem, state: State) -> Solution:
    """The same with errors to first order in what scatters, and fixed points that the iteration may have passed.

    It takes an evaluation for each free entry at most, none where the averages have their derivative: for what more
    evaluations are to follow.
    """
    if not state.converged or not state.free or _held(problem, state):
        return postprocess(problem, state)
    balance = problem.balance(state.free, _matrix(problem, state, state.free))
    error = np.zeros_like(state.q)
    found = linear_error(balance, state.q[state.entries], state.known)
    for entry, value in zip(state.free, found.error, strict=True):
        for i, j in sharing(problem.averages, entry):
            error[i, j] = error[j, i] = value
    doubt = found.doubt or blocked(balance, state.path, found)
    return stated(problem, Measured(state, np.minimum(error, 1.0), doubt, found.growth, found.eigenvalues))


def stated(problem: Problem, found: Measured) -> Solution:
    """Solution of a state whose error is known."""
    state = found.state
    return Solution(
        alpha=problem.alpha,
        q=state.q,
        error=found.error,
        rates=rates(problem, state),
        how="monte-carlo" if state.known.sampled else "estimated",
        converged=state.converged,
        residual=state.residual,
        n_iter=state.n_iter,
        history=state.history,
        tolerance=state.tolerance,
        doubt=found.doubt,
        note=state.known.note,
        rates_error=problem.rising * found.growth,
        eigenvalues=found.eigenvalues,
    )


def measured(problem: Problem, state: State) -> Measured:
    """Error of q; q is solved for further where that matters, and left as it is where it did not converge."""
    error = np.zeros_like(state.q)
    if state.averages is None:
        return Measured(state, error)
    if not state.converged:
        return Measured(state, covering_error(problem, state))
    if not state.free:
        return _silent(problem, state, error)
    if state.recovered:
        left = np.where(state.q.diagonal() > 0, 1 - state.q.diagonal(), 0.0)
        return _silent(problem, state, np.sqrt(np.multiply.outer(left, left)))
    rows, columns = state.entries
    state = _pushed(problem, state)
    held, left = _held(problem, state), 1 - state.q.diagonal()
    if not held and (seen := _recovered_from_below(problem, state)) is not None:
        state, left = seen
        held = [k for k, (i, j) in enumerate(state.free) if left[i] > 0 or left[j] > 0]
    # Entries off the diagonal vanish with what is left of the overlaps beside them.
    error[rows[held], columns[held]] = np.sqrt(left[rows[held]] * left[columns[held]])
    free = tuple(pair for k, pair in enumerate(state.free) if k not in held)
    if not free:
        found = _silent(problem, state, error)
    else:
        found = _measured_free(problem, state, free, error)
    for entry in found.state.free:
        for i, j in sharing(problem.averages, entry):
            found.error[i, j] = found.error[j, i] = found.error[entry]
    # An overlap cannot be off by more than its range.
    return Measured(found.state, np.minimum(found.error, 1.0), found.doubt, found.growth, found.eigenvalues)


def _silent(problem: Problem, state: State, error: Array) -> Measured:
    """What is stated of layers of zero overlap, by the error of the growth rates themselves."""
    growth = growth_error(state.known)
    doubt = undecided(problem, state, growth, state.known.sampled) if state.silent else ""
    return Measured(state, error, doubt, growth)


def _decided(problem: Problem, state: State) -> NDArray[np.bool_]:
    """Free entries that the iteration raises whatever the averages are off by."""
    rows, columns = state.entries
    image = problem.image(state.known.g)[:, rows, columns]
    low: Array = image.mean(axis=0) - (SIGMAS * standard_error(image) if state.known.sampled else 0.0)
    return np.asarray(low > state.q[rows, columns])


def _held(problem: Problem, state: State) -> list[int]:
    """Free entries that are pushed beyond the last overlap that is resolved, and those that vanish with them."""
    at = [k for k, (i, j) in enumerate(state.free) if i == j and state.q[i, i] >= AT_RECOVERY]
    decided = _decided(problem, state)
    known = {state.free[k][0] for k in at if decided[k]}
    return [k for k, pair in enumerate(state.free) if known & set(pair)]


def _recovered_from_below(problem: Problem, state: State) -> tuple[State, Array] | None:
    """What all that is recovered may lack, where averages next to recovery do not resolve whether it is pushed on.

    F rises with q: from a smaller overlap that it raises beyond doubt the iteration leads to at least what F is there.
    """
    rows, columns = state.entries
    at = np.unique(rows[(rows == columns) & (state.q[rows, columns] >= AT_RECOVERY)])
    if not len(at) or set(at) != set(rows[rows == columns]):
        return None
    tried = []
    # Distances to recovery from which it is asked whether the iteration leads there.
    distances = (1e-5, 1e-4, 1e-3, 1e-2)
    for away in distances:
        q = state.q.copy()
        q[at] = q[:, at] = 0.0
        q[at, at] = 1 - away
        tried.append(q)
        known = problem.averages(q)
        image = problem.image(known.g)[:, at, at]
        low = image.mean(axis=0) - SIGMAS * standard_error(image) if known.sampled else image.min(axis=0)
        if (low > 1 - away).all():
            left = np.zeros(len(q))
            left[at] = np.maximum(1 - low, 1 - RECOVERED)
            return state.beside(*tried), left
    return None


def _pushed(problem: Problem, state: State) -> State:
    """On the way to recovery, where |F - q| is small long before: the rest of it at once."""
    x = state.q[state.entries]
    rows, columns = state.entries
    # An overlap this close to 1 may be on the way to recovery.
    nearly = 1e-2
    near = (rows == columns) & (x < AT_RECOVERY) & (1 - x < nearly) & _decided(problem, state)
    if not near.any():
        return state
    vanish = (rows != columns) & (np.isin(rows, rows[near]) | np.isin(columns, rows[near]))
    q = problem.overlap(state.free, np.where(near, RECOVERED, np.where(vanish, 0.0, x)))
    further = state.visited(q, problem.averages(q))
    return further if _decided(problem, further)[near].all() else replace(state, n_iter=further.n_iter)


def _matrix(problem: Problem, state: State, free: Entries) -> Callable[[Array], Array]:
    """From values of these entries to the overlap."""
    rows, columns = np.array(free).T

    def matrix(x: Array) -> Array:
        q = state.q.copy()
        q[rows, columns] = q[columns, rows] = x
        return problem.overlap(state.free, q[state.entries])

    return matrix


def _measured_free(problem: Problem, state: State, free: Entries, error: Array) -> Measured:
    """Enter the errors of these entries, the others being held."""
    rows, columns = np.array(free).T
    matrix = _matrix(problem, state, free)
    balance = problem.balance(free, matrix)
    found = fixed_point_error(balance, state.q[rows, columns], state.known)
    if found.visited:
        state = state.beside(*(matrix(x) for x in found.visited))
        state = replace(state, q=state.history[-1], averages=found.found)
        wrong = problem.image(found.found.g.mean(axis=0)) - state.q
        state = replace(state, residual=float(np.abs(wrong)[rows, columns].max()))
        if len(state.free) - len(free) < len(_held(problem, state)):
            return measured(problem, state)
    error[rows, columns] = error[columns, rows] = found.error
    # Where it is no fixed point, steps below `tol` came to rest on the way to zero. Links have rates of their own.
    dying = (bool(found.doubt) or not balance.smooth) and not problem.relative
    # Overlaps that may be left by steps below `tol` on the way to zero, in units of it.
    way = 20.0 * (problem if balance.smooth else state).tolerance.value
    below = max(DEAD if balance.smooth else FAINT, way) if dying else DEAD
    if (found.visited or dying) and float(state.q.diagonal()[rows].min()) < below:
        before = {i for i, _ in state.free}
        state, active = released(problem, state, sorted(before), below)
        if len(active) < len(before):
            return measured(problem, replace(state, dead=state.dead | (before - set(active))))
    doubt = found.doubt
    if not doubt and len(free) == len(state.free):
        doubt = blocked(balance, state.path, found)
    doubt = doubt or undecided(problem, state, found.growth, found.found.sampled)
    return Measured(state, error, doubt, found.growth, found.eigenvalues)
