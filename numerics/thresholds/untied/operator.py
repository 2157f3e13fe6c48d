"""Operator (15) of the last layer with keys and queries over two tokens, from the law of the mixing matrix before it.

y fixes the scores u = T^2 x_m and w = T (x_p + S x_m), in units of beta K^2. With the density f of x in the plane

    Z(u, w) = E_{S,T}[f(|x|) |T|^-3],

and the posterior means of the entries of h h^T - I are those given x (`derive.pair_scores`), weighted likewise. They
are multiples of the identity of the rank, so that the operator acts on (q_kk, q_qq) with

    F_kk = E sum_{mm'} (G^kk_{mm'})^2,  F_kq = E sum_{mm'} (G^kq_{mm'})^2,  F_qq = E (G^qq)^2.

The overlap of keys with queries grows no faster: tr G^kk G^qq and tr (G^kq)^2 are at most sqrt(F_kk F_qq) and F_kq in
the mean, whose sum is at most the largest eigenvalue of F. In u = R sin(a), w = R cos(a) every x is R times a function
of the angle; (k, q) -> (k, -q) and the exchange of the tokens leave one quadrant.
"""

import math

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.scores_untied_softmax_m2 import numpy64 as kernels

from ...model.network import Network
from ...quadrature.rules import Chebyshev, half_line, scale_free
from .law import Fineness, Panel, fineness, pair_law
from .scores import density_and_mean, longest

__all__ = ["MAX_SCORE_DIGITS", "last_operator", "operator"]

Array = NDArray[np.float64]

# What float64 sums can promise.
MAX_SCORE_DIGITS = 12


def last_operator(model: Network, level: int) -> Array:
    """The operator on (q_kk, q_qq), shape (2, 2), of an untied softmax model of two tokens at one level of fineness."""
    fine = fineness(level)
    return operator(pair_law(model, model.layers - 1, fine), model.ranks[-1], fine)


def operator(law: list[Panel], rank: int, fine: Fineness) -> Array:
    """The operator of a last layer of this rank behind mixing matrices of this law."""
    t = np.concatenate([np.repeat(panel.t, panel.s.size) for panel in law])
    s = np.concatenate([np.tile(panel.s, panel.t.size) for panel in law])
    weights = np.concatenate([panel.weights.reshape(2, -1) for panel in law], axis=1)
    least = float(t.min())
    # Where the rules over the radius and the angle begin to have their nodes, at most.
    near = 0.03
    tangents = scale_free(max(min(near, least), fine.least), fine.step)
    # u is of order T^2, and less than that is unlikely where T may vanish.
    scale = min(near, least**2) if least**2 >= fine.least else min(least, fine.least)
    total = np.zeros(3)
    # Outputs that are less likely than this do not count.
    blind = 1e-19
    # Entries that add up to F_kk, F_kq and F_qq, and how often each occurs.
    blocks = np.array([[1.0, 2.0, 1.0, 0, 0, 0], [0, 0, 0, 1.0, 1.0, 0], [0, 0, 0, 0, 0, 1.0]])
    for tangent, weight in zip(tangents.nodes, tangents.weights, strict=True):
        cosine = 1 / np.hypot(1.0, tangent)
        plus, minus, inverse = kernels.solve(tangent * cosine, cosine, s, t)
        size = np.hypot(plus, minus)
        radius = half_line(scale, longest(rank) / float(size.min()), fine.step)
        sizes, columns = _gathered(size, _columns(plus, minus, size, weights * inverse, rank), fine.digits)
        sums = _sums(radius.nodes, sizes, columns, rank)
        z, entries = sums[:, 0], sums[:, 1:]
        # Four quadrants; f carries a factor of 2 pi; the area is R dR d(tangent)/(1 + tangent^2).
        area = radius.weights * radius.nodes * (4 * weight * cosine**2 / (2 * np.pi))
        seen = area * z > blind
        total += blocks @ ((area[seen] / z[seen]) @ entries[seen] ** 2)
    return np.array([[total[0], total[1]], [total[1], total[2]]])


def _columns(plus: Array, minus: Array, size: Array, weights: Array, rank: int) -> Array:
    """What density, density times m and density times rho are multiplied by in Z and in Z times the entries."""
    a_plus, a_minus = plus / size, minus / size
    even, odd = weights.sum(axis=0), weights[0] - weights[1]
    # Under a mode of the tokens -e_p the entries change by these signs: pp, pm, mm of the keys, pm, mm of both, mm.
    parity = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    signed = np.where(parity[:, None] > 0, even, odd)
    # The entries are affine in m and rho.
    fixed, with_mean, with_rho = (
        np.array(kernels.entries(a_plus, a_minus, *at, rank)) for at in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))
    )
    none = np.zeros((1, size.size))
    parts = ([even[None], fixed * signed], [none, (with_mean - fixed) * signed], [none, (with_rho - fixed) * signed])
    return np.vstack([row for part in parts for row in part]).T


def _gathered(size: Array, columns: Array, digits: float) -> tuple[Array, Array]:
    """Sizes and columns on Chebyshev nodes of panels of log(size): what they multiply is analytic in it."""
    # Panels of log |x|, over which the density is analytic up to a distance of pi/2.
    width = 1.0
    order = 4 + math.ceil(digits * math.log(10) / math.asinh(math.pi / width))
    log_size = np.log(size)
    places = np.floor(log_size / width)
    nodes, sums = [], []
    for place in np.unique(places):
        here = places == place
        grid = Chebyshev(order, place * width, (place + 1) * width)
        nodes.append(grid.nodes)
        sums.append(grid.weights(grid.polynomials(log_size[here]) @ columns[here]))
    return np.exp(np.concatenate(nodes)), np.concatenate(sums)


def _sums(radius: Array, size: Array, columns: Array, rank: int) -> Array:
    """Z and Z times the posterior entries at every radius, shape (n, 7)."""
    rho = radius[:, None] * size
    density, mean = density_and_mean(rho, rank)
    density *= np.exp(-rho)
    fixed, with_mean, with_rho = np.split(columns, 3, axis=1)
    return np.asarray(density @ fixed + (density * mean) @ with_mean + (density * rho) @ with_rho)
