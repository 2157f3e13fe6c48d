"""Slopes of the alphas of the layers by t = log(q/(1 - q)): measured, improved by steps, used for Newton's step.

Layer l is stationary where alpha = alpha_l(t), log alpha_l = t_l - log G_ll(q). Here d log alpha_l / d t_k is an array
of shape (n, n). The constants were chosen by hand when these rules were written, and no script fits them again; they
cost evaluations and not accuracy, as the error of a fixed point is measured anew. `tests/numerics/fixed_point/
test_refinement.py` has the slopes near recovery, `tests/calibration/test_evolve.py` and `test_deep.py` the errors.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .newton import broyden

__all__ = [
    "NEARLY",
    "STEP",
    "Passed",
    "differences",
    "distance",
    "logistic",
    "logit",
    "newton",
    "sampled_step",
    "stable",
    "steady",
]

Array = NDArray[np.float64]

# Length in t of a difference of deterministic averages; and of sampled ones: their noise is the same at both ends in
# part only, and is divided by the length.
_STEP, _SAMPLED_STEP = 0.05, 0.5
#: Least step of u by sampled averages from which Broyden's update learns: shorter ones show more noise than
#: differences do.
STEP = 0.5 * _SAMPLED_STEP
#: Where all 1 - q are below this, the layers are on the way to recovery together.
NEARLY = 1e-2
# Slopes (real parts of eigenvalues) below this count as flat: the fixed point is unstable or nearly so, and Newton's
# step is shortened to 1/0.02 times the step of the plain iteration.
_FLAT = 0.02


class Passed(NamedTuple):
    """A fixed point that a curve has passed.

    Attributes
    ----------
    t : ndarray, shape (n,)
    log_alpha : float
    slopes : ndarray, shape (n, n)
        d log alpha_l/dt.
    before : (ndarray, float), optional
        t and log alpha of the one passed before.
    measured : (ndarray, ndarray), optional
        t at which slopes were taken from differences of sampled averages, and they: the same for every alpha.
    """

    t: Array
    log_alpha: float
    slopes: Array
    before: tuple[Array, float] | None = None
    measured: tuple[Array, Array] | None = None

    def onward(self, log_alpha: float, longest: float) -> Array:
        """T of a neighbour, by a line or a parabola; steps of t are cut at `longest`."""
        distance = log_alpha - self.log_alpha
        step = np.linalg.solve(self.slopes, np.full(len(self.t), distance))
        # A parabola through two points and the slopes at the last is trusted so many times as far as the points are
        # apart.
        ahead = 3.0
        if self.before is not None and distance:
            passed = self.log_alpha - self.before[1]
            if abs(passed) > abs(distance) / ahead:
                step = step + (step / distance - (self.t - self.before[0]) / passed) * distance**2 / passed
        out: Array = self.t + np.clip(step, -longest, longest)
        return out

    def brought(self, t: Array, log_alpha: Array, wrong: float) -> tuple[Array, Array] | None:
        """Slopes from differences, put right by the way from the fixed point to t; None if they are more than so wrong.

        As a function of t they do not depend on alpha, and all layers are at rest at the fixed point that was passed:
        what they miss on the way from there, as a share of it, measures their relative error.
        """
        if self.measured is None:
            return None
        (where, slopes), way = self.measured, t - self.t
        if np.abs(way).max() > STEP:
            predicted = np.linalg.solve(slopes, log_alpha - self.log_alpha)
            if np.abs(predicted - way).max() > wrong * np.abs(way).max():
                return None
            slopes = broyden(slopes, way, log_alpha - self.log_alpha)
        return where, slopes


def logit(x: Array | float) -> Array:
    """Return log(x/(1 - x))."""
    return np.asarray(np.log(x) - np.log1p(-np.asarray(x)), np.float64)


def logistic(t: Array) -> Array:
    """Return the x of which t is the logit."""
    return np.asarray(1 / (1 + np.exp(-t)))


def distance(t: Array) -> Array:
    """Return u = -log(1 - q), of which log alpha_l is nearly a line next to a threshold and towards recovery."""
    return np.log1p(np.exp(t))


def _at_distance(u: Array) -> Array:
    """Return the t of this u."""
    return np.log(np.expm1(u))


def differences(log_alpha: Callable[[Array], Array], t: Array, *, sampled: bool, whole: bool) -> Array:
    """Slopes from differences with what is known at t itself.

    log alpha_l is nearly a line in -log(1 - q): next to a threshold in q, and towards recovery in t. There the alphas
    depend on the ratios of the 1 - q_ll and hardly on their size, in which they are lines: that slope comes from
    distant points, and along a direction of its own.

    Parameters
    ----------
    log_alpha : callable
        From t to log alpha_l.
    t : ndarray
        Where.
    sampled : bool
    whole : bool
        All layers of the model are among these, so that they can come to recovery together.
    """
    size, x = len(t), logistic(t)
    directions = np.eye(size)
    steps = np.full(size, _SAMPLED_STEP if sampled else _STEP)
    # Length in u = -log(1 - q) of a difference of sampled averages, at least: of slopes about one, which noise of .01
    # in log alpha leaves to a tenth.
    least_length = 0.1
    faint = distance(t) - distance(t - steps) < least_length
    if sampled:
        # At small overlaps a step of t changes little beside the noise: a longer one, upwards, has the same slope.
        steps = np.where(faint, t - _at_distance(distance(t) + least_length), steps)
    lengths = (distance(t) - distance(t - steps)) / x  # by t the slope of u is q
    here = log_alpha(t)
    back = [here] * size
    # Length towards recovery along all layers at once, where log alpha_l is a line in 1 - q: its ends are far apart in
    # t.
    recovery_step = 2.0
    if whole and (1 - x).max() < NEARLY:
        directions[0], steps[0] = 1.0, recovery_step
        lengths[0] = math.expm1(recovery_step)  # of a line in 1 - q
    elif sampled and size > 1 and not faint.any():
        # Along all layers together alphas change least. There the noise of a sum of differences counts most, and how
        # far log alpha is from a line: three layers at alpha = 1.435 had .001 to .012 for .029 by that sum.
        directions[0], lengths[0], back[0] = 1.0, 2 * _SAMPLED_STEP, log_alpha(t + _SAMPLED_STEP)
    slopes = np.empty((size, size))
    for k, (step, direction) in enumerate(zip(steps, directions, strict=True)):
        slopes[:, k] = (back[k] - log_alpha(t - step * direction)) / lengths[k]
    # Columns belong to directions.
    return np.asarray(slopes @ np.linalg.inv(directions.T), np.float64)


def newton(slopes: Array, imbalance: Array, flat: float = _FLAT) -> Array:
    """Newton's step; along unstable directions, and flatter ones than this, a long step of the iteration: their way."""
    values, vectors = np.linalg.eig(slopes)
    out: Array = (vectors @ (np.linalg.solve(vectors, imbalance.astype(complex)) / np.maximum(values.real, flat))).real
    return out


