"""The error of a fixed point of q = F(alpha G(q)) whose averages G are known up to an error of their own.

With r(x; G) = 0 the fixed point, linear response gives dx = -(dr/dx)^{-1} dr. It holds while the interval of three
errors is narrow beside the distance over which slopes change. Elsewhere the ends of that interval are fixed points
themselves, of averages displaced by three of their errors in the direction to which an entry of x responds. Where such
an end does not exist the interval does not close: a threshold, or a jump, is nearer than the averages can resolve.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages
from ..core.standard_error import SIGMAS, student
from .balance import Balance
from .newton import broyden

__all__ = [
    "TOO_NEAR",
    "FixedPointError",
    "blocked",
    "fixed_point_error",
    "growth_error",
    "linear_error",
]

Array = NDArray[np.float64]

#: How a result says that its interval does not close.
TOO_NEAR = "too near a threshold for this accuracy"
# The response is linear while the interval is narrower than this share of (1 - F') times the distance to its range.
_LINEAR = 0.1


@dataclass(frozen=True)
class FixedPointError:
    """A fixed point and its error.

    Attributes
    ----------
    x, error : ndarray, shape (n,)
        One standard error, or a bound where the averages do not scatter.
    found : Averages
        At x.
    visited : tuple of ndarray
        Points on the way from the given one to x.
    doubt : str
        Why the interval does not close; empty where it does.
    growth : ndarray, shape (P,)
        Standard error of the growth rates at the fixed point, NaN where there is none.
    eigenvalues : ndarray, shape (n,)
        Of F', largest first.
    """

    x: Array
    error: Array
    found: Averages
    visited: tuple[Array, ...]
    doubt: str
    growth: Array
    eigenvalues: Array


@dataclass(frozen=True)
class _Point:
    """A point with its averages and slopes dr/dx."""

    x: Array
    found: Averages
    slopes: Array

    @property
    def response(self) -> Array:
        """Of x to r."""
        return -np.asarray(np.linalg.pinv(self.slopes), np.float64)


def fixed_point_error(balance: Balance, x: Array, found: Averages) -> FixedPointError:
    """Error of the fixed point near x, which is solved for further where that matters.

    Parameters
    ----------
    balance : Balance
    x : ndarray, shape (n,)
        Near a fixed point.
    found : Averages
        At x.
    """
    slopes, of_growth = _slopes(balance, x, found)
    point, visited = _polished(balance, _Point(x, found, slopes))
    moves, off, error = _linear(balance, point)
    sampled = point.found.sampled
    held = _held(balance, point)
    doubt = ""
    reach = (SIGMAS if sampled else 1.0) * error
    if not held > 0:
        doubt = "the iteration leads away from it"
    elif (reach > _LINEAR * held * balance.room(point.x)).any():
        error, doubt = _by_ends(balance, point, moves, error)
    growth = _of_growth(point.found, moves, of_growth, _factor(point.found)) + np.abs(of_growth.T) @ off
    growth += point.found.growth_bias
    return FixedPointError(point.x, error, point.found, visited, doubt, growth, 1 + _eigenvalues(balance, point))


def linear_error(balance: Balance, x: Array, found: Averages) -> FixedPointError:
    """The same to first order in what scatters, without the error of the growth rates.

    Parameters
    ----------
    balance, x, found
        As for `fixed_point_error`.
    """
    known = balance.slopes(x, found.g.mean(axis=0))
    point = _Point(x, found, _slopes(balance, x, found)[0] if known is None else known)
    doubt = "" if _held(balance, point) > 0 else "the iteration leads away from it"
    none = np.zeros(found.growth.shape[1])
    return FixedPointError(x, _linear(balance, point)[2], found, (), doubt, none, 1 + _eigenvalues(balance, point))


def blocked(balance: Balance, path: Sequence[tuple[Array, Averages]], reached: FixedPointError) -> str:
    """Where the iteration may have come past a fixed point, as far as the averages decide it; empty where it did not.

    G grows with q (15): from below nothing goes on beyond a point at which no entry rises, and from above beyond one
    at which no entry falls.
    """
    if not reached.found.sampled:
        return ""
    for x, found in path:
        away = x - reached.x
        if (np.abs(away) <= SIGMAS * reached.error).all() or ((away > 0).any() and (away < 0).any()):
            continue
        onward = _rest(balance, x, found) * (1.0 if away.sum() < 0 else -1.0)
        sigma = _factor(found) * np.sqrt((_noise(balance, x, found) ** 2).sum(axis=0))
        if (onward <= SIGMAS * sigma + _systematic(balance, x, found)).all():
            where = ", ".join(f"{value:.4g}" for value in x)
            return f"another fixed point may be at {where}"
    return ""


def _linear(balance: Balance, point: _Point) -> tuple[Array, Array, Array]:
    """To first order: displacements of x that the scatter makes, what does not scatter, and the error of both."""
    moves = _noise(balance, point.x, point.found) @ point.response.T
    left = np.abs(point.response @ _rest(balance, point.x, point.found))
    if not point.found.sampled:
        # The last step of a sequence that converges faster than linearly exceeds what is left after it.
        left = 2 * left + _by_rounding(balance, point)
    off = np.abs(point.response) @ _systematic(balance, point.x, point.found) + left
    return moves, off, _factor(point.found) * np.sqrt((moves**2).sum(axis=0)) + off


def growth_error(found: Averages) -> Array:
    """Standard error of the growth rates where no overlap is free."""
    none = np.zeros((len(found.g), 0))
    mean = found.growth.mean(axis=0)
    if not found.sampled:
        return np.asarray(np.abs(found.growth - mean).max(axis=0) + found.growth_bias)
    deviations = (found.growth - mean) / math.sqrt(len(none) * (len(none) - 1))
    return student(len(none)) * np.asarray(np.sqrt((deviations**2).sum(axis=0))) + found.growth_bias


def _held(balance: Balance, point: _Point) -> float:
    """Least eigenvalue of 1 - F': positive where the iteration comes back."""
    return -float(_eigenvalues(balance, point)[0])


