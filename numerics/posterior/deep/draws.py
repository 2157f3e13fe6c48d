"""Nodes of the posteriors of deep attention: all layers but one, drawn from the prior or from the peaks."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import INNER
from .mixing import LOOPS
from .peaks import Peaks, drawn_layer

__all__ = ["Draws", "Runs", "draw_peaks", "draw_prior", "new_runs", "set_peak_runs", "set_prior_runs"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class Draws(NamedTuple):
    """The three draws of nodes: from the prior for the last layer, for the layer before, and from the peaks.

    Attributes
    ----------
    roots : ndarray, shape (2, L - 1, L - 1)
        Cholesky factors of V without the last layer, and without the one before.
    counts, firsts : ndarray of int, shape (3,)
        Nodes of each in each set, and number of the first of each among the points.
    solved : ndarray of int, shape (3,)
        Layer that they are solved for: L - 1, L - 2, and either of them.
    points : ndarray, shape (pairs, (L - 1) M, nodes)
        Standard normal, of both sets: the first draw of one set and of the other, the second draw of both, the third.
    tails : ndarray, shape (pairs, nodes of the third draw)
        sqrt(nu/chi^2_nu) of the peaks.
    """

    roots: Array
    counts: Integers
    firsts: Integers
    solved: Integers
    points: Array
    tails: Array


class Runs(NamedTuple):
    """The nodes of one draw, those of both sets, in runs of the same piece and of the same peak.

    Attributes
    ----------
    ends, pieces, images : ndarray of int, shape (runs,)
        Where each run ends, of which piece of both sets its nodes are, and of which peak.
    """

    ends: Integers
    pieces: Integers
    images: Integers


def new_runs(pieces: int, images: int) -> Runs:
    """Arrays for the runs of so many pieces of each set, with so many peaks."""
    most = 2 * pieces * images
    return Runs(np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64))


@njit(cache=True, **INNER)
def set_prior_runs(count: int, pieces: int, runs: Runs) -> int:
    """Divide so many nodes of each set into pieces; returns the number of runs."""
    for run in range(2 * pieces):
        half, piece = run // pieces, run % pieces
        # Of nodes with node * pieces // count == piece the last one comes before.
        runs.ends[run] = half * count + ((piece + 1) * count + pieces - 1) // pieces
        runs.pieces[run] = run
    return 2 * pieces


@njit(cache=True, **INNER)
def set_peak_runs(count: int, pieces: int, share: Array, runs: Runs) -> int:
    """Divide so many nodes of each set among the peaks, by their shares; all pieces have nodes of every peak."""
    last, run = -1, -1
    for half in range(2):
        image, passed = 0, share[0]
        for node in range(count):
            level = (node + 0.5) / count
            while level > passed and image < len(share) - 1:
                image += 1
                passed += share[image]
            part = max(level - passed + share[image], 0.0) / share[image]
            piece = half * pieces + min(int(pieces * part), pieces - 1)
            if piece * len(share) + image != last:
                run += 1
                runs.pieces[run], runs.images[run] = piece, image
                last = piece * len(share) + image
            runs.ends[run] = half * count + node + 1
    return run + 1


@njit(cache=True, **LOOPS)
def draw_prior(points: Array, span: tuple[int, int], prior: tuple[Array, Array], before: bool, h: Array) -> None:
    """Layers from the prior, all but the one that is solved for.

    Parameters
    ----------
    points : ndarray, shape ((L - 1) M, nodes)
    span : tuple of int
        Number of the first point, and how many of them.
    prior : tuple of ndarray
        Mean, and root of the covariance of the layers that are drawn.
    before : bool
        Whether the layer before the last is solved for.
    h : ndarray, shape (L, M, nodes)
        Filled.
    """
    (first, n), (omega, root) = span, prior
    depth, size = h.shape[0], h.shape[1]
    if first < 0:
        return
    for k in range(depth - 1):
        layer = drawn_layer(k, depth, before)
        for m in range(size):
            centre = omega[layer, m]
            for j in range(n):
                h[layer, m, j] = centre
            for i in range(k + 1):
                factor, row = root[k, i], i * size + m
                for j in range(n):
                    h[layer, m, j] += factor * points[row, first + j]


@njit(cache=True, **LOOPS)
def draw_peaks(
    points: tuple[Array, Array], span: tuple[int, int, int], runs: Runs, before: bool, peaks: Peaks, h: Array
) -> None:
    """Layers from the peaks.

    Parameters
    ----------
    points : tuple of ndarray
        Standard normal numbers of all draws, and tails of this one.
    span : tuple of int
        Number of the first tail, of the point with it, and how many of them.
    runs : Runs
    before : bool
        Whether the layer before the last is solved for.
    peaks : Peaks
    h : ndarray, shape (L, M, nodes)
        Filled.
    """
    (normal, tails), (start, first, n) = points, span
    depth, size = h.shape[0], h.shape[1]
    begin, run = 0, 0
    while begin < n:
        end = min(runs.ends[run] - start, n)
        if end > begin >= 0 and start >= 0 and first >= 0:
            image = runs.images[run]
            for i in range((depth - 1) * size):
                layer, m = drawn_layer(i // size, depth, before), i % size
                for j in range(begin, end):
                    h[layer, m, j] = 0.0
                for k in range(i + 1):
                    factor = peaks.factor[image, i, k]
                    for j in range(begin, end):
                        h[layer, m, j] += factor * normal[k, first + j]
                centre, flip = peaks.centre[image, i], peaks.flips[image, i]
                for j in range(begin, end):
                    h[layer, m, j] = flip * (centre + tails[start + j] * h[layer, m, j])
            begin = end
        run += 1
