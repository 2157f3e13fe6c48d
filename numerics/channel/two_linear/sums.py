"""Sums over side information at one length of the readout, v = (rho, 0).

The density of v given omega, whose sign is open, is
    Z = K(omega_1, omega_2) + K(omega_1, -omega_2),
    K = sum_k p_k [phi(h_1k - omega_1) + phi(h_1k + omega_1)] phi(h_2k - omega_2),
with normal densities phi of variance V_11 and V_22. For each omega_1 of a quarter of the plane, which reflections
leave, a table of K and of its moments over a grid of omega_2 is filled from the nodes that are near.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.attention_tied_linear_m2.numba64 import quadratic

from .nodes import Nodes

__all__ = ["Grid", "Rule", "sums_at"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Point = tuple[float, float]

# Least density that is divided by: far below anything that counts.
_FLOOR = 1e-290
# Sums of `sums_at`, and the most functions of a node: 1, of h_1 and of h_2.
_SUMS, _WIDEST = 4, 6
# Beyond every logarithm: compiled with fast arithmetic, infinities are not told apart.
_UNASKED = 1e4


class Grid(NamedTuple):
    """Points omega_1 of a quarter of the plane, shape (n,).

    Attributes
    ----------
    x, y : ndarray
    weight : ndarray
        Weight of a point with its reflections.
    log_density : ndarray
        Logarithm of the density of omega_1 over that at zero.
    """

    x: Array
    y: Array
    weight: Array
    log_density: Array


class Rule(NamedTuple):
    """Rule for omega_2, and what is neglected.

    Attributes
    ----------
    overlaps : two floats
        q_11 and q_22.
    step : float
        Of omega_2.
    lasting : float
        Log-accuracy to which a node of the largest mass is summed.
    heaviest : float
        Logarithm of the largest mass.
    measure : float
        Logarithm of the measure of v that the masses contain; 1e4 or more where log Z is not averaged.
    """

    overlaps: tuple[float, float]
    step: float
    lasting: float
    heaviest: float
    measure: float


class _Chosen(NamedTuple):
    """Nodes near omega_1, the first of so many rows.

    Attributes
    ----------
    number : ndarray of int
        Which node.
    sign : ndarray
        -1 where it is the mirrored one, -h_1, that is near.
    weight, left : ndarray
        Mass times the Gaussian about omega_1, and the log-accuracy that is left.
    """

    number: Ints
    sign: Array
    weight: Array
    left: Array


class _Box(NamedTuple):
    """First multiples of the step of omega_2, and how many."""

    x: int
    y: int
    columns: int
    rows: int


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _first_above(values: Array, start: int, end: int, least: float) -> int:
    """First place from start on at which rising values are not below the least."""
    while start < end:
        middle = (start + end) // 2
        if values[middle] < least:
            start = middle + 1
        else:
            end = middle
    return start


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _near(nodes: Nodes, left: Array, most: Array, omega: Point, about: Point, chosen: _Chosen) -> int:
    """Choose the nodes and mirrored nodes near omega_1, and return how many they are.

    `left` and `most`: log-accuracy left of each node and the most on each line; `about`: what omega_1 costs, and V_11.
    """
    cost, variance = about
    count = 0
    for sign in (1.0, -1.0):
        x, y = sign * omega[0], sign * omega[1]
        for i in range(len(most)):
            start, end = nodes.starts[i], nodes.starts[i + 1]
            if start == end:
                continue
            off = (nodes.x[start] - x) ** 2 / (2 * variance) + cost
            if most[i] <= off:
                continue
            reach = math.sqrt(2 * variance * (most[i] - off))
            for k in range(_first_above(nodes.y, start, end, y - reach), end):
                if nodes.y[k] > y + reach:
                    break
                away = off + (nodes.y[k] - y) ** 2 / (2 * variance)
                if left[k] > away:
                    chosen.number[count], chosen.sign[count] = k, sign
                    chosen.weight[count] = nodes.mass[k] * math.exp(cost - away)
                    chosen.left[count] = left[k] - away
                    count += 1
    return count


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _functions(nodes: Nodes, k: int, sign: float, omega: Point, rule: Rule, out: Array) -> int:
    """Fill 1 and functions of h_1 and h_2, where nothing is known of them h^T h - I, and return how many."""
    x, y = sign * nodes.x[k], sign * nodes.y[k]
    out[0] = 1.0
    if rule.overlaps[0] == 0.0:
        out[1], out[2], out[3] = quadratic(x, y)
        place = 4
    else:
        out[1], out[2] = x - omega[0], y - omega[1]
        place = 3
    out[place] = nodes.b[k]
    return place + 1


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _gaussian(off: float, step: float, variance: float) -> tuple[float, float, float]:
    """Gaussian at an offset, its ratio to the next one, and by what ratios change."""
    scale = 0.5 / variance
    return math.exp(-off * off * scale), math.exp(-step * (2 * off + step) * scale), math.exp(-2 * step * step * scale)


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _scatter(
    table: Array, box: _Box, functions: Array, at: tuple[float, float, float], rule: Rule, room: Array
) -> None:
    """Add a node's Gaussian in omega_2 times its functions; the last one is h_2x - omega_2x.

    `at`: h_2, and what is left where weight times prior is largest, at omega_2 = q_22 h_2.
    """
    a, b, left = at
    q2, step = rule.overlaps[1], rule.step
    variance = 1 - q2
    half = math.sqrt(2 * left * q2 * variance)
    low_x = max(math.ceil((q2 * a - half) / step), box.x)
    columns = min(math.floor((q2 * a + half) / step), box.x + box.columns - 1) - low_x + 1
    low_y = max(math.ceil((q2 * b - half) / step), box.y)
    rows = min(math.floor((q2 * b + half) / step), box.y + box.rows - 1) - low_y + 1
    if columns <= 0 or rows <= 0:
        return
    count = len(functions)
    width = count + 1
    off = low_x * step - a
    value, factor, change = _gaussian(off, step, variance)
    for j in range(columns):
        for m in range(count):
            room[j * width + m] = value * functions[m]
        room[j * width + count] = -value * functions[0] * (off + j * step)
        value *= factor
        factor *= change
    value, factor, change = _gaussian(low_y * step - b, step, variance)
    start = ((low_y - box.y) * box.columns + low_x - box.x) * width
    for _ in range(rows):
        row = table[start : start + columns * width]
        for j in range(columns * width):
            row[j] += value * room[j]
        start += box.columns * width
        value *= factor
        factor *= change


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _gathered(table: Array, box: _Box, width: int, rule: Rule, out: Array) -> None:
    """Add the sums over a table; an entry whose opposite is in it, too, is half of their sum."""
    q2, step = rule.overlaps[1], rule.step
    last = width - 1
    for i in range(box.rows):
        opposite_row = -2 * box.y - i
        oy = (box.y + i) * step
        for j in range(box.columns):
            opposite_column = -2 * box.x - j
            both = 0 <= opposite_row < box.rows and 0 <= opposite_column < box.columns
            share = 1.0 if both else 0.0
            here = (i * box.columns + j) * width
            other = (opposite_row * box.columns + opposite_column) * width if both else here
            z = table[here] + share * table[other]
            if z <= _FLOOR:
                continue
            ox = (box.x + j) * step
            along = table[here + last] - share * table[other + last]
            across = table[here + last - 1] - share * table[other + last - 1] - oy * z
            first = 0.0
            for m in range(1, last - 1):
                f = table[here + m] + share * table[other + m]
                first += f * f
            if last == 5:  # the product of both entries stands for two
                f = table[here + 2] + share * table[other + 2]
                first += f * f
            weight = (1.0 - 0.5 * share) * math.exp(-(ox * ox + oy * oy) / (2 * q2))
            out[0] += weight * first / z
            out[1] += weight * (along * along + across * across) / z
            out[2] += weight * z
            if rule.measure < _UNASKED:
                out[3] += weight * z * (math.log(z) - rule.measure)


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _unknown(nodes: Nodes, chosen: _Chosen, count: int, omega: Point, rule: Rule, out: Array) -> None:
    """Add the sums where nothing is known of h_2: Z = 2 K."""
    functions, total, growth = np.empty(_WIDEST), np.zeros(_WIDEST), np.zeros(3)
    for i in range(count):
        k = chosen.number[i]
        many = _functions(nodes, k, chosen.sign[i], omega, rule, functions) - 1
        weight = chosen.weight[i] * math.exp(-0.5 * (nodes.a[k] ** 2 + nodes.b[k] ** 2))
        for m in range(many):
            total[m] += weight * functions[m]
        one, mixed, other = quadratic(nodes.a[k], nodes.b[k])
        growth[0] += weight * one
        growth[1] += weight * mixed
        growth[2] += weight * other
    if total[0] <= _FLOOR:
        return
    out[0] += (total[1] ** 2 + (1 + (many == 4)) * total[2] ** 2 + total[3] ** 2) / total[0]
    out[1] += (growth[0] ** 2 + 2 * growth[1] ** 2 + growth[2] ** 2) / total[0]
    out[2] += total[0]
    if rule.measure < _UNASKED:
        out[3] += total[0] * (math.log(2 * total[0]) - rule.measure)


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _box_of(nodes: Nodes, chosen: _Chosen, count: int, rule: Rule) -> _Box:
    """Grid of omega_2 that the chosen nodes reach."""
    q2, step = rule.overlaps[1], rule.step
    low_x, high_x, low_y, high_y = math.inf, -math.inf, math.inf, -math.inf
    for i in range(count):
        k = chosen.number[i]
        half = math.sqrt(2 * chosen.left[i] * q2 * (1 - q2))
        low_x, high_x = min(low_x, q2 * nodes.a[k] - half), max(high_x, q2 * nodes.a[k] + half)
        low_y, high_y = min(low_y, q2 * nodes.b[k] - half), max(high_y, q2 * nodes.b[k] + half)
    x, y = math.ceil(low_x / step), math.ceil(low_y / step)
    return _Box(x, y, math.floor(high_x / step) - x + 1, math.floor(high_y / step) - y + 1)


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _left(nodes: Nodes, rule: Rule) -> tuple[Array, Array]:
    """Log-accuracy that is left of each node, and the most on each line."""
    left, most = np.empty(len(nodes.mass)), np.full(len(nodes.starts) - 1, -math.inf)
    for i in range(len(most)):
        for k in range(nodes.starts[i], nodes.starts[i + 1]):
            cost = 0.5 * (nodes.a[k] ** 2 + nodes.b[k] ** 2)
            left[k] = rule.lasting + math.log(nodes.mass[k]) - rule.heaviest - cost
            most[i] = max(most[i], left[k])
    return left, most


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def sums_at(nodes: Nodes, grid: Grid, rule: Rule) -> Array:
    """Sums over omega at one rho.

    Parameters
    ----------
    nodes : Nodes
        Of h_1, for one of h_1 and -h_1.
    grid : Grid
    rule : Rule

    Returns
    -------
    ndarray, shape (4,)
        Of |<h_l> - omega_l|^2 for both layers, or of ||<h_l^T h_l> - I||_F^2 where q_ll = 0; of one, and of log Z.
        Sums over omega_2 lack the factor step^2/(2 pi q_22).
    """
    total, found, functions = np.zeros(_SUMS), np.zeros(_SUMS), np.empty(_WIDEST)
    count = len(nodes.mass)
    left, most = _left(nodes, rule)
    chosen = _Chosen(np.empty(2 * count, np.int64), np.empty(2 * count), np.empty(2 * count), np.empty(2 * count))
    width = 6 if rule.overlaps[0] == 0.0 else 5
    table, room = np.empty(width), np.empty(width)
    for n in range(len(grid.x)):
        omega = grid.x[n], grid.y[n]
        number = _near(nodes, left, most, omega, (-grid.log_density[n], 1 - rule.overlaps[0]), chosen)
        if number == 0:
            continue
        found[:] = 0.0
        if rule.overlaps[1] == 0.0:
            _unknown(nodes, chosen, number, omega, rule, found)
        else:
            box = _box_of(nodes, chosen, number, rule)
            if box.columns <= 0 or box.rows <= 0:
                continue
            if len(table) < box.rows * box.columns * width:
                table = np.empty(box.rows * box.columns * width)
            if len(room) < box.columns * width:
                room = np.empty(box.columns * width)
            table[: box.rows * box.columns * width] = 0.0
            for i in range(number):
                k = chosen.number[i]
                many = _functions(nodes, k, chosen.sign[i], omega, rule, functions)
                for m in range(many):
                    functions[m] *= chosen.weight[i]
                _scatter(table, box, functions[:many], (nodes.a[k], nodes.b[k], chosen.left[i]), rule, room)
            _gathered(table, box, width, rule, found)
        for i in range(_SUMS):
            total[i] += grid.weight[n] * found[i]
    return total
