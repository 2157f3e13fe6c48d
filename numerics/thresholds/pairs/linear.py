"""Operator norm (184) of three layers of linear attention with two tokens, in pairs of float64.

Scaled by powers of c, B_1 = I + kappa_1 h_1 h_1^T and B_2 = (I + kappa_2 w w^T) B_1 with w = B_1 h_2,
kappa_1 = beta/c, kappa_2 = beta c. With x = B_1 h_3, independent of w given h_1, v = B_2 h_3 = x + kappa_2 w (w.x):
    x = v - kappa_2 w (w.v)/(1 + kappa_2 |w|^2),   Z(v) = E_{h_1} int dw p(w) p(x)/(1 + kappa_2 |w|^2),
which depends on |v| = R alone. The average over h_1 is a function of the eigenvalues of w w^T + x x^T: `linear_table`.
What is left are |w| and the angle psi between w and v. In log R, log |w| and log tan(psi) all singularities lie at a
distance of order one: 1 + kappa_2 |w|^2 vanishes at pi/2 and the Gaussians fall off up to pi/4, in log |w| up to pi/8,
since x may be as |w|^-2.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.doubledouble import add, div, exp, mul, sqrt, square
from ...arithmetic.pairs import Pairs, Parts, concatenate
from .linear_table import Table, average_table, bound_index, evaluate
from .mixing import Progress, workers
from .rules import PairRule, cut, double_exponential, gauss_legendre, pi

__all__ = ["norm_three_linear", "output_moments"]

Number = tuple[float, float]


def norm_three_linear(
    skip: Pairs, beta: Pairs, digits: float, fineness: float = 1.0, progress: Progress | None = None
) -> Pairs:
    """E || E[h_3 h_3^T | y] - I ||_F^2, to about `digits` digits.

    Parameters
    ----------
    skip, beta : Pairs, shape ()
    digits : float
        Sets all cuts and, with `fineness`, the steps.
    fineness : float
        Divides the steps.
    progress : callable, optional
        Told how many of how many parts are done.
    """
    rule, moments = output_moments(skip, beta, digits, fineness, progress)
    z, along, across = moments[0], moments[1] - moments[0], moments[2] - moments[0]
    value = (along * along + across * across) * rule.weights
    ok = z.hi > 0
    return (value[ok] / z[ok]).sum()


def output_moments(
    skip: Pairs, beta: Pairs, digits: float, fineness: float = 1.0, progress: Progress | None = None
) -> tuple[PairRule, Pairs]:
    """E[(1, (v.h_3)^2/|v|^2, |h_3|^2 less that); |v| = R] at nodes R; the weights, of 2 pi R dR, make it E[..]."""
    step = 1.1 / digits / fineness
    top = cut(digits + 2)
    exponent = math.log(10) * digits + 4
    k1, k2 = beta / skip, beta * skip
    # q is exponentially distributed; q_rule leaves out less than e^-exponent at both ends
    q_rule = double_exponential(math.exp(-exponent), exponent + 5, 1.2 * step)
    reach = (1 + 2 * float(k1.hi) * exponent) * top
    table = average_table(k1, q_rule, digits * fineness + 2, 2 * exponent + 60, 2 * reach * reach)
    radius = double_exponential(math.exp(-0.5 * exponent), reach, step)
    outer = double_exponential(math.exp(-0.5 * exponent), reach * (1 + float(k2.hi) * reach**2), step)
    rule = _Rule(radius.nodes.parts, radius.weights.parts, *_angles(math.ceil(1.2 * digits * fineness) + 2))
    moments = np.zeros((2, 3, len(outer)))

    def work(k: int) -> None:
        _moments(_Output(outer.nodes[k].number, k2.number, 10.0 ** (-digits - 10)), rule, table, moments[:, :, k])

    with ThreadPoolExecutor(workers()) as pool:
        for k, _ in enumerate(pool.map(work, range(len(outer)))):
            if progress is not None:
                progress(k + 1, len(outer))
    # densities of two normal vectors, and the four quadrants of psi
    return PairRule(outer.nodes, outer.nodes * outer.weights * pi() * 2.0), Pairs(*moments) / (pi() * pi())


class _Rule(NamedTuple):
    """Nodes and weights of |w|; where the panels of psi start, then cos(psi), sin(psi) and weights on all of them."""

    v: Parts
    weights: Parts
    starts: NDArray[np.int64]
    cos: Parts
    sin: Parts
    angles: Parts


class _Output(NamedTuple):
    """R and kappa_2, and the least of the mass that counts."""

    r: Number
    kappa: Number
    tiny: float


def _angles(order: int) -> tuple[NDArray[np.int64], Parts, Parts, Parts]:
    """The last four of `_Rule`.

    Panel 0 is 1 < tan(psi); panels 1.. are 4^-k < tan(psi) < 4^(1 - k) in the logarithm; then come those of
    0 < tan(psi) < 4^-k, k = 0, 1, ..
    """
    rule = gauss_legendre(order)
    x, w = rule.nodes * 0.5 + 0.5, rule.weights * 0.5
    rise = (x * (Pairs(2.0).log() * 2.0)).exp()
    rise_w = w * rise * (Pairs(2.0).log() * 2.0)
    # Panels of tan(psi) end at 4^-k, k < panels.
    panels = 48
    scales = 0.25 ** np.arange(panels)
    tangents = [x, *(rise * s for s in scales[1:]), *(x * s for s in scales)]
    weights = [w, *(rise_w * s for s in scales[1:]), *(w * s for s in scales)]
    t, dt = concatenate(tangents), concatenate(weights)
    square_ = t * t + 1.0
    cos, dpsi = 1.0 / square_.sqrt(), dt / square_
    sin = t * cos
    cos, sin = (concatenate([a[:order], b[order:]]) for a, b in ((sin, cos), (cos, sin)))  # panel 0 is in the cotangent
    return order * np.arange(len(tangents) + 1), cos.parts, sin.parts, dpsi.parts


@njit(error_model="numpy", nogil=True)
def _squares(a1, a2, x1, x2, m):  # type: ignore[no-untyped-def]
    """E[(a.h_3)^2 ..] of a unit vector a from the averages m, with h_3 = n' (n'.x) + tau n (n.x), n' across n.

    a and x in the frame of the eigenvectors. No terms cancel where x is large.
    """
    mh, ml = m
    aa, bb, ab = square(*a1), square(*a2), mul(*a1, *a2)
    xx, yy, xy = square(*x1), square(*x2), mul(*x1, *x2)
    both = mul(4 * ab[0], 4 * ab[1], *xy)
    mix = add(*add(*mul(*bb, *xx), *mul(*aa, *yy)), *both)
    long, side = mul(*aa, *xx), mul(*bb, *yy)
    # tau^0: sin^4 long + sin^2 cos^2 mix + cos^4 side
    o = add(mh[0], ml[0], -2 * mh[1], -2 * ml[1])
    o = mul(*add(*o, -mh[2], -ml[2]), *side)
    o = add(*o, *mul(mh[1], ml[1], *mix))
    o = add(*o, *mul(mh[2], ml[2], *long))
    # tau^1: 2 sin^2 cos^2 (a1^2 - a2^2)(x1^2 - x2^2) + 2 (1 - 4 sin^2 cos^2) a1 a2 x1 x2
    d = mul(*add(*aa, -bb[0], -bb[1]), *add(*xx, -yy[0], -yy[1]))
    d = add(*d, -both[0], -both[1])
    o = add(*o, *mul(2 * mh[4], 2 * ml[4], *d))
    o = add(*o, *mul(0.5 * mh[3], 0.5 * ml[3], *both))
    # tau^2: cos^4 long + sin^2 cos^2 mix + sin^4 side
    d = add(mh[5], ml[5], -2 * mh[6], -2 * ml[6])
    d = mul(*add(*d, -mh[7], -ml[7]), *long)
    o = add(*o, *d)
    o = add(*o, *mul(mh[6], ml[6], *mix))
    return add(*o, *mul(mh[7], ml[7], *side))


@njit(error_model="numpy", nogil=True)
def _eigenvalues(v2, x, y):  # type: ignore[no-untyped-def]
    """(G_11 - G_22)/2 and G_12 of G = w w^T + x x^T, both doubled; gap of the eigenvalues, the larger, the smaller.

    The frame is that of w: w = (v, 0) and x = (x, y).
    """
    x2, y2 = square(*x), square(*y)
    longer = add(*v2, *x2)
    d, trace = add(*longer, -y2[0], -y2[1]), add(*longer, *y2)
    o = mul(2 * x[0], 2 * x[1], *y)
    gap = sqrt(*add(*square(*d), *square(*o)))
    large = add(*trace, *gap)
    large = 0.5 * large[0], 0.5 * large[1]
    return d, o, gap, large, div(*mul(*v2, *y2), *large)


@njit(error_model="numpy", nogil=True)
def _eigenvector(d, o, gap):  # type: ignore[no-untyped-def]
    """First eigenvector (p, q): from the larger of gap + d and gap - d."""
    if gap[0] == 0.0:
        return (1.0, 0.0), (0.0, 0.0)
    low = d[1] if d[0] > 0 else -d[1]
    p = add(*gap, abs(d[0]), low)
    n = sqrt(*mul(2 * gap[0], 2 * gap[1], *p))
    p, q = div(*p, *n), div(*o, *n)
    if d[0] < 0:
        return q, p
    return p, q


@njit(error_model="numpy", nogil=True)
def _turned(p, q, x, y):  # type: ignore[no-untyped-def]
    """(x, y) along the unit vector (p, q), and across it."""
    return add(*mul(*p, *x), *mul(*q, *y)), add(*mul(*p, *y), *mul(-q[0], -q[1], *x))


@njit(error_model="numpy", nogil=True, cache=True)
def _moments(output: _Output, rule: _Rule, table: Table, out: NDArray[np.float64]) -> None:
    """Integral over a quadrant of w of (1, (v.h_3)^2/R^2, |h_3|^2 less that) (2 pi)^2 p(w) p(x)/(1 + kappa_2 |w|^2)."""
    starts, size = rule.starts, table.bound.size
    panels = (starts.size - 1) // 2
    columns = table.hi.shape[4]
    work = np.empty((7, table.hi.shape[2] * columns))
    m = Parts(np.empty(columns), np.empty(columns))
    r2 = output.r[0] * output.r[0]
    for b in range(rule.v.hi.size):
        v = rule.v.hi[b], rule.v.lo[b]
        v2 = square(*v)
        g = add(1.0, 0.0, *mul(*output.kappa, *v2))
        g = div(1.0, 0.0, *g)
        f = mul(*mul(*v, rule.weights.hi[b], rule.weights.lo[b]), *g)
        # what is smaller does not matter, R^2 Z times (N/Z)^2 < 10^4 being what counts
        least = output.tiny / (r2 * f[0])
        if table.bound[bound_index(v2[0] + r2 * g[0] * g[0], size)] < least:
            continue
        # below this tangent nothing depends on psi: the smaller eigenvalue is small, the larger one constant
        flat = math.sqrt(g[0] * g[0] + (1 + v2[0]) / r2) / max(1.0, v[0])
        inner = min(panels - 1, max(0, math.ceil(-0.5 * math.log2(flat))))
        for panel in range(inner + 2):
            block = panel if panel <= inner else panels + inner
            for e in range(starts[block], starts[block + 1]):
                # frame of w: w = (|w|, 0), v = R (cos, sin)
                cos, sin, angle = _at(rule.cos, e), _at(rule.sin, e), _at(rule.angles, e)
                x, y = mul(*mul(*output.r, *cos), *g), mul(*output.r, *sin)
                d, o, gap, large, small = _eigenvalues(v2, x, y)
                if math.exp(-0.5 * small[0]) * table.bound[bound_index(large[0], size)] * angle[0] < least:
                    continue
                if not evaluate(table, small, gap, work, m):
                    continue
                mass = exp(-0.5 * small[0], -0.5 * small[1])
                mass = mul(*mul(*mass, *f), *angle)
                p, q = _eigenvector(d, o, gap)
                (x1, x2), (a1, a2) = _turned(p, q, x, y), _turned(p, q, cos, sin)
                along = _squares(a1, a2, x1, x2, m)
                across = _squares((-a2[0], -a2[1]), a1, x1, x2, m)
                out[0, 0], out[1, 0] = add(out[0, 0], out[1, 0], *mul(*mass, m.hi[0], m.lo[0]))
                out[0, 1], out[1, 1] = add(out[0, 1], out[1, 1], *mul(*mass, *along))
                out[0, 2], out[1, 2] = add(out[0, 2], out[1, 2], *mul(*mass, *across))


@njit(error_model="numpy", nogil=True)
def _at(parts, k):  # type: ignore[no-untyped-def]
    return parts.hi[k], parts.lo[k]
