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
from numpy.typing import NDArray

from .banded import FLOOR, banded_sum, of_pairs, pairs, singles
from .nodes import Hidden

__all__ = ["Outcome", "output_sum", "outputs", "silent_sum"]

Array = NDArray[np.float64]

# Steps as multiples of what the analysis of `output_sum` allows.
_STEP, _STEP_V = 1.0, 1.2
_STRIP_V = 0.55
# Nodes reach this much further, in log-accuracy, than the grids; beyond this many entries for each that a node reaches,
# the banded sum is faster than matrix products.
_TAIL, _SPARSE = 2.0, 8.0
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
    v: tuple[Array, Array],
    log_accuracy: float,
    fineness: float,
) -> Outcome:
    """Averages at overlap q_22 over omega_2 and some of the outputs.

    Parameters
    ----------
    nodes : Hidden
    functions : three arrays, shape (n,)
        f at the nodes.
    multiplicity : three floats
        m_f.
    overlap : float
        0 < q_22 < 1.
    v : two arrays, shape (n_v,)
        Nodes and weights of v.
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
    v_nodes, v_weights = v
    base = nodes.weight * nodes.tau / (2 * math.pi * variance)
    rule = _Rule(overlap, reach, step_d, step_o)
    width = math.sqrt(2 * (log_accuracy + _TAIL))
    # Entries that all nodes share at a typical v, and those that one node reaches alone.
    typical = float(v_nodes[len(v_nodes) * 2 // 3])
    shared = reached = 1.0
    for spread, step in ((np.ptp(nodes.a), step_d), (np.ptp(nodes.tau), step_o)):
        shared *= (typical * float(spread) + 2 * reach * sd) / step
        reached *= 2 * width * sd / step
    arguments = (v_nodes, v_weights, base, nodes.a, nodes.tau, np.array(functions), np.array(multiplicity))
    if shared > _SPARSE * reached:
        total = banded_sum(*arguments, overlap, step_d, step_o, reach, width)
    else:
        total = _dense_sum(*arguments, rule)
    return Outcome(float(total[0]), float(total[1]), float(total[2]))


@dataclass(frozen=True)
class _Rule:
    """Overlap q_22, standard deviations that the grids reach, steps of d and of omega_-."""

    overlap: float
    reach: float
    step_d: float
    step_o: float


def _dense_sum(
    v_nodes: Array, v_weights: Array, base: Array, a: Array, tau: Array, functions: Array, multiplicity: Array,
    rule: _Rule,
) -> Array:  # fmt: skip
    """Do what `banded_sum` does, by matrix products over all nodes: for grids that most nodes reach."""
    overlap, reach, step_d, step_o = rule.overlap, rule.reach, rule.step_d, rule.step_o
    variance = 1 - overlap
    sd = math.sqrt(variance)
    least, most = float(tau.min()), float(tau.max())
    total = np.zeros(3)
    outermost = reach * math.sqrt(overlap)
    for v, dv in zip(v_nodes, v_weights, strict=True):
        shift, lift = a * v, tau * v
        rows = _grid(max(0.0, least * v - reach * sd), min(outermost, most * v + reach * sd), step_o, lowest=0)
        if not len(rows):
            continue
        o = step_o * rows
        d = step_d * _grid(float(shift.min()) - reach * sd, float(shift.max()) + reach * sd, step_d)
        near = np.exp(-((d[:, None] - shift) ** 2) / (2 * variance))
        prior = (
            step_o * np.exp(-o * o / (2 * overlap)) / math.sqrt(2 * math.pi * overlap) * np.where(rows == 0, 1.0, 2.0)
        )
        # Rows for which the other sign of the last indices is possible, too.
        both = int(np.count_nonzero(o < reach * sd - least * v))
        there = _tables(near, base * np.exp(-((lift - o[:, None]) ** 2) / (2 * variance)), d, shift, lift, functions)
        found = np.zeros(3)
        if both:
            side = base * np.exp(-((lift + o[:both, None]) ** 2) / (2 * variance))
            back = _tables(near, side, d, shift, lift, functions)
            gauss, outside = of_pairs(len(d), step_d, overlap)
            pairs(there[:both], back, o[:both], prior[:both], gauss, outside, multiplicity, found)
        if both < len(o):
            singles(there[both:], o[both:], prior[both:], step_d, multiplicity, found)
        total += dv * found
    return total


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
    for v, dv in zip(*outputs(nodes, skip, 1.0, log_accuracy, fineness), strict=True):
        shift, lift = nodes.a * v, nodes.tau * v
        d = step * _grid(float(shift.min()) - reach, float(shift.max()) + reach, step)
        near = np.exp(-0.5 * (d[:, None] - shift) ** 2) / (2 * math.pi)
        side = nodes.weight * nodes.tau * np.exp(-0.5 * lift**2)
        moments = (np.ones_like(side), shift, shift**2, lift, shift * lift, lift**2, *functions)
        k, a, aa, t, at, tt, *f = np.array([side * m for m in moments]) @ near.T
        excess = (d * d * k - 2 * d * a + aa - k, d * t - at, tt - k)
        inverse = 2 * step * dv / (k + FLOOR)
        total[0] += (inverse * (excess[0] ** 2 + 2 * excess[1] ** 2 + excess[2] ** 2)).sum()
        total[1] += (inverse * sum(m * g * g for m, g in zip(multiplicity, f, strict=True))).sum()
        total[2] += (inverse * k * k).sum()
    return Outcome(float(total[0]), float(total[1]), float(total[2]))


def outputs(nodes: Hidden, skip: float, sd: float, log_accuracy: float, fineness: float) -> tuple[Array, Array]:
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


def _tables(near: Array, side: Array, d: Array, shift: Array, lift: Array, functions: Array) -> Array:
    """K, K <h_+ - omega_+>, K <h_-> and K <f>, shape (len(o), len(d), 6), for one sign."""
    stack = np.concatenate([side, side * shift, side * lift, *(side * f for f in functions)])
    out = (stack @ near.T).reshape(6, len(side), len(d))
    out[1] = d * out[0] - out[1]
    return np.ascontiguousarray(out.transpose(1, 2, 0))
