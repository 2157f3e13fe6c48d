"""Scores of one layer with keys and queries over two tokens: their density, and nodes for averages over them."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.scores_untied_softmax_m2 import numpy64 as kernels

from ...quadrature.rules import Rule, gauss_legendre_panels, half_line

__all__ = ["Scores", "density_and_mean", "longest", "scores"]

Array = NDArray[np.float64]


class Scores(NamedTuple):
    """Nodes of the scores of one layer at w > 0, which stand for those at w < 0, too.

    Attributes
    ----------
    u, w : ndarray, shape (n,)
        In units of the indices, over beta K^2.
    weights : ndarray, shape (n,)
        Of du dw, without a density.
    s, lower : ndarray, shape (n,)
        Entries s and c + tau of the layer's matrix.
    """

    u: Array
    w: Array
    weights: Array
    s: Array
    lower: Array


def density_and_mean(rho: Array, rank: int) -> tuple[Array, Array]:
    """Density of x in the plane, times 2 pi exp(rho), and m = E[|q_m|^2 | x], at |x| = rho > 0."""
    if rank % 2:
        density, mean = kernels.narrow(rho)
        reached = 1
    else:
        # Rank 2, where the moments of the fibre are Bessel functions of whole order.
        from scipy.special import k0e, k1e

        density = k0e(rho)
        mean = rho * k1e(rho) / density
        reached = 2
    for lower in range(reached, rank, 2):
        density, mean = kernels.widen(rho, density, mean, lower)
    return density, mean


def longest(rank: int) -> float:
    """Where the law of |x| is cut."""
    rho = 38.0
    # The density of x beyond `longest` is below this.
    least = 1e-17
    while rho * density_and_mean(np.array([rho]), rank)[0][0] * math.exp(-rho) > least:
        rho += 1.0
    return rho


def scores(skip: float, kappa: float, lower: float, rank: int, fineness: tuple[int, float, float]) -> Scores:
    """Nodes of the scores of a layer that sees the tokens through K [[1, S], [0, T]].

    For every w panels in u, graded towards 0, where the density has its peak, +-w, where the softmax of a token
    switches, and, for c < 1, the u where c + tau changes its sign.

    Parameters
    ----------
    skip : float
    kappa : float
        beta K^2.
    lower : float
        |T|.
    rank : int
    fineness : (int, float, float)
        Gauss-Legendre order, step of the rule in w, and the least |c + tau| that is resolved.
    """
    order, step, least = fineness
    top = longest(rank)
    unit_u, unit_w = kappa * lower**2, kappa * lower
    outer = half_line(min(1.0, 1 / unit_w), math.sqrt(2) * top, step)
    margin = 3.0
    # So far below u = -w the entry c + tau falls off like exp(u), down to c - 1.
    falling = margin + (math.log(2 / abs(skip - 1)) if skip != 1 else math.inf)
    found: list[tuple[Array, ...]] = []
    for x_plus, weight in zip(outer.nodes, outer.weights, strict=True):
        w = unit_w * x_plus
        smallest = min(1.0, unit_u * x_plus)
        points = [(-w, smallest), (0.0, min(1.0, unit_u) * min(1.0, x_plus)), (w, smallest)]
        zero = float(kernels.root(w, skip)[0]) if skip < 1 else math.inf
        points.append((zero, 0.1 * least))
        ends = [(-unit_u * top, unit_u), (unit_u * top, unit_u)]
        inside = sorted(point for point in points if abs(point[0]) < ends[1][0])
        for start, rule in _graded([ends[0], *inside, ends[1]], (-w - falling, -w), order):
            u = start + rule.nodes
            s, entry = kernels.layer(u, w, skip - 1)
            if start == zero:
                (entry,) = kernels.beside(rule.nodes, zero, w)
            found.append((u, np.full_like(u, w), rule.weights * (weight * unit_w), s, entry))
    u, w_all, weights, s, entry = (np.concatenate(part) for part in zip(*found, strict=True))
    return Scores(u / kappa, w_all / kappa, weights / kappa**2, s, entry)


def _graded(points: list[tuple[float, float]], falling: tuple[float, float], order: int) -> list[tuple[float, Rule]]:
    """Rules between neighbours of (point, smallest feature there), each from one point to half way to the next.

    In the range `falling` log(c + tau) changes at a constant rate.
    """
    rules = []
    # A feature of one point is one of the others, too, at their distance.
    points = [(here, min(near + abs(there - here) for there, near in points)) for here, _ in points]
    # Panels grow twofold from the points where the integrand has its smallest features, to this width where T may
    # vanish.
    widest = 2.0
    for (left, near_left), (right, near_right) in pairwise(points):
        half = 0.5 * (right - left)
        if half <= 1e-15 * abs(left):
            continue
        for start, near, sign in ((left, near_left, 1.0), (right, near_right, -1.0)):
            edges = [0.0, min(near, half)]
            while edges[-1] < half:
                falls = falling[0] < start + sign * edges[-1] and right <= falling[1]
                edges.append(min(edges[-1] + min(edges[-1], widest if falls else math.inf), half))
            rule = gauss_legendre_panels(np.array(edges), order)
            rules.append((start, Rule(sign * rule.nodes, rule.weights, rule.exact_to)))
    return rules
