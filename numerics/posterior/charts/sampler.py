"""Moments of the posterior on a chart, by importance sampling with two independent sets of nodes for every output.

A node weighs the posterior over the intensity of the whole mixture (`mixture`), whichever part of it drew the node.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.lanes import LANES, exp_lanes, fill, where_less

from ...arithmetic.references import INNER, lend, reference
from ..pieces import PIECES
from .block import (
    add_moments,
    log_posteriors,
    no_sums,
    set_means,
    take_sums,
    total_of,
    without_bad,
)
from .density import Prior, Target, read
from .intensity import intensities
from .layout import Layout
from .mixture import (
    Broad,
    Mixture,
    draw_peak,
    draw_prior,
    fit_broad,
    new_broad,
    new_mixture,
    node_heights,
    place_peaks,
    set_signs,
)
from .peaks import Peaks, new_peaks
from .points import Points
from .scratch import Block, Scratch, new_scratch

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


class _Work(NamedTuple):
    """What the targets of all outputs share, the data of one of them at a time, and arrays that are used anew."""

    data: Array
    prior: Prior
    layout: Layout
    scratch: Scratch
    peaks: Peaks
    broad: Broad


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_node(
    block: Block, lane: int, node: int, level: float, points: Points, mixture: Mixture, target: Target
) -> None:
    """Set the coordinates of one of the eight nodes, and whether it counts.

    It is from the prior where the level is negative, else from the peak that the level, from 0 to 1, has by the shares.
    """
    inside = mixture.from_peaks > 0
    if level < 0.0:
        draw_prior(block.z, lane, points.normal[node], points.broad[node], target, mixture.broad)
        inside = True
    elif inside:
        peaks = mixture.peaks
        share = peaks.share
        image, passed = 0, share[0]
        while level > passed and image < mixture.images - 1:
            image += 1
            passed += share[image]
        inside = draw_peak(block.z, lane, points.normal[node], points.tails[node], image, peaks, target.layout)
    block.kept[lane] = 1.0 if inside else 0.0


@njit(cache=True, **INNER)
def _add_nodes(count: int, mixture: Mixture, log_scale: float, target: Target, work: _Work) -> float:
    """Add the nodes at the coordinates, with every choice of the signs, to so many sums; return the squared weights."""
    block, signs = work.scratch.block, work.scratch.signs
    inverse = 1.0 / intensities(block, mixture, target)
    squares = fill(0.0)
    for number in range(1 << len(signs)):
        set_signs(number, signs)
        heights = log_posteriors(block, signs, target)
        weight = inverse * exp_lanes(heights - (log_scale + mixture.log_unit))
        # Powers are of finite numbers.
        weight = where_less(-np.inf, heights, where_less(heights, np.inf, weight, 0.0), 0.0)
        weight = without_bad(block, weight)
        set_means(block, target)
        squares = squares + weight * weight
        add_moments(block, weight, count)
    return total_of(block, squares)


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


@njit(cache=True, nogil=True, error_model="numpy")
def _set_sums(outputs: Outputs, root: Array, nodes: Nodes, work: _Work, sums: Sums) -> None:
    """Add to sums that are zero."""
    layout, scratch, peaks, broad, block = work.layout, work.scratch, work.peaks, work.broad, work.scratch.block
    log_scale, heights, points = sums.log_scale, peaks.height, nodes.points
    each = (nodes.counts[0] + nodes.counts[1]) // PIECES
    for i in range(len(outputs.truth)):
        truth = outputs.truth[i]
        target = reference(Target(work.data, outputs.omega[i], work.prior, layout))
        fit_broad(target, root, nodes.prior, scratch, broad)
        read(truth, layout, work.data, scratch.z, scratch.signs, scratch)
        log_scale[i] = node_heights(scratch.z, scratch.signs, target, scratch)
        images = place_peaks(truth, outputs.flips, target, scratch, peaks)
        for image in range(images):
            log_scale[i] = max(log_scale[i], heights[image])
        mixture = reference(new_mixture(nodes.counts, images, broad, peaks, target))
        pieces, squares = sums.pieces[i], sums.squares
        for half in range(2):
            place = (outputs.pair[i], half)
            own = reference(Points(points.normal[place], points.broad[place], points.tails[place], points.level[place]))
            for piece in range(PIECES):
                out = pieces[half * PIECES + piece]
                no_sums(block, len(out))
                for first in range(piece * each, (piece + 1) * each, LANES):
                    for lane in range(LANES):
                        draw_node(block, lane, first + lane, own.level[first + lane], own, mixture, target)
                    squares[i, half] += _add_nodes(len(out), mixture, log_scale[i], target, work)
                take_sums(block, out)