def _eigenvalues(balance: Balance, point: _Point) -> Array:
    """Of F' - 1, largest first."""
    return np.sort(np.linalg.eigvals(balance.pull(point.x) @ point.slopes).real)[::-1]


def _rest(balance: Balance, x: Array, found: Averages, displaced: Array | None = None) -> Array:
    """Of the mean averages, displaced by these multiples of the deviations of the randomisations."""
    mean = found.g.mean(axis=0)
    return balance.rest(x, mean if displaced is None else mean + np.tensordot(displaced, found.g - mean, 1))


def _unit(found: Averages) -> float:
    """Multiple of the deviations whose root sum of squares is the standard error, or the end of an interval."""
    replicas = len(found.g)
    return 1 / math.sqrt(replicas * (replicas - 1)) if found.sampled else 1 / math.sqrt(replicas)


def _by_rounding(balance: Balance, point: _Point) -> Array:
    """What rounding of r makes of x."""
    return np.asarray(np.abs(point.response) @ balance.rounding(point.x, point.found.g.mean(axis=0)))


def _unseen(balance: Balance, point: _Point) -> float:
    """Length of a step that may be rounding of r; none where averages scatter, or where it is not small beside x."""
    rounding = _by_rounding(balance, point)
    if point.found.sampled or (rounding > _LINEAR * balance.room(point.x)).any():
        return 0.0
    return float(rounding.max())


def _factor(found: Averages) -> float:
    """Factor that makes the scatter of a few randomisations one standard error."""
    return student(len(found.g)) if found.sampled else 1.0


def _noise(balance: Balance, x: Array, found: Averages) -> Array:
    """Displacements of r, shape (replicas, n), of which the root of the sum of squares is its error."""
    here = _rest(balance, x, found)
    unit = _unit(found)
    return np.array([_rest(balance, x, found, unit * w) - here for w in np.eye(len(found.g))])


def _systematic(balance: Balance, x: Array, found: Averages) -> Array:
    """What the bias of the averages makes of r."""
    mean = found.g.mean(axis=0)
    return np.abs(balance.rest(x, mean + found.bias) - balance.rest(x, mean))


def _of_growth(found: Averages, moves: Array, slopes: Array, factor: float) -> Array:
    """Error of the growth rates: their own, and that of x, which goes with it."""
    own = _unit(found) * (found.growth - found.growth.mean(axis=0))
    return factor * np.asarray(np.sqrt(((own + moves @ slopes) ** 2).sum(axis=0)))


def _slopes(balance: Balance, x: Array, found: Averages) -> tuple[Array, Array]:
    """Slopes dr/dx, and those of the growth rates, shape (n, P)."""
    here, growth = _rest(balance, x, found), found.growth.mean(axis=0)
    slopes, of_growth = np.empty((len(x), len(x))), np.zeros((len(x), len(growth)))
    known = balance.slopes(x, found.g.mean(axis=0))
    if known is not None and np.isnan(growth).all():
        return known, of_growth
    for k in range(len(x)):
        step = balance.step(x, k)
        moved = x.copy()
        moved[k] += step
        other = balance.averages(moved)
        slopes[:, k] = (_rest(balance, moved, other) - here) / step
        of_growth[k] = (other.growth.mean(axis=0) - growth) / step
    return slopes if known is None else known, of_growth


