"""Nodes of a posterior that does not depend on the sign of any layer: each stands for all 2^L choices of signs.

The score of a layer of which nothing is known is then zero, and not an error of its nodes that message passing would
amplify like a direction of the weights.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..charts.frozen import Weighed

__all__ = ["Folded", "log_sum", "set_energies", "weigh_signs"]

Array = NDArray[np.float64]

# Logarithm of weights that sums leave out.
_LEAST = -36.0


class Folded(NamedTuple):
    """Nodes of one posterior, up to the signs of their layers.

    Attributes
    ----------
    modes : ndarray, shape (nodes, L, M)
        Indices, in modes over the tokens.
    log_base : ndarray, shape (nodes,)
        Logarithm of the weight of the solution over the intensity of the nodes, the same for all signs.
    first : int
        How many are of the first of two independent sets; they come first.
    """

    modes: Array
    log_base: Array
    first: int


@njit(cache=True, nogil=True, error_model="numpy")
def set_energies(h: Array, omega: Array, precision: Array, out: Array) -> None:
    """Half the squared distances of +-h from omega: bit l of the place is set where layer l has its sign changed."""
    depth, tokens = h.shape
    out[0] = 0.0
    for k in range(depth):
        for m in range(tokens):
            moved = 0.5 * precision[k, k] * (h[k, m] - omega[k, m])
            for i in range(k):
                moved += precision[k, i] * (h[i, m] - omega[i, m])
            out[0] += moved * (h[k, m] - omega[k, m])
    for k in range(depth):
        # What the others are once k is changed: signs of those before, and no change of those after.
        linear = 0.0
        for m in range(tokens):
            for i in range(depth):
                linear += h[k, m] * precision[k, i] * (omega[i, m] - (h[i, m] if i > k else 0.0))
        for signs in range(1 << k):
            out[signs | (1 << k)] = out[signs] + 2.0 * linear
        for i in range(k):
            crossed = 0.0
            for m in range(tokens):
                crossed += h[k, m] * precision[k, i] * h[i, m]
            for signs in range(1 << k):
                out[signs | (1 << k)] += 2.0 * crossed if (signs >> i) & 1 else -2.0 * crossed


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum(energies: Array) -> float:
    """Logarithm of the sum of exp(-E)."""
    least = np.inf
    for value in energies:
        least = min(least, value)
    if not -np.inf < least < np.inf:
        return -np.inf
    total = 0.0
    for value in energies:
        if least - value > _LEAST:
            total += math.exp(least - value)
    return math.log(total) - least


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_signs(nodes: Folded, omega: Array, precision: Array, log_norm: float) -> Weighed:
    """Moments of a posterior under N(omega, V).

    Parameters
    ----------
    nodes : Folded
    omega : ndarray, shape (L, M)
        In modes over the tokens.
    precision : ndarray, shape (L, L)
        V^{-1}.
    log_norm : float
        Logarithm of the norm of N(omega, V).

    Returns
    -------
    Weighed
        Worth is counted in nodes, whatever their signs.
    """
    depth, tokens = omega.shape
    count, choices = len(nodes.log_base), 1 << depth
    height = np.empty((count, choices))
    for node in range(count):
        set_energies(nodes.modes[node], omega, precision, height[node])
        for signs in range(choices):
            height[node, signs] = nodes.log_base[node] - height[node, signs]
    mass, mean, second = np.zeros(3), np.zeros((3, depth, tokens)), np.zeros((depth, depth))
    top = np.max(height) if count else -np.inf
    if not -np.inf < top < np.inf:
        return Weighed(mean, second, -np.inf, 0.0)
    # Sums of the weights times the products of the signs of two layers; the last row has those of one.
    signed, squares = np.empty((depth + 1, depth)), 0.0
    for node in range(count):
        signed[:] = 0.0
        total = 0.0
        for signs in range(choices):
            if height[node, signs] - top < _LEAST:
                continue
            weight = math.exp(height[node, signs] - top)
            total += weight
            for k in range(depth):
                one = -weight if (signs >> k) & 1 else weight
                signed[depth, k] += one
                for i in range(k):
                    signed[k, i] += -one if (signs >> i) & 1 else one
        squares += total * total
        half = 0 if node < nodes.first else 1
        mass[half] += total
        for k in range(depth):
            signed[k, k] = total
            for m in range(tokens):
                mean[half, k, m] += signed[depth, k] * nodes.modes[node, k, m]
                for i in range(k + 1):
                    second[k, i] += signed[k, i] * nodes.modes[node, k, m] * nodes.modes[node, i, m]
    mass[2] = mass[0] + mass[1]
    # Loops: where arrays are assigned numba compiles, for seconds, the sentence that says which shapes differ.
    for k in range(depth):
        for m in range(tokens):
            mean[2, k, m] = mean[0, k, m] + mean[1, k, m]
            for part in range(3):
                # A set without nodes has the mean of the other.
                known = part if mass[part] > 0.0 else 2
                mean[part, k, m] = mean[known, k, m] / mass[known] - omega[k, m]
    for k in range(depth):
        for i in range(k + 1):
            value = second[k, i] / mass[2]
            for m in range(tokens):
                # E (h - omega)(h - omega)^T.
                value -= (mean[2, k, m] + omega[k, m]) * omega[i, m] + omega[k, m] * mean[2, i, m]
            second[k, i] = second[i, k] = value
    return Weighed(mean, second, top + math.log(0.5 * mass[2]) + log_norm, mass[2] * mass[2] / squares)
