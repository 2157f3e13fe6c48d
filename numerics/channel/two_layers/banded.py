"""The sum over outputs where V_22 is small: each node of h_1 reaches a few entries of the tables only."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["FLOOR", "Division", "Nodes", "OutputRule", "Rows", "banded_sum", "of_pairs", "pairs", "singles"]

Array = NDArray[np.float64]

# Least density that is divided by: far below anything that counts.
FLOOR = 1e-290
# Moments per entry.
_WIDTH = 6


class Nodes(NamedTuple):
    """Nodes of h_1.

    Attributes
    ----------
    base, a, tau : ndarray, shape (n,)
        Weight tau/(2 pi V_22), A and tau.
    functions : ndarray, shape (3, n)
        f at the nodes.
    multiplicity : ndarray, shape (3,)
        m_f.
    """

    base: Array
    a: Array
    tau: Array
    functions: Array
    multiplicity: Array


class OutputRule(NamedTuple):
    """Rule for the sum over outputs and omega_2.

    Attributes
    ----------
    overlap : float
        q_22.
    reach : float
        Standard deviations that the grids reach.
    lasting : float
        Log-accuracy to which a node of average weight is summed.
    step_d, step_o : float
        Steps of d and of omega_-.
    floor : float
        Least density that is divided by.
    """

    overlap: float
    reach: float
    lasting: float
    step_d: float
    step_o: float
    floor: float


class Rows(NamedTuple):
    """Values omega_- >= 0 and the weights of +-omega_-, shape (n_o,)."""

    o: Array
    prior: Array


class Division(NamedTuple):
    """How moments are divided by the density: m_f of the functions, and the least density."""

    multiplicity: Array
    floor: float


class _Window(NamedTuple):
    """Grids of d and of omega_- at one v: steps, first multiples; and q_22."""

    step_d: float
    first_d: int
    step_o: float
    first_o: int
    overlap: float


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _lasting(base: Array, lasting: float) -> Array:
    """Log-accuracy to which each node is summed: what is left out of one is the same part of all of them."""
    mean = 1e-300
    for value in base:
        mean += abs(value) / len(base)
    out = np.empty(len(base))
    for k in range(len(base)):
        out[k] = lasting + math.log(max(abs(base[k]) / mean, 1e-300))
    return out


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _fill_side(off: float, step: float, variance: float, out: Array) -> None:
    """Gaussians exp(-x^2/(2 variance)) at x = off, off + step, .., by a recurrence of two factors."""
    value = math.exp(-off * off / (2 * variance))
    factor = math.exp(-step * (2 * off + step) / (2 * variance))
    change = math.exp(-step * step / variance)
    for i in range(len(out)):
        out[i] = value
        value *= factor
        factor *= change


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _fill_moments(
    off: float, step: float, variance: float, node: tuple[float, float, float, float, float], out: Array
) -> None:
    """Such Gaussians of a node, with its base, tau |v| and functions, times the moments that `_scatter` sums."""
    base, lift, f0, f1, f2 = node
    value = base * math.exp(-off * off / (2 * variance))
    factor = math.exp(-step * (2 * off + step) / (2 * variance))
    change = math.exp(-step * step / variance)
    for j in range(len(out) // _WIDTH):
        out[j * _WIDTH] = value
        out[j * _WIDTH + 1] = value * (off + j * step)
        out[j * _WIDTH + 2] = value * lift
        out[j * _WIDTH + 3] = value * f0
        out[j * _WIDTH + 4] = value * f1
        out[j * _WIDTH + 5] = value * f2
        value *= factor
        factor *= change


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _scatter(table: Array, nodes: Nodes, lasting: Array, v: float, window: _Window, room: tuple[Array, Array]) -> None:
    """Fill the table: K, K <h_+ - omega_+>, K <h_-> and K <f> at each (o, d); the sign of v is that of omega_-.

    A node weighs exp(-(omega_- - tau v)^2/(2 V) - omega_-^2/(2 q_22) - (d - A v)^2/(2 V)), of which exp(-(tau v)^2/2)
    is common to all its entries: it is summed over the rectangle about an ellipse in (omega_-, d).
    """
    base, a, tau, functions, _ = nodes
    f0, f1, f2 = functions[0], functions[1], functions[2]
    step_d, first_d, step_o, first_o, overlap = window
    side, moments = room
    rows, columns = table.shape[0], table.shape[1]
    stride = columns * _WIDTH
    entries = table.reshape(rows * stride)
    entries[:] = 0.0
    variance = 1 - overlap
    for k in range(len(base)):
        lift, shift = tau[k] * v, a[k] * abs(v)
        left = lasting[k] - 0.5 * lift * lift
        if left <= 0:
            continue
        half_d = math.sqrt(2 * left * variance)
        half_o = half_d * math.sqrt(overlap)
        low_o = max(math.ceil((overlap * lift - half_o) / step_o), first_o)
        high_o = min(math.floor((overlap * lift + half_o) / step_o), first_o + rows - 1)
        low_d = max(math.ceil((shift - half_d) / step_d), first_d)
        high_d = min(math.floor((shift + half_d) / step_d), first_d + columns - 1)
        if high_o < low_o or high_d < low_d:
            continue
        width, height = (high_d - low_d + 1) * _WIDTH, high_o - low_o + 1
        _fill_side(low_o * step_o - lift, step_o, variance, side[:height])
        node = base[k], abs(lift), f0[k], f1[k], f2[k]
        _fill_moments(low_d * step_d - shift, step_d, variance, node, moments[:width])
        start = (low_o - first_o) * stride + (low_d - first_d) * _WIDTH
        for i in range(height):
            row = entries[start + i * stride : start + i * stride + width]
            for j in range(len(row)):
                row[j] += side[i] * moments[j]


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def pairs(here: Array, back: Array, rows: Rows, lags: tuple[Array, Array], division: Division, out: Array) -> None:
    """Add the sums over pairs (d, s); beyond the table of s the first sign is alone, and beyond that of d the other.

    `lags` are the weights of `of_pairs`.
    """
    (o, prior), (gauss, outside), floor = rows, lags, division.floor
    count = here.shape[1]
    m0, m1, m2 = division.multiplicity
    for i in range(len(o)):
        last, first, mass = 0.0, 0.0, 0.0
        for a in range(count):
            k, p, r = here[i, a, 0], here[i, a, 1], here[i, a, 2] - o[i] * here[i, a, 0]
            f0, f1, f2 = here[i, a, 3], here[i, a, 4], here[i, a, 5]
            for b in range(count):
                other = back[i, b, 0]
                z = max(k + other, floor)
                weight = gauss[b - a + count - 1] / z
                along = p - back[i, b, 1]
                across = r - back[i, b, 2] - o[i] * other
                g0, g1, g2 = f0 + back[i, b, 3], f1 + back[i, b, 4], f2 + back[i, b, 5]
                last += weight * (along * along + across * across)
                first += weight * (m0 * g0 * g0 + m1 * g1 * g1 + m2 * g2 * g2)
                mass += weight * z * z
            last += outside[a] * (p * p + r * r) / max(k, floor)
            first += outside[a] * (m0 * f0 * f0 + m1 * f1 * f1 + m2 * f2 * f2) / max(k, floor)
            k2, p2, r2 = back[i, a, 0], back[i, a, 1], back[i, a, 2] + o[i] * back[i, a, 0]
            f0, f1, f2 = back[i, a, 3], back[i, a, 4], back[i, a, 5]
            last += outside[a] * (p2 * p2 + r2 * r2) / max(k2, floor)
            first += outside[a] * (m0 * f0 * f0 + m1 * f1 * f1 + m2 * f2 * f2) / max(k2, floor)
            mass += outside[a] * (k + k2)
        out[0] += prior[i] * last
        out[1] += prior[i] * first
        out[2] += prior[i] * mass


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def singles(table: Array, rows: Rows, step: float, division: Division, out: Array) -> None:
    """Add the sums over d where one sign of the last indices is impossible."""
    (o, prior), floor = rows, division.floor
    count = table.shape[1]
    m0, m1, m2 = division.multiplicity
    for i in range(len(o)):
        last, first, mass = 0.0, 0.0, 0.0
        for a in range(count):
            k = table[i, a, 0]
            r = table[i, a, 2] - o[i] * k
            f0, f1, f2 = table[i, a, 3], table[i, a, 4], table[i, a, 5]
            inverse = 1 / max(k, floor)
            last += (table[i, a, 1] * table[i, a, 1] + r * r) * inverse
            first += (m0 * f0 * f0 + m1 * f1 * f1 + m2 * f2 * f2) * inverse
            mass += k
        out[0] += prior[i] * step * last
        out[1] += prior[i] * step * first
        out[2] += prior[i] * step * mass


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def banded_sum(outputs: tuple[Array, Array], nodes: Nodes, rule: OutputRule) -> Array:
    """Sums `last`, `first` and `mass` of `sums.Outcome` over outputs (u, v) and omega_2; nodes and weights of v."""
    v_nodes, v_weights = outputs
    overlap, reach, _, step_d, step_o, floor = rule
    division = Division(nodes.multiplicity, floor)
    variance = 1 - overlap
    sd = math.sqrt(variance)
    total, found = np.zeros(3), np.zeros(3)
    (low_a, high_a), (least, most) = _ends(nodes.a), _ends(nodes.tau)
    outermost = reach * math.sqrt(overlap)
    lasting = _lasting(nodes.base, rule.lasting)
    most_entries = 2 * math.sqrt(2 * max(_ends(lasting)[1], 0.0)) * sd
    room = np.empty(int(most_entries / step_o) + 2), np.empty((int(most_entries / step_d) + 2) * _WIDTH)
    rows_most = int(outermost / step_o) + 2
    columns_most = int(((high_a - low_a) * _ends(v_nodes)[1] + 2 * reach * sd) / step_d) + 3
    o, prior = np.empty(rows_most), np.empty(rows_most)
    # One block of memory for all tables; the largest v has few rows and many columns.
    memory = np.empty(_WIDTH)
    memory_back = np.empty(_WIDTH)
    for n in range(len(v_nodes)):
        v = v_nodes[n]
        first_o = max(0, math.ceil((least * v - reach * sd) / step_o))
        last_o = math.floor(min(outermost, most * v + reach * sd) / step_o)
        rows = min(last_o - first_o + 1, rows_most)
        if rows <= 0:
            continue
        first_d = math.ceil((low_a * v - reach * sd) / step_d)
        columns = min(math.floor((high_a * v + reach * sd) / step_d) - first_d + 1, columns_most)
        size = rows * columns * _WIDTH
        if len(memory) < size:
            memory = np.empty(size)
        table = memory[:size].reshape((rows, columns, _WIDTH))
        window = _Window(step_d, first_d, step_o, first_o, overlap)
        _scatter(table, nodes, lasting, v, window, room)
        both = 0  # rows for which the other sign of the last indices is possible, too
        for i in range(rows):
            o[i] = step_o * (first_o + i)
            prior[i] = math.exp(-o[i] * o[i] / (2 * overlap)) * (2 * step_o / math.sqrt(2 * math.pi * overlap))
            if o[i] < reach * sd - least * v:
                both = i + 1
        if first_o == 0:
            prior[0] /= 2
        found[:] = 0.0
        if both:
            size = both * columns * _WIDTH
            if len(memory_back) < size:
                memory_back = np.empty(size)
            back = memory_back[:size].reshape((both, columns, _WIDTH))
            _scatter(back, nodes, lasting, -v, window, room)
            lags = of_pairs(columns, step_d, overlap)
            pairs(table[:both], back, Rows(o[:both], prior[:both]), lags, division, found)
        if both < rows:
            singles(table[both:], Rows(o[both:rows], prior[both:rows]), step_d, division, found)
        for k in range(3):
            total[k] += v_weights[n] * found[k]
    return total


@njit(error_model="numpy", nogil=True, cache=True)
def _ends(values: Array) -> tuple[float, float]:
    """Least and largest."""
    low = high = values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
    return low, high


@njit(error_model="numpy", nogil=True, cache=True)
def of_pairs(count: int, step: float, overlap: float) -> tuple[Array, Array]:
    """Weights of pairs by their lag s - d, and, for each d, of all s outside of the table."""
    gauss = np.empty(2 * count - 1)
    for k in range(2 * count - 1):
        lag = step * (k - count + 1)
        gauss[k] = 0.5 * step * step * math.exp(-lag * lag / (8 * overlap)) / math.sqrt(2 * math.pi * overlap)
    outside = np.empty(count)
    inside = 0.0
    for k in range(count - 1, 2 * count - 1):
        inside += gauss[k]
    for k in range(count):
        outside[k] = max(step - inside, 0.0)
        if k + 1 < count:
            inside += gauss[count - 2 - k] - gauss[2 * count - 2 - k]
    return gauss, outside
