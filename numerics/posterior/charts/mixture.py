"""The mixture that nodes on a chart are drawn from: the prior of the hidden indices, and Student peaks.

Drawn from the prior, the variables of the readout's fibre have a broad density of their own. The peaks stand where the
posterior is large near the images of the indices that made the output, as wide as the Gaussian of the indices is along
the chart there.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..copies import copy_matrix, copy_vector
from ..student import freedom
from .density import Scratch, Target, log_posterior, read, wrapped
from .layout import ARC, CIRCLE, LINE, Layout
from .peaks import Peaks, find_peak, log_student_norm

__all__ = [
    "BROAD_FREEDOM",
    "Broad",
    "Mixture",
    "draw_peak",
    "draw_prior",
    "fit_broad",
    "log_mixture",
    "new_mixture",
    "node_heights",
    "place_peaks",
    "set_shares",
    "set_signs",
    "squared_distance",
]

Array = NDArray[np.float64]

# Width of the broad density in units of the scatter under the prior.
_BROAD = 1.5
BROAD_FREEDOM = 3
# Least share of a peak.
_LEAST_SHARE = 0.05
# Relative difference of coordinates that are the same but for rounding.
_SAME = 1e-6
# Logarithm of a ratio of densities beside which the smaller one is nothing.
_BEYOND = 600.0


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
    log_prior : float
        Of the number of nodes from the prior.
    log_top : float
        Of the largest intensity at a centre of a peak.
    tops : ndarray, shape (images,)
        Those at all centres, in units of it.
    norm : float
        Logarithm of the Student density of a variable of the broad density.
    """

    from_prior: int
    from_peaks: int
    images: int
    broad: Broad
    peaks: Peaks
    log_prior: float
    log_top: float
    tops: Array
    norm: float


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def new_mixture(counts: NDArray[np.int64], images: int, broad: Broad, peaks: Peaks) -> Mixture:
    """Mixture of so many nodes from the prior and from peaks."""
    from_peaks = counts[1] if images > 0 else 0
    log_prior = math.log(counts[0]) if counts[0] > 0 else -np.inf
    size, log_top = peaks.centre.shape[1], -np.inf
    tops = np.log(from_peaks * peaks.share[:images]) - peaks.log_det[:images] + log_student_norm(freedom(size), size)
    for image in range(images):
        log_top = max(log_top, tops[image])
    tops = np.exp(tops - log_top)
    return Mixture(
        counts[0], from_peaks, images, broad, peaks, log_prior, log_top, tops, log_student_norm(BROAD_FREEDOM, 1)
    )


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def fit_broad(target: Target, root: Array, pilot: Array, scratch: Scratch, broad: Broad) -> None:
    """Fit the broad density to variables of indices drawn from the prior; `root` is the lower factor of V."""
    omega, layout = target.omega, target.layout
    count, variables = len(pilot), len(layout.kinds)
    if variables == 0:
        return
    indices, tokens = omega.shape
    values = np.empty((count, variables))
    z, signs, told = np.empty(len(layout.row) + variables), np.empty(layout.signs), np.empty(layout.data)
    h = np.empty((indices, tokens))
    for n in range(count):
        h[:] = 0.0
        for k in range(tokens):
            for p in range(indices):
                value = omega[p, k]
                for i in range(p + 1):
                    value += root[p, i] * pilot[n, i, k]
                for m in range(tokens):
                    h[p, m] += value * layout.modes[k, m]
        read(h, layout, told, z, signs, scratch)
        copy_vector(z[len(layout.row) :], values[n])
    for j in range(variables):
        broad.centre[j] = np.mean(values[:, j])
        broad.width[j] = _BROAD * np.std(values[:, j])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _log_broad(z: Array, layout: Layout, broad: Broad, norm: float) -> float:
    """Log-density of the variables where they are drawn from the broad density."""
    total, first = 0.0, len(layout.row)
    for j in range(len(layout.kinds)):
        if layout.kinds[j] == LINE:
            x = (z[first + j] - broad.centre[j]) / broad.width[j]
            total += norm - math.log(broad.width[j]) - 0.5 * (BROAD_FREEDOM + 1) * math.log1p(x * x / BROAD_FREEDOM)
        else:
            total -= math.log(math.pi if layout.kinds[j] == ARC else 2 * math.pi)
    return total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_prior(z: Array, normal: Array, loose: Array, target: Target, broad: Broad) -> None:
    """Coordinates of a node from the prior, from standard normal numbers and those of the broad density."""
    _, omega, prior, layout = target
    count = len(layout.row)
    for j in range(count):
        k = layout.mode[j]
        value = omega[layout.hidden[layout.row[j]], k]
        for i in range(j + 1):
            if layout.mode[i] == k:
                value += prior.roots[k, layout.row[j], layout.row[i]] * normal[i]
        z[j] = value
    for j in range(len(layout.kinds)):
        if layout.kinds[j] == LINE:
            z[count + j] = broad.centre[j] + broad.width[j] * loose[j]
        else:
            z[count + j] = loose[j] * (math.pi if layout.kinds[j] == ARC else 2 * math.pi)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _log_prior(z: Array, target: Target, broad: Broad, norm: float) -> float:
    """Log-density of a node where it is drawn from the prior."""
    layout, omega, inner = target.layout, target.omega, target.prior.inner
    total, count = 0.0, len(layout.row)
    for j in range(count):
        k, row = layout.mode[j], layout.row[j]
        first = z[j] - omega[layout.hidden[row], k]
        total += 0.5 * first * inner[k, row, row] * first
        for i in range(j):
            if layout.mode[i] == k:
                other = layout.row[i]
                total += first * inner[k, row, other] * (z[i] - omega[layout.hidden[other], k])
    return target.prior.log_inner - total + _log_broad(z, layout, broad, norm)


