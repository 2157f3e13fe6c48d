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

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arithmetic.references import INNER, lend, reference
from .deep.draws import Draws, Runs, draw_peaks, draw_prior, new_runs, set_peak_runs, set_prior_runs
from .deep.fibre import Fibre, Nodes, complete, new_fibre, new_nodes
from .deep.mixing import LOOPS, Constants, block_of, readout
from .deep.peaks import Peaks, Prior, new_peaks, set_peaks
from .deep.search import Outputs, Search, find_peaks, new_search
from .deep.weights import Weights, new_weights, weigh

__all__ = ["posterior_moments"]

Array = NDArray[np.float64]


class _Work(NamedTuple):
    """What the blocks of an output use: the surface, the peaks, the runs of a draw, nodes and their weights."""

    fibre: Fibre
    search: Search
    peaks: Peaks
    runs: Runs
    nodes: Nodes
    weights: Weights


@njit(cache=True, **LOOPS)
def _add_run(h: Array, weights: Weights, span: tuple[int, int], solved: int, sums: Array) -> None:
    """Add nodes of one piece, from the first to before the last, to its sums: mass, h, h_l h_l^T."""
    depth, size = h.shape[0], h.shape[1]
    even, odd = weights.even, weights.odd
    first, last = span
    if first < 0:
        return
    total = 0.0
    for j in range(first, last):
        total += even[j]
    sums[0] += total
    at = 1 + depth * size
    for k in range(depth):
        weight = odd if k == solved else even
        for m in range(size):
            total = 0.0
            for j in range(first, last):
                total += weight[j] * h[k, m, j]
            sums[1 + k * size + m] += total
            for i in range(m + 1):
                total = 0.0
                for j in range(first, last):
                    total += even[j] * h[k, m, j] * h[k, i, j]
                sums[at + (k * size + m) * size + i] += total
                if i < m:
                    sums[at + (k * size + i) * size + m] += total


@njit(cache=True, **LOOPS)
def _add_block(start: int, n: int, runs: Runs, solved: int, work: tuple[Nodes, Weights], sums: Array) -> None:
    """Add a block of nodes of one draw to the sums of their pieces; `start` is the number of its first node."""
    nodes, weights = work
    begin, run = 0, 0
    while begin < n:
        end = min(runs.ends[run] - start, n)
        if end > begin:
            _add_run(nodes.h, weights, (begin, end), solved, sums[runs.pieces[run]])
            begin = end
        run += 1


@njit(cache=True, **INNER)
def _even(count: int, room: int) -> int:
    """Nodes of each block where so many are divided evenly: a multiple of a vector's numbers, and at least that."""
    blocks = max((count + room - 1) // room, 1)
    # Numbers of a vector register.
    vector = 8
    return max((count + blocks * vector - 1) // (blocks * vector), 1) * vector


@njit(cache=True, inline="always", **INNER)
def _add_draw(which: int, draw: tuple[Draws, int], prior: Prior, network: Constants, work: _Work, sums: Array) -> None:
    """Add the nodes of one draw, of both sets, to the sums of their pieces, (2 pieces, 1 + L M + L M M).

    `draw`: the draws, and the pair of sets that is taken.
    """
    (draws, pair), nodes, weights, peaks, runs = draw, work.nodes, work.weights, work.peaks, work.runs
    count, first, solved = draws.counts[which], draws.firsts[which], draws.solved[which]
    before = solved < len(prior.omega) - 1
    if which == 2:
        set_peak_runs(count, len(sums) // 2, peaks.share, runs)
    else:
        set_prior_runs(count, len(sums) // 2, runs)
    size = _even(2 * count, nodes.h.shape[2])
    for start in range(0, 2 * count, size):
        n = min(size, 2 * count - start)
        if which == 2:
            points = (draws.points[pair], draws.tails[pair])
            draw_peaks(points, (start, first + start, n), runs, before, peaks, nodes.h)
        else:
            draw_prior(draws.points[pair], (first + start, n), (prior.omega, draws.roots[which]), before, nodes.h)
        complete(nodes, before, n, network, work.fibre)
        weigh(nodes, (solved, n), prior, (draws.counts, draws.solved, peaks), weights)
        _add_block(start, n, runs, solved, (nodes, weights), sums)


@njit(cache=True, inline="always", **INNER)
def _set_readouts(truth: Array, span: tuple[int, int], network: Constants, work: _Work) -> None:
    """The outputs of some vectors of indices."""
    (first, n), h, v = span, work.nodes.h, work.search.v
    for k in range(truth.shape[1]):
        for m in range(truth.shape[2]):
            for i in range(n):
                h[k, m, i] = truth[first + i, k, m]
    readout(h, network, n, work.fibre.mixed, v)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _set_moments(
    outputs: Outputs, prior: tuple[Array, float], draws: Draws, network: Constants, work: _Work, out: Array
) -> None:
    """Fill moments; the prior is V^{-1} and its log det M/2."""
    precision, log_det = prior
    images, group = len(work.peaks.share), work.search.v.shape[1]
    v, depth = work.fibre.v, len(precision)
    for first in range(0, len(out), group):
        count = min(group, len(out) - first)
        _set_readouts(outputs.truth, (first, count), network, work)
        find_peaks(outputs, (first, count), precision, (work.search, work.nodes, work.fibre), network)
        for i in range(first, first + count):
            for m in range(len(v)):
                for j in range(v.shape[1]):
                    v[m, j] = work.search.v[m, i - first]
            own = reference(Prior(outputs.omega[i], precision, log_det))
            peak = (draws.solved[2] < depth - 1, draws.counts[2])
            set_peaks((i - first) * images, work.search, peak, work.peaks)
            for which in range(3):
                _add_draw(which, (draws, outputs.pair[i]), own, network, work, out[i])


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
    peaks, nodes = new_peaks(depth, size), block_of(size)
    images = len(peaks.share)
    work = _Work(
        new_fibre(size, nodes),
        new_search(depth, size, max(1, min(n, nodes // images))),
        peaks,
        new_runs(out.shape[1] // 2, images),
        new_nodes(depth, size, nodes),
        new_weights(depth, size, nodes),
    )
    log_det = 0.5 * size * float(np.linalg.slogdet(precision)[1])
    out[:] = 0.0
    _set_moments(lend(outputs), (precision, log_det), lend(draws), network, lend(work), out)
