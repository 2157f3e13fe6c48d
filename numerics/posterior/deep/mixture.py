"""Posterior of three layers of softmax attention with two tokens by importance sampling, as fast as its exponentials.

The output fixes v = B_2 h_3 up to its sign, a surface in the indices. Draws are from the prior of h_1 and h_2, solved
for h_3, and of h_1 and h_3, solved for h_2; each gives two points, one for either sign of what is solved for. A point
weighs 1/(n_3 J_3/N_3 + n_2 J_2/N_2), N_l the prior's density of h_l there, J_l = |dv/dh_l|, n_l the number of draws
that are solved for h_l: the mixture of `posterior.sampled` without its peaks.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.fastmath import exp_fast
from attnlimits.generated.pair_softmax_m2.numba64 import entries, recover, slopes

__all__ = ["SQUARES", "SUMS", "Nodes", "Prior", "mixture_sums", "weight_of"]

Array = NDArray[np.float64]

_FAST = {"contract", "arcp", "nsz", "reassoc"}
# Nodes at a time: what is known of them stays in the fastest cache.
_BLOCK = 128
# Rows of the block: h_1, s and t of B_1, the layer drawn, the layer solved for, its factor of the weight and Jacobians.
_X, _Z, _S, _T, _DRAWN, _SOLVED, _LAST, _BEFORE, _KNOWN, _EVEN, _ODD, _ROWS = 0, 1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13


#: Sums of each half of the nodes, and which of them is that of the squares of the weights.
SUMS, SQUARES = 17, 16


class Prior(NamedTuple):
    """Independent layers, and the constants of the mixing.

    Attributes
    ----------
    variance : ndarray, shape (3,)
        Diagonal of V.
    constants : tuple of float
        c and beta.
    """

    variance: Array
    constants: tuple[float, float]


class Nodes(NamedTuple):
    """Nodes that outputs share.

    Attributes
    ----------
    draws : ndarray, shape (sets, 2, 5, k)
        Standard normal, of h_1 and of the other layer drawn, and the latter's inverse density exp(|.|^2/2).
    sets : ndarray, shape (n,)
        Which of them each output takes.
    for_last : int
        So many of the k nodes are solved for h_3, the others for h_2.
    """

    draws: Array
    sets: NDArray[np.int64]
    for_last: int


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def mixture_sums(v: Array, omega: Array, prior: Prior, nodes: Nodes, out: Array) -> None:
    """Sums over the posterior by two independent halves; everything in token modes (+, -).

    Parameters
    ----------
    v : ndarray, shape (n, 2)
        B_2 h_3, up to its sign.
    omega : ndarray, shape (n, 3, 2)
    prior : Prior
    nodes : Nodes
    out : ndarray, shape (n, 2 pieces, SUMS)
        Of each piece of each half, every one with its share of both draws: mass; of each layer h_+, h_-, h_+^2,
        h_+ h_-, h_-^2, times the mass; and the sum of the squares of the weights. The numbers of nodes of both draws
        are multiples of the number of pieces, or zero.
    """
    draws, sets, for_last = nodes
    variance, constants = prior
    count = draws.shape[3]
    shares = _shares(for_last, count, variance)
    sd = np.sqrt(variance)
    block, pieces = np.empty((_ROWS, _BLOCK)), out.shape[1] // 2
    # Where the parts of a block end that are of different pieces.
    ends = np.zeros(pieces + 1, np.int64)
    out[:] = 0.0
    for i in range(len(v)):
        for half in range(2):
            mine = draws[sets[i], half]
            for end, solved in ((for_last, 2), (count, 1)):
                begin = 0 if solved == 2 else for_last
                start, length = begin, (end - begin) // pieces
                while start < end:
                    step = min(_BLOCK, length)
                    parts = min(_BLOCK // step, (end - start) // step)
                    span = (start, parts * step)
                    _first(mine, span, (omega[i, 0], sd[0]), constants, block)
                    if solved == 2:
                        _last(mine, span, (omega[i, 1], sd[1]), v[i], constants, block)
                        for part in range(parts + 1):
                            ends[part] = part * step
                    else:
                        _before(mine, span, (omega[i, 2], sd[2]), v[i], constants, (block, step, ends))
                    _weigh(block, ends[parts], (omega[i, solved], variance[solved]), solved == 2, shares)
                    for part in range(parts):
                        piece = half * pieces + (start - begin + part * step) // length
                        _add(block, (ends[part], ends[part + 1]), solved, out[i, piece])
                    start += span[1]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def weight_of(h: Array, v: Array, omega: Array, prior: Prior, counts: tuple[int, int]) -> float:
    """Weight that a node with these indices, shape (3, 2), would have among so many, with v = B_2 h_3.

    `counts`: nodes that are solved for h_3, and all.
    """
    variance, constants = prior
    sd = np.sqrt(variance)
    node, block = np.empty((5, 1)), np.empty((_ROWS, 1))
    for mode in range(2):
        node[mode, 0] = (h[0, mode] - omega[0, mode]) / sd[0]
        node[2 + mode, 0] = (h[1, mode] - omega[1, mode]) / sd[1]
    node[4, 0] = math.exp(0.5 * (node[2, 0] ** 2 + node[3, 0] ** 2))
    _first(node, (0, 1), (omega[0], sd[0]), constants, block)
    _last(node, (0, 1), (omega[1], sd[1]), v, constants, block)
    _weigh(block, 1, (omega[2], variance[2]), True, _shares(counts[0], counts[1], variance))
    return float(0.5 * (block[_EVEN, 0] + block[_ODD, 0]))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _shares(for_last, count, variance):  # type: ignore[no-untyped-def]
    """n_l over the density's norm 1/(2 pi V_l), of both layers that are solved for."""
    return for_last * variance[2], (count - for_last) * variance[1]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _first(nodes, span, prior, constants, block):  # type: ignore[no-untyped-def]
    """h_1 and B_1 = [[1 + c, s], [0, t]] of some nodes."""
    (start, size), (omega, sd), (skip, beta) = span, prior, constants
    for j in range(size):
        x, z = omega[0] + sd * nodes[0, start + j], omega[1] + sd * nodes[1, start + j]
        block[_X, j], block[_Z, j] = x, z
        block[_S, j], block[_T, j], _ = slopes(x, z, skip, beta)
        block[_KNOWN, j] = nodes[4, start + j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _last(nodes, span, prior, v, constants, block):  # type: ignore[no-untyped-def]
    """h_2 drawn and h_3 solved for, and the Jacobians over (1 + c) t, which both have."""
    (start, size), (omega, sd), (skip, beta) = span, prior, constants
    gain = 1 + skip
    for j in range(size):
        s, t = block[_S, j], block[_T, j]
        plus, minus = omega[0] + sd * nodes[2, start + j], omega[1] + sd * nodes[3, start + j]
        w_plus, w_minus = gain * plus + s * minus, t * minus
        upper, lower, jacobian = slopes(w_plus, w_minus, skip, beta)
        u_minus = v[1] / lower
        u_plus = (v[0] - upper * u_minus) / gain
        solved = u_minus / t
        block[_DRAWN, j], block[_DRAWN + 1, j] = plus, minus
        block[_SOLVED, j], block[_SOLVED + 1, j] = (u_plus - s * solved) / gain, solved
        block[_LAST, j] = gain * lower
        block[_BEFORE, j] = jacobian * u_minus * u_minus


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _before(nodes, span, prior, v, constants, work):  # type: ignore[no-untyped-def]
    """h_3 drawn and h_2 solved for, where there is one; those move to the front of the block.

    `work` is the block, a number of nodes, and an array to be filled: how many of so many nodes are kept, of twice as
    many, and so on.
    """
    (start, size), (omega, sd), (skip, beta), (block, step, ends) = span, prior, constants, work
    gain = 1 + skip
    for j in range(size):
        minus = omega[1] + sd * nodes[3, start + j]
        plus = omega[0] + sd * nodes[2, start + j]
        u_plus, u_minus = gain * plus + block[_S, j] * minus, block[_T, j] * minus
        ratio = v[1] / u_minus
        sign = 1.0 if ratio > 0.0 else -1.0
        lower = sign * ratio
        upper = (sign * v[0] - gain * u_plus) / u_minus
        block[_DRAWN, j], block[_DRAWN + 1, j] = plus, minus
        block[_SOLVED, j], block[_SOLVED + 1, j] = entries(upper, lower, skip)
        block[_LAST, j] = gain * lower
        block[_BEFORE, j] = u_minus * u_minus
    kept = 0
    for j in range(size):
        if j % step == 0:
            ends[j // step] = kept
        p, r = block[_SOLVED, j], block[_SOLVED + 1, j]
        if not (0.0 < p < 1.0 and 0.0 < r < 1.0 and p + r > 1.0):
            continue
        w_plus, w_minus, jacobian = recover(p, r, beta)
        if not w_minus > 0.0:
            continue
        s, t = block[_S, j], block[_T, j]
        minus = w_minus / t
        for row in (_X, _Z, _T, _DRAWN, _DRAWN + 1, _LAST, _KNOWN):
            block[row, kept] = block[row, j]
        block[_BEFORE, kept] = jacobian * block[_BEFORE, j]
        block[_SOLVED, kept] = (w_plus - s * minus) / gain
        block[_SOLVED + 1, kept] = minus
        kept += 1
    ends[size // step] = kept


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _weigh(block, size, prior, last, shares):  # type: ignore[no-untyped-def]
    """Sum and difference of the weights of both signs of what is solved for."""
    (omega, variance), (share_last, share_before) = prior, shares
    scale = 0.5 / variance
    for j in range(size):
        a, b = block[_SOLVED, j], block[_SOLVED + 1, j]
        middle = scale * (a * a + b * b + omega[0] * omega[0] + omega[1] * omega[1])
        apart = 2 * scale * (a * omega[0] + b * omega[1])
        # exp(-700) of the densities is as good as none.
        right, wrong = exp_fast(min(middle - apart, 700.0)), exp_fast(min(middle + apart, 700.0))
        of_last, of_before = share_last * block[_LAST, j], share_before * block[_BEFORE, j]
        if last:
            known, of_found = of_before * block[_KNOWN, j], of_last
        else:
            known, of_found = of_last * block[_KNOWN, j], of_before
        t = block[_T, j]
        first, second = 1 / (t * (of_found * right + known)), 1 / (t * (of_found * wrong + known))
        block[_EVEN, j], block[_ODD, j] = first + second, first - second


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _add(block, nodes, solved, sums):  # type: ignore[no-untyped-def]
    """Add nodes of a block, from the first to before the last, to the sums."""
    first, last = nodes
    total = squares = 0.0
    for j in range(first, last):
        even, difference = block[_EVEN, j], block[_ODD, j]
        total += even
        squares += even * even + difference * difference
    sums[0] += total
    sums[SQUARES] += 0.5 * squares
    for layer in range(3):
        rows = _X if layer == 0 else (_SOLVED if layer == solved else _DRAWN)
        odd = _ODD if layer == solved else _EVEN
        a = b = aa = ab = bb = 0.0
        for j in range(first, last):
            plus, minus, weight, mean = block[rows, j], block[rows + 1, j], block[_EVEN, j], block[odd, j]
            a += mean * plus
            b += mean * minus
            aa += weight * plus * plus
            ab += weight * plus * minus
            bb += weight * minus * minus
        at = 1 + 5 * layer
        sums[at] += a
        sums[at + 1] += b
        sums[at + 2] += aa
        sums[at + 3] += ab
        sums[at + 4] += bb
