"""Peaks of a posterior whose indices nobody knows: looked for from many points, the best that differ are kept."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.copies import copy_matrix, copy_vector
from ...arithmetic.references import INNER
from .density import Target, log_posterior, read
from .layout import Layout
from .mixture import set_shares, set_signs, squared_distance
from .peaks import Peaks, find_peak, keep_peak
from .scratch import Scratch

__all__ = ["Search", "seek_peaks"]

Array = NDArray[np.float64]

# Draws from the prior that a peak is looked for at, the best of all.
_BEST = 4


class Search(NamedTuple):
    """Where peaks are looked for.

    Attributes
    ----------
    root : ndarray, shape (P, P)
        Lower factor of V.
    draws : ndarray, shape (draws, P, M)
        Standard normal: draws from the prior.
    flips : ndarray, shape (images, P)
        Signs of the rows of the prior's mean.
    known : ndarray, shape (peaks, F)
        Peaks that were found before.
    """

    root: Array
    draws: Array
    flips: Array
    known: Array


@njit(cache=True, **INNER)
def _set_best_signs(z: Array, signs: Array, target: Target, scratch: Scratch) -> float:
    """Set the signs of the largest density at z; return its logarithm."""
    best = -np.inf
    number_of_best: Any = np.int64(0)  # numba compiles what takes a literal number once more
    for number in range(1 << len(signs)):
        set_signs(number, signs)
        height = log_posterior(z, signs, target, scratch)
        if height > best:
            best, number_of_best = height, number
    set_signs(number_of_best, signs)
    return best


@njit(cache=True, **INNER)
def _set_coordinates(turned: Array, target: Target, scratch: Scratch) -> None:
    """Set the coordinates of indices whose modes over the tokens are given; the output of these is another one."""
    modes, h = target.layout.modes, scratch.middle
    for p in range(h.shape[0]):
        for m in range(h.shape[1]):
            h[p, m] = 0.0
            for k in range(h.shape[1]):
                h[p, m] += turned[p, k] * modes[k, m]
    read(h, target.layout, scratch.data, scratch.z, scratch.signs, scratch)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _keep(peaks: Peaks, found: int, z: Array, height: float, factor: Array, scratch: Scratch, layout: Layout) -> int:
    """Keep a peak that is none of those found, or in the place of the smallest; return how many there are."""
    heights, log_dets, log_det = peaks.height, peaks.log_det, 0.0
    for j in range(len(z)):
        log_det -= math.log(factor[j, j])
    place, least = found, height + log_det
    # Squared distance in units of its scale within which a peak is the same.
    same = 0.25
    for image in range(found):
        if squared_distance(z, image, peaks, layout, scratch.work) < same * len(z):
            if height <= heights[image]:
                return found
            place, least = image, -np.inf
            break
    if place == len(heights):
        for image in range(found):
            if heights[image] + log_dets[image] < least:
                place, least = image, heights[image] + log_dets[image]
        if place == found:
            return found
    keep_peak(peaks, place, z, height, factor)
    return max(found, place + 1)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _without_small(peaks: Peaks, found: int) -> int:
    """Leave peaks out that hold next to nothing."""
    height, log_det, centre, factor = peaks.height, peaks.log_det, peaks.centre, peaks.factor
    largest = -np.inf
    kept: Any = np.int64(0)
    for image in range(found):
        largest = max(largest, height[image] + log_det[image])
    # The volume beside the largest, as a logarithm, that is left to the nodes from the prior.
    small = -9.0
    for image in range(found):
        if height[image] + log_det[image] > largest + small:
            copy_vector(centre[image], centre[kept])
            copy_matrix(factor[image], factor[kept])
            height[kept], log_det[kept] = height[image], log_det[image]
            kept += 1
    return kept


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_starts(search: Search, target: Target, scratch: Scratch, heights: Array, starts: Array) -> None:
    """Set the points from which peaks are looked for, and the densities at those that are draws of the prior."""
    known, flips, draws, root, omega = search.known, search.flips, search.draws, search.root, target.omega
    turned, z, signs = scratch.tangent[:, :, 0].copy(), scratch.z, scratch.signs
    rows, tokens = omega.shape
    copy_matrix(known, starts)
    for image in range(len(flips)):
        for p in range(rows):
            for k in range(tokens):
                turned[p, k] = omega[p, k] * flips[image, p]
        _set_coordinates(turned, target, scratch)
        copy_vector(z, starts[len(known) + image])
    first = len(starts) - _BEST
    for draw in range(len(draws)):
        for p in range(rows):
            for k in range(tokens):
                turned[p, k] = omega[p, k]
                for i in range(p + 1):
                    turned[p, k] += root[p, i] * draws[draw, i, k]
        _set_coordinates(turned, target, scratch)
        height, worst = _set_best_signs(z, signs, target, scratch), 0
        for place in range(1, _BEST):
            if heights[place] < heights[worst]:
                worst = place
        if height > heights[worst]:
            heights[worst] = height
            copy_vector(z, starts[first + worst])


@njit(cache=True, nogil=True, error_model="numpy")
def seek_peaks(search: Search, target: Target, scratch: Scratch, peaks: Peaks) -> int:
    """Find peaks from those known, from the images of the prior's mean and from the best draws of the prior.

    Parameters
    ----------
    search : Search
    target : Target
    scratch : Scratch
    peaks : Peaks
        Filled.

    Returns
    -------
    int
        How many there are.
    """
    z, signs = scratch.z, scratch.signs
    first = len(search.known) + len(search.flips)
    starts, heights = np.empty((first + _BEST, len(z))), np.full(_BEST, -np.inf)
    _set_starts(search, target, scratch, heights, starts)
    found: Any = np.int64(0)
    for start in range(len(starts)):
        if start >= first and not heights[start - first] > -np.inf:
            continue
        copy_vector(starts[start], z)
        if not _set_best_signs(z, signs, target, scratch) > -np.inf:
            continue
        fine, height, factor = find_peak(z, signs, target, scratch)
        if fine:
            found = _keep(peaks, found, z, height, factor, scratch, target.layout)
    found = _without_small(peaks, found)
    set_shares(peaks, found)
    return found
