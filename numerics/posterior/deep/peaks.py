"""Peaks of the posterior on a fibre, one for every sign of the hidden layers: where they are, how wide, how likely."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..copies import copy_matrix
from ..student import freedom, set_lower_factor
from .fibre import Fibre, Nodes, complete, new_nodes

__all__ = ["Peaks", "Prior", "drawn_layer", "energy", "new_peaks", "place_peaks"]

Array = NDArray[np.float64]

# Steps towards the peak, and its share that every sign of it gets at least.
_STEPS = 4
_LEAST_SHARE = 0.05
# Least width of a peak in the last layer, in units of the prior's.
_FLOOR = 0.05


class Prior(NamedTuple):
    """N(omega, V) of one output's indices: omega, shape (L, M), V^{-1}, shape (L, L), and log det V^{-1} M/2."""

    omega: Array
    precision: Array
    log_det: float


class Peaks(NamedTuple):
    """Peaks in the layers that are drawn.

    Attributes
    ----------
    centre, factor : ndarray, shapes (images, (L - 1) M) and (images, (L - 1) M, (L - 1) M)
        Of each peak in the frame where it has the signs of the truth; the factor is that of its covariance.
    flips : ndarray, shape (images, (L - 1) M)
        Signs of the coordinates there.
    share, norm : ndarray, shape (images,)
        Of the nodes, and the density's largest value times the number of nodes.
    before : bool
        Whether they are solved for the layer before the last.
    """

    centre: Array
    factor: Array
    flips: Array
    share: Array
    norm: Array
    before: bool


