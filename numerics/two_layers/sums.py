"""Sums over the output and the side information for given nodes of the hidden layer.

With d = u - omega_+ and s = u + omega_+ the density of the output (u, v), v > 0, given omega_2 is
    Z = K(d; v, omega_-) + K(s; v, -omega_-),
    K(d; v, o) = sum_k p_k tau_k phi(d - A_k v) phi(tau_k v - o),   phi the normal density of variance V_22,
one term for each sign of the last indices. Tables of K and of its moments are matrix products over the nodes, and the
sum over u and omega_+ runs over pairs (d, s) of entries of the tables. Everything converges exponentially.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .nodes import Hidden

__all__ = ["Outcome", "output_sum", "silent_sum"]

Array = NDArray[np.float64]

# Added to densities: no division by zero, and far below anything that counts.
_FLOOR = 1e-290
# Steps as multiples of what the analysis of `output_sum` allows.
_STEP, _STEP_V = 1.0, 1.2
_STRIP_V = 0.55
# Zeros of Z: pi V/a off the real axis in d, and half as far in omega_-, where both signs of the last indices have a
# density of exp(-a^2/(2 V)). The largest of exp(-a^2/(2 V) - 2 pi distance/step) over a sets the step.
_ZEROS_D, _ZEROS_O = 2 * math.pi**2 * 1.5**1.5, math.pi**2 * 1.5**1.5


@dataclass(frozen=True)
class Outcome:
    """Sums over outputs and omega_2.

    Attributes
    ----------
    last : float
        E |<h_2> - omega_2|^2.
    first : float
        E sum_f m_f <f>^2 over the given functions f of h_1.
    mass : float
        E 1, which is one up to the error of the rule.
    """

    last: float
    first: float
    mass: float


def output_sum(
    nodes: Hidden,
    functions: tuple[Array, Array, Array],
    multiplicity: tuple[float, float, float],
    overlap: float,
    skip: float,
    log_accuracy: float,
    fineness: float,
) -> Outcome:
    """Averages at overlap q_22 over omega_2 and the outputs.

    Parameters
    ----------
    nodes : Hidden
    functions : three arrays, shape (n,)
        f at the nodes.
    multiplicity : three floats
        m_f.
    overlap : float
        0 < q_22 < 1.
    skip : float
        c, which sets the scale of v.
    log_accuracy, fineness : float
        What is below exp(-log_accuracy) is neglected; all steps are divided by the fineness.
    """
    variance = 1 - overlap
    sd = math.sqrt(variance)
    reach = math.sqrt(2 * log_accuracy)
    # Gaussians alone allow exp(-(2 pi width/step)^2/2).
    step_d, step_o = (
        _STEP
        / fineness
        * min(2 * math.pi / reach / math.sqrt(prior / overlap + 1 / variance), zeros * sd / log_accuracy**1.5)
        for prior, zeros in ((0.25, _ZEROS_D), (1.0, _ZEROS_O))
    )
    v_nodes, v_weights = _outputs(nodes, skip, sd, log_accuracy, fineness)
    least, most = float(nodes.tau.min()), float(nodes.tau.max())
    norm = 1 / math.sqrt(2 * math.pi * variance)
    base = nodes.weight * nodes.tau * norm
    total = np.zeros(3)
    outermost = reach * math.sqrt(overlap)
    for v, dv in zip(v_nodes, v_weights, strict=True):
        shift, lift = nodes.a * v, nodes.tau * v
        rows = _grid(max(0.0, least * v - reach * sd), min(outermost, most * v + reach * sd), step_o, lowest=0)
        if not len(rows):
            continue
        o = step_o * rows
        d = step_d * _grid(float(shift.min()) - reach * sd, float(shift.max()) + reach * sd, step_d)
        near = norm * np.exp(-((d[:, None] - shift) ** 2) / (2 * variance))
        prior = (
            step_o * np.exp(-o * o / (2 * overlap)) / math.sqrt(2 * math.pi * overlap) * np.where(rows == 0, 1.0, 2.0)
        )
        # Rows for which the other sign of the last indices is possible, too.
        pairs = int(np.count_nonzero(o < reach * sd - least * v))
        there = _tables(near, base * np.exp(-((lift - o[:, None]) ** 2) / (2 * variance)), d, shift, lift, functions)
        found = np.zeros(3)
        if pairs:
            back = base * np.exp(-((lift + o[:pairs, None]) ** 2) / (2 * variance))
            lag = step_d * np.arange(1 - len(d), len(d))
            gauss = 0.5 * step_d**2 * np.exp(-lag * lag / (8 * overlap)) / math.sqrt(2 * math.pi * overlap)
            inside = _inside(gauss, len(d))
            # Of the sum over s for a given d, what lies outside of the table.
            outside = np.maximum(step_d - inside, 0.0)
            here = np.ascontiguousarray(there[:, :pairs])
            _pairs(
                here, _tables(near, back, d, shift, lift, functions), o[:pairs], prior[:pairs], gauss, outside,
                np.array(multiplicity), found,
            )  # fmt: skip
        if pairs < len(o):
            _singles(
                np.ascontiguousarray(there[:, pairs:]), o[pairs:], prior[pairs:], step_d, np.array(multiplicity), found
            )
        total += dv * found
    return Outcome(float(total[0]), float(total[1]), float(total[2]))


def silent_sum(
    nodes: Hidden, functions: tuple[Array, Array, Array], multiplicity: tuple[float, float, float], skip: float,
    log_accuracy: float, fineness: float,
) -> Outcome:  # fmt: skip
    """Averages over the outputs at q_22 = 0, where both signs of the last indices are alike.

    Arguments and `first` are those of `output_sum`; `last` is the growth E || E[h_2^T h_2 | y, omega_1] - I ||_F^2.
    """
    reach = math.sqrt(2 * log_accuracy)
    step = _STEP * 2 * math.pi / reach / fineness
    total = np.zeros(3)
    for v, dv in zip(*_outputs(nodes, skip, 1.0, log_accuracy, fineness), strict=True):
        shift, lift = nodes.a * v, nodes.tau * v
        d = step * _grid(float(shift.min()) - reach, float(shift.max()) + reach, step)
        near = np.exp(-0.5 * (d[:, None] - shift) ** 2) / (2 * math.pi)
        side = nodes.weight * nodes.tau * np.exp(-0.5 * lift**2)
        moments = (np.ones_like(side), shift, shift**2, lift, shift * lift, lift**2, *functions)
        k, a, aa, t, at, tt, *f = np.array([side * m for m in moments]) @ near.T
        excess = (d * d * k - 2 * d * a + aa - k, d * t - at, tt - k)
        inverse = 2 * step * dv / (k + _FLOOR)
        total[0] += (inverse * (excess[0] ** 2 + 2 * excess[1] ** 2 + excess[2] ** 2)).sum()
        total[1] += (inverse * sum(m * g * g for m, g in zip(multiplicity, f, strict=True))).sum()
        total[2] += (inverse * k * k).sum()
    return Outcome(float(total[0]), float(total[1]), float(total[2]))


def _outputs(nodes: Hidden, skip: float, sd: float, log_accuracy: float, fineness: float) -> tuple[Array, Array]:
    """Nodes and weights of v >= 0, v = scale sinh(Y); the integrand is even in v once u is summed."""
    reach = math.sqrt(2 * log_accuracy)
    scale = skip / (1 + skip)
    top = reach / float(nodes.tau.min())
    # A Gaussian of tau v against omega_- is passed in Y at steepest where v is largest.
    steepest = reach * math.hypot(1.0, scale / top)
    step = min(
        2 * math.pi * _STRIP_V / log_accuracy * _STEP_V / fineness,
        _STEP_V * 2 * math.pi / reach / fineness * sd / steepest,
    )
    y = step * np.arange(math.ceil(math.asinh(top / scale) / step) + 1)
    weights = scale * np.cosh(y) * step
    weights[0] /= 2
    return scale * np.sinh(y), weights


def _grid(low: float, high: float, step: float, lowest: int | None = None) -> Array:
    """Integers k with low <= k step <= high."""
    first, last = math.ceil(low / step), math.floor(high / step)
    if lowest is not None:
        first = max(first, lowest)
    return np.arange(first, last + 1, dtype=np.float64)


def _inside(gauss: Array, count: int) -> Array:
    cumulative = np.concatenate([[0.0], np.cumsum(gauss)])
    start = np.arange(count - 1, -1, -1)
    return cumulative[start + count] - cumulative[start]


def _tables(near: Array, side: Array, d: Array, shift: Array, lift: Array, functions: tuple[Array, ...]) -> Array:
    """K, K <h_+ - omega_+>, K <h_-> and K <f>, shape (6, len(o), len(d)), for the first sign."""
    stack = np.concatenate([side, side * shift, side * lift, *(side * f for f in functions)])
    out = (stack @ near.T).reshape(6, len(side), len(d))
    out[1] = d * out[0] - out[1]
    return out


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _pairs(
    here: Array,
    back: Array,
    o: Array,
    prior: Array,
    gauss: Array,
    outside: Array,
    multiplicity: Array,
    out: Array,
) -> None:
    """Add the sums over pairs (d, s); beyond the table of s the first sign is alone, and beyond that of d the other."""
    count = here.shape[2]
    m0, m1, m2 = multiplicity
    for i in range(len(o)):
        last, first, mass = 0.0, 0.0, 0.0
        for a in range(count):
            k, p, r = here[0, i, a], here[1, i, a], here[2, i, a] - o[i] * here[0, i, a]
            f0, f1, f2 = here[3, i, a], here[4, i, a], here[5, i, a]
            for b in range(count):
                other = back[0, i, b]
                z = k + other + _FLOOR
                weight = gauss[b - a + count - 1] / z
                along = p - back[1, i, b]
                across = r - back[2, i, b] - o[i] * other
                g0, g1, g2 = f0 + back[3, i, b], f1 + back[4, i, b], f2 + back[5, i, b]
                last += weight * (along * along + across * across)
                first += weight * (m0 * g0 * g0 + m1 * g1 * g1 + m2 * g2 * g2)
                mass += weight * z * z
            last += outside[a] * (p * p + r * r) / (k + _FLOOR)
            first += outside[a] * (m0 * f0 * f0 + m1 * f1 * f1 + m2 * f2 * f2) / (k + _FLOOR)
            k2, p2, r2 = back[0, i, a], back[1, i, a], back[2, i, a] + o[i] * back[0, i, a]
            f0, f1, f2 = back[3, i, a], back[4, i, a], back[5, i, a]
            last += outside[a] * (p2 * p2 + r2 * r2) / (k2 + _FLOOR)
            first += outside[a] * (m0 * f0 * f0 + m1 * f1 * f1 + m2 * f2 * f2) / (k2 + _FLOOR)
            mass += outside[a] * (k + k2)
        out[0] += prior[i] * last
        out[1] += prior[i] * first
        out[2] += prior[i] * mass


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _singles(table: Array, o: Array, prior: Array, step: float, multiplicity: Array, out: Array) -> None:
    """Add the sums over d where one sign of the last indices is impossible."""
    count = table.shape[2]
    m0, m1, m2 = multiplicity
    for i in range(len(o)):
        last, first, mass = 0.0, 0.0, 0.0
        for a in range(count):
            k = table[0, i, a]
            r = table[2, i, a] - o[i] * k
            f0, f1, f2 = table[3, i, a], table[4, i, a], table[5, i, a]
            inverse = 1 / (k + _FLOOR)
            last += (table[1, i, a] * table[1, i, a] + r * r) * inverse
            first += (m0 * f0 * f0 + m1 * f1 * f1 + m2 * f2 * f2) * inverse
            mass += k
        out[0] += prior[i] * step * last
        out[1] += prior[i] * step * first
        out[2] += prior[i] * step * mass