@njit(cache=True, nogil=True, error_model="numpy")
def squared_distance(z: Array, image: int, peaks: Peaks, layout: Layout, work: Array) -> float:
    """Squared distance of a node from a peak in units of its scale."""
    first, square = len(layout.row), 0.0
    for j in range(len(z)):
        value = z[j] - peaks.centre[image, j]
        if j >= first:
            value = wrapped(value, layout.kinds[j - first])
        for k in range(j):
            value -= peaks.factor[image, j, k] * work[k]
        work[j] = value / peaks.factor[image, j, j]
        square += work[j] * work[j]
    return square


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_peak(z: Array, normal: Array, tail: float, image: int, peaks: Peaks, layout: Layout) -> bool:
    """Coordinates of a node from a peak; False where a variable leaves its range, which no node does."""
    first = len(layout.row)
    for j in range(len(z)):
        value = 0.0
        for k in range(j + 1):
            value += peaks.factor[image, j, k] * normal[k]
        value *= tail
        z[j] = peaks.centre[image, j] + value
        if j >= first:
            kind = layout.kinds[j - first]
            if kind == CIRCLE and abs(value) > math.pi:
                return False
            if kind == ARC and not 0.0 < z[j] < math.pi:
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def log_mixture(z: Array, mixture: Mixture, target: Target, work: Array) -> float:
    """Logarithm of the intensity of nodes at z."""
    density = -np.inf
    if mixture.from_prior > 0:
        density = mixture.log_prior + _log_prior(z, target, mixture.broad, mixture.norm)
    if density > mixture.log_top + _BEYOND or mixture.images == 0:
        return density
    nu = freedom(len(z))
    # Degrees of freedom are such that the density is a whole power.
    power, total = (nu + len(z)) // 2, math.exp(density - mixture.log_top)
    for image in range(mixture.images):
        square = squared_distance(z, image, mixture.peaks, target.layout, work)
        total += mixture.tops[image] * (1.0 + square / nu) ** -power
    return mixture.log_top + math.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
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
def place_peaks(truth: Array, flips: Array, target: Target, scratch: Scratch, peaks: Peaks) -> int:
    """Find peaks near the images of the truth under changes of sign; return how many there are.

    Rows of which the prior knows nothing have a posterior without a sign: their images have the same peak, reflected.
    """
    layout = target.layout
    z, signs, told = np.empty(peaks.centre.shape[1]), np.empty(layout.signs), np.empty(layout.data)
    first, unknown = np.empty_like(z), np.empty(len(truth), np.bool_)
    for row in range(len(truth)):
        unknown[row] = not np.any(target.omega[row])
    places = np.full(len(flips), -1)
    found = 0
    for image in range(len(flips)):
        read(truth * flips[image].reshape(-1, 1), layout, told, z, signs, scratch)
        for other in range(image):
            change = flips[image] * flips[other]
            if places[other] >= 0 and np.all((change > 0) | unknown):
                read(truth * flips[other].reshape(-1, 1), layout, told, first, signs, scratch)
                if _reflected(z, first, peaks, places[other], found):
                    places[image] = found
                    found += 1
                    break
        if places[image] >= 0:
            continue
        fine, height, factor = find_peak(z, signs, target, scratch)
        if not fine:
            continue
        copy_vector(z, peaks.centre[found])
        copy_matrix(factor, peaks.factor[found])
        peaks.height[found] = height
        peaks.log_det[found] = np.sum(np.log(np.diag(factor)))
        places[image] = found
        found += 1
    set_shares(peaks, found)
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _reflected(z: Array, first: Array, peaks: Peaks, peak: int, place: int) -> bool:
    """Put the reflection of a peak there, that takes one image of the truth to the other; False where it is none."""
    size = len(z)
    for j in range(size):
        if not abs(abs(z[j]) - abs(first[j])) <= _SAME * abs(z[j]):
            return False
    for j in range(size):
        sign = 1.0 if z[j] * first[j] >= 0.0 else -1.0
        peaks.centre[place, j] = sign * peaks.centre[peak, j]
        for k in range(size):
            other = 1.0 if z[k] * first[k] >= 0.0 else -1.0
            peaks.factor[place, j, k] = sign * other * peaks.factor[peak, j, k]
    peaks.height[place] = peaks.height[peak]
    peaks.log_det[place] = peaks.log_det[peak]
    return True


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def set_shares(peaks: Peaks, found: int) -> None:
    """Divide the nodes among so many peaks by their volumes."""
    if found == 0:
        return
    volume = peaks.height[:found] + peaks.log_det[:found]
    mass = np.exp(volume - np.max(volume))
    copy_vector((mass / np.sum(mass) + _LEAST_SHARE) / (1.0 + found * _LEAST_SHARE), peaks.share)