@njit(cache=True, nogil=True, error_model="numpy")
def new_peaks(depth: int, size: int, before: bool) -> Peaks:
    """Arrays for the peaks of a network."""
    images, free = 1 << (depth - 1), (depth - 1) * size
    return Peaks(
        np.empty((images, free)),
        np.empty((images, free, free)),
        np.empty((images, free)),
        np.empty(images),
        np.empty(images),
        before,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def drawn_layer(k: int, depth: int, before: bool) -> int:
    """Layer that is drawn as number k where the last layer, or the one before it, is solved for."""
    return depth - 1 if before and k == depth - 2 else k


@njit(cache=True, nogil=True, error_model="numpy")
def energy(h: Array, omega: Array, precision: Array, moved: Array) -> float:
    """(h - omega)^T V^{-1} (h - omega) / 2; sets moved = V^{-1} (h - omega)."""
    depth, size = h.shape
    total = 0.0
    for k in range(depth):
        for m in range(size):
            moved[k, m] = 0.0
            for i in range(depth):
                moved[k, m] += precision[k, i] * (h[i, m] - omega[i, m])
            total += 0.5 * moved[k, m] * (h[k, m] - omega[k, m])
    return total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_tangent(h: Array, fibre: Fibre, nodes: Nodes, tangent: Array) -> None:
    """Tangent of the fibre, h_L a function of the layers before; slopes by differences, for it only places nodes."""
    depth, size = h.shape
    free = (depth - 1) * size
    for i in range(free):
        copy_matrix(h, nodes.h[i])
        nodes.h[i, i // size, i % size] += 1e-6 * (1.0 + abs(h[i // size, i % size]))
    complete(nodes, fibre)
    for i in range(free):
        width = 1e-6 * (1.0 + abs(h[i // size, i % size]))
        tangent[i, i] = 1.0
        for m in range(size):
            tangent[free + m, i] = (nodes.h[i, depth - 1, m] - h[depth - 1, m]) / width


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _tangent_covariance(tangent: Array, precision: Array) -> Array:
    """Covariance of the layers before the last along the tangent."""
    depth, free = len(precision), tangent.shape[1]
    size = len(tangent) // depth
    weighted = np.zeros((depth * size, free))
    for k in range(depth):
        for i in range(depth):
            for m in range(size):
                for j in range(free):
                    weighted[k * size + m, j] += precision[k, i] * tangent[i * size + m, j]
    hessian = tangent.T @ weighted
    return np.ascontiguousarray(np.linalg.inv(hessian))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _peak(h: Array, prior: Prior, before: bool, fibre: Fibre) -> tuple[float, Array]:
    """Move h to the peak of the posterior near it; returns the energy there, and the factor of the layers drawn.

    Gauss-Newton along the tangent of the fibre.
    """
    depth, size = h.shape
    free = (depth - 1) * size
    moved = np.empty((depth, size))
    neighbours, single = new_nodes(free, depth, size, False), new_nodes(1, depth, size, False)
    trial = single.h[0]
    tangent = np.zeros((depth * size, free))
    covariance = np.eye(free)
    omega, precision, _ = prior
    least = energy(h, omega, precision, moved)
    for step in range(_STEPS + 1):
        _set_tangent(h, fibre, neighbours, tangent)
        covariance = _tangent_covariance(tangent, precision)
        if step == _STEPS:
            break
        gradient = tangent.T @ moved.reshape(depth * size)
        move = -(covariance @ gradient)
        accepted = False
        for _ in range(6):
            copy_matrix(h, trial)
            for i in range(free):
                trial[i // size, i % size] += move[i]
            complete(single, fibre)
            lower = energy(trial, omega, precision, moved) if single.dets[0, 0] > 0.0 else np.inf
            if lower < least:
                least = lower
                copy_matrix(trial, h)
                accepted = True
                break
            move *= 0.5
        if not accepted:
            least = energy(h, omega, precision, moved)
    if before:  # drawn: all but the layer before the last
        rows = np.empty((free, free))
        copy_matrix(tangent[: free - size], rows)
        copy_matrix(tangent[free:], rows[free - size :])
        covariance = rows @ covariance @ rows.T
        # Where the tangent is degenerate (h_l = 0) the curvature of the fibre spreads h_L.
        for m in range(free - size, free):
            covariance[m, m] += _FLOOR * _FLOOR / precision[depth - 1, depth - 1]
    set_lower_factor(covariance, 1e-14, covariance)
    return least, covariance


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def place_peaks(truth: Array, prior: Prior, fibre: Fibre, count: int, peaks: Peaks) -> None:
    """Find the peaks of an output from the indices that made it, and divide so many nodes among them."""
    centre, factor, flips, share, norm, before = peaks
    depth, size = truth.shape
    images, free = centre.shape
    nu = freedom(free)
    tail_norm = math.lgamma((nu + free) // 2) - math.lgamma(0.5 * nu) - 0.5 * free * math.log(math.pi * nu)
    h, flipped, signs = np.empty((depth, size)), np.empty((depth, depth)), np.ones(depth)
    least = np.inf
    for image in range(images):
        for k in range(depth - 1):
            signs[k] = -1.0 if (image >> k) & 1 else 1.0
        copy_matrix(truth, h)
        mean = prior.omega.copy()
        for k in range(depth):
            mean[k] *= signs[k]
            for j in range(depth):
                flipped[k, j] = prior.precision[k, j] * signs[k] * signs[j]
        share[image], lower = _peak(h, Prior(mean, flipped, prior.log_det), before, fibre)
        copy_matrix(lower, factor[image])
        for j in range(free):
            layer = drawn_layer(j // size, depth, before)
            centre[image, j], flips[image, j] = h[layer, j % size], signs[layer]
        least = min(least, share[image])
        norm[image] = math.exp(tail_norm)
        for j in range(free):
            norm[image] /= factor[image, j, j]
    mass = 0.0
    for image in range(images):
        share[image] = math.exp(least - share[image])
        mass += share[image]
    for image in range(images):
        share[image] = (share[image] / mass + _LEAST_SHARE) / (1.0 + images * _LEAST_SHARE)
        norm[image] *= share[image] * count
