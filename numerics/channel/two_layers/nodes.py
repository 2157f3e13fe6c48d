"""Nodes of the hidden layer: h_1 ~ N(omega_1, V_11 I) as weights on the two scalars through which the output sees it.

In token modes h_1 = (x, z) and B_1 = (1 + c) [[1, S], [0, T]]; the last indices are h_+ = u - A v, h_- = tau v with
A = S/T, tau = 1/T. A and tau are analytic in (x, z) up to beta x z = +-centre + i pi and z = +-i sqrt(2 c/beta).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...thresholds.digits.steps import choose

__all__ = ["Hidden", "around", "centred"]

Array = NDArray[np.float64]

# Part of the distance to a singularity that a rule may use.
_SHARE = 0.65
# Nodes below this share of the accuracy are left out.
_LIGHT = 1e-2
# Steps as multiples of what resolves the last indices, and the places on a line at which that is looked up.
_RESOLVE = 1.2
_LOOKS = 25


@dataclass(frozen=True)
class Hidden:
    """Nodes of h_1.

    Attributes
    ----------
    weight, x, z, a, tau : ndarray, shape (n,)
        Probability, the token modes of h_1, and A and tau there.
    """

    weight: Array
    x: Array
    z: Array
    a: Array
    tau: Array

    def spacing(self, reach: float) -> float:
        """Largest distance of neighbours in (A, tau) v, for |h_-| = tau v up to `reach` less what weights cost."""
        return _spacing(self, reach)


def centred(skip: float, beta: float, log_accuracy: float, fineness: float) -> Hidden:
    """Nodes of h_1 ~ N(0, I), mirrored in x -> -x (A -> -A); one of h_1 and -h_1 stands for both.

    Parameters
    ----------
    skip, beta : float
        c > 0 and beta > 0.
    log_accuracy : float
        L: what is below exp(-L) is neglected.
    fineness : float
        All steps are divided by it.

    Notes
    -----
    The rule of `digits.law`: z = scale sinh(Y), and w = beta x z on a line for each z.
    """
    plane = choose(skip, beta, log_accuracy / math.log(10.0), fineness).plane
    step = plane.z.step
    weight = [np.array([math.sqrt(2 / math.pi) * plane.z_scale * step / 2])]
    x, z = [np.zeros(1)], [np.zeros(1)]
    for number, line in enumerate(plane.w, 1):
        height = plane.z_scale * math.sinh(number * step)
        rho = beta * height * height
        y = line.step * np.arange(line.count)
        sinh, cosh = np.sinh(y), np.cosh(y)
        ratio = (_centre(skip, rho) / cosh) ** 2
        root = np.sqrt(math.pi**2 + ratio)
        w = sinh * root
        slope = (cosh * root**2 - ratio * sinh**2 / cosh) / root
        common = 2 / math.pi / (beta * height) * plane.z_scale * math.cosh(number * step) * step * line.step
        mass = common * slope * np.exp(-0.5 * height**2 - w * w / (2 * beta * rho))
        mass[0] /= 2
        keep = mass > _LIGHT * math.exp(-log_accuracy)
        weight.append(mass[keep])
        x.append(w[keep] / (beta * height))
        z.append(np.full(int(keep.sum()), height))
    right = _hidden(skip, beta, np.concatenate(weight) / 2, np.concatenate(x), np.concatenate(z))
    pairs = ((right.weight, 1), (right.x, -1), (right.z, 1), (right.a, -1), (right.tau, 1))
    return Hidden(*(np.concatenate([values, sign * values]) for values, sign in pairs))


def around(
    skip: float,
    beta: float,
    centre: Array,
    variance: float,
    log_accuracy: float,
    resolved: tuple[float, float] = (math.inf, 0.0),
) -> Hidden:
    """Nodes of h_1 ~ N(centre, variance I): trapezoidal rules in Y, z = scale sinh(Y), and in x for each z.

    Parameters
    ----------
    skip, beta : float
        c > 0 and beta > 0.
    centre : ndarray, shape (2,)
        omega_1 in token modes.
    variance : float
        V_11.
    log_accuracy : float
        L: what is below exp(-L) is neglected.
    resolved : two floats, optional
        A standard deviation and an output v: up to v, the last indices (A v, tau v) are resolved to such Gaussians.
    """
    narrow, v = resolved
    reach = math.sqrt(2 * log_accuracy)
    sd = math.sqrt(variance)
    gauss = 2 * math.pi / reach * sd
    scale = min(math.sqrt(2 * skip / beta), 2.0)
    low, high = (math.asinh((centre[1] + side * reach * sd) / scale) for side in (-1, 1))
    steepest = scale * math.cosh(max(abs(low), abs(high)))
    step = min(gauss / steepest, 2 * math.pi * _SHARE * math.pi / 2 / log_accuracy)

    def lines(step: float) -> tuple[Array, Array, Array, Array]:
        """Y, z, what the weight leaves of L, and the needs along x and z at a few x of each line, over `narrow`."""
        y = low + step * np.arange(math.ceil((high - low) / step) + 1, dtype=np.float64)
        z = scale * np.sinh(y)
        left: Array = log_accuracy - (z - centre[1]) ** 2 / (2 * variance)
        across = reach * sd * np.linspace(-1, 1, _LOOKS)
        return y, z, left, _needs(skip, beta, centre[0] + across, z, left[:, None] - across**2 / (2 * variance), v)

    if math.isfinite(narrow):
        y, _, _, needs = lines(step)
        slope = scale * np.cosh(y)
        step = min(step, _RESOLVE * narrow / max(float((needs[1].max(axis=1) * slope).max()), 1e-300))
    y, z, left, needs = lines(step)
    weight = scale * np.cosh(y) * step * np.exp(-((z - centre[1]) ** 2) / (2 * variance))
    pole = math.pi / np.maximum(beta * np.abs(z), 1e-3)
    width = np.minimum(gauss, 2 * math.pi * _SHARE * pole / log_accuracy)
    if math.isfinite(narrow):
        width = np.minimum(width, _RESOLVE * narrow / np.maximum(needs[0].max(axis=1), 1e-300))
    # Of each line, what its weight leaves.
    left = left + np.log(np.cosh(y) * scale / steepest)
    keep = left > 0
    z, weight, width = z[keep], weight[keep], width[keep]
    half = np.ceil(np.sqrt(2 * left[keep]) * sd / width).astype(np.int64)
    counts = 2 * half + 1
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts + half, counts)
    offset = number * np.repeat(width, counts)
    mass = np.repeat(weight * width, counts) * np.exp(-offset * offset / (2 * variance)) / (2 * math.pi * variance)
    return _hidden(skip, beta, mass, centre[0] + offset, np.repeat(z, counts))


def _needs(skip: float, beta: float, x: Array, z: Array, left: Array, v: float) -> Array:
    """1/step in x and in z, shape (2, n_z, n_x), that resolve a last index of standard deviation one at outputs <= v.

    Trapezoidal rule of step s in (A v, tau v): error exp(-2 pi^2/s^2) of a density exp(-tau^2 v^2/2) times the weight.
    """
    rho, w = beta * z[:, None] ** 2, beta * x * z[:, None]
    top = np.maximum(rho, np.abs(w))
    up, down, rise, fall = (np.exp(e - top) for e in (rho, -rho, w, -w))
    total = up + down + rise + fall
    big_t, big_s = (up - down) / total, (rise - fall) / total
    t_rho, mixed, s_w = (up + down) / total - big_t**2, -big_t * big_s, (rise + fall) / total - big_s**2
    t = skip + big_t
    tau = (1 + skip) / t
    budget = np.maximum(left, 0.0)
    # Largest of v' sqrt(2 (left - tau^2 v'^2/2)) over v' <= v.
    at = np.minimum(v, np.sqrt(budget) / tau)
    strength = at * np.sqrt(np.maximum(2 * budget - (tau * at) ** 2, 0.0)) / (2 * math.pi)
    needs = []
    for d_w, d_rho in ((beta * z[:, None], 0.0), (beta * x, 2 * beta * z[:, None])):
        slope_t, slope_s = t_rho * d_rho + mixed * d_w, s_w * d_w + mixed * d_rho
        slope_a = (slope_s - big_s / t * slope_t) / t
        slope_tau = -tau / t * slope_t
        needs.append(np.hypot(slope_a, slope_tau) * strength)
    return np.array(needs)


def _centre(skip: float, rho: float) -> float:
    """Real part of the poles of tau in w: arccosh(cosh(rho) + sinh(rho)/c)."""
    small = min(rho, 20.0)
    less_one = 2 * math.sinh(small / 2) ** 2 + math.sinh(small) / skip
    return 2 * math.asinh(math.sqrt(less_one / 2)) + rho - small


def _hidden(skip: float, beta: float, weight: Array, x: Array, z: Array) -> Hidden:
    """Attach A = s/t and tau = (1 + c)/t, t = c + eta."""
    rho, w = beta * z * z, beta * x * z
    top = np.maximum(rho, np.abs(w))
    up, down, rise, fall = (np.exp(e - top) for e in (rho, -rho, w, -w))
    total = up + down + rise + fall
    t = skip + (up - down) / total
    return Hidden(weight, x, z, (rise - fall) / total / t, (1 + skip) / t)


def _spacing(nodes: Hidden, reach: float) -> float:
    """See `Hidden.spacing`: neighbours along x, and along z where x is least."""
    left = np.sqrt(np.maximum(reach**2 + 2 * np.log(np.maximum(nodes.weight / nodes.weight.max(), 1e-300)), 0.0))
    v = left / nodes.tau
    largest = 0.0
    start = np.flatnonzero(np.diff(nodes.z) != 0) + 1
    for line in np.split(np.arange(len(nodes.z)), start):
        if len(line) > 1:
            near = np.minimum(v[line[1:]], v[line[:-1]])
            steps = np.hypot(np.diff(nodes.a[line]), np.diff(nodes.tau[line])) * near
            largest = max(largest, float(steps.max()))
    middle = np.array([line[np.argmin(np.abs(nodes.x[line]))] for line in np.split(np.arange(len(nodes.z)), start)])
    if len(middle) > 1:
        near = np.minimum(v[middle[1:]], v[middle[:-1]])
        steps = np.hypot(np.diff(nodes.a[middle]), np.diff(nodes.tau[middle])) * near
        largest = max(largest, float(steps[np.abs(np.diff(nodes.z[middle])) < 2].max(initial=0.0)))
    return largest
