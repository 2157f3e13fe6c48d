"""The intensity of nodes on a chart: prior, broad density of the variables, and peaks, at eight nodes at once."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.lanes import LANES, exp_lanes, fill, load, nearest, store

from ...arithmetic.references import INNER
from ..student import freedom
from .density import Target
from .layout import CIRCLE, LINE, Layout
from .mixture import BROAD_FREEDOM, Broad, Mixture
from .peaks import Peaks
from .scratch import Block, Lanes

__all__ = ["intensities"]

Array = NDArray[np.float64]

_TURN = 2 * math.pi


@njit(cache=True, **INNER)
def _prior_exponents(block: Block, target: Target) -> Lanes:
    """Half the squared distance of the hidden coordinates from omega, as lanes."""
    layout, omega, inner, z = target.layout, target.omega, target.prior.inner, block.z
    hidden, rows, modes = layout.hidden, layout.row, layout.mode
    total = fill(0.0)
    for j in range(len(rows)):
        k, row = modes[j], rows[j]
        own = load(z, LANES * j) - omega[hidden[row], k]
        value = 0.5 * inner[k, row, row] * own
        for i in range(j):
            if modes[i] == k:
                value = value + inner[k, row, rows[i]] * (load(z, LANES * i) - omega[hidden[rows[i]], k])
        total = total + own * value
    return total


@njit(cache=True, **INNER)
def _broad_parts(block: Block, layout: Layout, broad: Broad) -> Lanes:
    """Densities of the variables where they are drawn broadly, over the largest."""
    kinds, centre, width = layout.kinds, broad.centre, broad.width
    first, total = len(layout.row), fill(1.0)
    for j in range(len(kinds)):
        if kinds[j] == LINE:
            x = (load(block.z, LANES * (first + j)) - centre[j]) * (1 / width[j])
            total = total * (1.0 + x * x * (1 / BROAD_FREEDOM))
    # Degrees of freedom are such that the density is a whole power, -2.
    return 1.0 / (total * total)


@njit(cache=True, **INNER)
def _peak_parts(block: Block, image: int, peaks: Peaks, layout: Layout) -> Lanes:
    """Density of a peak over that at its centre."""
    kinds, centre, factor, work = layout.kinds, peaks.centre, peaks.factor, block.work
    size = centre.shape[1]
    first, square = size - len(kinds), fill(0.0)
    for j in range(size):
        away = load(block.z, LANES * j) - centre[image, j]
        if j >= first and kinds[j - first] == CIRCLE:
            away = away - _TURN * nearest(away * (1 / _TURN))
        store(work, LANES * j, away)
    for j in range(size):
        value = fill(0.0)
        for k in range(j, size):
            value = value + factor[image, k, j] * load(work, LANES * k)
        square = square + value * value
    nu = freedom(size)
    base = 1.0 + square * (1.0 / nu)
    power = base
    for _ in range((nu + size) // 2 - 1):
        power = power * base
    return 1.0 / power


@njit(cache=True, **INNER)
def intensities(block: Block, mixture: Mixture, target: Target) -> Lanes:
    """Intensity of nodes at the coordinates, over exp(mixture.log_unit), as lanes."""
    layout, peaks = target.layout, mixture.peaks
    total = fill(0.0)
    if mixture.prior > 0.0:
        total = mixture.prior * exp_lanes(-_prior_exponents(block, target)) * _broad_parts(block, layout, mixture.broad)
    for image in range(mixture.images):
        total = total + peaks.top[image] * _peak_parts(block, image, peaks, layout)
    return total
