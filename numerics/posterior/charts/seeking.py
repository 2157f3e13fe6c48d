"""Peaks of a posterior whose indices nobody knows: looked for from many points, the best that differ are kept."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..copies import copy_matrix, copy_vector
from .density import Scratch, Target, log_posterior, read
from .layout import Layout
from .mixture import set_shares, set_signs, squared_distance
from .peaks import Peaks, find_peak

__all__ = ["Search", "seek_peaks"]

Array = NDArray[np.float64]

# Draws from the prior that a peak is looked for at, the best of all.
_BEST = 4
# Squared distance in units of its scale within which a peak is the same, and the volume beside the largest, as a
# logarithm, that is left to the nodes from the prior.
_SAME, _SMALL = 0.25, -9.0


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


@njit(cache=True, nogil=True, error_model="numpy")
def _set_best_signs(z: Array, signs: Array, target: Target, scratch: Scratch) -> float:
    """Set the signs of the largest density at z; return its logarithm."""
    best, number_of_best = -np.inf, 0
    for number in range(1 << len(signs)):
        set_signs(number, signs)
        height = log_posterior(z, signs, target, scratch)
        if height > best:
            best, number_of_best = height, number
    set_signs(number_of_best, signs)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _set_coordinates(modes: Array, z: Array, signs: Array, layout: Layout, scratch: Scratch) -> None:
    """Set the coordinates of indices whose modes over the tokens are given; the output of these is another one."""
    read(np.ascontiguousarray(modes @ layout.modes), layout, np.empty(layout.data), z, signs, scratch)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _keep(peaks: Peaks, found: int, z: Array, height: float, factor: Array, layout: Layout) -> int:
    """Keep a peak that is none of those found, or in the place of the smallest; return how many there are."""
    work, log_det = np.empty(len(z)), np.sum(np.log(np.diag(factor)))
    place, least = found, height + log_det
    for image in range(found):
        if squared_distance(z, image, peaks, layout, work) < _SAME * len(z):
            if height <= peaks.height[image]:
                return found
            place, least = image, -np.inf
            break
    if place == len(peaks.height):
        for image in range(found):
            if peaks.height[image] + peaks.log_det[image] < least:
                place, least = image, peaks.height[image] + peaks.log_det[image]
        if place == found:
            return found
    copy_vector(z, peaks.centre[place])
    copy_matrix(factor, peaks.factor[place])
    peaks.height[place] = height
    peaks.log_det[place] = log_det
    return max(found, place + 1)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _without_small(peaks: Peaks, found: int) -> int:
    """Leave peaks out that hold next to nothing."""
    largest, kept = -np.inf, 0
    for image in range(found):
        largest = max(largest, peaks.height[image] + peaks.log_det[image])
    for image in range(found):
        if peaks.height[image] + peaks.log_det[image] > largest + _SMALL:
            copy_vector(peaks.centre[image], peaks.centre[kept])
            copy_matrix(peaks.factor[image], peaks.factor[kept])
            peaks.height[kept] = peaks.height[image]
            peaks.log_det[kept] = peaks.log_det[image]
            kept += 1
    return kept


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
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
    layout, free = target.layout, peaks.centre.shape[1]
    first, images = len(search.known), len(search.flips)
    starts = np.empty((first + images + _BEST, free))
    copy_matrix(search.known, starts)
    z, signs = np.empty(free), np.empty(layout.signs)
    for image in range(images):
        _set_coordinates(target.omega * search.flips[image].reshape(-1, 1), z, signs, layout, scratch)
        copy_vector(z, starts[first + image])
    heights = np.full(_BEST, -np.inf)
    for draw in range(len(search.draws)):
        _set_coordinates(target.omega + search.root @ search.draws[draw], z, signs, layout, scratch)
        height, worst = _set_best_signs(z, signs, target, scratch), int(np.argmin(heights))
        if height > heights[worst]:
            heights[worst] = height
            copy_vector(z, starts[first + images + worst])
    found = 0
    for start in range(len(starts)):
        if start >= first + images and not heights[start - first - images] > -np.inf:
            continue
        copy_vector(starts[start], z)
        if not _set_best_signs(z, signs, target, scratch) > -np.inf:
            continue
        fine, height, factor = find_peak(z, signs, target, scratch)
        if fine:
            found = _keep(peaks, found, z, height, factor, layout)
    found = _without_small(peaks, found)
    set_shares(peaks, found)
    return found
