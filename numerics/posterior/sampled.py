"""Posterior of the indices of a deep attention network given its output, by importance sampling on the fibre.

The output fixes v = B_{L-1} h_L up to its sign: a surface in the indices, on which the prior N(omega, V) lives. Nodes
on it come from a mixture of draws. Each draws all layers but one and solves for the layer left out:

- from the prior, solved for the last layer (two branches of h_L; any network);
- from the prior, solved for the layer before (where the attention can be inverted: two tokens, or linear);
- from Student peaks around the posterior's own, one for every sign of the hidden layers, solved for the wider of both.

With d mu = delta(v - B h_L) dh a draw j of n_j nodes with density pi_j of the layers drawn has intensity n_j pi_j J_j,
J_j = |dv/dh_solved|; a node then weighs prior / sum_j n_j pi_j J_j, whichever draw it came from. Peaks narrower than
the prior are met by the draw that solves for what is wide, or by the peaks.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .deep.fibre import Fibre, Nodes, complete, new_nodes, new_scratch
from .deep.mixing import Constants, readout
from .deep.peaks import Peaks, Prior, drawn_layer, energy, new_peaks, place_peaks
from .student import freedom

__all__ = ["Draws", "Outputs", "posterior_moments"]

Array = NDArray[np.float64]

_LOG_TWO_PI = math.log(2 * math.pi)


class Outputs(NamedTuple):
    """A batch of outputs.

    Attributes
    ----------
    truth : ndarray, shape (n, L, M)
        Indices that made the outputs: they carry v, and place the peaks.
    omega : ndarray, shape (n, L, M)
    pair : ndarray of int, shape (n,)
        Which pair of sets of nodes an output takes.
    """

    truth: Array
    omega: Array
    pair: NDArray[np.int64]


class Draws(NamedTuple):
    """The three draws of nodes: from the prior for the last layer, for the layer before, and from the peaks.

    Attributes
    ----------
    roots : ndarray, shape (2, L - 1, L - 1)
        Cholesky factors of V without the last layer, and without the one before.
    counts : ndarray of int, shape (3,)
        Nodes of each in each set.
    before_peak : bool
        Whether the peaks are solved for the layer before the last.
    points : ndarray, shape (pairs, 2, nodes, (L - 1) M)
        Standard normal.
    tails : ndarray, shape (pairs, 2, nodes)
        sqrt(nu/chi^2_nu) of the peaks.
    """

    roots: Array
    counts: NDArray[np.int64]
    before_peak: bool
    points: Array
    tails: Array


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _draw_prior(nodes: Nodes, normals: Array, first: int, omega: Array, root: Array) -> None:
    """Layers from the prior, all but the one that is solved for; `normals` from number `first` on."""
    h, before, _ = nodes
    n, depth, size = h.shape
    for node in range(n):
        for k in range(depth - 1):
            layer = drawn_layer(k, depth, before)
            for m in range(size):
                value = omega[layer, m]
                for j in range(k + 1):
                    value += root[k, j] * normals[first + node, j * size + m]
                h[node, layer, m] = value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _draw_peaks(
    nodes: Nodes, drawn: tuple[Array, Array, int], peaks: Peaks, pieces: int, piece: NDArray[np.int64]
) -> None:
    """Layers from the peaks, by their shares, and the piece of each node: all have nodes of every peak.

    `drawn`: normals and tails, from that number on.
    """
    h, before, _ = nodes
    normals, tail, first = drawn
    centre, factor, flips, share, _, _ = peaks
    n, depth, size = h.shape
    image, passed = 0, share[0]
    for node in range(n):
        level = (node + 0.5) / n
        while level > passed and image < len(share) - 1:
            image += 1
            passed += share[image]
        piece[node] = min(int(pieces * max(level - passed + share[image], 0.0) / share[image]), pieces - 1)
        for j in range(centre.shape[1]):
            value = 0.0
            for k in range(j + 1):
                value += factor[image, j, k] * normals[first + node, k]
            value = centre[image, j] + tail[first + node] * value
            h[node, drawn_layer(j // size, depth, before), j % size] = flips[image, j] * value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_drawn(h: Array, before: bool, drawn: Array) -> None:
    """The layers that are drawn where the last one, or the one before it, is solved for."""
    depth, size = h.shape
    for j in range(len(drawn)):
        drawn[j] = h[drawn_layer(j // size, depth, before), j % size]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _tail(drawn: Array, image: int, centre: Array, factor: Array, flips: Array, z: Array) -> float:
    """1/(1 + d^2/nu) with the distance d from a peak; z is lost."""
    free = len(drawn)
    square = 0.0
    for j in range(free):
        value = flips[image, j] * drawn[j] - centre[image, j]
        for k in range(j):
            value -= factor[image, j, k] * z[k]
        z[j] = value / factor[image, j, j]
        square += z[j] * z[j]
    return 1.0 / (1.0 + square / freedom(free))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _times_power(value: float, factor: float, power: int) -> float:
    for _ in range(power):
        value *= factor
    return value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _prior_intensity(
    moved: Array, precision: Array, counts: NDArray[np.int64], det_last: float, det_before: float
) -> float:
    """Intensity of both draws from the prior over the prior, which is the conditional one of the layer solved for."""
    depth, size = moved.shape
    total = 0.0
    for which in range(2):
        if counts[which] > 0:
            k = depth - 1 - which
            last = 0.0
            for m in range(size):
                last += 0.5 * moved[k, m] * moved[k, m] / precision[k, k]
            last -= 0.5 * size * (math.log(precision[k, k]) - _LOG_TWO_PI)
            total += counts[which] * (det_before if which else det_last) * math.exp(last)
    return total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_moments(sums: Array, weight: float, h: Array) -> None:
    """Add a node: mass, h, h_l h_l^T."""
    depth, size = h.shape
    sums[0] += weight
    for k in range(depth):
        for m in range(size):
            first = weight * h[k, m]
            sums[1 + k * size + m] += first
            for j in range(size):
                sums[1 + depth * size + (k * size + m) * size + j] += first * h[k, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_nodes(
    sums: Array, piece: NDArray[np.int64], nodes: Nodes, prior: Prior, counts: NDArray[np.int64], peaks: Peaks
) -> None:
    """Add nodes of any draw, with both signs of the layer solved for, to the sums of their pieces of one output."""
    h, before, dets = nodes
    omega, precision, log_det = prior
    centre, factor, flips, _, norm, before_peak = peaks
    n, depth, size = h.shape
    free = (depth - 1) * size
    moved, drawn, z = np.empty((depth, size)), np.empty(free), np.empty(free)
    power = (freedom(free) + free) // 2
    solved = depth - 2 if before else depth - 1
    for node in range(n):
        x, det_last, det_before = h[node], dets[node, 0], dets[node, 1]
        if not det_last > 0.0:
            continue
        for _ in range(2):
            for m in range(size):
                x[solved, m] = -x[solved, m]
            height = energy(x, omega, precision, moved)
            # Intensity of all draws over the prior.
            inverse = _prior_intensity(moved, precision, counts, det_last, det_before)
            _set_drawn(x, before_peak, drawn)
            density = 0.0
            for image in range(len(norm)):
                density += _times_power(norm[image], _tail(drawn, image, centre, factor, flips, z), power)
            density *= det_before if before_peak else det_last
            inverse += density * math.exp(height - log_det + 0.5 * depth * size * _LOG_TWO_PI)
            weight = 1.0 / inverse
            if weight > 0.0 and inverse > 0.0:
                _add_moments(sums[piece[node]], weight, x)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_set(sums: Array, draws: Draws, place: tuple[int, int], prior: Prior, peaks: Peaks, fibre: Fibre) -> None:
    """Draw one set of nodes, the one at `place`, and add its pieces, (pieces, 1 + L M + L M M), of one output."""
    roots, counts, before_peak, points, tails = draws
    depth, size = prior.omega.shape
    pieces = len(sums)
    for which in range(2):
        nodes = new_nodes(counts[which], depth, size, which == 1)
        _draw_prior(nodes, points[place], which * counts[0], prior.omega, roots[which])
        complete(nodes, fibre)
        piece = np.arange(counts[which]) * pieces // max(counts[which], 1)
        _add_nodes(sums, piece, nodes, prior, counts, peaks)
    nodes, piece = new_nodes(counts[2], depth, size, before_peak), np.zeros(counts[2], np.int64)
    _draw_peaks(nodes, (points[place], tails[place], counts[0] + counts[1]), peaks, pieces, piece)
    complete(nodes, fibre)
    _add_nodes(sums, piece, nodes, prior, counts, peaks)


@njit(cache=True, nogil=True, error_model="numpy")
def posterior_moments(outputs: Outputs, precision: Array, draws: Draws, network: Constants, out: Array) -> None:
    """Moments of the posterior of a batch of outputs, each by two independent sets of nodes.

    Parameters
    ----------
    outputs : Outputs
    precision : ndarray, shape (L, L)
        V^{-1}.
    draws : Draws
    network : Constants
    out : ndarray, shape (n, 2 pieces, 1 + L M + L M M)
        Filled: mass, sum of h, sum of h_l h_l^T of every layer, of each piece of both sets.
    """
    n, depth, size = outputs.truth.shape
    pieces = out.shape[1] // 2
    log_det = 0.5 * size * math.log(abs(np.linalg.det(precision)))
    fibre = Fibre(np.empty(size), network, new_scratch(size))
    peaks = new_peaks(depth, size, draws.before_peak)
    for i in range(n):
        readout(outputs.truth[i], network, fibre.scratch.base, fibre.scratch.sigma, fibre.v)
        prior = Prior(outputs.omega[i], precision, log_det)
        place_peaks(outputs.truth[i], prior, fibre, draws.counts[2], peaks)
        out[i] = 0.0
        for half in range(2):
            mine = out[i, half * pieces : (half + 1) * pieces]
            _add_set(mine, draws, (outputs.pair[i], half), prior, peaks, fibre)
