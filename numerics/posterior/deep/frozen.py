"""Nodes of the posterior of deep softmax attention over two tokens, by the draws that solve for either last layer.

The output fixes v = B_{L-1} h_L up to its sign. Nodes are drawn from the prior of all layers but one, and that one is
solved for: h_L, or h_{L-1} where there is a solution. The output does not depend on the sign of any layer, so that each
draw is a node of all 2^L signs (`signs`), of intensity n_L J_L N/N(h_L | rest) + n_{L-1} J_{L-1} N/N(h_{L-1} | rest),
summed over the signs of the rest; N is the prior, n_l are the numbers of draws and J_l = |dv/dh_l|. Indices, v and all
matrices are in modes (+, -) over the tokens, in which mixing matrices are triangular.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.attention_tied_softmax_m2.numba64 import invert, layer, link

from ...arithmetic.copies import copy_matrix
from ...arithmetic.references import lend
from ..charts.frozen import heavy_nodes
from .signs import Folded, log_sum, set_energies

__all__ = ["Channel", "Draws", "freeze_deep"]

Array = NDArray[np.float64]
# Entries (++, +-, --) of a triangular matrix.
Triangle = tuple[float, float, float]


class Channel(NamedTuple):
    """Model and prior.

    Attributes
    ----------
    constants : tuple of float
        c and beta.
    precisions : ndarray, shape (3, L, L)
        V^{-1}; and of all layers but the last, and but the one before, with zeros in the rows of these.
    roots : ndarray, shape (2, L - 1, L - 1)
        Lower factors of V without the last layer, and without the one before.
    """

    constants: tuple[float, float]
    precisions: Array
    roots: Array


class Draws(NamedTuple):
    """Standard normal numbers, shape (sets, 2, 2 (L - 1), k), and how many of each k are solved for the last layer."""

    normal: Array
    for_last: int


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _mix(h: Array, layers: int, constants: tuple[float, float]) -> Triangle:
    """Entries (++, +-, --) of B after so many layers."""
    skip, beta = constants
    both, across, minus = 1.0, 0.0, 1.0
    for number in range(layers):
        plus = both * h[number, 0] + across * h[number, 1]
        a, b, _, d = layer(plus, minus * h[number, 1], skip, beta)
        both, across, minus = a * both, a * across + b * minus, d * minus
    return both, across, minus


@njit(cache=True, nogil=True, error_model="numpy")
def _log_slope(y: tuple[float, float, float, float], beta: float) -> tuple[float, float, float]:
    """Readout (+, -) of an attention matrix, and log |d(s, tau)/d readout|, s = y11 - y22 and tau = y11 + y22 - 1."""
    plus, minus, log_jacobian = invert(y[0], y[1], y[2], y[3], beta)
    return plus, minus, log_jacobian + math.log(2.0)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _solve_last(h: Array, base: Triangle, v: Array, constants: tuple[float, float]) -> tuple[float, float]:
    """Set h_L; returns the logarithms of J_L and J_{L-1}, over det B_{L-2}."""
    skip, beta = constants
    last = len(h) - 1
    plus, minus = base[0] * h[last - 1, 0] + base[1] * h[last - 1, 1], base[2] * h[last - 1, 1]
    a, b, _, d = layer(plus, minus, skip, beta)
    u_minus = v[1] / d
    u_plus = (v[0] - b * u_minus) / a
    _, _, slope = _log_slope(link(plus, minus, beta), beta)
    h[last, 1] = u_minus / base[2]
    h[last, 0] = (u_plus - base[1] * h[last, 1]) / base[0]
    return math.log(a * d), slope + 2.0 * math.log(abs(u_minus))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _solve_before(h: Array, base: Triangle, v: Array, constants: tuple[float, float]) -> tuple[float, float]:
    """Set h_{L-1}; returns as `_solve_last`, -inf where there is no solution."""
    skip, beta = constants
    last = len(h) - 1
    u_plus, u_minus = base[0] * h[last, 0] + base[1] * h[last, 1], base[2] * h[last, 1]
    sign = 1.0 if v[1] / u_minus > 0.0 else -1.0
    tau = sign * v[1] / u_minus - skip
    s = (sign * v[0] - (1.0 + skip) * u_plus) / u_minus
    y11, y12, y21, y22 = 0.5 * (1 + tau + s), 0.5 * (1 - tau - s), 0.5 * (1 - tau + s), 0.5 * (1 + tau - s)
    if not (tau > 0.0 and y11 > 0.0 and y12 > 0.0 and y21 > 0.0 and y22 > 0.0):
        return -np.inf, -np.inf
    plus, minus, slope = _log_slope((y11, y12, y21, y22), beta)
    h[last - 1, 1] = minus / base[2]
    h[last - 1, 0] = (plus - base[1] * h[last - 1, 1]) / base[0]
    return math.log((1.0 + skip) * (skip + tau)), slope + 2.0 * math.log(abs(u_minus))


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(h: Array, normal: Array, omega: Array, root: Array, solved: int) -> None:
    """Set all layers but one to draws from the prior."""
    depth = len(h)
    for k in range(depth - 1):
        place = depth - 1 if k == solved else k
        for m in range(2):
            value = omega[place, m]
            for j in range(k + 1):
                value += root[k, j] * normal[2 * j + m]
            h[place, m] = value


def freeze_deep(
    v: Array, omega: Array, channel: Channel, draws: Draws, sets: NDArray[np.int64], light: float
) -> Folded:
    """Draw nodes of one output, and keep those that hold all weight but a small part.

    Parameters
    ----------
    v : ndarray, shape (2,)
        The readout, up to its sign.
    omega : ndarray, shape (L, 2)
        Mean of the prior.
    channel : Channel
    draws : Draws
    sets : ndarray of int
        Which of the draws are taken.
    light : float
        The part of the weight that is left out.

    Returns
    -------
    Folded
        Its weights are those of the density of v up to its sign.
    """
    depth, most = len(omega), 2 * draws.normal.shape[3] * len(sets)
    made = _Made(
        np.empty((most, depth, 2)), np.empty(most), np.empty(most), np.empty((depth, 2)), np.empty((3, 1 << depth))
    )
    first, kept = _draw_all(v, omega, lend(channel), lend(draws), sets, lend(made))
    heavy = heavy_nodes(made.log_weight[:kept], light)
    log_norm = math.log(np.linalg.det(channel.precisions[0])) - depth * math.log(2 * math.pi)
    return Folded(made.modes[heavy], made.log_base[heavy] - log_norm, int(np.sum(heavy < first)))


class _Made(NamedTuple):
    """Nodes, the logarithms of their weights without the prior and with it, and arrays that every node uses anew."""

    modes: Array
    log_base: Array
    log_weight: Array
    h: Array
    energies: Array


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_all(
    v: Array, omega: Array, channel: Channel, draws: Draws, sets: NDArray[np.int64], made: _Made
) -> tuple[int, int]:
    """Draw both sets of nodes; return how many of the first one are kept, and how many of both."""
    modes, log_base, log_weight, h, energies = made.modes, made.log_base, made.log_weight, made.h, made.energies
    depth, count, normal, for_last = len(omega), draws.normal.shape[3], draws.normal, draws.for_last
    constants, precisions, precision = channel.constants, channel.precisions, channel.precisions[0]
    # Logarithms of the numbers of draws over the norms of the conditional densities of the layers solved for. Both
    # signs of these are of one draw.
    log_last = math.log(for_last * len(sets) * math.pi / precision[depth - 1, depth - 1])
    log_before = math.log((count - for_last) * len(sets) * math.pi / precision[depth - 2, depth - 2])
    kept, first = 0, 0
    for half in range(2):
        first = kept
        for place in sets:
            for node in range(count):
                before = node >= for_last
                _draw(h, normal[place, half, :, node], omega, channel.roots[1 if before else 0], depth - 1 - before)
                base = _mix(h, depth - 2, constants)
                found = _solve_before(h, base, v, constants) if before else _solve_last(h, base, v, constants)
                log_det = math.log(base[0] * base[2])
                for kind in range(3):
                    set_energies(h, omega, precisions[kind], energies[kind])
                last = log_last + log_det + found[0] + log_sum(energies[1])
                other = log_before + log_det + found[1] + log_sum(energies[2])
                both = max(last, other) + math.log1p(math.exp(-abs(last - other)))
                weight = log_sum(energies[0]) - both
                if -np.inf < both < np.inf and -np.inf < weight < np.inf:
                    copy_matrix(h, modes[kept])
                    log_base[kept], log_weight[kept] = -both, weight
                    kept += 1
    return first, kept