def sampled_step(slopes: Array, imbalance: Array, t: Array, flat: float = _FLAT) -> Array:
    """Step of t by slopes from sampled averages: one of Newton's method in u, of which log alpha_l is nearly a line.

    At small overlaps steps of t by their noise would take a layer from zero overlap to a large one and back.
    """
    u = distance(t)
    moved = u + newton(slopes / logistic(t), imbalance, flat)
    left = 0.2  # share of u = -log(1 - q) that a step leaves
    return np.asarray(_at_distance(np.maximum(moved, left * u)) - t)


def steady(slopes: Array, imbalance: Array, t: Array) -> Array:
    """The same along the way of the iteration in the flattest direction."""
    # Slopes from sampled averages below this, and below this share of 1 - q, may have the wrong sign, and steps by them
    # lead away. Three layers: at alpha = 1.435, where the flattest is .029 and rough averages miss it by .01, a search
    # went from q_11 = .86 to recovery; towards recovery it is .3 (1 - q_11).
    flattest, flattest_share = 0.01, 0.1
    return sampled_step(slopes, imbalance, t, min(flattest, flattest_share * float((1 - logistic(t)).max())))


def stable(slopes: Array) -> bool:
    """Whether the iteration comes back from a small change in every direction."""
    return bool(np.linalg.eigvals(slopes).real.min() > _FLAT)