class _Displaced(NamedTuple):
    """Averages displaced by multiples of the deviations of the randomisations, and r displaced beside."""

    averages: Array | None = None
    r: Array | float = 0.0

    def rest(self, balance: Balance, x: Array, found: Averages) -> Array:
        """Of the equations so displaced."""
        return _rest(balance, x, found, self.averages) + self.r


def _stepped(balance: Balance, point: _Point, step: Array, displaced: _Displaced) -> _Point:
    """The point a step further, with slopes that explain the step, too."""
    x = balance.inside(point.x, point.x + step)
    found = balance.averages(x)
    way = x - point.x
    changed = displaced.rest(balance, x, found) - displaced.rest(balance, point.x, point.found)
    known = balance.slopes(x, found.g.mean(axis=0))
    # Those of averages are known to few digits.
    slopes = point.slopes if known is None else known
    # Changes of r that tell more of its slopes than of its rounding.
    tells = 1e-10
    if np.isfinite(changed).all() and np.abs(slopes @ way).max() > tells:
        slopes = broyden(slopes, way, changed)
    return _Point(x, found, slopes)


def _polished(balance: Balance, point: _Point) -> tuple[_Point, tuple[Array, ...]]:
    """Newton steps with Broyden's updates, where what is left matters beside the error of the averages."""
    visited: list[Array] = []
    # What the iteration has left is solved for where it exceeds the first share of the error, until it is below the
    # other.
    much, little = 0.25, 0.1
    # What is left of averages that do not scatter is added to their error.
    share, before = much if point.found.sampled else little, math.inf
    # Evaluations to do so.
    polish = 10
    # What jumps is solved for no further: what is left is part of the error.
    while balance.smooth and len(visited) < polish:
        step = point.response @ _rest(balance, point.x, point.found)
        sigma = np.sqrt(((_noise(balance, point.x, point.found) @ point.response.T) ** 2).sum(axis=0))
        rounding = _by_rounding(balance, point)
        length = float(np.abs(step).max())
        # Of averages that do not scatter steps shrink to rounding.
        stalls = not point.found.sampled and len(visited) > 3 and length > 0.5 * before
        # From where the iteration leads away Newton's steps go to points that it does not come to.
        small = np.maximum(share * np.maximum(sigma, balance.tolerance), rounding)
        if stalls or _held(balance, point) <= 0 or (np.abs(step) <= small).all():
            break
        before, share = length, little
        point = _stepped(balance, point, step, _Displaced())
        visited.append(point.x)
    return point, tuple(visited)


def _by_ends(balance: Balance, point: _Point, moves: Array, error: Array) -> tuple[Array, str]:
    """Errors that cover the ends of the intervals, and what may lie beyond them."""
    wide = error.copy()
    sigmas = SIGMAS if point.found.sampled else 1.0
    scatter = np.sqrt((moves**2).sum(axis=0))
    own = np.zeros(len(error)) if point.found.sampled else balance.rounding(point.x, point.found.g.mean(axis=0))
    rounding = np.abs(point.response) @ own
    for k in np.flatnonzero(scatter + rounding > 0):
        for sign, where in ((1.0, "above"), (-1.0, "below")):
            if scatter[k] > rounding[k]:
                # What does not scatter is taken to move x as what does.
                weights = sign * sigmas * error[k] / scatter[k] * moves[:, k] / scatter[k]
                linear, displaced = moves.T @ weights, _Displaced(_unit(point.found) * weights)
            else:
                # Rules that differ by rounding alone show no direction: that in which r moves this entry most.
                r = sign * error[k] / rounding[k] * np.sign(point.response[k]) * own
                linear, displaced = point.response @ r, _Displaced(r=r)
            end = _end(balance, point, linear, displaced)
            if end is None:
                return np.maximum(wide, error), f"another fixed point may be {where} it"
            wide[k] = max(wide[k], (abs(end[k] - point.x[k]) + rounding[k]) / sigmas)
    return wide, ""


def _end(balance: Balance, point: _Point, linear: Array, displaced: _Displaced) -> Array | None:
    """Fixed point of displaced equations near x + linear; None where there is none."""
    start, step, short = point.x, linear, 0
    # Ends further away than so many times the linear response belong to another fixed point.
    far = 3.0
    # Evaluations for each end, and the step that settles it, as a share of its distance.
    tries, near = 6, 0.1
    for _ in range(tries):
        asked = point.x + step
        point = _stepped(balance, point, step, displaced)
        short = short + 1 if (np.abs(point.x - asked) > near * np.abs(step)).any() else 0
        step = point.response @ displaced.rest(balance, point.x, point.found)
        away = np.abs(point.x + step - start).max()
        rounding = _unseen(balance, point)
        if short > 1 or not away <= far * np.abs(linear).max() + rounding or _held(balance, point) <= 0:
            return None
        if np.abs(step).max() <= near * away + rounding:
            return np.asarray(point.x + step)
    return None
