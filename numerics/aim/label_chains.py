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

import numpy as np
from numba import njit
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

__all__ = ["label_chains"]

Array = NDArray[np.float64]
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
# Standard deviations about the largest density: a marginal is more concave than the law of the entry alone.
_REACH = 9.0
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# Of logarithms: nothing that matters is as large, and a product of five stays finite.
_CAP = 120.0
_SWEEPS = 400
# Panels on either side of a value.
_MOST = 400
# Share of the highest Legendre coefficients in the marginals of the named values; beyond, finer panels are taken.
_RESOLVED = 3e-4


@njit(cache=True, nogil=True, error_model="numpy")
def _log_phi(x: float) -> float:
    if x > -20.0:
        return math.log(0.5 * math.erfc(-x * math.sqrt(0.5)))
    s = 1.0 / (x * x)
    series = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s))))
    return -0.5 * x * x - math.log(-x) - _HALF_LOG_TWO_PI + math.log(series)


@njit(cache=True, nogil=True, error_model="numpy")
def _nearest(label: Array, omega: Array, spread: Array) -> tuple[Array, float]:
    """The likeliest h with this label, by turns of its inequalities; and the largest of its forces times a spread."""
    tokens = len(label)
    h = omega.copy()
    force = np.zeros((tokens, tokens))
    worst = 0.0
    for _ in range(_SWEEPS):
        moved = 0.0
        worst = 0.0
        for a in range(tokens):
            e = label[a]
            for c in range(tokens):
                if c == e:
                    continue
                low, high = spread[a, c] ** 2, spread[a, e] ** 2
                new = max(0.0, force[a, c] + (h[a, c] - h[a, e]) / (low + high))
                change = new - force[a, c]
                force[a, c] = new
                h[a, c] -= low * change
                h[c, a] = h[a, c]
                h[a, e] += high * change
                h[e, a] = h[a, e]
                moved = max(moved, abs(change) * (low + high) / spread[a, e])
                worst = max(worst, new * spread[a, e])
        if moved * (1.0 + worst) < 1e-3:
            break
    return h, worst


@njit(cache=True, nogil=True, error_model="numpy")
def _panels(centres: Array, widths: Array, fine: float, growth: float) -> Array:
    """Edges that close in on every centre, in ascending order, out to the reach of each."""
    count = 0
    edges = np.empty(len(centres) * (2 * _MOST + 1))
    for u in range(len(centres)):
        edges[count] = centres[u]
        count += 1
        step, at = fine, 0.0
        while at < _REACH:
            at = min(at + step, _REACH)
            edges[count] = centres[u] + at * widths[u]
            edges[count + 1] = centres[u] - at * widths[u]
            count += 2
            step = min(step * growth, 3.0)
    edges = np.sort(edges[:count])
    kept = 1
    least = 0.25 * fine * widths.min()
    for i in range(1, count):
        if edges[i] - edges[kept - 1] > least:
            edges[kept] = edges[i]
            kept += 1
    return edges[:kept].copy()


