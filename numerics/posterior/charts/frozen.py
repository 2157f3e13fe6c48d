"""Nodes of a posterior that stay where they are while the prior moves a little: moments are smooth functions of it.

Each node keeps its indices and the logarithm of the chart's weight over the intensity of the nodes; the Gaussian of the
indices is what changes.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.lanes import LANES, store

from ...arithmetic.references import INNER, lend, reference
from .block import energies, set_indices
from .density import Prior, Target
from .intensity import intensities
from .mixture import Broad, Mixture, fit_broad, new_broad, new_mixture, set_signs
from .peaks import Peaks, new_peaks
from .points import Points
from .sampler import draw_node
from .scratch import Scratch, new_scratch
from .seeking import Search, seek_peaks

__all__ = ["Frozen", "Weighed", "freeze", "heavy_nodes", "weigh"]

Array = NDArray[np.float64]


class Frozen(NamedTuple):
    """Nodes of one posterior.

    Attributes
    ----------
    modes : ndarray, shape (nodes, P, M)
        Indices, in modes over the tokens.
    log_base : ndarray, shape (nodes,)
        Logarithm of the weight of the chart over the intensity of the nodes.
    first : int
        How many are of the first of two independent sets; they come first.
    peaks : ndarray, shape (peaks, F)
        Where the peaks of the mixture are.
    """

    modes: Array
    log_base: Array
    first: int
    peaks: Array


class Weighed(NamedTuple):
    """Moments of one posterior in modes over the tokens, of deviations from the prior's mean.

    Attributes
    ----------
    mean : ndarray, shape (3, P, M)
        By the first set of nodes, by the second, and by both.
    second : ndarray, shape (P, P)
        E sum_m (h_m - omega_m)(h_m - omega_m)^T, by both.
    log_z : float
    worth : float
        Number of independent nodes that all are worth; zero where there is none.
    """

    mean: Array
    second: Array
    log_z: float
    worth: float


def freeze(counts: NDArray[np.int64], points: Points, search: Search, target: Target, light: float) -> Frozen:
    """Look for peaks, draw both sets of nodes, and keep those that hold all weight but a small part.

    Parameters
    ----------
    counts : ndarray of int, shape (2,)
        Nodes of each set from the prior and from the peaks.
    points : Points
        Leading shape (2, nodes), at least as many nodes.
    search : Search
    target : Target
    light : float
        The part of the weight that is left out.

    Returns
    -------
    Frozen
    """
    layout, (most, shape) = target.layout, (2 * int(counts[0] + counts[1]) << target.layout.signs, target.omega.shape)
    # Peaks that are kept.
    peaks, made = new_peaks(8, layout.dimension), _Made(np.empty((most, *shape)), *np.empty((2, most)))
    lent = lend(Target(target.data, target.omega, lend(target.prior), lend(layout)))
    work = _Work(lend(new_scratch(layout)), lend(peaks), lend(new_broad(layout)), *np.empty((3, LANES)))
    fit_broad(lent, search.root, search.draws, work.scratch, work.broad)
    images = seek_peaks(lend(search), lent, work.scratch, work.peaks)
    first, kept = _draw(counts, images, lend(points), lent, lend(work), lend(made))
    heavy = heavy_nodes(made.log_weight[:kept], light)
    return Frozen(made.modes[heavy], made.log_base[heavy], int(np.sum(heavy < first)), peaks.centre[:images].copy())


class _Made(NamedTuple):
    """Nodes, the logarithms of the weight of the chart over their intensity, and those of their weights."""

    modes: Array
    log_base: Array
    log_weight: Array


class _Work(NamedTuple):
    """Arrays that are filled on the way."""

    scratch: Scratch
    peaks: Peaks
    broad: Broad
    densities: Array
    bases: Array
    energies: Array


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(
    counts: NDArray[np.int64], images: int, points: Points, target: Target, work: _Work, made: _Made
) -> tuple[int, int]:
    """Draw both sets of nodes; return how many of the first one are kept, and how many of both."""
    mixture = reference(new_mixture(counts, images, work.broad, work.peaks, target))
    kept, first = 0, 0
    for half in range(2):
        first = kept
        own = reference(Points(points.normal[half], points.broad[half], points.tails[half], points.level[half]))
        kept = _draw_set(own, mixture, target, work, made, kept)
    return first, kept


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _draw_set(points: Points, mixture: Mixture, target: Target, work: _Work, made: _Made, kept: int) -> int:
    """Draw one set of nodes, after those that are kept; return how many are."""
    block, signs, modes = work.scratch.block, work.scratch.signs, work.scratch.block.modes
    log_base, log_weight, all_modes = made.log_base, made.log_weight, made.modes
    indices, tokens = target.omega.shape
    last = mixture.from_prior + mixture.from_peaks
    for first in range(0, last, LANES):
        for lane in range(LANES):
            node = min(first + lane, last - 1)
            level = (node - mixture.from_prior + 0.5) / mixture.from_peaks if node >= mixture.from_prior else -1.0
            draw_node(block, lane, node, level, points, mixture, target)
            if first + lane >= last:
                block.kept[lane] = 0.0
        store(work.densities, 0, intensities(block, mixture, target))
        for number in range(1 << len(signs)):
            set_signs(number, signs)
            store(work.bases, 0, set_indices(block, signs, target))
            store(work.energies, 0, energies(block, target))
            for lane in range(LANES):
                base = work.bases[lane] - mixture.log_unit - math.log(work.densities[lane])
                height = base - work.energies[lane]
                if block.kept[lane] > 0.0 and -np.inf < height < np.inf:
                    for p in range(indices):
                        for k in range(tokens):
                            all_modes[kept, p, k] = modes[LANES * (p * tokens + k) + lane]
                    log_base[kept], log_weight[kept] = base, height
                    kept += 1
    return kept


def heavy_nodes(log_weight: Array, light: float) -> NDArray[np.int64]:
    """Numbers of the nodes that hold all weight but a small part, in order."""
    if len(log_weight) == 0:
        return np.empty(0, np.int64)
    order = np.argsort(log_weight, kind="stable")
    weight = np.exp(log_weight[order] - log_weight[order[-1]])
    kept = np.zeros(len(order), np.bool_)
    kept[order[np.cumsum(weight) > light * np.sum(weight)]] = True
    return np.flatnonzero(kept)


@njit(cache=True, **INNER)
def _energy(modes: Array, omega: Array, precision: Array, deviation: Array) -> float:
    """Half the squared distance of modes from omega; sets the deviations, those of free means to their mean."""
    indices, tokens = omega.shape
    total = 0.0
    for p in range(indices):
        for k in range(tokens):
            deviation[p, k] = modes[p, k] - omega[p, k]
    for k in range(tokens):
        for p in range(indices):
            value = 0.0
            for i in range(p):
                value += precision[k, p, i] * deviation[i, k]
            total += deviation[p, k] * (value + 0.5 * precision[k, p, p] * deviation[p, k])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(nodes: Frozen, omega: Array, prior: Prior, free: NDArray[np.bool_]) -> Weighed:
    """Moments of a posterior under N(omega, V).

    Parameters
    ----------
    nodes : Frozen
    omega : ndarray, shape (P, M)
        In modes over the tokens.
    prior : Prior
    free : ndarray of bool, shape (P,)
        Rows whose mean the output does not depend on.

    Returns
    -------
    Weighed
    """
    indices, tokens = omega.shape
    count = len(nodes.log_base)
    height, deviation = np.empty(count), np.empty((count, indices, tokens))
    for node in range(count):
        height[node] = nodes.log_base[node] - _energy(nodes.modes[node], omega, prior.precision, deviation[node])
    mass, mean, second = np.zeros(3), np.zeros((3, indices, tokens)), np.zeros((indices, indices))
    top = np.max(height) if count else -np.inf
    squares = 0.0
    for node in range(count):
        weight = math.exp(height[node] - top)
        squares += weight * weight
        half = 0 if node < nodes.first else 1
        mass[half] += weight
        moved = deviation[node]
        for p in range(indices):
            if free[p]:
                moved[p, 0] = 0.0
                for i in range(indices):
                    if not free[i]:
                        moved[p, 0] += prior.follow[p, i] * moved[i, 0]
        for p in range(indices):
            for k in range(tokens):
                one = weight * moved[p, k]
                mean[half, p, k] += one
                for i in range(p + 1):
                    second[p, i] += one * moved[i, k]
    mass[2] = mass[0] + mass[1]
    if not (0.0 < mass[2] < np.inf):
        return Weighed(mean, second, -np.inf, 0.0)
    for p in range(indices):
        for k in range(tokens):
            mean[2, p, k] = mean[0, p, k] + mean[1, p, k]
            for part in range(3):
                # A set without nodes has the mean of the other.
                own = part if mass[part] > 0.0 else 2
                mean[part, p, k] = mean[own, p, k] / mass[own]
        for i in range(p + 1):
            second[p, i] = second[p, i] / mass[2] + prior.spread[p, i]
            second[i, p] = second[p, i]
    log_z = top + math.log(0.5 * mass[2]) + prior.log_norm
    return Weighed(mean, second, log_z, mass[2] * mass[2] / squares)
