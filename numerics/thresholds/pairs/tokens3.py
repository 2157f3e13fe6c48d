"""Operator norm (184) of two layers of softmax attention with three tokens, in pairs of float64.

In the basis (1,1,1)/sqrt 3 and the plane orthogonal to it B/(1 + c) = [[1, S], [0, T]], with S a row of two entries and
T a matrix. Given v = h_2 B^T/(1 + c) = (u, rho e(theta)) the last layer is h_- = rho q, h_+ = u - rho S q with
q = T^{-1} e(theta), and Z(u, rho, theta) = E[exp(-(u - rho A)^2/2 - rho^2 |q|^2/2)/|det T|]/(2 pi)^{3/2}, A = S q: per
direction theta the hidden layer enters through the law of (A, q), a sum over the nodes of `tokens3_nodes`.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.doubledouble import add, exp, mul, square, two_sum
from ...arithmetic.pairs import Pairs, Parts
from .mixing import Progress, workers
from .rules import Grid, PairRule, cos_sin, cut, double_exponential, pi, uniform
from .softmax import gaussian_sums
from .tokens3_nodes import HiddenNodes, Steps, hidden_nodes

__all__ = ["degree", "norm_three_tokens"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]


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
    nodes = _Nodes(*(f.parts for f in (hidden.mass, q1, q2, shift, half2)))
    hi, lo, rest = (np.zeros((len(rho), 6, n)) for _ in range(3))
    # Nodes that hold 10^(float_digits - digits) of the mass together at most are summed in float64.
    float_digits = 11.0
    # what is left out, and what is summed in float64: nodes that together hold less than 10^(float_digits - digits)
    tiny, light = 10.0 ** (-digits - 10), 10.0 ** (float_digits - digits) / hidden.mass.hi.size
    # Nodes handled side by side.
    lanes = 32
    for k, grid in enumerate(grids):
        span = _Span((rho.nodes[k] * rho.nodes[k]).number, (1.0 / grid.upper).number)
        head, tail = _select(nodes, span, light, tiny)
        # Whole arrays, of one layout: for parts of them the loops would be compiled again.
        _head_moments(nodes, head, span, (grid.n, lanes), Parts(hi[k], lo[k]))
        _tail_moments(nodes, tail, span, (grid.n, lanes), rest[k])
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


class _Nodes(NamedTuple):
    """Hidden nodes seen along a direction: weights/|det T|, q, A and -|q|^2/2."""

    mass: Parts
    q1: Parts
    q2: Parts
    shift: Parts
    half2: Parts


class _Span(NamedTuple):
    """Of one rho: rho^2, and one over the largest |A| that counts."""

    rho2: tuple[float, float]
    inverse: tuple[float, float]


@njit(error_model="numpy", nogil=True, cache=True)
def _select(nodes: _Nodes, span: _Span, light: float, tiny: float) -> tuple[Index, Index]:
    """Nodes with mass exp(rho^2 x) above `light`, and those between `tiny` and `light`, within the span."""
    mass, shift, x = nodes.mass.hi, nodes.shift.hi, nodes.half2.hi
    head, tail = np.empty(mass.size, np.int64), np.empty(mass.size, np.int64)
    heads = tails = 0
    for i in range(mass.size):
        g = mass[i] * math.exp(x[i] * span.rho2[0])
        if g > tiny and abs(shift[i] * span.inverse[0]) <= 1.0:
            if g > light:
                head[heads] = i
                heads += 1
            else:
                tail[tails] = i
                tails += 1
    return head[:heads], tail[:tails]


@njit(error_model="numpy", nogil=True, cache=True)
def _head_moments(nodes: _Nodes, picked: Index, span: _Span, sizes: tuple[int, int], out: Parts) -> None:
    """Sum over the nodes that are picked, in pairs: out[k, n] += sum column_k mass exp(rho^2 x) T_n(shift/span).

    Sizes are the number of T_n and of nodes side by side.
    """
    out_h, out_l = out
    n, lanes = sizes
    acc_h, acc_l = np.zeros((n, 6, lanes)), np.zeros((n, 6, lanes))
    old_h, old_l, new_h, new_l = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    yh, yl = np.empty(lanes), np.empty(lanes)
    ch, cl = np.empty((6, lanes)), np.empty((6, lanes))
    for start in range(0, picked.size, lanes):
        for p in range(lanes):
            # the last block runs over: what it takes too many has no mass
            i = picked[min(start + p, picked.size - 1)]
            zh, zl = mul(nodes.shift.hi[i], nodes.shift.lo[i], *span.inverse)
            gh, gl = mul(nodes.half2.hi[i], nodes.half2.lo[i], *span.rho2)
            gh, gl = exp(gh, gl)
            gh, gl = mul(gh, gl, nodes.mass.hi[i], nodes.mass.lo[i])
            keep = 1.0 if start + p < picked.size else 0.0
            gh, gl = gh * keep, gl * keep
            old_h[p], old_l[p] = gh, gl
            new_h[p], new_l[p] = mul(gh, gl, zh, zl)
            yh[p], yl[p] = 2 * zh, 2 * zl
            q1, q2 = (nodes.q1.hi[i], nodes.q1.lo[i]), (nodes.q2.hi[i], nodes.q2.lo[i])
            ch[1, p], cl[1, p] = q1
            ch[2, p], cl[2, p] = q2
            ch[3, p], cl[3, p] = square(*q1)
            ch[4, p], cl[4, p] = mul(*q1, *q2)
            ch[5, p], cl[5, p] = square(*q2)
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


@njit(error_model="numpy", nogil=True, cache=True)
def _tail_moments(nodes: _Nodes, picked: Index, span: _Span, sizes: tuple[int, int], out: Array) -> None:
    """`_head_moments` in float64."""
    n, lanes = sizes
    mass, q1, q2, shift, x = nodes.mass.hi, nodes.q1.hi, nodes.q2.hi, nodes.shift.hi, nodes.half2.hi
    acc = np.zeros((n, 6, lanes))
    old, new, y = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    c = np.ones((6, lanes))
    for start in range(0, picked.size, lanes):
        for p in range(lanes):
            i = picked[min(start + p, picked.size - 1)]
            z = shift[i] * span.inverse[0]
            g = mass[i] * math.exp(x[i] * span.rho2[0]) if start + p < picked.size else 0.0
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
