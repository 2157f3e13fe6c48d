"""The mixture that nodes on a chart are drawn from: the prior of the hidden indices, and Student peaks.

Drawn from the prior, the variables of the readout's fibre have a broad density of their own. The peaks stand where the
posterior is large near the images of the indices that made the output, as wide as the Gaussian of the indices is along
the chart there.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.lanes import LANES

from ...arithmetic.references import INNER
from ..student import freedom, set_lower_inverse
from .density import Target, log_posterior, read, wrapped
from .layout import ARC, CIRCLE, LINE, Layout
from .peaks import Peaks, find_peak, keep_peak, log_student_norm
from .scratch import Scratch

__all__ = [
    "BROAD_FREEDOM",
    "Broad",
    "Mixture",
    "draw_peak",
    "draw_prior",
    "fit_broad",
    "new_broad",
    "new_mixture",
    "node_heights",
    "place_peaks",
    "set_shares",
    "set_signs",
    "squared_distance",
]

Array = NDArray[np.float64]

BROAD_FREEDOM = 3


class Broad(NamedTuple):
    """Centres and widths of the broad density of the variables."""

    centre: Array
    width: Array


class Mixture(NamedTuple):
    """Nodes from the prior, nodes from the peaks, and how many peaks there are; the parts, and their logarithms.

    Attributes
    ----------
    from_prior, from_peaks, images : int
    broad : Broad
    peaks : Peaks
    log_unit : float
        Logarithm of the largest intensity of a part.
    prior : float
        Largest intensity of nodes from the prior, over the largest of all.
    """

    from_prior: int
    from_peaks: int
    images: int
    broad: Broad
    peaks: Peaks
    log_unit: float
    prior: float


def new_broad(layout: Layout) -> Broad:
    """Arrays for the variables of a chart."""
    return Broad(np.zeros(len(layout.kinds)), np.ones(len(layout.kinds)))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def new_mixture(counts: NDArray[np.int64], images: int, broad: Broad, peaks: Peaks, target: Target) -> Mixture:
    """Mixture of so many nodes from the prior and from peaks."""
    from_peaks = counts[1] if images > 0 else 0
    log_prior = -np.inf
    if counts[0] > 0:
        log_prior = math.log(counts[0]) + target.prior.log_inner + _log_largest(target.layout, broad)
    top, share, log_det = peaks.top, peaks.share, peaks.log_det
    size, log_unit = peaks.centre.shape[1], log_prior
    norm = log_student_norm(freedom(size), size)
    for image in range(images):
        set_lower_inverse(peaks.factor[image], peaks.inverse[image])
        top[image] = math.log(from_peaks * share[image]) - log_det[image] + norm
        log_unit = max(log_unit, top[image])
    for image in range(images):
        top[image] = math.exp(top[image] - log_unit)
    return Mixture(counts[0], from_peaks, images, broad, peaks, log_unit, math.exp(log_prior - log_unit))


@njit(cache=True, **INNER)
def _log_largest(layout: Layout, broad: Broad) -> float:
    """Logarithm of the largest value of the broad density of all variables."""
    kinds, width, norm = layout.kinds, broad.width, log_student_norm(BROAD_FREEDOM, 1)
    total = 0.0
    for j in range(len(kinds)):
        if kinds[j] == LINE:
            total += norm - math.log(width[j])
        else:
            total -= math.log(math.pi if kinds[j] == ARC else 2 * math.pi)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def fit_broad(target: Target, root: Array, pilot: Array, scratch: Scratch, broad: Broad) -> None:
    """Fit the broad density to variables of indices drawn from the prior; `root` is the lower factor of V."""
    omega, layout, z, h = target.omega, target.layout, scratch.z, scratch.middle
    modes, centre, width = layout.modes, broad.centre, broad.width
    count, variables = len(pilot), len(centre)
    if variables == 0:
        return
    values = np.empty((variables, count))
    for n in range(count):
        _set_draw(h, pilot[n], omega, root, modes)
        read(h, layout, scratch.data, z, scratch.signs, scratch)
        for j in range(variables):
            values[j, n] = z[len(z) - variables + j]
    for j in range(variables):
        total = 0.0
        for n in range(count):
            total += values[j, n]
        mean, square = total / count, 0.0
        for n in range(count):
            square += (values[j, n] - mean) ** 2
        # Width of the broad density in units of the scatter under the prior.
        centre[j], width[j] = mean, 1.5 * math.sqrt(square / count)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_draw(h: Array, normal: Array, omega: Array, root: Array, modes: Array) -> None:
    """Set indices of the prior from standard normal numbers for their modes."""
    indices, tokens = omega.shape
    for p in range(indices):
        for m in range(tokens):
            h[p, m] = 0.0
    for k in range(tokens):
        for p in range(indices):
            value = omega[p, k]
            for i in range(p + 1):
                value += root[p, i] * normal[i, k]
            for m in range(tokens):
                h[p, m] += value * modes[k, m]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_prior(z: Array, lane: int, normal: Array, loose: Array, target: Target, broad: Broad) -> None:
    """Coordinates of a node from the prior, from standard normal numbers and those of the broad density."""
    omega, roots, layout = target.omega, target.prior.roots, target.layout
    hidden, row, mode, kinds = layout.hidden, layout.row, layout.mode, layout.kinds
    count, centre, width = len(row), broad.centre, broad.width
    for j in range(count):
        k = mode[j]
        value = omega[hidden[row[j]], k]
        for i in range(j + 1):
            if mode[i] == k:
                value += roots[k, row[j], row[i]] * normal[i]
        z[LANES * j + lane] = value
    for j in range(len(kinds)):
        if kinds[j] == LINE:
            z[LANES * (count + j) + lane] = centre[j] + width[j] * loose[j]
        else:
            z[LANES * (count + j) + lane] = loose[j] * (math.pi if kinds[j] == ARC else 2 * math.pi)


@njit(cache=True, **INNER)
def squared_distance(z: Array, image: int, peaks: Peaks, layout: Layout, work: Array) -> float:
    """Squared distance of a node from a peak in units of its scale."""
    kinds, centre, factor = layout.kinds, peaks.centre, peaks.factor
    first, square = len(z) - len(kinds), 0.0
    for j in range(len(z)):
        work[j] = z[j] - centre[image, j]
        if j >= first:
            work[j] = wrapped(work[j], kinds[j - first])
    for j in range(len(z)):
        value = 0.0
        for k in range(j, len(z)):
            value += factor[image, k, j] * work[k]
        square += value * value
    return square


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_peak(z: Array, lane: int, normal: Array, tail: float, image: int, peaks: Peaks, layout: Layout) -> bool:
    """Coordinates of a node from a peak; False where a variable leaves its range, which no node does."""
    kinds, centre, inverse = layout.kinds, peaks.centre, peaks.inverse
    size, inside = centre.shape[1], True
    first = size - len(kinds)
    for j in range(size):
        value = 0.0
        for k in range(j, size):
            value += inverse[image, k, j] * normal[k]
        value *= tail
        place = centre[image, j] + value
        z[LANES * j + lane] = place
        if j >= first:
            kind = kinds[j - first]
            inside &= not (kind == CIRCLE and abs(value) > math.pi) and (kind != ARC or 0.0 < place < math.pi)
    return inside


@njit(cache=True, **INNER)
def set_signs(number: int, signs: Array) -> None:
    """One of the choices of all signs."""
    for j in range(len(signs)):
        signs[j] = -1.0 if (number >> j) & 1 else 1.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def node_heights(z: Array, signs: Array, target: Target, scratch: Scratch) -> float:
    """Logarithm of the posterior's density at z, summed over the signs."""
    total = -np.inf
    for number in range(1 << len(signs)):
        set_signs(number, signs)
        height = log_posterior(z, signs, target, scratch)
        top, low = max(total, height), min(total, height)
        if top > -np.inf:
            total = top + math.log1p(math.exp(low - top))
    return total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_image(truth: Array, flip: Array, target: Target, z: Array, scratch: Scratch) -> None:
    """Set the coordinates and signs of the truth with the signs of its rows changed."""
    h = scratch.middle
    for p in range(h.shape[0]):
        for m in range(h.shape[1]):
            h[p, m] = truth[p, m] * flip[p]
    read(h, target.layout, scratch.data, z, scratch.signs, scratch)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _alike(one: Array, other: Array, omega: Array) -> bool:
    """Whether two changes of sign differ only by rows of which the prior knows nothing."""
    for p in range(len(one)):
        for k in range(omega.shape[1]):
            if one[p] != other[p] and omega[p, k] != 0.0:
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def place_peaks(truth: Array, flips: Array, target: Target, scratch: Scratch, peaks: Peaks) -> int:
    """Find peaks near the images of the truth under changes of sign; return how many there are.

    Rows of which the prior knows nothing have a posterior without a sign: their images have the same peak, reflected.
    """
    z, first, omega = scratch.z, scratch.trial, target.omega
    places = np.empty(len(flips), np.int64)
    found: Any = np.int64(0)  # numba compiles what takes a literal number once more
    for image in range(len(flips)):
        _set_image(truth, flips[image], target, z, scratch)
        places[image] = -1
        for other in range(image):
            if places[other] >= 0 and _alike(flips[image], flips[other], omega):
                _set_image(truth, flips[other], target, first, scratch)
                if _reflected(z, first, peaks, places[other], found):
                    places[image] = found
                    found += 1
                    break
        if places[image] >= 0:
            continue
        fine, height, factor = find_peak(z, scratch.signs, target, scratch)
        if not fine:
            continue
        keep_peak(peaks, found, z, height, factor)
        places[image] = found
        found += 1
    set_shares(peaks, found)
    return found


