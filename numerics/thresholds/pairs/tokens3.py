"""Operator norm (184) of two layers of softmax attention with three tokens, in pairs of float64.

In the basis (1,1,1)/sqrt 3 and the plane orthogonal to it B/(1 + c) = [[1, S], [0, T]], with S a row of two entries and
T a matrix. Given v = h_2 B^T/(1 + c) = (u, rho e(theta)) the last layer is h_- = rho q, h_+ = u - rho S q with
q = T^{-1} e(theta), and Z(u, rho, theta) = E[exp(-(u - rho A)^2/2 - rho^2 |q|^2/2)/|det T|]/(2 pi)^{3/2}, A = S q: per
direction theta the hidden layer enters through the law of (A, q).

Nodes of the hidden layer. The attention of token a turns from one token to another where two of its scores
beta h_a h_b tie. At a fixed direction the poles in Q = |h|^2/2 lie near the imaginary axis, at a distance pi/beta times
a number of order one; at fixed Q those in the direction lie beyond the sides of the cells of the arrangement of planes
h_a = 0 and h_a = h_b, at a distance of order 1/(beta Q). Up to permutations and the sign there are two cells,
h_1 > h_2 > h_3 > 0 and h_1 > h_2 > 0 > h_3, triangles on the sphere: a product of Gauss-Legendre rules per cell and Q,
of as many nodes as that Q needs; Q has a double-exponential rule.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.doubledouble import Pairs, add, exp, mul, square, two_sum
from .mixing import Progress, workers
from .rules import Grid, PairRule, cos_sin, cut, double_exponential, gauss_legendre, pi, uniform
from .softmax import gaussian_sums

__all__ = ["Steps", "hidden_nodes", "node_count", "norm_three_tokens", "three_token_steps"]

Array = NDArray[np.float64]


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


# Operator norm ------------------------------------------------------------------------------------------------------

# Nodes handled side by side.
_LANES = 32
# Nodes that hold 10^(_FLOAT_DIGITS - digits) of the mass together at most are summed in float64.
_FLOAT_DIGITS = 11.0


@dataclass(frozen=True)
class Steps:
    """Resolution: steps of Q, of rho and of u; digits of the rules on the triangles; directions in 30 degrees."""

    radial: float
    angular: float
    rho: float
    u: float
    directions: int


@dataclass(frozen=True)
class _Hidden:
    """What a direction needs of the hidden nodes: weights/|det T|, T^{-1} by columns, S T^{-1}."""

    mass: Pairs
    inverse: "list[Pairs]"
    shifts: "list[Pairs]"
    reach: float
    stretch: float
    widest: float


def norm_three_tokens(skip: Pairs, beta: Pairs, steps: Steps, digits: float, progress: Progress | None = None) -> Pairs:
    """E || E[h_2 h_2^T | y] - I ||_F^2, to about `digits` digits if the steps are fine enough."""
    hidden = _hidden(hidden_nodes(skip, beta, steps.radial, steps.angular, digits))
    top = cut(digits + 2)
    rho = double_exponential(10.0 ** (-digits / 2 - 1), top * hidden.stretch, steps.rho)
    u_top = top * math.hypot(1.0, hidden.reach)
    u = uniform(-u_top, u_top, steps.u)
    # |A| rho <= |S| |h_-|: what is beyond has no weight
    spans = np.minimum(hidden.widest * (1 + 1e-9), (hidden.reach * top + 0.5) / rho.nodes.hi)
    grids = [
        Grid(degree(float(r * w), digits + 4), Pairs(-w), Pairs(w)) for r, w in zip(rho.nodes.hi, spans, strict=True)
    ]
    # Up to permutations and signs all directions are in [0, 30] degrees, mirrored at both ends.
    cos, sin = cos_sin(pi() / (6.0 * steps.directions) * (np.arange(steps.directions) + 0.5))
    symmetries = _symmetries()

    def moments(job: tuple[int, int]) -> Pairs:
        x, y, g = cos[job[0]], sin[job[0]], symmetries[job[1]]
        turned = g[0][0] * x + g[1][0] * y, g[0][1] * x + g[1][1] * y
        return _turn(g, _moments(hidden, *turned, rho, grids, digits))

    jobs = [(k, g) for k in range(steps.directions) for g in range(6)]
    total, sums = Pairs(0.0), Pairs(0.0)
    with ThreadPoolExecutor(workers()) as pool:
        for done, (job, part) in enumerate(zip(jobs, pool.map(moments, jobs), strict=True)):
            sums = part if job[1] == 0 else sums + part
            if job[1] == 5:
                total = total + _functional(sums, rho, u, grids, digits)
            if progress is not None:
                progress(done + 1, len(jobs))
    return total * pi() * 2.0 / float(steps.directions)


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


def _hidden(nodes: HiddenNodes) -> _Hidden:
    t, s = nodes.t, nodes.s
    det = t[0, 0] * t[1, 1] - t[0, 1] * t[1, 0]
    inverse = [t[1, 1] / det, -t[1, 0] / det, -t[0, 1] / det, t[0, 0] / det]
    shifts = [s[0] * inverse[0] + s[1] * inverse[1], s[0] * inverse[2] + s[1] * inverse[3]]
    mass = nodes.weights / det / 6.0
    return _Hidden(
        mass,
        inverse,
        shifts,
        math.sqrt(float(np.max(s.hi[0] ** 2 + s.hi[1] ** 2))),
        math.sqrt(float(np.max((t.hi**2).sum(axis=(0, 1))))),
        math.sqrt(float(np.max(shifts[0].hi ** 2 + shifts[1].hi ** 2))),
    )


def _symmetries() -> "list[list[list[Pairs]]]":
    """The six permutations of the tokens as matrices on the plane."""
    half, side, one, zero = Pairs(0.5), Pairs(3.0).sqrt() * 0.5, Pairs(1.0), Pairs(0.0)
    turns = [[[one, zero], [zero, one]], [[-half, -side], [side, -half]], [[-half, side], [-side, -half]]]
    return turns + [[[-a, b] for a, b in turn] for turn in turns]


def _turn(g: "list[list[Pairs]]", m: Pairs) -> Pairs:
    """Moments of (1, q_1, q_2, q_1^2, q_1 q_2, q_2^2) of the image: second axis."""
    (a, b), (c, d) = g
    one, q1, q2, q11, q12, q22 = (m[:, k] for k in range(6))
    out = [
        one,
        a * q1 + b * q2,
        c * q1 + d * q2,
        a * a * q11 + a * b * 2.0 * q12 + b * b * q22,
        a * c * q11 + (a * d + b * c) * q12 + b * d * q22,
        c * c * q11 + c * d * 2.0 * q12 + d * d * q22,
    ]
    return Pairs(np.stack([f.hi for f in out], axis=1), np.stack([f.lo for f in out], axis=1))


def degree(reach: float, digits: float) -> int:
    """Chebyshev nodes for exp(-(u - y)^2/2) on |y| <= reach, any u, to `digits` digits.

    On the ellipse with half-axis b reach across the real axis the function is at most exp(b^2 reach^2/2), so the
    coefficient of T_n is below 2 exp(b^2 reach^2/2 - n asinh b).
    """
    wanted = math.log(10) * digits + 2
    b = np.geomspace(0.01, 1e8, 4000)
    with np.errstate(over="ignore"):
        return math.ceil(float(np.min((wanted + 0.5 * (b * reach) ** 2) / np.arcsinh(b)))) + 1


def _moments(hidden: _Hidden, ex: Pairs, ey: Pairs, rho: PairRule, grids: "list[Grid]", digits: float) -> Pairs:
    """Chebyshev moments in A of (1, q_1, q_2, q_1^2, q_1 q_2, q_2^2) exp(-rho^2 q^2/2), shape (rho, 6, n)."""
    n = max(grid.n for grid in grids)
    q1 = hidden.inverse[0] * ex + hidden.inverse[2] * ey
    q2 = hidden.inverse[1] * ex + hidden.inverse[3] * ey
    shift = hidden.shifts[0] * ex + hidden.shifts[1] * ey
    half2 = (q1 * q1 + q2 * q2) * -0.5
    parts = [np.ascontiguousarray(p) for f in (hidden.mass, q1, q2, shift, half2) for p in (f.hi, f.lo)]
    hi, lo, rest = (np.zeros((len(rho), 6, n)) for _ in range(3))
    # what is left out, and what is summed in float64: nodes that together hold less than 10^(_FLOAT_DIGITS - digits)
    tiny, light = 10.0 ** (-digits - 10), 10.0 ** (_FLOAT_DIGITS - digits) / hidden.mass.hi.size
    for k, grid in enumerate(grids):
        rho2, inverse = rho.nodes[k] * rho.nodes[k], 1.0 / grid.upper
        scalars = [float(x) for f in (rho2, inverse) for x in (f.hi, f.lo)]
        head, tail = _select(parts[0], parts[6], parts[8], scalars[0], scalars[2], light, tiny)
        _head_moments(*parts, head, *scalars, _LANES, hi[k, :, : grid.n], lo[k, :, : grid.n])
        _tail_moments(*parts[::2], tail, scalars[0], scalars[2], _LANES, rest[k, :, : grid.n])
    return Pairs(hi) + Pairs(lo) + Pairs(rest)


def _functional(moments: Pairs, rho: PairRule, u: PairRule, grids: "list[Grid]", digits: float) -> Pairs:
    """Integral over rho and u of || N ||_F^2/Z, N = E[h h^T ..] - Z I, at one direction."""
    scale = 1.0 / (pi() * 2.0 * (pi() * 2.0).sqrt())
    total = Pairs(0.0)
    for k, grid in enumerate(grids):
        r = rho.nodes[k]
        w = grid.weights(_transposed(moments[k, :, : grid.n]))
        shift = grid.nodes * r
        one, q1, q2 = w[:, 0] * scale, w[:, 1] * (r * scale), w[:, 2] * (r * scale)
        q11, q12, q22 = (w[:, c] * (r * r * scale) for c in (3, 4, 5))
        columns = [one, shift * one, shift * shift * one, q1, shift * q1, q2, shift * q2, q11, q12, q22]
        z, m, mm, a1, b1, a2, b2, n11, n12, n22 = gaussian_sums(shift, columns, u.nodes, 10.0 ** (-digits - 12))
        v = u.nodes
        pp, n11, n22 = v * (v * z - m * 2.0) + mm - z, n11 - z, n22 - z
        p1, p2 = v * a1 - b1, v * a2 - b2
        value = pp * pp + n11 * n11 + n22 * n22 + (p1 * p1 + p2 * p2 + n12 * n12) * 2.0
        ok = z.hi > 10.0 ** (-digits - 6)
        total = total + (value[ok] / z[ok]).sum() * (u.weights[0] * rho.weights[k] * r)
    return total


def _transposed(a: Pairs) -> Pairs:
    return Pairs(np.ascontiguousarray(a.hi.T), np.ascontiguousarray(a.lo.T))


@njit(error_model="numpy", nogil=True)
def _select(mass, shift, x, rho2, inverse, light, tiny):  # type: ignore[no-untyped-def]
    """Nodes with mass exp(rho^2 x) above `light`, and those between `tiny` and `light`, within the span."""
    head, tail = np.empty(mass.size, np.int64), np.empty(mass.size, np.int64)
    heads = tails = 0
    for i in range(mass.size):
        g = mass[i] * math.exp(x[i] * rho2)
        if g > tiny and abs(shift[i] * inverse) <= 1.0:
            if g > light:
                head[heads] = i
                heads += 1
            else:
                tail[tails] = i
                tails += 1
    return head[:heads], tail[:tails]


@njit(error_model="numpy", nogil=True)
def _head_moments(  # type: ignore[no-untyped-def]
    mh, ml, q1h, q1l, q2h, q2l, sh, sl, xh, xl, nodes, r2h, r2l, ih, il, lanes, out_h, out_l
):
    """Sum over `nodes`, in pairs: out[k, n] += sum column_k mass exp(rho^2 x) T_n(shift/span)."""
    n = out_h.shape[1]
    acc_h, acc_l = np.zeros((n, 6, lanes)), np.zeros((n, 6, lanes))
    old_h, old_l, new_h, new_l = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    yh, yl = np.empty(lanes), np.empty(lanes)
    ch, cl = np.empty((6, lanes)), np.empty((6, lanes))
    for start in range(0, nodes.size, lanes):
        for p in range(lanes):
            # the last block runs over: what it takes too many has no mass
            i = nodes[min(start + p, nodes.size - 1)]
            zh, zl = mul(sh[i], sl[i], ih, il)
            gh, gl = mul(xh[i], xl[i], r2h, r2l)
            gh, gl = exp(gh, gl)
            gh, gl = mul(gh, gl, mh[i], ml[i])
            keep = 1.0 if start + p < nodes.size else 0.0
            gh, gl = gh * keep, gl * keep
            old_h[p], old_l[p] = gh, gl
            new_h[p], new_l[p] = mul(gh, gl, zh, zl)
            yh[p], yl[p] = 2 * zh, 2 * zl
            ch[1, p], cl[1, p] = q1h[i], q1l[i]
            ch[2, p], cl[2, p] = q2h[i], q2l[i]
            ch[3, p], cl[3, p] = square(q1h[i], q1l[i])
            ch[4, p], cl[4, p] = mul(q1h[i], q1l[i], q2h[i], q2l[i])
            ch[5, p], cl[5, p] = square(q2h[i], q2l[i])
        for m in range(n):
            for p in range(lanes):
                acc_h[m, 0, p], e = two_sum(acc_h[m, 0, p], old_h[p])
                acc_l[m, 0, p] += e + old_l[p]
            for k in range(1, 6):
                for p in range(lanes):
                    gh, gl = mul(old_h[p], old_l[p], ch[k, p], cl[k, p])
                    acc_h[m, k, p], e = two_sum(acc_h[m, k, p], gh)
                    acc_l[m, k, p] += e + gl
            for p in range(lanes):
                gh, gl = mul(yh[p], yl[p], new_h[p], new_l[p])
                gh, gl = add(gh, gl, -old_h[p], -old_l[p])
                old_h[p], old_l[p] = new_h[p], new_l[p]
                new_h[p], new_l[p] = gh, gl
    for m in range(n):
        for k in range(6):
            for p in range(lanes):
                out_h[k, m], out_l[k, m] = add(out_h[k, m], out_l[k, m], acc_h[m, k, p], acc_l[m, k, p])


@njit(error_model="numpy", nogil=True)
def _tail_moments(mass, q1, q2, shift, x, nodes, rho2, inverse, lanes, out):  # type: ignore[no-untyped-def]
    """`_head_moments` in float64."""
    n = out.shape[1]
    acc = np.zeros((n, 6, lanes))
    old, new, y = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    c = np.ones((6, lanes))
    for start in range(0, nodes.size, lanes):
        for p in range(lanes):
            i = nodes[min(start + p, nodes.size - 1)]
            z = shift[i] * inverse
            g = mass[i] * math.exp(x[i] * rho2) if start + p < nodes.size else 0.0
            old[p], new[p], y[p] = g, g * z, 2 * z
            c[1, p], c[2, p], c[3, p], c[4, p], c[5, p] = q1[i], q2[i], q1[i] * q1[i], q1[i] * q2[i], q2[i] * q2[i]
        for m in range(n):
            for k in range(6):
                for p in range(lanes):
                    acc[m, k, p] += old[p] * c[k, p]
            for p in range(lanes):
                g = y[p] * new[p] - old[p]
                old[p], new[p] = new[p], g
    for m in range(n):
        for k in range(6):
            out[k, m] += acc[m, k].sum()
