"""Sums over the output and the side information for given nodes of the hidden layer.

With d = u - omega_+ and s = u + omega_+ the density of the output (u, v), v > 0, given omega_2 is
    Z = K(d; v, omega_-) + K(s; v, -omega_-),
    K(d; v, o) = sum_k p_k tau_k phi(d - A_k v) phi(tau_k v - o),   phi the normal density of variance V_22,
one term for each sign of the last indices. Tables of K and of its moments are matrix products over the nodes, and the
sum over u and omega_+ runs over pairs (d, s) of entries of the tables. Everything converges exponentially.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .banded import FLOOR, Division, Nodes, OutputRule, Rows, banded_sum, of_pairs, pairs, singles
from .nodes import Hidden
from .steps import widest_step

__all__ = ["Densities", "Outcome", "densities", "output_sum", "outputs", "silent_densities", "silent_sum"]

Array = NDArray[np.float64]

# Steps as multiples of what the analysis of `output_sum` allows.
_STEP, _STEP_V = 1.0, 1.2
# Matrix products are faster than the banded sum where one node reaches so many entries, and all nodes hardly more.
_LARGE, _SPARSE = 300.0, 1.0


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
    accuracy: tuple[float, float],
    *,
    floor: float = FLOOR,
    workers: int = 1,
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
    accuracy : two floats
        What is below exp(-log_accuracy) is neglected, and all steps are divided by the fineness.
    floor : float, optional
        Least density that is divided by, for nodes some of whose weights are negative.
    workers : int, optional
        Threads.
    """
    variance = 1 - overlap
    sd = math.sqrt(variance)
    rule = _rule(overlap, *accuracy, floor)
    base = nodes.weight * nodes.tau / (2 * math.pi * variance)
    # Entries that all nodes share at a typical v, and those that one node reaches alone.
    typical = float(v[0][len(v[0]) * 2 // 3])
    shared = reached = 1.0
    for spread, step in ((np.ptp(nodes.a), rule.step_d), (np.ptp(nodes.tau), rule.step_o)):
        shared *= (typical * float(spread) + 2 * rule.reach * sd) / step
        reached *= 2 * math.sqrt(2 * rule.lasting) * sd / step
    summed = _dense_sum if _LARGE < reached and shared <= _SPARSE * reached else banded_sum
    known = Nodes(base, nodes.a, nodes.tau, np.array(functions), np.array(multiplicity))
    workers = min(workers, len(v[0]))
    if workers == 1:
        total = summed(v, known, rule)
    else:
        # Neighbouring outputs cost about the same.
        shares = [
            (np.ascontiguousarray(v[0][k::workers]), np.ascontiguousarray(v[1][k::workers])) for k in range(workers)
        ]
        with ThreadPoolExecutor(workers) as pool:
            total = np.sum(list(pool.map(lambda share: summed(share, known, rule), shares)), axis=0)
    return Outcome(float(total[0]), float(total[1]), float(total[2]))


def _dense_sum(outputs: tuple[Array, Array], nodes: Nodes, rule: OutputRule) -> Array:
    """Do what `banded_sum` does, by matrix products over all nodes: for grids that most nodes reach."""
    base, a, tau, functions, multiplicity = nodes
    overlap, step_d, division = rule.overlap, rule.step_d, Division(multiplicity, rule.floor)
    total = np.zeros(3)
    for grid in _grids(outputs, a, tau, rule):
        o, both = grid.o, grid.both
        there = _tables(grid.near, base * grid.side(tau, 1.0), grid.d, a * grid.v, tau * grid.v, functions)
        found = np.zeros(3)
        if both:
            side = base * grid.side(tau, -1.0)
            back = _tables(grid.near, side, grid.d, a * grid.v, tau * grid.v, functions)
            lags = of_pairs(len(grid.d), step_d, overlap)
            pairs(there[:both], back, Rows(o[:both], grid.prior[:both]), lags, division, found)
        if both < len(o):
            singles(there[both:], Rows(o[both:], grid.prior[both:]), step_d, division, found)
        total += grid.weight * found
    return total


@dataclass(frozen=True)
class _Grid:
    """Grid of one output v: d and omega_-, and the Gaussians of the nodes on it.

    Attributes
    ----------
    v, weight : float
    o, prior : ndarray, shape (n_o,)
        omega_- >= 0 and the weight of +-omega_-.
    both : int
        Rows for which the other sign of the last indices is possible, too.
    d, near : ndarray, shape (n_d,) and (n_d, n)
    variance : float
        V_22.
    """

    v: float
    weight: float
    o: Array
    prior: Array
    both: int
    d: Array
    near: Array
    variance: float

    def side(self, tau: Array, sign: float) -> Array:
        """Gaussian of tau v about sign omega_-, shape (n_o, n), or for the rows of both signs."""
        o = self.o if sign > 0 else self.o[: self.both]
        out: Array = np.exp(-((tau * self.v - sign * o[:, None]) ** 2) / (2 * self.variance))
        return out


def _grids(outputs: tuple[Array, Array], a: Array, tau: Array, rule: OutputRule) -> Iterator[_Grid]:
    """Grids of the outputs that some omega_- reaches."""
    overlap, reach, step_d, step_o = rule.overlap, rule.reach, rule.step_d, rule.step_o
    variance = 1 - overlap
    sd = math.sqrt(variance)
    least, most = float(tau.min()), float(tau.max())
    outermost = reach * math.sqrt(overlap)
    for v, dv in zip(*outputs, strict=True):
        shift = a * v
        rows = _grid(max(0.0, least * v - reach * sd), min(outermost, most * v + reach * sd), step_o, lowest=0)
        if not len(rows):
            continue
        o = step_o * rows
        d = step_d * _grid(float(shift.min()) - reach * sd, float(shift.max()) + reach * sd, step_d)
        near = np.exp(-((d[:, None] - shift) ** 2) / (2 * variance))
        prior = (
            step_o * np.exp(-o * o / (2 * overlap)) / math.sqrt(2 * math.pi * overlap) * np.where(rows == 0, 1.0, 2.0)
        )
        both = int(np.count_nonzero(o < reach * sd - least * v))
        yield _Grid(float(v), float(dv), o, prior, both, d, near, variance)


@dataclass(frozen=True)
class Densities:
    """K(d; v, omega_-) of one output v, and with the other sign of omega_- on the first rows.

    Attributes
    ----------
    weight : float
        Of v.
    step : float
        Of d.
    prior : ndarray, shape (n_o,)
    there, back : ndarray, shape (n_o, n_d) and (n_both, n_d)
    """

    weight: float
    step: float
    prior: Array
    there: Array
    back: Array


def densities(
    nodes: Hidden, overlap: float, v: tuple[Array, Array], log_accuracy: float, fineness: float
) -> Iterator[Densities]:
    """Tables of the density of the outputs alone; arguments are those of `output_sum`."""
    rule = _rule(overlap, log_accuracy, fineness)
    base = nodes.weight * nodes.tau / (2 * math.pi * (1 - overlap))
    for grid in _grids(v, nodes.a, nodes.tau, rule):
        there, back = (base * grid.side(nodes.tau, sign) @ grid.near.T for sign in (1.0, -1.0))
        yield Densities(grid.weight, rule.step_d, grid.prior, there, back)


def _rule(overlap: float, log_accuracy: float, fineness: float, floor: float = FLOOR) -> OutputRule:
    """Steps of d and omega_-."""
    reach = math.sqrt(2 * log_accuracy)
    step_d, step_o = (
        _STEP / fineness * widest_step(overlap, log_accuracy, mode) for mode in ((0.25, 0.0, 1.0), (1.0, 1.0, 0.5))
    )
    # A node of average weight is summed so much further, in log-accuracy, than the grids reach: what all nodes leave
    # out is then small beside what the grids do. With 2, averages at accuracies of 1e-2 to 1e-4 move by .5 of the
    # accuracy.
    tail = 4.5
    return OutputRule(overlap, reach, log_accuracy + tail, step_d, step_o, floor)


def silent_sum(
    nodes: Hidden, functions: tuple[Array, Array, Array], multiplicity: tuple[float, float, float], skip: float,
    log_accuracy: float, fineness: float,
) -> Outcome:  # fmt: skip
    """Averages over the outputs at q_22 = 0, where both signs of the last indices are alike.

    Arguments and `first` are those of `output_sum`; `last` is the growth E || E[h_2^T h_2 | y, omega_1] - I ||_F^2.
    """
    total = np.zeros(3)
    for v, weight, d, near, side in _silent(nodes, skip, log_accuracy, fineness):
        shift, lift = nodes.a * v, nodes.tau * v
        moments = (np.ones_like(side), shift, shift**2, lift, shift * lift, lift**2, *functions)
        k, a, aa, t, at, tt, *f = np.array([side * m for m in moments]) @ near.T
        excess = (d * d * k - 2 * d * a + aa - k, d * t - at, tt - k)
        inverse = weight / np.maximum(k, FLOOR)
        total[0] += (inverse * (excess[0] ** 2 + 2 * excess[1] ** 2 + excess[2] ** 2)).sum()
        total[1] += (inverse * sum(m * g * g for m, g in zip(multiplicity, f, strict=True))).sum()
        total[2] += (inverse * k * k).sum()
    return Outcome(float(total[0]), float(total[1]), float(total[2]))


def silent_densities(nodes: Hidden, skip: float, log_accuracy: float, fineness: float) -> Iterator[tuple[float, Array]]:
    """Weights, and K at each d, for the outputs at q_22 = 0: Z = 2 K."""
    for _, weight, _, near, side in _silent(nodes, skip, log_accuracy, fineness):
        yield weight, near @ side


def _silent(
    nodes: Hidden, skip: float, log_accuracy: float, fineness: float
) -> Iterator[tuple[float, float, Array, Array, Array]]:
    """Outputs v, their weights, d, and the Gaussians of the nodes in d and in omega_- = 0."""
    reach = math.sqrt(2 * log_accuracy)
    step = _STEP * 2 * math.pi / reach / fineness
    for v, dv in zip(*outputs(nodes, skip, 1.0, log_accuracy, fineness), strict=True):
        shift = nodes.a * v
        d = step * _grid(float(shift.min()) - reach, float(shift.max()) + reach, step)
        near = np.exp(-0.5 * (d[:, None] - shift) ** 2) / (2 * math.pi)
        yield v, 2 * step * dv, d, near, nodes.weight * nodes.tau * np.exp(-0.5 * (nodes.tau * v) ** 2)


def outputs(nodes: Hidden, skip: float, sd: float, log_accuracy: float, fineness: float) -> tuple[Array, Array]:
    """Nodes and weights of v >= 0, v = scale sinh(Y); the integrand is even in v once u is summed."""
    reach = math.sqrt(2 * log_accuracy)
    scale = skip / (1 + skip)
    top = reach / float(nodes.tau.min())
    # A Gaussian of tau v against omega_- is passed in Y at steepest where v is largest.
    steepest = reach * math.hypot(1.0, scale / top)
    strip_v = 0.55
    step = min(
        2 * math.pi * strip_v / log_accuracy * _STEP_V / fineness,
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
