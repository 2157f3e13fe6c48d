"""Moments of the posterior on a chart, by importance sampling with two independent sets of nodes for every output.

A node weighs the posterior over the intensity of the whole mixture (`mixture`), whichever part of it drew the node.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import lend, reference
from ..pieces import PIECES
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
        In each set, from the prior and from the peaks; multiples of `PIECES`.
    points : Points
        Leading shape (pairs, 2).
    prior : ndarray, shape (draws, P, M)
        Standard normal, for the broad density.
    """

    counts: NDArray[np.int64]
    points: Points
    prior: Array


class Sums(NamedTuple):
    """Sums over the nodes of every output, by pieces of both sets.

    Attributes
    ----------
    log_scale : ndarray, shape (n,)
        Logarithm of the unit of the weights.
    pieces : ndarray, shape (n, 2 PIECES, 1 + k)
        Mass; sum of the modes of h, P M numbers in order; and sum of their products where they are asked for, the lower
        triangle of a P M x P M matrix row by row.
    squares : ndarray, shape (n, 2)
        Sum of the squared weights of each set.
    """

    log_scale: Array
    pieces: Array
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
def _add(sums: Array, weight: float, modes: Array) -> None:
    """Add indices to the sums of a piece."""
    indices, tokens = modes.shape
    size = indices * tokens
    products = len(sums) > 1 + size
    sums[0] += weight
    place = 1 + size
    for p in range(indices):
        for k in range(tokens):
            one = weight * modes[p, k]
            sums[1 + p * tokens + k] += one
            if products:
                for i in range(p):
                    for j in range(tokens):
                        sums[place] += one * modes[i, j]
                        place += 1
                for j in range(k + 1):
                    sums[place] += one * modes[p, j]
                    place += 1


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_node(z: Array, node: int, level: float, points: Points, mixture: Mixture, target: Target) -> bool:
    """Coordinates of one node; False for one that is not counted.

    It is from the prior where the level is negative, else from the peak that the level, from 0 to 1, has by the shares.
    """
    if level < 0.0:
        draw_prior(z, points.normal[node], points.broad[node], target, mixture.broad)
        return True
    if mixture.from_peaks == 0:
        return False
    peaks = mixture.peaks
    share = peaks.share
    image, passed = 0, share[0]
    while level > passed and image < mixture.images - 1:
        image += 1
        passed += share[image]
    return draw_peak(z, points.normal[node], points.tails[node], image, peaks, target.layout)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_node(sums: Array, mixture: Mixture, log_scale: float, target: Target, scratch: Scratch) -> float:
    """Add the node at the coordinates in `scratch` with every choice of the signs; return its squared weight."""
    z, signs, modes = scratch.z, scratch.signs, scratch.modes
    density = log_mixture(z, mixture, target, scratch.work) + log_scale
    squares = 0.0
    for number in range(1 << len(signs)):
        set_signs(number, signs)
        height = log_posterior(z, signs, target, scratch)
        weight = math.exp(height - density)
        if 0.0 < weight < np.inf:
            _follow(target, modes)
            squares += weight * weight
            _add(sums, weight, modes)
    return squares


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
    sums.pieces[...], sums.squares[...] = 0.0, 0.0
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
        pieces, squares = sums.pieces[i], sums.squares
        for half in range(2):
            place = (outputs.pair[i], half)
            own = reference(Points(points.normal[place], points.broad[place], points.tails[place], points.level[place]))
            count = nodes.counts[0] + nodes.counts[1]
            for node in range(count):
                if draw_node(scratch.z, node, own.level[node], own, mixture, target):
                    piece = half * PIECES + node * PIECES // count
                    squares[i, half] += _add_node(pieces[piece], mixture, log_scale[i], target, scratch)
