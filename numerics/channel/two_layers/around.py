"""Nodes of h_1 about omega_1, as close as the posterior of the last indices asks for: compiled, without the lock.

The entries S and T of the mixing function have slopes in rho = beta z^2 and w = beta x z that are functions of S and T.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.attention_tied_softmax_m2.numba64 import layer
from attnlimits.generated.pair_softmax_m2.numba64 import turns

__all__ = ["nodes_around"]

Array = NDArray[np.float64]

# Steps as multiples of what resolves the last indices, and the places on a line at which that is looked up.
_RESOLVE = 1.2


@njit(error_model="numpy", nogil=True, cache=True)
def _needs(model: tuple[float, float], x: float, z: float, left: float, v: float) -> tuple[float, float]:
    """1/step in x and in z that resolve a last index of standard deviation one at outputs up to v.

    Trapezoidal rule of step s in (A v, tau v): error exp(-2 pi^2/s^2) of a density exp(-tau^2 v^2/2) times the weight,
    of which `left` is left in log-accuracy.
    """
    skip, beta = model
    _, big_s, _, t = layer(x, z, skip, beta)
    big_t = t - skip
    tau = (1 + skip) / t
    budget = max(left, 0.0)
    # Largest of v' sqrt(2 (left - tau^2 v'^2/2)) over v' <= v.
    at = min(v, math.sqrt(budget) / tau)
    strength = at * math.sqrt(max(2 * budget - (tau * at) ** 2, 0.0)) / (2 * math.pi)
    own, mixed = turns(big_s, big_t)
    # Of w and rho, by x and by z.
    along = _slope(big_s, t, tau, (own * beta * z, mixed * beta * z))
    across = _slope(big_s, t, tau, (own * beta * x + mixed * 2 * beta * z, mixed * beta * x + own * 2 * beta * z))
    return along * strength, across * strength


@njit(error_model="numpy", nogil=True, cache=True)
def _slope(big_s: float, t: float, tau: float, slopes: tuple[float, float]) -> float:
    """Length of the slope of (A, tau), from those of S and T."""
    of_s, of_t = slopes
    return math.hypot((of_s - big_s / t * of_t) / t, tau / t * of_t)


@njit(error_model="numpy", nogil=True, cache=True)
def _most_needed(
    model: tuple[float, float], at: tuple[float, float], left: float, scatter: tuple[float, float], v: float
) -> tuple[float, float]:
    """Largest needs along a line of given z, `at` centre and z, over so many (reach) of its standard deviations."""
    (centre, z), (sd, reach) = at, scatter
    along = across = 0.0
    # Places on a line at which what resolves the last indices is looked up.
    looks = 25
    for look in range(looks):
        part = reach * (2 * look / (looks - 1) - 1)
        one, other = _needs(model, centre + part * sd, z, left - 0.5 * part * part, v)
        along, across = max(along, one), max(across, other)
    return along, across


@njit(error_model="numpy", nogil=True, cache=True)
def nodes_around(
    model: tuple[float, float],
    centre: tuple[float, float],
    variance: float,
    log_accuracy: float,
    resolved: tuple[float, float],
) -> Array:
    """Nodes of h_1 ~ N(centre, variance I): trapezoidal rules in Y, z = scale sinh(Y), and in x for each z.

    Parameters
    ----------
    model : two floats
        c > 0 and beta > 0.
    centre : two floats
        omega_1 in token modes.
    variance : float
        V_11.
    log_accuracy : float
        L: what is below exp(-L) is neglected.
    resolved : two floats
        A standard deviation and an output v: up to v, the last indices (A v, tau v) are resolved to such Gaussians.

    Returns
    -------
    ndarray, shape (5, n)
        Probability, x, z, A and tau of each node.
    """
    skip, beta = model
    narrow, v = resolved
    reach, sd = math.sqrt(2 * log_accuracy), math.sqrt(variance)
    gauss = 2 * math.pi / reach * sd
    scale = min(math.sqrt(2 * skip / beta), 2.0)
    low, high = math.asinh((centre[1] - reach * sd) / scale), math.asinh((centre[1] + reach * sd) / scale)
    steepest = scale * math.cosh(max(abs(low), abs(high)))
    # Part of the distance to a singularity that a rule may use.
    share = 0.65
    step = min(gauss / steepest, 2 * math.pi * share * math.pi / 2 / log_accuracy)
    if math.isfinite(narrow):
        most = 1e-300
        for k in range(math.ceil((high - low) / step) + 1):
            y = low + k * step
            z = scale * math.sinh(y)
            left = log_accuracy - (z - centre[1]) ** 2 / (2 * variance)
            most = max(most, _most_needed(model, (centre[0], z), left, (sd, reach), v)[1] * scale * math.cosh(y))
        step = min(step, _RESOLVE * narrow / most)
    lines = math.ceil((high - low) / step) + 1
    half, width = np.zeros(lines, np.int64), np.zeros(lines)
    count = 0
    for k in range(lines):
        y = low + k * step
        z, steep = scale * math.sinh(y), scale * math.cosh(y)
        left = log_accuracy - (z - centre[1]) ** 2 / (2 * variance)
        # Of each line, what its weight leaves.
        lasting = left + math.log(steep / steepest)
        if lasting > 0:
            width[k] = min(gauss, 2 * math.pi * share * math.pi / max(beta * abs(z), 1e-3) / log_accuracy)
            if math.isfinite(narrow):
                need = _most_needed(model, (centre[0], z), left, (sd, reach), v)[0]
                width[k] = min(width[k], _RESOLVE * narrow / max(need, 1e-300))
            half[k] = math.ceil(math.sqrt(2 * lasting) * sd / width[k])
            count += 2 * half[k] + 1
    out = np.empty((5, count))
    place = 0
    for k in range(lines):
        if not half[k]:
            continue
        y = low + k * step
        z = scale * math.sinh(y)
        weight = scale * math.cosh(y) * step * math.exp(-((z - centre[1]) ** 2) / (2 * variance))
        for j in range(-half[k], half[k] + 1):
            offset = j * width[k]
            x = centre[0] + offset
            _, big_s, _, t = layer(x, z, skip, beta)
            mass = weight * width[k] * math.exp(-offset * offset / (2 * variance)) / (2 * math.pi * variance)
            out[0, place], out[1, place], out[2, place] = mass, x, z
            out[3, place], out[4, place] = big_s / t, (1 + skip) / t
            place += 1
    return out
