"""Posterior of three layers of softmax attention with two tokens by importance sampling, as fast as its exponentials.

The output fixes v = B_2 h_3 up to its sign, a surface in the indices. Draws are from the prior of h_1 and h_2, solved
for h_3, and of h_1 and h_3, solved for h_2; each gives two points, one for either sign of what is solved for. A point
weighs 1/(n_3 J_3/N_3 + n_2 J_2/N_2), N_l the prior's density of h_l there, J_l = |dv/dh_l|, n_l the number of draws
that are solved for h_l: the mixture of `deep_posterior` without its peaks.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["mixture_sums"]

Array = NDArray[np.float64]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "arcp", "nsz", "reassoc"})
def mixture_sums(
    v: Array, omega: Array, variance: Array, skip: float, beta: float,
    nodes: Array, sets: NDArray[np.int64], for_last: int, out: Array,
) -> None:  # fmt: skip
    """Sums over the posterior by two independent halves; everything in token modes (+, -).

    Parameters
    ----------
    v : ndarray, shape (n, 2)
        B_2 h_3, up to its sign.
    omega : ndarray, shape (n, 3, 2)
    variance : ndarray, shape (3,)
        Diagonal of V.
    skip, beta : float
        c and beta.
    nodes : ndarray, shape (sets, 2, k, 4)
        Standard normal, of h_1 and of the other layer drawn.
    sets : ndarray, shape (n,)
        Which nodes each output takes.
    for_last : int
        So many of the k nodes are solved for h_3, the others for h_2.
    out : ndarray, shape (n, 2, 16)
        Mass, and of each layer h_+, h_-, h_+^2, h_+ h_-, h_-^2, times the mass.
    """
    gain = 1 + skip
    count = nodes.shape[2]
    sd = np.sqrt(variance)
    # n_l over the density's norm 1/(2 pi V_l).
    share_last, share_before = for_last * variance[2], (count - for_last) * variance[1]
    point = np.empty((3, 2))
    for i in range(len(v)):
        for half in range(2):
            sums = out[i, half]
            sums[:] = 0.0
            for k in range(count):
                node = nodes[sets[i], half, k]
                x, z = omega[i, 0, 0] + sd[0] * node[0], omega[i, 0, 1] + sd[0] * node[1]
                # B_1 = [[1 + c, s], [0, t]].
                p, r = 1 / (1 + math.exp(-beta * (z + x) * z)), 1 / (1 + math.exp(-beta * (z - x) * z))
                s, t = p - r, p + r + skip - 1
                point[0, 0], point[0, 1] = x, z
                if k < for_last:
                    h_plus, h_minus = omega[i, 1, 0] + sd[1] * node[2], omega[i, 1, 1] + sd[1] * node[3]
                    w_plus, w_minus = gain * h_plus + s * h_minus, t * h_minus
                    p2 = 1 / (1 + math.exp(-beta * (w_minus + w_plus) * w_minus))
                    r2 = 1 / (1 + math.exp(-beta * (w_minus - w_plus) * w_minus))
                    u_minus = v[i, 1] / (p2 + r2 + skip - 1)
                    u_plus = (v[i, 0] - (p2 - r2) * u_minus) / gain
                    g_minus = u_minus / t
                    g_plus = (u_plus - s * g_minus) / gain
                    square = w_minus * w_minus
                    known = math.exp(0.5 * (node[2] * node[2] + node[3] * node[3]))
                else:
                    g_plus, g_minus = omega[i, 2, 0] + sd[2] * node[2], omega[i, 2, 1] + sd[2] * node[3]
                    u_plus, u_minus = gain * g_plus + s * g_minus, t * g_minus
                    ratio = v[i, 1] / u_minus
                    sign = 1.0 if ratio > 0.0 else -1.0
                    both = sign * ratio + 1 - skip
                    less = (sign * v[i, 0] - gain * u_plus) / u_minus
                    p2, r2 = 0.5 * (both + less), 0.5 * (both - less)
                    if not (0.0 < p2 < 1.0 and 0.0 < r2 < 1.0 and both > 1.0):
                        continue
                    a, b = math.log(p2 / (1 - p2)) / beta, math.log(r2 / (1 - r2)) / beta
                    square = 0.5 * (a + b)
                    if not square > 0.0:
                        continue
                    w_minus = math.sqrt(square)
                    h_minus = w_minus / t
                    h_plus = (0.5 * (a - b) / w_minus - s * h_minus) / gain
                    known = math.exp(0.5 * (node[2] * node[2] + node[3] * node[3]))
                # Jacobians over (1 + c) t, which both have.
                jacobian_last = share_last * gain * (p2 + r2 + skip - 1)
                jacobian_before = (
                    share_before * 8 * beta * beta * p2 * (1 - p2) * r2 * (1 - r2) * square * u_minus * u_minus
                )
                point[1, 0], point[1, 1], point[2, 0], point[2, 1] = h_plus, h_minus, g_plus, g_minus
                solved = 2 if k < for_last else 1
                for _ in range(2):
                    a, b = point[solved, 0] - omega[i, solved, 0], point[solved, 1] - omega[i, solved, 1]
                    # exp(-700) of the densities is as good as none.
                    found = math.exp(min(0.5 * (a * a + b * b) / variance[solved], 700.0))
                    if k < for_last:
                        weight = 1 / (t * (jacobian_last * found + jacobian_before * known))
                    else:
                        weight = 1 / (t * (jacobian_last * known + jacobian_before * found))
                    sums[0] += weight
                    for layer in range(3):
                        a, b = point[layer, 0], point[layer, 1]
                        sums[1 + 5 * layer] += weight * a
                        sums[2 + 5 * layer] += weight * b
                        sums[3 + 5 * layer] += weight * a * a
                        sums[4 + 5 * layer] += weight * a * b
                        sums[5 + 5 * layer] += weight * b * b
                    point[solved, 0], point[solved, 1] = -point[solved, 0], -point[solved, 1]
