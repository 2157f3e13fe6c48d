"""Panels for the chains of `label_chains`: the likeliest h with a label, its named values, and nodes around them."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..learning.blocks import Array

__all__ = [
    "MOST",
    "REACH",
    "Law",
    "NamedValues",
    "Panels",
    "Rule",
    "edges_of",
    "named_values",
    "nearest",
    "nodes_between",
]

Index = NDArray[np.int64]

# Standard deviations about the largest density: a marginal is more concave than the law of the entry alone.
REACH = 9.0
# Panels on either side of a value.
MOST = 400


class Rule(NamedTuple):
    """Rule on a panel: nodes and weights, integrals from the nodes up, and what gives the highest coefficient."""

    nodes: Array
    weights: Array
    tail: Array
    highest: Array


class Law(NamedTuple):
    """Means and standard deviations of the entries, shape (T, T)."""

    omega: Array
    spread: Array


class NamedValues(NamedTuple):
    """Named values: which one each row has, a row of each, its place and width, and those that must be below it."""

    of_row: Index
    first: Index
    centre: Array
    width: Array
    below: Index


class Panels(NamedTuple):
    """Nodes and weights on all panels, and half their lengths."""

    t: Array
    w: Array
    half: Array


@njit(cache=True, nogil=True, error_model="numpy")
def nearest(label: Array, omega: Array, spread: Array) -> tuple[Array, float]:
    """The likeliest h with this label, by turns of its inequalities; and the largest of its forces times a spread."""
    tokens = len(label)
    h = omega.copy()
    force = np.zeros((tokens, tokens))
    worst = 0.0
    sweeps = 400
    for _ in range(sweeps):
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
def _merged(one: Array, two: Array) -> Array:
    """Two ascending arrays as one; to compile a general sort takes ten times as long."""
    made = np.empty(len(one) + len(two))
    i = j = 0
    for k in range(len(made)):
        if j == len(two) or (i < len(one) and one[i] <= two[j]):
            made[k] = one[i]
            i += 1
        else:
            made[k] = two[j]
            j += 1
    return made


@njit(cache=True, nogil=True, error_model="numpy")
def edges_of(centres: Array, widths: Array, fine: float, growth: float) -> Array:
    """Edges that close in on every centre, in ascending order, out to the reach of each."""
    away = np.empty(MOST + 1)
    most, step, at = 0, fine, 0.0
    while at < REACH:
        at = min(at + step, REACH)
        away[most] = at
        most += 1
        step = min(step * growth, 3.0)
    edges, own = np.empty(0), np.empty(2 * most + 1)
    least = np.inf
    for u in range(len(centres)):
        own[most] = centres[u]
        for k in range(most):
            own[most + 1 + k] = centres[u] + away[k] * widths[u]
            own[most - 1 - k] = centres[u] - away[k] * widths[u]
        edges = _merged(edges, own)
        least = min(least, 0.25 * fine * widths[u])
    kept = 1
    for i in range(1, len(edges)):
        if edges[i] - edges[kept - 1] > least:
            edges[kept] = edges[i]
            kept += 1
    return edges[:kept].copy()


@njit(cache=True, nogil=True, error_model="numpy")
def named_values(label: Index, law: Law, h: Array) -> NamedValues:
    """The named values of a label."""
    tokens = len(label)
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
        centre[u], width[u] = h[a, label[a]], law.spread[a, label[a]]
        if unit[label[a]] != u:
            below[unit[label[a]]] |= 1 << u
    return NamedValues(unit, first, centre, width, below)


@njit(cache=True, nogil=True, error_model="numpy")
def nodes_between(edges: Array, rule: Rule) -> Panels:
    """Nodes and weights between the edges."""
    panels, order = len(edges) - 1, len(rule.nodes)
    t, w, half = np.empty(panels * order), np.empty(panels * order), np.empty(panels)
    for p in range(panels):
        half[p] = 0.5 * (edges[p + 1] - edges[p])
        for i in range(order):
            t[p * order + i] = 0.5 * (edges[p + 1] + edges[p]) + half[p] * rule.nodes[i]
            w[p * order + i] = half[p] * rule.weights[i]
    return Panels(t, w, half)
