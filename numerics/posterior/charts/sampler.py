"""Moments of the posterior on a chart, by importance sampling with two independent sets of nodes for every output.

A node weighs the posterior over the intensity of the whole mixture (`mixture`), whichever part of it drew the node.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import lend, reference
from .density import Prior, Scratch, Target, log_posterior, new_scratch, read
from .layout import Layout
from .mixture import (
    Broad,
    Mixture,
    draw_peak,
    draw_prior,
    fit_broad,
    log_mixture,
    new_broad,
    new_mixture,
    node_heights,
    place_peaks,
    set_signs,
)
from .peaks import Peaks, new_peaks
from .points import Points

__all__ = ["Nodes", "Outputs", "Sums", "draw_node", "posterior_sums"]

Array = NDArray[np.float64]


class Outputs(NamedTuple):
    """A batch of outputs.

    Attributes
    ----------
    truth : ndarray, shape (n, P, M)
        Indices that made them.
    omega : ndarray, shape (n, P, M)
        Means of the prior, in modes over the tokens.
    flips : ndarray, shape (images, P)
        Signs of the rows at which peaks are looked for.
    pair : ndarray of int, shape (n,)
        Which pair of sets of nodes an output takes.
    """

    truth: Array
    omega: Array
    flips: Array
    pair: NDArray[np.int64]


class Nodes(NamedTuple):
    """How many nodes of each draw, and the points they are made of.

    Attributes
    ----------
    counts : ndarray of int, shape (2,)
        In each set, from the prior and from the peaks.
    points : Points
        Leading shape (pairs, 2).
    prior : ndarray, shape (draws, P, M)
        Standard normal, for the broad density.
    """

    counts: NDArray[np.int64]
    points: Points
    prior: Array


class Sums(NamedTuple):
    """Sums over the nodes of every output, for both sets.

    Attributes
    ----------
    log_scale : ndarray, shape (n,)
        Logarithm of the unit of the weights.
    first : ndarray, shape (n, 2, 1 + P M)
        Mass, and sum of the modes of h.
    second : ndarray, shape (n, 2, P M, P M)
        Sum of their products; shape (n, 2, 0, 0) where they are not asked for.
    squares : ndarray, shape (n, 2)
        Sum of the squared weights.
    """

    log_scale: Array
    first: Array
    second: Array
    squares: Array


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _follow(target: Target, modes: Array) -> None:
    """Set the means that the output does not depend on to what they are given the rest."""
    omega, follow, free = target.omega, target.prior.follow, target.layout.free
    for p in range(len(modes)):
        if free[p]:
            value = omega[p, 0]
            for i in range(len(modes)):
                if not free[i]:
                    value += follow[p, i] * (modes[i, 0] - omega[i, 0])
            modes[p, 0] = value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add(first: Array, second: Array, weight: float, modes: Array) -> None:
    """Add indices to the sums."""
    indices, tokens = modes.shape
    first[0] += weight
    for p in range(indices):
        for k in range(tokens):
            one = weight * modes[p, k]
            first[1 + p * tokens + k] += one
            if second.shape[0] > 0:
                for i in range(indices):
                    for j in range(tokens):
                        second[p * tokens + k, i * tokens + j] += one * modes[i, j]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_node(z: Array, node: int, points: Points, mixture: Mixture, target: Target) -> bool:
    """Coordinates of one node; False for one that is not counted."""
    if node < mixture.from_prior:
        draw_prior(z, points.normal[node], points.broad[node], target, mixture.broad)
        return True
    peaks = mixture.peaks
    share = peaks.share
    level = (node - mixture.from_prior + 0.5) / mixture.from_peaks
    image, passed = 0, share[0]
    while level > passed and image < mixture.images - 1:
        image += 1
        passed += share[image]
    return draw_peak(z, points.normal[node], points.tails[node], image, peaks, target.layout)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _sum_nodes(
    sums: Sums, where: tuple[int, int], points: Points, mixture: Mixture, target: Target, scratch: Scratch
) -> None:
    """Add one set of nodes to the sums of one output, each with every choice of the signs."""
    i, half = where
    first, second, squares, log_scale = sums.first[i, half], sums.second[i, half], sums.squares, sums.log_scale[i]
    z, work, signs, modes = scratch.z, scratch.work, scratch.signs, scratch.modes
    for node in range(mixture.from_prior + mixture.from_peaks):
        if not draw_node(z, node, points, mixture, target):
            continue
        density = log_mixture(z, mixture, target, work) + log_scale
        for number in range(1 << len(signs)):
            set_signs(number, signs)
            height = log_posterior(z, signs, target, scratch)
            weight = math.exp(height - density)
            if 0.0 < weight < np.inf:
                _follow(target, modes)
                squares[i, half] += weight * weight
                _add(first, second, weight, modes)


def posterior_sums(outputs: Outputs, root: Array, prior: Prior, nodes: Nodes, layout: Layout, sums: Sums) -> None:
    """Sums over the posterior of a batch of outputs, each by two independent sets of nodes.

    Parameters
    ----------
    outputs : Outputs
    root : ndarray, shape (P, P)
        Lower factor of V.
    prior : Prior
    nodes : Nodes
    layout : Layout
        With at least one continuous coordinate.
    sums : Sums
        Filled.
    """
    for array in (sums.first, sums.second, sums.squares):
        array[...] = 0.0
    work = _Work(
        np.empty(layout.data),
        lend(prior),
        lend(layout),
        lend(new_scratch(layout)),
        lend(new_peaks(len(outputs.flips), layout.dimension)),
        lend(new_broad(layout)),
    )
    _set_sums(lend(outputs), root, lend(nodes), lend(work), lend(sums))


class _Work(NamedTuple):
    """What the targets of all outputs share, the data of one of them at a time, and arrays that are used anew."""

    data: Array
    prior: Prior
    layout: Layout
    scratch: Scratch
    peaks: Peaks
    broad: Broad


@njit(cache=True, nogil=True, error_model="numpy")
def _set_sums(outputs: Outputs, root: Array, nodes: Nodes, work: _Work, sums: Sums) -> None:
    """Add to sums that are zero."""
    layout, scratch, peaks, broad = work.layout, work.scratch, work.peaks, work.broad
    log_scale, heights, points = sums.log_scale, peaks.height, nodes.points
    for i in range(len(outputs.truth)):
        truth = outputs.truth[i]
        target = reference(Target(work.data, outputs.omega[i], work.prior, layout))
        fit_broad(target, root, nodes.prior, scratch, broad)
        read(truth, layout, work.data, scratch.z, scratch.signs, scratch)
        log_scale[i] = node_heights(scratch.z, scratch.signs, target, scratch)
        images = place_peaks(truth, outputs.flips, target, scratch, peaks)
        for image in range(images):
            log_scale[i] = max(log_scale[i], heights[image])
        mixture = reference(new_mixture(nodes.counts, images, broad, peaks))
        for half in range(2):
            place = (outputs.pair[i], half)
            own = reference(Points(points.normal[place], points.broad[place], points.tails[place]))
            _sum_nodes(sums, (i, half), own, mixture, target, scratch)
