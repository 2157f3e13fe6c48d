"""Peaks of the posterior on a chart: where it is large near given points, and how wide it is there."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.lanes import LANES, store

from ...arithmetic.copies import copy_vector
from ...arithmetic.references import INNER
from ..student import set_lower_factor
from .block import log_posteriors
from .density import Target, log_posterior
from .scratch import Scratch

__all__ = ["Peaks", "find_peak", "keep_peak", "log_student_norm", "new_peaks"]

Array = NDArray[np.float64]


class Peaks(NamedTuple):
    """Student densities in the coordinates of a chart.

    Attributes
    ----------
    centre : ndarray, shape (peaks, F)
    factor, inverse : ndarray, shape (peaks, F, F)
        Lower factors L of the inverse scale matrices, and their inverses: points of a peak are centre + L^{-T} x.
    height : ndarray, shape (peaks,)
        Log-density at the centre.
    share : ndarray, shape (peaks,)
        Part of the nodes of the peaks.
    log_det : ndarray, shape (peaks,)
        Of L^{-T}.
    top : ndarray, shape (peaks,)
        Intensity of nodes at the centre, in units of the largest.
    """

    centre: Array
    factor: Array
    inverse: Array
    height: Array
    share: Array
    log_det: Array
    top: Array


def new_peaks(count: int, dimension: int) -> Peaks:
    """Arrays for so many peaks."""
    return Peaks(
        np.empty((count, dimension)),
        *np.empty((2, count, dimension, dimension)),
        *np.empty((4, count)),
    )


@njit(cache=True, **INNER)
def log_student_norm(nu: int, dimension: int) -> float:
    """Logarithm of the largest density of a Student variable of unit scale."""
    return math.lgamma(0.5 * (nu + dimension)) - math.lgamma(0.5 * nu) - 0.5 * dimension * math.log(math.pi * nu)


@njit(cache=True, **INNER)
def _set_slopes(z: Array, signs: Array, target: Target, scratch: Scratch) -> float:
    """Set the gradient of minus the log-density and the derivatives of the modes of h by z; return the former."""
    gradient, value = scratch.gradient, np.nan
    for j in range(len(z)):
        gradient[j] = np.nan
    # Relative step of the differences that slopes are taken by: they only place nodes.
    difference = 1e-6
    # Multiples of it that are tried in turn next to the edge of where the density is finite.
    near_edges = (1.0, -1.0, 1e-4, -1e-4)
    for times in near_edges:
        for first in range(0, len(z) + 1, LANES):
            value = _set_differences(z, first, times * difference, value, signs, target, scratch)
        missing = False
        for j in range(len(z)):
            missing |= not math.isfinite(gradient[j])
        if not missing:
            break
    return value


@njit(cache=True, **INNER)
def _set_differences(
    z: Array, first: int, step: float, value: float, signs: Array, target: Target, scratch: Scratch
) -> float:
    """Set slopes that are not known yet by eight of the points: the first of all is z, others have a coordinate moved.

    Returns
    -------
    float
        Minus the log-density at z; `value` where the first point is not among these.
    """
    block, middle, gradient, tangent = scratch.block, scratch.middle, scratch.gradient, scratch.tangent
    height, modes, tokens = block.weight, block.modes, middle.shape[1]
    for j in range(len(z)):
        for lane in range(LANES):
            block.z[LANES * j + lane] = z[j]
    for lane in range(LANES):
        j = first + lane - 1
        if 0 <= j < len(z):
            block.z[LANES * j + lane] += step * (1.0 + abs(z[j]))
    store(height, 0, log_posteriors(block, signs, target))
    if first == 0:
        value = -height[0]
        for p in range(middle.shape[0]):
            for k in range(tokens):
                middle[p, k] = modes[LANES * (p * tokens + k)]
    for lane in range(LANES):
        j = first + lane - 1
        if not 0 <= j < len(z) or math.isfinite(gradient[j]):
            continue
        moved = step * (1.0 + abs(z[j]))
        gradient[j] = (-height[lane] - value) / moved
        for p in range(middle.shape[0]):
            for k in range(tokens):
                tangent[p, k, j] = (modes[LANES * (p * tokens + k) + lane] - middle[p, k]) / moved
    return value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_curvature(tangent: Array, precision: Array, row: Array, out: Array) -> None:
    """Set the lower half of the Hessian of the Gaussian's exponent along the tangent."""
    indices, tokens, free = tangent.shape
    for i in range(free):
        for j in range(i + 1):
            out[i, j] = 0.0
    for k in range(tokens):
        for p in range(indices):
            for j in range(free):
                row[j] = 0.0
            for i in range(indices):
                if precision[k, p, i] != 0.0:
                    for j in range(free):
                        row[j] += precision[k, p, i] * tangent[i, k, j]
            for i in range(free):
                for j in range(i + 1):
                    out[i, j] += tangent[p, k, i] * row[j]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_local(z: Array, signs: Array, target: Target, scratch: Scratch) -> tuple[bool, float]:
    """Whether all is finite at z; minus the log-density there. Its gradient and a factor of its precision are set.

    The precision is that of the Gaussian along the tangent.
    """
    value = _set_slopes(z, signs, target, scratch)
    gradient, hessian = scratch.gradient, scratch.hessian
    _set_curvature(scratch.tangent, target.prior.precision, scratch.work, hessian)
    total = value
    for j in range(len(z)):
        hessian[j, j] += 1e-10 * (1.0 + hessian[j, j])
        total += gradient[j]
        for i in range(j + 1):
            total += hessian[j, i]
    fine = math.isfinite(total)  # as all that it is the sum of
    # Least share of a variance that is left by rounding.
    least = 1e-12
    if fine:
        set_lower_factor(hessian, least, scratch.factor)
    return fine, value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _stepped(z: Array, value: float, signs: Array, target: Target, scratch: Scratch) -> float:
    """Move z by the longest of some steps downhill that lowers the value; return how much lower it is."""
    factor, gradient, move, trial = scratch.factor, scratch.gradient, scratch.work, scratch.trial
    for i in range(len(z)):
        total = -gradient[i]
        for j in range(i):
            total -= factor[i, j] * move[j]
        move[i] = total / factor[i, i]
    for i in range(len(z) - 1, -1, -1):
        total = move[i]
        for j in range(i + 1, len(z)):
            total -= factor[j, i] * move[j]
        move[i] = total / factor[i, i]
    # Halvings of a step.
    halvings = 6
    for halving in range(halvings):
        for i in range(len(z)):
            trial[i] = z[i] + move[i] * 0.5**halving
        lower = -log_posterior(trial, signs, target, scratch)
        if lower < value:
            copy_vector(trial, z)
            return value - lower
    return 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def find_peak(z: Array, signs: Array, target: Target, scratch: Scratch) -> tuple[bool, float, Array]:
    """Climb from z to a peak; z becomes the peak.

    Returns
    -------
    found : bool
        False where the density is not finite on the way.
    height : float
        Log-density there.
    factor : ndarray, shape (F, F)
        Lower factor of the precision of the Gaussian along the tangent, in `scratch`.
    """
    fine, value, gain, factor = True, np.inf, np.inf, scratch.factor
    # Steps towards a peak.
    steps = 8
    # Gain of a step below which it was the last one.
    small = 0.1
    for step in range(steps + 1):
        fine, value = _set_local(z, signs, target, scratch)
        if not fine or gain < small or step == steps:
            break
        gain = _stepped(z, value, signs, target, scratch)
        if not gain > 0.0:
            break
    return fine, -value if fine else -np.inf, factor


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def keep_peak(peaks: Peaks, place: int, z: Array, height: float, factor: Array) -> None:
    """Set one of the peaks."""
    centre, factors, log_det = peaks.centre, peaks.factor, 0.0
    for i in range(len(z)):
        centre[place, i] = z[i]
        log_det -= math.log(factor[i, i])
        for j in range(len(z)):
            factors[place, i, j] = factor[i, j]
    peaks.height[place] = height
    peaks.log_det[place] = log_det