@njit(cache=True, nogil=True, error_model="numpy")
def _chain(
    label: Array,
    omega: Array,
    spread: Array,
    h: Array,
    fine: float,
    growth: float,
    nodes: Array,
    weights: Array,
    tail: Array,
    highest: Array,
    g: Array,
) -> tuple[float, float]:
    """Log Z and the share of the highest Legendre coefficients; fills the slopes g."""
    tokens, order = len(label), len(nodes)
    unit = np.empty(tokens, np.int64)
    first = np.empty(tokens, np.int64)
    k = 0
    for a in range(tokens):
        b = label[a]
        if b < a and label[b] == a:
            unit[a] = unit[b]
        else:
            unit[a] = k
            first[k] = a
            k += 1
    centre, width = np.empty(k), np.empty(k)
    below = np.zeros(k, np.int64)
    for u in range(k):
        a = first[u]
        centre[u], width[u] = h[a, label[a]], spread[a, label[a]]
        if unit[label[a]] != u:
            below[unit[label[a]]] |= 1 << u
    edges = _panels(centre, width, fine, growth)
    panels = len(edges) - 1
    n = panels * order
    t, w, half = np.empty(n), np.empty(n), np.empty(panels)
    for p in range(panels):
        half[p] = 0.5 * (edges[p + 1] - edges[p])
        for i in range(order):
            t[p * order + i] = 0.5 * (edges[p + 1] + edges[p]) + half[p] * nodes[i]
            w[p * order + i] = half[p] * weights[i]
    # Logarithms of the factors over their values at the nearest h, whose product is exp(log_z) so far.
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
    full = (1 << k) - 1
    density = np.zeros((k, full + 1, n))
    above = np.zeros((full + 1, n))
    above[0] = 1.0
    total = 0.0
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
                value = math.exp(min(value, _CAP))
                density[u, rest, i] = value
                above[R, i] += value * above[rest, i]
        # From the integrand to its integral above each node.
        carried = 0.0
        for p in range(panels - 1, -1, -1):
            whole = 0.0
            for i in range(order):
                whole += weights[i] * above[R, p * order + i]
            part = tail @ above[R, p * order : (p + 1) * order]
            for i in range(order):
                above[R, p * order + i] = carried + half[p] * part[i]
            carried += half[p] * whole
        total = carried
    under = np.zeros((full + 1, n))
    under[full] = 1.0
    off = 0.0
    marginal = np.zeros((k, n))
    slope = np.zeros((tokens, tokens))
    for R in range(full, 0, -1):
        # All sets that hold R have been dealt with: `under` of R is an integrand yet, but for the full one.
        if R != full:
            carried = 0.0
            for p in range(panels):
                whole = 0.0
                for i in range(order):
                    whole += weights[i] * under[R, p * order + i]
                part = tail @ under[R, p * order : (p + 1) * order]
                for i in range(order):
                    under[R, p * order + i] = carried + half[p] * (whole - part[i])
                carried += half[p] * whole
        for u in range(k):
            if not R & (1 << u) or R & below[u]:
                continue
            rest = R & ~(1 << u)
            a0 = first[u]
            mean, e0 = omega[a0, label[a0]], label[a0]
            for i in range(n):
                flow = under[R, i] * density[u, rest, i]
                under[rest, i] += flow
                flow *= above[rest, i]
                marginal[u, i] += flow
                flow *= w[i]
                slope[a0, e0] += flow * (t[i] - mean) / width[u] ** 2
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
    for u in range(k):
        missing = 0.0
        for p in range(panels):
            missing += half[p] * abs(highest @ marginal[u, p * order : (p + 1) * order])
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
def _far(omega: Array, spread: Array, h: Array, force: float, k: int, log_z: Array, off: Array, g: Array) -> None:
    """Leading order of a label that omega all but excludes: the posterior is near its mode, in layers of 1/force."""
    at = 0
    log_z[k] = 0.0
    for a in range(len(h)):
        for c in range(a, len(h)):
            gap = (h[a, c] - omega[a, c]) / spread[a, c]
            log_z[k] -= 0.5 * gap * gap
            g[k, at] = gap / spread[a, c]
            at += 1
    off[k] = 1.0 / force


@njit(cache=True, nogil=True, error_model="numpy")
def _all(
    labels: Array,
    omega: Array,
    spread: Array,
    nodes: Array,
    weights: Array,
    tail: Array,
    highest: Array,
    resolved: float,
) -> tuple[Array, Array, Array]:
    n, tokens = labels.shape
    entries = tokens * (tokens + 1) // 2
    log_z, off, g = np.empty(n), np.empty(n), np.empty((n, entries))
    full, wide = np.empty((tokens, tokens)), np.empty((tokens, tokens))
    for k in range(n):
        at = 0
        for a in range(tokens):
            for c in range(a, tokens):
                full[a, c] = full[c, a] = omega[k, at]
                wide[a, c] = wide[c, a] = spread[k, at]
                at += 1
        h, force = _nearest(labels[k], full, wide)
        off[k] = np.inf
        for level in range(3):
            # Equal panels where a steep rise meets a steep fall; they hold a factor e^3 each.
            growth = 1.5 if level == 0 else 1.0
            fine = (0.8 if level == 0 else 1.5 if level == 1 else 0.7) / (1.0 + force)
            if growth == 1.0 and _REACH / fine > _MOST:
                _far(full, wide, h, force, k, log_z, off, g)
                break
            log_z[k], off[k] = _chain(labels[k], full, wide, h, fine, growth, nodes, weights, tail, highest, g[k])
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
    return _all(np.asarray(labels, np.int64), omega, spread, _NODES, _WEIGHTS, _TAIL, _HIGHEST, _RESOLVED)
