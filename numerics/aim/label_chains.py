r"""Hardmax labels of any number of tokens: probability of a label given omega, and its slope, by chains of integrals.

A label names in each row a the largest entry f(a). Given the values m of the entries that are named, every other entry
of h has its bound to itself, h_ac <= min(m_a, m_c), and the named ones are ordered, m_a <= m_f(a), with equality in
rows that name each other, f(f(a)) = a. A longer circle of rows has probability zero. Hence

Z = int prod_u N(m_u; omega_u, s_u^2) prod_{others} Phi((min(m_a, m_c) - omega_ac)/s_ac)

over at most T ordered values; and from the smallest to the largest of them it is a chain of integrals in one variable,
one for each set R of those that are larger yet:

A_R(t) = sum_{u in R} int_t^inf f_{u|R-u}(m) A_{R-u}(m) dm,   A_{} = 1,   Z = A_{all}(-inf).

Slopes come from the same chain read from below.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from ..learning.blocks import Array
from .label_panels import (
    MOST,
    REACH,
    Law,
    NamedValues,
    Panels,
    Rule,
    edges_of,
    named_values,
    nearest,
    nodes_between,
)

__all__ = ["label_chains"]

Index = NDArray[np.int64]
_NODES, _WEIGHTS = leggauss(8)


def _partial() -> Array:
    """Integral from each node to the right end of [-1, 1], of polynomials given at the nodes."""
    powers = np.arange(len(_NODES))
    values = np.polynomial.legendre.legvander(_NODES, len(_NODES) - 1)
    tails = np.empty_like(values)
    for k in powers:
        primitive = np.polynomial.legendre.Legendre.basis(int(k)).integ()
        tails[:, k] = primitive(1.0) - primitive(_NODES)
    return np.asarray(tails @ np.linalg.inv(values))


_TAIL = _partial()
# Of the values at the nodes: the highest Legendre coefficient that they determine.
_HIGHEST = 0.5 * (2 * len(_NODES) - 1) * _WEIGHTS * np.polynomial.legendre.legvander(_NODES, len(_NODES) - 1)[:, -1]
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_phi(x: float) -> float:
    if x > -20.0:
        return math.log(0.5 * math.erfc(-x * math.sqrt(0.5)))
    s = 1.0 / (x * x)
    series = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s))))
    return -0.5 * x * x - math.log(-x) - _HALF_LOG_TWO_PI + math.log(series)


class _Factors(NamedTuple):
    """Logarithms of the factors of one named value, of two, and the slopes of the others, at the nodes."""

    own: Array
    pair: Array
    pull: Array


@njit(cache=True, nogil=True, error_model="numpy")
def _factors(label: Index, law: Law, units: NamedValues, t: Array) -> tuple[_Factors, float]:
    """Factors over their values at the nearest h, and the logarithm of the product of these values."""
    omega, spread = law
    unit, first, centre, width, _ = units
    tokens, k, n = len(label), len(centre), len(t)
    log_z = 0.0
    own = np.empty((k, n))
    pair = np.zeros((k, k, n))
    pull = np.zeros((tokens, tokens, n))
    for u in range(k):
        a = first[u]
        mean = omega[a, label[a]]
        top = -0.5 * ((centre[u] - mean) / width[u]) ** 2
        log_z += top - math.log(width[u]) - _HALF_LOG_TWO_PI
        for i in range(n):
            own[u, i] = -0.5 * ((t[i] - mean) / width[u]) ** 2 - top
    for a in range(tokens):
        for c in range(a, tokens):
            if label[a] == c or label[c] == a:
                continue
            u, v = unit[a], unit[c]
            top = _log_phi((min(centre[u], centre[v]) - omega[a, c]) / spread[a, c])
            log_z += top
            for i in range(n):
                x = (t[i] - omega[a, c]) / spread[a, c]
                log_phi = _log_phi(x)
                pull[a, c, i] = math.exp(-0.5 * x * x - _HALF_LOG_TWO_PI - log_phi) / spread[a, c]
                if u == v:
                    own[u, i] += log_phi - top
                else:
                    pair[u, v, i] += log_phi - top
                    pair[v, u, i] = pair[u, v, i]
    return _Factors(own, pair, pull), log_z


@njit(cache=True, nogil=True, error_model="numpy")
def _from_above(factors: _Factors, below: Index, half: Array, rule: Rule) -> tuple[Array, Array, float]:
    """Densities f_{u|R-u} by u and R - u, A_R by R, both at the nodes, and Z over the factors' values."""
    own, pair, _ = factors
    k, n = own.shape
    panels, order = len(half), len(rule.nodes)
    full = (1 << k) - 1
    density = np.zeros((k, full + 1, n))
    above = np.zeros((full + 1, n))
    above[0] = 1.0
    total = 0.0
    # Of logarithms: nothing that matters is as large, and a product of five stays finite.
    cap = 120.0
    for R in range(1, full + 1):
        for u in range(k):
            if not R & (1 << u) or R & below[u]:
                continue
            rest = R & ~(1 << u)
            for i in range(n):
                value = own[u, i]
                for v in range(k):
                    if rest & (1 << v):
                        value += pair[u, v, i]
                value = math.exp(min(value, cap))
                density[u, rest, i] = value
                above[R, i] += value * above[rest, i]
        # From the integrand to its integral above each node.
        carried = 0.0
        for p in range(panels - 1, -1, -1):
            whole = 0.0
            for i in range(order):
                whole += rule.weights[i] * above[R, p * order + i]
            part = rule.tail @ above[R, p * order : (p + 1) * order]
            for i in range(order):
                above[R, p * order + i] = carried + half[p] * part[i]
            carried += half[p] * whole
        total = carried
    return density, above, total


