"""Peaks of the posterior on a chart: where it is large near given points, and how wide it is there."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..copies import copy_vector
from ..student import lower_factor
from .density import Scratch, Target, log_posterior

__all__ = ["Peaks", "find_peak", "log_student_norm", "new_peaks"]

Array = NDArray[np.float64]

# Steps towards a peak, and halvings of one.
_STEPS, _HALVINGS = 8, 6
# Relative step of the differences that slopes are taken by: they only place nodes.
_DIFFERENCE = 1e-6
# Multiples of it that are tried in turn next to the edge of where the density is finite.
_NEAR_EDGES = (1.0, -1.0, 1e-4, -1e-4)
# Gain of a step below which it was the last one; least share of a variance that is left by rounding.
_SMALL, _LEAST = 0.01, 1e-12


class Peaks(NamedTuple):
    """Student densities in the coordinates of a chart.

    Attributes
    ----------
    centre : ndarray, shape (peaks, F)
    factor : ndarray, shape (peaks, F, F)
        Lower factors of the scale matrices.
    height : ndarray, shape (peaks,)
        Log-density at the centre.
    share : ndarray, shape (peaks,)
        Part of the nodes of the peaks.
    log_det : ndarray, shape (peaks,)
        Of the factors.
    """

    centre: Array
    factor: Array
    height: Array
    share: Array
    log_det: Array


@njit(cache=True, nogil=True)
def new_peaks(count: int, dimension: int) -> Peaks:
    """Arrays for so many peaks."""
    return Peaks(
        np.empty((count, dimension)),
        np.empty((count, dimension, dimension)),
        np.empty(count),
        np.empty(count),
        np.empty(count),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def log_student_norm(nu: int, dimension: int) -> float:
    """Logarithm of the largest density of a Student variable of unit scale."""
    return math.lgamma(0.5 * (nu + dimension)) - math.lgamma(0.5 * nu) - 0.5 * dimension * math.log(math.pi * nu)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _slopes(z: Array, signs: Array, target: Target, scratch: Scratch, tangent: Array) -> tuple[Array, float]:
    """Set the derivatives of the modes of h by z; return the gradient of minus the log-density, and its value."""
    value = -log_posterior(z, signs, target, scratch)
    middle = scratch.modes.copy()
    gradient = np.empty(len(z))
    for j in range(len(z)):
        kept = z[j]
        step = 0.0
        for times in _NEAR_EDGES:
            step = times * _DIFFERENCE * (1.0 + abs(kept))
            z[j] = kept + step
            gradient[j] = (-log_posterior(z, signs, target, scratch) - value) / step
            if np.isfinite(gradient[j]):
                break
        for p in range(middle.shape[0]):
            for k in range(middle.shape[1]):
                tangent[p, k, j] = (scratch.modes[p, k] - middle[p, k]) / step
        z[j] = kept
    return gradient, value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _curvature(tangent: Array, precision: Array) -> Array:
    """Hessian of the Gaussian's exponent along the tangent."""
    indices, tokens, free = tangent.shape
    out = np.zeros((free, free))
    row = np.empty(free)
    for k in range(tokens):
        for p in range(indices):
            row[:] = 0.0
            for i in range(indices):
                for j in range(free):
                    row[j] += precision[k, p, i] * tangent[i, k, j]
            for i in range(free):
                for j in range(free):
                    out[i, j] += tangent[p, k, i] * row[j]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _local(
    z: Array, signs: Array, target: Target, scratch: Scratch, tangent: Array
) -> tuple[bool, float, Array, Array]:
    """Whether all is finite at z; minus the log-density there, its gradient, and the covariance along the tangent."""
    gradient, value = _slopes(z, signs, target, scratch, tangent)
    hessian = _curvature(tangent, target.prior.precision)
    for j in range(len(z)):
        hessian[j, j] += 1e-10 * (1.0 + hessian[j, j])
    if not (np.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(hessian).all()):
        return False, value, gradient, hessian
    return True, value, gradient, np.ascontiguousarray(np.linalg.inv(hessian))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _stepped(z: Array, move: Array, value: float, signs: Array, target: Target, scratch: Scratch) -> float:
    """Move z by the longest of some steps along a direction that lowers the value; return how much lower it is."""
    for halving in range(_HALVINGS):
        trial = z + move * 0.5**halving
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
        Lower factor of the covariance of the Gaussian along the tangent.
    """
    tangent = np.zeros((scratch.h.shape[0], scratch.h.shape[1], len(z)))
    fine, value, gradient, covariance = _local(z, signs, target, scratch, tangent)
    gain = np.inf
    for _ in range(_STEPS):
        if not fine or gain < _SMALL:
            break
        gain = _stepped(z, -(covariance @ gradient), value, signs, target, scratch)
        if gain > 0.0:
            fine, value, gradient, covariance = _local(z, signs, target, scratch, tangent)
    if not (fine and np.isfinite(covariance).all()):
        return False, -np.inf, covariance
    return True, -value, lower_factor(covariance, _LEAST)
