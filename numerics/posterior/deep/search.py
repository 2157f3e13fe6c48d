"""Peaks of posteriors on their fibres, by Gauss-Newton steps along the tangents: the searches of many at a time."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import INNER
from ..student import set_inverse
from .fibre import Fibre, Nodes, complete
from .mixing import Constants

__all__ = ["Outputs", "Search", "find_peaks", "image_sign", "new_search"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


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
    pair: Integers


class Search(NamedTuple):
    """The peaks of some outputs, those of one after those of another: one for every sign of the hidden layers.

    Each is looked for in the frame where it has the signs of the truth.

    Attributes
    ----------
    v : ndarray, shape (M, outputs)
        B_{L-1} h_L.
    h, omega : ndarray, shape (searches, L, M)
        Where the search is, and mean of the prior.
    precision : ndarray, shape (images, L, L)
        V^{-1}, of each choice of signs.
    least : ndarray, shape (searches,)
        Energy at h.
    tangent : ndarray, shape (searches, M, (L - 1) M)
        Slopes of the fibre, h_L a function of the layers before.
    covariance : ndarray, shape (searches, (L - 1) M, (L - 1) M)
        Of the layers before the last, along the tangent.
    move : ndarray, shape (searches, (L - 1) M)
        Step of these.
    going, open : ndarray of int, shape (searches,)
        Searches that have moved, and among them those whose step is not yet taken.
    matrix, trial, moved : ndarray, shapes ((L - 1) M, (L - 1) M), (L, M) and (L, M)
        Used anew by each.
    """

    v: Array
    h: Array
    omega: Array
    precision: Array
    least: Array
    tangent: Array
    covariance: Array
    move: Array
    going: Integers
    open: Integers
    matrix: Array
    trial: Array
    moved: Array


def new_search(depth: int, size: int, outputs: int) -> Search:
    """Arrays for the peaks of so many outputs."""
    images, free = 1 << (depth - 1), (depth - 1) * size
    searches = images * outputs
    return Search(
        np.empty((size, outputs)),
        np.empty((searches, depth, size)),
        np.empty((searches, depth, size)),
        np.empty((images, depth, depth)),
        np.empty(searches),
        np.empty((searches, size, free)),
        np.empty((searches, free, free)),
        np.empty((searches, free)),
        np.empty(searches, np.int64),
        np.empty(searches, np.int64),
        np.empty((free, free)),
        np.empty((depth, size)),
        np.empty((depth, size)),
    )


@njit(cache=True, **INNER)
def image_sign(image: int, layer: int, depth: int) -> float:
    """Sign of a layer in an image of the truth; the last one keeps its own."""
    return -1.0 if layer < depth - 1 and (image >> layer) & 1 else 1.0


@njit(cache=True, **INNER)
def _energy(h: Array, omega: Array, precision: Array, moved: Array) -> float:
    """(h - omega)^T V^{-1} (h - omega) / 2; sets moved = V^{-1} (h - omega)."""
    depth, size = h.shape
    total = 0.0
    for k in range(depth):
        for m in range(size):
            moved[k, m] = 0.0
            for i in range(depth):
                moved[k, m] += precision[k, i] * (h[i, m] - omega[i, m])
            total += 0.5 * moved[k, m] * (h[k, m] - omega[k, m])
    return total


@njit(cache=True, **INNER)
def _width(value: float) -> float:
    """Step of a difference."""
    return 1e-6 * (1.0 + abs(value))


@njit(cache=True, inline="always", **INNER)
def _start(outputs: Outputs, span: tuple[int, int], precision: Array, search: Search) -> None:
    """Start every search at the truth of its output, from the first one on."""
    first, count = span
    images, depth = search.precision.shape[0], search.precision.shape[1]
    for image in range(images):
        for k in range(depth):
            for i in range(depth):
                sign = image_sign(image, k, depth) * image_sign(image, i, depth)
                search.precision[image, k, i] = sign * precision[k, i]
    for s in range(count * images):
        search.going[s] = s
        for k in range(depth):
            sign = image_sign(s % images, k, depth)
            for m in range(search.h.shape[2]):
                search.h[s, k, m] = outputs.truth[first + s // images, k, m]
                search.omega[s, k, m] = sign * outputs.omega[first + s // images, k, m]


@njit(cache=True, **INNER)
def _put(node: int, s: int, search: Search, nodes: Nodes, v: Array) -> None:
    """Put the layers before the last, and the output, of a search into a node."""
    images, last = len(search.precision), nodes.h.shape[0] - 1
    for m in range(len(v)):
        v[m, node] = search.v[m, s // images]
        for k in range(last):
            nodes.h[k, m, node] = search.h[s, k, m]


@njit(cache=True, inline="always", **INNER)
def _set_tangents(going: int, search: Search, network: Constants, nodes: Nodes, fibre: Fibre) -> None:
    """Tangents of the fibre, by differences, for they only place nodes."""
    depth, size, room = nodes.h.shape
    free = (depth - 1) * size
    for start in range(0, going * free, room):
        n = min(room, going * free - start)
        for j in range(n):
            s, i = search.going[(start + j) // free], (start + j) % free
            _put(j, s, search, nodes, fibre.v)
            nodes.h[i // size, i % size, j] += _width(search.h[s, i // size, i % size])
        complete(nodes, False, n, network, fibre)
        for j in range(n):
            s, i = search.going[(start + j) // free], (start + j) % free
            width = _width(search.h[s, i // size, i % size])
            for m in range(size):
                search.tangent[s, m, i] = (nodes.h[depth - 1, m, j] - search.h[s, depth - 1, m]) / width


@njit(cache=True, **INNER)
def _set_covariance(tangent: Array, precision: Array, work: Array, out: Array) -> None:
    """Covariance of the layers before the last along the tangent; `work` is lost."""
    depth, (size, free) = len(precision), tangent.shape
    last = depth - 1
    for i in range(free):
        for j in range(free):
            value = precision[i // size, j // size] if i % size == j % size else 0.0
            value += precision[i // size, last] * tangent[i % size, j]
            value += precision[last, j // size] * tangent[j % size, i]
            for m in range(size):
                value += precision[last, last] * tangent[m, i] * tangent[m, j]
            work[i, j] = value
    set_inverse(work, out)


@njit(cache=True, **INNER)
def _set_move(tangent: Array, covariance: Array, moved: Array, move: Array) -> None:
    """Gauss-Newton step along the tangent of the fibre."""
    (size, free), last = tangent.shape, len(moved) - 1
    for i in range(free):
        move[i] = 0.0
    for j in range(free):
        slope = moved[j // size, j % size]
        for m in range(size):
            slope += tangent[m, j] * moved[last, m]
        for i in range(free):
            move[i] -= covariance[i, j] * slope


@njit(cache=True, **INNER)
def _accept(node: int, s: int, search: Search, nodes: Nodes) -> bool:
    """Move a search to a node if the energy is lower there; otherwise halve its step."""
    trial = search.trial
    for k in range(len(trial)):
        for m in range(trial.shape[1]):
            trial[k, m] = nodes.h[k, m, node]
    lower = np.inf
    if nodes.dets[0, node] > 0.0:
        lower = _energy(trial, search.omega[s], search.precision[s % len(search.precision)], search.moved)
    if lower < search.least[s]:
        for k in range(len(trial)):
            for m in range(trial.shape[1]):
                search.h[s, k, m] = trial[k, m]
        return True
    for i in range(search.move.shape[1]):
        search.move[s, i] *= 0.5
    return False


@njit(cache=True, inline="always", **INNER)
def _step(going: int, search: Search, network: Constants, nodes: Nodes, fibre: Fibre) -> int:
    """Take the largest of the steps, halved a few times, that lower the energy; returns how many have moved."""
    depth, size, room = nodes.h.shape
    still, moved = going, 0
    for i in range(going):
        search.open[i] = search.going[i]
    # Halves of a step that are tried.
    halves = 6
    for _ in range(halves):
        left = 0
        for start in range(0, still, room):
            n = min(room, still - start)
            for j in range(n):
                s = search.open[start + j]
                _put(j, s, search, nodes, fibre.v)
                for i in range((depth - 1) * size):
                    nodes.h[i // size, i % size, j] += search.move[s, i]
            complete(nodes, False, n, network, fibre)
            for j in range(n):
                s = search.open[start + j]
                if _accept(j, s, search, nodes):
                    search.going[moved] = s
                    moved += 1
                else:
                    search.open[left] = s
                    left += 1
        still = left
    return moved


@njit(cache=True, inline="always", **INNER)
def find_peaks(
    outputs: Outputs, span: tuple[int, int], precision: Array, place: tuple[Search, Nodes, Fibre], network: Constants
) -> None:
    """Move every search to the peak of the posterior near it, and find its covariance.

    A search that no step moves has found it.

    Parameters
    ----------
    outputs : Outputs
    span : tuple of int
        The first output, and how many of them.
    precision : ndarray, shape (L, L)
        V^{-1}.
    place : tuple of Search, Nodes and Fibre
        The nodes are lost.
    network : Constants
    """
    search, nodes, fibre = place
    images = len(search.precision)
    _start(outputs, span, precision, search)
    going = span[1] * images
    # Steps towards the peak.
    steps = 4
    for step in range(steps + 1):
        _set_tangents(going, search, network, nodes, fibre)
        for i in range(going):
            s = search.going[i]
            matrix = search.precision[s % images]
            _set_covariance(search.tangent[s], matrix, search.matrix, search.covariance[s])
            search.least[s] = _energy(search.h[s], search.omega[s], matrix, search.moved)
            _set_move(search.tangent[s], search.covariance[s], search.moved, search.move[s])
        if step < steps:
            going = _step(going, search, network, nodes, fibre)