@njit(cache=True, **INNER)
def _reflected(z: Array, first: Array, peaks: Peaks, peak: int, place: int) -> bool:
    """Put the reflection of a peak there, that takes one image of the truth to the other; False where it is none."""
    size, centre, factor = len(z), peaks.centre, peaks.factor
    # Relative difference of coordinates that are the same but for rounding.
    same = 1e-6
    for j in range(size):
        if not abs(abs(z[j]) - abs(first[j])) <= same * abs(z[j]):
            return False
    for j in range(size):
        sign = 1.0 if z[j] * first[j] >= 0.0 else -1.0
        centre[place, j] = sign * centre[peak, j]
        for k in range(size):
            other = 1.0 if z[k] * first[k] >= 0.0 else -1.0
            factor[place, j, k] = sign * other * factor[peak, j, k]
    peaks.height[place] = peaks.height[peak]
    peaks.log_det[place] = peaks.log_det[peak]
    return True


@njit(cache=True, **INNER)
def set_shares(peaks: Peaks, found: int) -> None:
    """Divide the nodes among so many peaks by their volumes."""
    height, log_det, share = peaks.height, peaks.log_det, peaks.share
    largest, total = -np.inf, 0.0
    for image in range(found):
        largest = max(largest, height[image] + log_det[image])
    for image in range(found):
        share[image] = math.exp(height[image] + log_det[image] - largest)
        total += share[image]
    # Least share of a peak.
    least_share = 0.05
    for image in range(found):
        share[image] = (share[image] / total + least_share) / (1.0 + found * least_share)
