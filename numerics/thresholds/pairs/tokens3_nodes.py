"""Nodes of the hidden layer of softmax attention with three tokens, in pairs of float64.

In the basis (1,1,1)/sqrt 3 and the plane orthogonal to it B/(1 + c) = [[1, S], [0, T]], with S a row of two entries and
T a matrix. The law of (S, T) is a sum over nodes of h_1. The attention of token a turns from one token to another where
two of its scores beta h_a h_b tie. At a fixed direction the poles in Q = |h|^2/2 lie near the imaginary axis, at a
distance pi/beta times a number of order one; at fixed Q those in the direction lie beyond the sides of the cells of the
arrangement of planes h_a = 0 and h_a = h_b, at a distance of order 1/(beta Q). Up to permutations and the sign there
are two cells, h_1 > h_2 > h_3 > 0 and h_1 > h_2 > 0 > h_3, triangles on the sphere: a product of Gauss-Legendre rules
per cell and Q, of as many nodes as that Q needs; Q has a double-exponential rule.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...arithmetic.pairs import Pairs
from .rules import PairRule, cos_sin, double_exponential, gauss_legendre, pi

__all__ = ["HiddenNodes", "Steps", "hidden_nodes", "node_count", "three_token_steps"]


@dataclass(frozen=True)
class Steps:
    """Resolution: steps of Q, of rho and of u; digits of the rules on the triangles; directions in 30 degrees."""

    radial: float
    angular: float
    rho: float
    u: float
    directions: int


def three_token_steps(skip: float, beta: float, digits: float) -> Steps:
    """Steps for about `digits` digits: fitted at skip = beta = 1, scaled with what the singularities do elsewhere.

    The directions resolve the ellipse of T, whose axes are as c to 1 + c at worst, up to its foci at atanh(c/(1 + c)):
    at c = 1 one more direction in 30 degrees gives 1.7 digits at first and fewer later. Half a direction per digit at
    least, so that two sums differ.
    """
    angular = (digits + 2) * (1 + 0.3 * max(0.0, -math.log10(skip)))
    directions = max(0.41 / math.atanh(skip / (1 + skip)) * (digits - 4), 0.5 * digits)
    return Steps(2.2 / digits, angular, 1.1 / digits, 3.6 / digits, math.ceil(directions))


def node_count(beta: float, steps: Steps, digits: float) -> int:
    """How many nodes `hidden_nodes` will make, at most."""
    orders = [_orders(q, beta, steps.angular) for q in _radial_rule(steps.radial, digits).nodes.hi.tolist()]
    return sum(longitudes * (down + up) for longitudes, down, up in orders)


def _radial_rule(step: float, digits: float) -> PairRule:
    return double_exponential(10.0 ** (-(digits + 8) / 1.5), (digits + 8) * math.log(10), step)


@dataclass(frozen=True)
class HiddenNodes:
    """Nodes of h_1 up to permutations of the tokens and the sign.

    Attributes
    ----------
    s : Pairs, shape (2, n)
    t : Pairs, shape (2, 2, n)
    weights : Pairs, shape (n,)
        They sum to one.
    """

    s: Pairs
    t: Pairs
    weights: Pairs


def hidden_nodes(skip: Pairs, beta: Pairs, radial: float, angular: float, digits: float) -> HiddenNodes:
    """Nodes for a step in Q and so many digits on the triangles; weights below 10^-(digits + 8) are left out."""
    tiny = 10.0 ** (-digits - 8)
    q_rule = _radial_rule(radial, digits)
    radial_weight = (q_rule.nodes * 2.0).sqrt() * (-q_rule.nodes).exp() * q_rule.weights
    # The Gaussian normalisation and twelve copies of the cells.
    radial_weight = radial_weight * 12.0 / ((pi() * 2.0) * (pi() * 2.0).sqrt())
    parts = []
    orders = [_orders(q, float(beta.hi), angular) for q in q_rule.nodes.hi.tolist()]
    for wanted in sorted(set(orders)):
        group = np.array([k for k, order in enumerate(orders) if order == wanted])
        for direction, measure in _cells(*wanted):
            weight = measure.reshape(-1, 1) * radial_weight[group]
            keep = np.nonzero(weight.hi > tiny)
            scale = (q_rule.nodes[group] * beta * 2.0)[keep[1]]
            parts.append((weight[keep], *_mixing(skip, [h[keep[0]] for h in direction], scale)))
    weights, s, t = (_join(group) for group in zip(*parts, strict=True))
    return HiddenNodes(s, t, weights)


def _orders(q: float, beta: float, digits: float) -> tuple[int, int, int]:
    """Gauss orders at Q = q: longitude, latitude of the cell h_3 < 0, of the cell h_3 > 0.

    Next to the side h_b = h_c the attention of token a has poles where 2 beta Q n_a (n_b - n_c) = i pi, next to
    h_a = 0, where three scores tie, down to 2 i pi/3. In the variable of the rule, of length 2, that is at i/(beta Q)
    times 2.7, 1.3 and 3.5 or more above the end point, where the cell is widest, and the rule errs by the axes' sum of
    the ellipse through the pole to the power -2 n. The weight exp(-Q) takes off some digits. The map itself is
    singular at 2.2 i.
    """
    wanted = max(math.log(10) * digits + 3 - q, 1.0)
    out = []
    for factor in (2.7, 1.3, 3.5):
        above = min(2.2, factor / max(beta * q, 1e-300))
        half = 0.5 * (above + math.hypot(2.0, above))
        out.append(2 * math.ceil(wanted / (4 * math.acosh(half))) + 2)
    return out[0], out[1], out[2]


def _cells(longitudes: int, down: int, up: int) -> "list[tuple[list[Pairs], Pairs]]":
    """Unit vectors and solid angles of the cells, by longitude phi in (0, pi/4) and latitude from the plane h_3 = 0."""
    quarter = pi() * 0.25
    x, w = _unit_rule(longitudes)
    cos_phi, sin_phi = (part.reshape(-1, 1) for part in cos_sin(x * quarter))
    w_phi = (w * quarter).reshape(-1, 1)
    # h_3 < 0: latitudes up to the pole. h_3 > 0: up to h_3 = h_2, where sin(latitude) = sin(phi)/sqrt(1 + sin(phi)^2)
    x, w = _unit_rule(down)
    cos_down, sin_down = cos_sin(x * (quarter * 2.0))
    w_down = w * quarter * 2.0 * cos_down
    x, w = _unit_rule(up)
    top = sin_phi / (sin_phi * sin_phi + 1.0).sqrt()
    sin_up = top * x
    cos_up = (1.0 - sin_up * sin_up).sqrt()
    cells = []
    for sine, cosine, measure in ((-sin_down, cos_down, w_phi * w_down), (sin_up, cos_up, w_phi * w * top)):
        h = [cosine * cos_phi, cosine * sin_phi, sine + sin_phi * 0.0]
        cells.append(([part.ravel() for part in h], measure.ravel()))
    return cells


def _unit_rule(order: int) -> tuple[Pairs, Pairs]:
    """Gauss-Legendre rule on [0, 1]."""
    rule = gauss_legendre(order)
    return rule.nodes * 0.5 + 0.5, rule.weights * 0.5


def _join(parts: "tuple[Pairs, ...]") -> Pairs:
    return Pairs(np.concatenate([p.hi for p in parts], axis=-1), np.concatenate([p.lo for p in parts], axis=-1))


def _mixing(skip: Pairs, h: "list[Pairs]", scale: Pairs) -> tuple[Pairs, Pairs]:
    """(S, T) of B = c I + softmax(scale h_a h_b)."""
    total = skip + 1.0
    rows = []
    for a in range(3):
        scores = [scale * h[a] * other for other in h]
        top = np.maximum(np.maximum(scores[0].hi, scores[1].hi), scores[2].hi)
        e = [(score - top).exp() for score in scores]
        z = e[0] + e[1] + e[2]
        rows.append([x / z for x in e])
    root2, root3, root6 = (Pairs(float(k)).sqrt() for k in (2, 3, 6))
    one = [((root3 * 0.0 + 1.0) / root3)] * 3
    first = [1.0 / root2, -1.0 / root2, Pairs(0.0)]
    second = [1.0 / root6, 1.0 / root6, -2.0 / root6]

    def entry(left: "list[Pairs]", right: "list[Pairs]") -> Pairs:
        out = Pairs(0.0)
        for i in range(3):
            for j in range(3):
                out = out + left[i] * right[j] * rows[i][j]
        return out / total

    diagonal = skip / total
    s = _stack([entry(one, first), entry(one, second)])
    t = _stack(
        [
            entry(first, first) + diagonal,
            entry(first, second),
            entry(second, first),
            entry(second, second) + diagonal,
        ]
    )
    return s, t.reshape(2, 2, -1)


def _stack(parts: "list[Pairs]") -> Pairs:
    return Pairs(np.stack([p.hi for p in parts]), np.stack([p.lo for p in parts]))
