"""Newton's method with Broyden's updates: the strategy by which all equations of a fixed point are solved for.

The equations, log alpha_l(x) = log alpha for each group l that is learned, are those of `balance`; a strategy knows
them by a function, and the ends of their range by another.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Limits", "Root", "broyden", "newton_root"]

Array = NDArray[np.float64]


class Limits(NamedTuple):
    """When Newton's method ends.

    Attributes
    ----------
    tries : int
        Evaluations at most.
    close, enough : float
        Largest disagreement at which it ends at once, and below which it ends when the disagreement grows.
    longest : float
        Largest change of an unknown in one step.
    rcond : float, optional
        Singular values of the Jacobian below this share of the largest count as zero; rounding by default.
    """

    tries: int
    close: float
    enough: float
    longest: float
    rcond: float | None = None


class Root(NamedTuple):
    """Best point that was found, the Jacobian at the last one, and the largest disagreement that is left."""

    z: Array
    jacobian: Array
    left: float


def broyden(jacobian: Array, step: Array, changed: Array, *, along: Array | None = None, least: float = 0.0) -> Array:
    """Jacobian nearest to this one that explains how the equations changed over a step, too.

    Parameters
    ----------
    jacobian : ndarray, shape (m, n)
    step, changed : ndarray, shape (n,) and (m,)
        Of the unknowns and of the equations.
    along : ndarray, shape (n,), optional
        Part of the step whose derivatives may change; by default all of it.
    least : float, optional
        Square of the length of a step from which nothing is learned, as its change is rounding.
    """
    learned = step if along is None else along
    length = float(learned @ learned)
    if length <= least:
        return jacobian
    out: Array = jacobian + np.outer(changed - jacobian @ step, learned) / length
    return out


def newton_root(
    equations: Callable[[Array], Array],
    z: Array,
    slopes: Callable[[Array], Array],
    inside: Callable[[Array, Array], Array | None],
    limits: Limits,
) -> Root | None:
    """Root of the equations near z, solved for as long as the disagreement shrinks.

    Parameters
    ----------
    equations : callable
        From the unknowns, shape (n,), to what is to vanish.
    z : ndarray, shape (n,)
    slopes : callable
        Jacobian at the first point.
    inside : callable
        Where a step ends that stays in the range, from its begin and its end; None if there is no such point.
    limits : Limits

    Returns
    -------
    Root or None
        None where a step left the range.
    """
    best = (math.inf, z)
    jacobian: Array | None = None
    before: tuple[Array, Array] | None = None
    for _ in range(limits.tries):
        wrong = equations(z)
        size = float(np.abs(wrong).max())
        if not math.isfinite(size) or (size >= best[0] and best[0] < limits.enough):
            break
        if size < best[0]:
            best = size, z
        if jacobian is None or before is None:
            jacobian = slopes(z)
        else:
            jacobian = broyden(jacobian, z - before[0], wrong - before[1])
        before = z, wrong
        if size < limits.close:
            break
        move = np.linalg.lstsq(jacobian, -wrong, rcond=limits.rcond)[0]
        move = move * min(1.0, limits.longest / max(float(np.abs(move).max()), 1e-300))
        moved = inside(z, z + move)
        if moved is None:
            return None
        z = moved
    return Root(best[1], slopes(z) if jacobian is None else jacobian, best[0])
