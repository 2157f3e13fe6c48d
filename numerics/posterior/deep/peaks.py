"""Student densities at the peaks of a posterior on a fibre: where they are, how wide, and how likely."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import INNER
from ..student import freedom, set_lower_factor
from .search import Search, image_sign

__all__ = ["Peaks", "Prior", "drawn_layer", "new_peaks", "set_peaks"]

Array = NDArray[np.float64]

# Least width of a peak in the last layer, in units of the prior's.
_FLOOR = 0.05


class Prior(NamedTuple):
    """N(omega, V) of one output's indices: omega, shape (L, M), V^{-1}, shape (L, L), and log det V^{-1} M/2."""

    omega: Array
    precision: Array
    log_det: float


class Peaks(NamedTuple):
    """Peaks of one output in the layers that are drawn.

    Attributes
    ----------
    centre, factor : ndarray, shapes (images, (L - 1) M) and (images, (L - 1) M, (L - 1) M)
        Of each peak in the frame where it has the signs of the truth; the factor is that of its covariance.
    flips : ndarray, shape (images, (L - 1) M)
        Signs of the coordinates there.
    share, norm : ndarray, shape (images,)
        Of the nodes, and the density's largest value times the number of nodes.
    """

    centre: Array
    factor: Array
    flips: Array
    share: Array
    norm: Array


def new_peaks(depth: int, size: int) -> Peaks:
    """Arrays for the peaks of a network."""
    images, free = 1 << (depth - 1), (depth - 1) * size
    return Peaks(
        np.empty((images, free)),
        np.empty((images, free, free)),
        np.empty((images, free)),
        np.empty(images),
        np.empty(images),
    )


@njit(cache=True, **INNER)
def drawn_layer(k: int, depth: int, before: bool) -> int:
    """Layer that is drawn as number k where the last layer, or the one before it, is solved for."""
    return depth - 1 if before and k == depth - 2 else k


@njit(cache=True, **INNER)
def _change_drawn(tangent: Array, floor: float, covariance: Array, part: Array) -> None:
    """Make it the covariance of the layers that are drawn where the layer before the last is solved for.

    The last one takes the place of the layer before; `part` is lost.
    """
    size, free = tangent.shape
    kept = free - size
    for across in (False, True):
        for j in range(free):
            for m in range(size):
                part[m] = 0.0
                for i in range(free):
                    part[m] += tangent[m, i] * (covariance[j, i] if across else covariance[i, j])
            for m in range(size):
                if across:
                    covariance[j, kept + m] = part[m]
                else:
                    covariance[kept + m, j] = part[m]
    # Where the tangent is degenerate (h_l = 0) the curvature of the fibre spreads h_L.
    for i in range(kept, free):
        covariance[i, i] += floor


@njit(cache=True, inline="always", **INNER)
def set_peaks(first: int, search: Search, draw: tuple[bool, int], peaks: Peaks) -> None:
    """Set the peaks of one output, and divide the nodes among them.

    Parameters
    ----------
    first : int
        Number of the first of its searches; their covariances are lost.
    search : Search
    draw : tuple of bool and int
        Whether nodes are solved for the layer before the last, and how many there are.
    peaks : Peaks
    """
    (before, count), share, norm = draw, peaks.share, peaks.norm
    images, free, depth = len(share), peaks.centre.shape[1], search.h.shape[1]
    size, nu = free // (depth - 1), freedom(free)
    log_norm = math.lgamma((nu + free) // 2) - math.lgamma(0.5 * nu) - 0.5 * free * math.log(math.pi * nu)
    least, mass = np.inf, 0.0
    for image in range(images):
        least = min(least, search.least[first + image])
    for image in range(images):
        s, factor = first + image, peaks.factor[image]
        if before:
            floor = _FLOOR * _FLOOR / search.precision[image, depth - 1, depth - 1]
            _change_drawn(search.tangent[s], floor, search.covariance[s], search.trial[0])
        set_lower_factor(search.covariance[s], 1e-14, factor)
        norm[image] = math.exp(log_norm)
        for j in range(free):
            layer = drawn_layer(j // size, depth, before)
            peaks.centre[image, j] = search.h[s, layer, j % size]
            peaks.flips[image, j] = image_sign(image, layer, depth)
            norm[image] /= factor[j, j]
        share[image] = math.exp(least - search.least[s])
        mass += share[image]
    # Share of the nodes that every peak gets at least.
    least_share = 0.05
    for image in range(images):
        share[image] = (share[image] / mass + least_share) / (1.0 + images * least_share)
        norm[image] *= share[image] * count