@njit(cache=True, nogil=True, error_model="numpy")
def _integrate_below(integrand: Array, half: Array, rule: Rule) -> None:
    """Replace an integrand by its integral below each node."""
    order = len(rule.nodes)
    carried = 0.0
    for p in range(len(half)):
        whole = 0.0
        for i in range(order):
            whole += rule.weights[i] * integrand[p * order + i]
        part = rule.tail @ integrand[p * order : (p + 1) * order]
        for i in range(order):
            integrand[p * order + i] = carried + half[p] * (whole - part[i])
        carried += half[p] * whole


@njit(cache=True, nogil=True, error_model="numpy")
def _flows(density: Array, above: Array, below: Index, half: Array, rule: Rule) -> None:
    """Read the chain from below: densities turn into those of all sets, of the value u next and the rest above it."""
    k, _, n = density.shape
    full = (1 << k) - 1
    under = np.zeros((full + 1, n))
    under[full] = 1.0
    for R in range(full, 0, -1):
        # All sets that contain R are done: `under` of R is still an integrand, except for the full set.
        if R != full:
            _integrate_below(under[R], half, rule)
        for u in range(k):
            if not R & (1 << u) or R & below[u]:
                continue
            rest = R & ~(1 << u)
            for i in range(n):
                flow = under[R, i] * density[u, rest, i]
                under[rest, i] += flow
                density[u, rest, i] = flow * above[rest, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _slopes(
    flows: Array, pull: Array, label: Index, law: Law, units: NamedValues, panels: Panels
) -> tuple[Array, Array]:
    """Slopes of Z in omega, shape (T, T), and marginals of the named values, over the factors' values."""
    tokens, (k, _, n) = len(label), flows.shape
    unit, first, _, width, below = units
    marginal = np.zeros((k, n))
    slope = np.zeros((tokens, tokens))
    for R in range((1 << k) - 1, 0, -1):
        for u in range(k):
            if not R & (1 << u) or R & below[u]:
                continue
            rest = R & ~(1 << u)
            a0 = first[u]
            mean, e0 = law.omega[a0, label[a0]], label[a0]
            for i in range(n):
                flow = flows[u, rest, i]
                marginal[u, i] += flow
                flow *= panels.w[i]
                slope[a0, e0] += flow * (panels.t[i] - mean) / width[u] ** 2
                if flow == 0.0:
                    continue
                for a in range(tokens):
                    if unit[a] != u:
                        continue
                    for c in range(tokens):
                        if label[a] == c or label[c] == a:
                            continue
                        if c == a or rest & (1 << unit[c]):
                            if a <= c:
                                slope[a, c] -= flow * pull[a, c, i]
                            else:
                                slope[c, a] -= flow * pull[c, a, i]
    return slope, marginal


@njit(cache=True, nogil=True, error_model="numpy")
def _chain(label: Index, law: Law, h: Array, steps: tuple[float, float], rule: Rule, g: Array) -> tuple[float, float]:
    """Log Z and the share of the highest Legendre coefficients; fills the slopes g. Steps: the finest, their growth."""
    tokens, order = len(label), len(rule.nodes)
    units = named_values(label, law, h)
    panels = nodes_between(edges_of(units.centre, units.width, steps[0], steps[1]), rule)
    factors, log_z = _factors(label, law, units, panels.t)
    density, above, total = _from_above(factors, units.below, panels.half, rule)
    _flows(density, above, units.below, panels.half, rule)
    slope, marginal = _slopes(density, factors.pull, label, law, units, panels)
    off = 0.0
    for u in range(len(marginal)):
        missing = 0.0
        for p in range(len(panels.half)):
            missing += panels.half[p] * abs(rule.highest @ marginal[u, p * order : (p + 1) * order])
        off = max(off, missing / total)
    at = 0
    for a in range(tokens):
        for c in range(a, tokens):
            g[at] = (slope[a, c] + (slope[c, a] if c != a else 0.0)) / total
            at += 1
    if not total > 0.0 or not off < np.inf:
        return -np.inf, np.inf
    return log_z + math.log(total), off


@njit(cache=True, nogil=True, error_model="numpy")
def _far(law: Law, h: Array, g: Array) -> float:
    """Log Z of a label that omega all but excludes, to leading order: its posterior is near its mode; fills g."""
    at, log_z = 0, 0.0
    for a in range(len(h)):
        for c in range(a, len(h)):
            gap = (h[a, c] - law.omega[a, c]) / law.spread[a, c]
            log_z -= 0.5 * gap * gap
            g[at] = gap / law.spread[a, c]
            at += 1
    return log_z


@njit(cache=True, nogil=True, error_model="numpy")
def _all(labels: NDArray[np.int64], omega: Array, spread: Array, rule: Rule) -> tuple[Array, Array, Array]:
    n, tokens = labels.shape
    entries = tokens * (tokens + 1) // 2
    log_z, off, g = np.empty(n), np.empty(n), np.empty((n, entries))
    full, wide = np.empty((tokens, tokens)), np.empty((tokens, tokens))
    # Share of the highest Legendre coefficients in the marginals of the named values; beyond, finer panels are taken.
    resolved = 3e-4
    for k in range(n):
        at = 0
        for a in range(tokens):
            for c in range(a, tokens):
                full[a, c] = full[c, a] = omega[k, at]
                wide[a, c] = wide[c, a] = spread[k, at]
                at += 1
        law = Law(full, wide)
        h, force = nearest(labels[k], full, wide)
        off[k] = np.inf
        for level in range(3):
            # Equal panels where a steep rise meets a steep fall; they hold a factor e^3 each.
            growth = 1.5 if level == 0 else 1.0
            fine = (0.8 if level == 0 else 1.5 if level == 1 else 0.7) / (1.0 + force)
            if growth == 1.0 and REACH / fine > MOST:
                # In layers of 1/force.
                log_z[k], off[k] = _far(law, h, g[k]), 1.0 / force
                break
            log_z[k], off[k] = _chain(labels[k], law, h, (fine, growth), rule, g[k])
            if off[k] < resolved:
                break
    return log_z, off, g


def label_chains(labels: NDArray[np.int64], omega: Array, spread: Array) -> tuple[Array, Array, Array]:
    """Log P[label | h ~ N(omega, spread^2), entries independent], how well it is known, and its slope in omega.

    Parameters
    ----------
    labels : ndarray of int, shape (n, T)
        The largest entry of each row, without circles of three rows or more.
    omega, spread : ndarray, shape (n, T (T + 1)/2)
        Mean and standard deviation of h_ab, a <= b.

    Returns
    -------
    log_z : ndarray, shape (n,)
    off : ndarray, shape (n,)
        Share of the highest Legendre coefficients in the marginals of the named values, far above the relative error
        of Z and of the slopes (3e-4 of it leaves about 1e-9). Where omega is some sixty standard deviations from any h
        of the label, all is of leading order, and `off` is the relative error of the slopes.
    g : ndarray, shape (n, T (T + 1)/2)
    """
    # Of one layout, whatever the arrays are views of: for another one all is compiled again.
    rows = np.ascontiguousarray(labels, np.int64)
    means, widths = np.array(omega, order="C"), np.array(spread, order="C")
    return _all(rows, means, widths, Rule(_NODES, _WEIGHTS, _TAIL, _HIGHEST))
