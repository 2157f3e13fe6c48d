"""Operator norm (184) of three layers of linear attention with two tokens, in pairs of float64.

Scaled by powers of c, B_1 = I + kappa_1 h_1 h_1^T and B_2 = (I + kappa_2 w w^T) B_1 with w = B_1 h_2,
kappa_1 = beta/c, kappa_2 = beta c. Turning all h_l alike turns B_2 into O B_2 O^T, so h_1 may lie on the first axis
and the direction of v = h_3 B_2^T be uniform. With C = B_2^{-1} and v = R g/|g| the last layer is R C g/|g|:
    Z(R) = E[|det C| exp(-R^2 |C g|^2/(2 |g|^2))]/(2 pi),
and likewise its moments along and across v. Variables: q = |h_1|^2/2; w in polar coordinates; the direction g,
stretched so that the ellipse C looks round. In log q, log |w| and log R all singularities lie at a distance of order
one: 1 + kappa q and 1 + kappa |w|^2 vanish at pi and pi/2, and the Gaussians fall off up to pi/4, in log |w| up to
pi/8, since |C g|^2 may be as |w|^-4.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .doubledouble import Pairs, accumulate, add, concatenate, div, exp, mul, mul_float, sqrt, square, two_product
from .mixing import Progress, workers
from .rules import cos_sin, cut, double_exponential, gauss_legendre, pi

__all__ = ["norm_three_linear"]

Array = NDArray[np.float64]

# Nodes that hold 10^(_FLOAT_DIGITS - digits) of the mass together are summed in float64.
_FLOAT_DIGITS = 12.0


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
    step = 1.1 / digits / fineness
    top = cut(digits + 2)
    exponent = math.log(10) * digits + 4
    k1, k2 = beta / skip, beta * skip
    # q is exponentially distributed; q_rule leaves out less than e^-exponent at both ends
    q_rule = double_exponential(math.exp(-exponent), exponent + 5, 1.6 * step)
    reach = (1 + 2 * float(k1.hi) * exponent) * top
    radius = double_exponential(math.exp(-0.5 * exponent), reach, step)
    outer = double_exponential(math.exp(-0.5 * exponent), reach * (1 + float(k2.hi) * reach**2), step)
    minus_half_r2 = outer.nodes * outer.nodes * -0.5
    circle, gauss = _circle(), _gauss()
    share = 10.0 ** (_FLOAT_DIGITS - digits) / len(q_rule)

    def work(k: int) -> Pairs:
        q = q_rule.nodes[k]
        scalars = [k1 * q * 2.0 + 1.0, q_rule.weights[k] * (-q).exp(), k2]
        numbers = [float(x) for f in scalars for x in (f.hi, f.lo)]
        arrays = [x for f in (radius.nodes, radius.weights, *circle) for x in (f.hi, f.lo)]
        size, mass, along, across = (
            Pairs(*f) for f in _nodes(*numbers, *arrays, _SIZES, gauss, exponent, 1.25 * fineness)
        )
        order = np.argsort(-mass.hi)
        tail = np.cumsum(mass.hi[order][::-1])[::-1]
        head = int(np.searchsorted(-tail, -share))
        columns = [mass[order], (mass * along)[order], (mass * across)[order]]
        return radial_sums(size[order], columns, minus_half_r2, head, exponent + 12)

    total = Pairs(np.zeros((3, len(outer))))
    with ThreadPoolExecutor(workers()) as pool:
        for k, part in enumerate(pool.map(work, range(len(q_rule)))):
            total = total + part
            if progress is not None:
                progress(k + 1, len(q_rule))
    r = outer.nodes
    # R^2 dR/R: Z = z/(2 pi), and v has 2 pi R dR
    z = total[0]
    along, across = total[1] * r * r - z, total[2] * r * r - z
    value = (along * along + across * across) * r * outer.weights
    ok = z.hi > math.exp(-3 * exponent)
    return (value[ok] / z[ok]).sum()


_MOST_GAUSS = 40
# Numbers of directions on a quarter or half circle that there are tables for.
_SIZES = np.array(
    [4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 512]
)


def _circle() -> tuple[Pairs, Pairs]:
    """Cosines and sines of the midpoints of n equal parts of the half circle, for n in _SIZES one after the other."""
    parts = [cos_sin(pi() * (np.arange(n) + 0.5) / Pairs(float(n))) for n in _SIZES]
    return concatenate([p[0] for p in parts]), concatenate([p[1] for p in parts])


def _gauss() -> Array:
    """Gauss-Legendre rules on [0, 1] of 1, 2, .. nodes, times 2/pi, as pairs: shape (order, 4, node)."""
    out = np.zeros((_MOST_GAUSS + 1, 4, _MOST_GAUSS))
    for n in range(1, _MOST_GAUSS + 1):
        rule = gauss_legendre(n)
        nodes, weights = rule.nodes * 0.5 + 0.5, rule.weights / pi()
        out[n, :, :n] = nodes.hi, nodes.lo, weights.hi, weights.lo
    return out


@njit(error_model="numpy", nogil=True)
def _angles(t, left, fineness, gauss):  # type: ignore[no-untyped-def]
    """Nodes phi in a quarter circle: cos, sin and weight times 2/pi, as pairs.

    The density of w has a feature where tan(phi) ~ 1/t and B_2 where tan(phi) ~ t: Gauss panels in tan(phi) up to
    1/t, in log tan(phi), in which all singularities are at pi/2 or further, and in cot(phi).
    """
    n = min(gauss.shape[0] - 1, int(fineness * left / (2 * math.log(4.2))) + 2)
    inner = math.ceil(2 * math.log(t) / 1.4)
    out = np.empty((6, n * (inner + 2)))
    length = 2 * math.log(t) / max(inner, 1)
    fh, fl = two_product(-0.5 * inner, length)
    fh, fl = exp(fh, fl)
    for panel in range(inner + 2):
        for k in range(n):
            i = panel * n + k
            xh, xl, wh, wl = gauss[n, :, k]
            if panel < inner:
                # panels of the float64 numbers -edge, -edge + length, .., edge: the products are exact as pairs
                eh, el = mul_float(*add(xh, xl, panel - 0.5 * inner, 0.0), length)
                zh, zl = exp(eh, el)
                wh, wl = mul(*mul_float(wh, wl, length), zh, zl)
            else:
                zh, zl = mul(xh, xl, fh, fl)
                wh, wl = mul(wh, wl, fh, fl)
            n2h, n2l = add(1.0, 0.0, *square(zh, zl))
            wh, wl = div(wh, wl, n2h, n2l)
            nh, nl = sqrt(n2h, n2l)
            ch, cl = div(1.0, 0.0, nh, nl)
            sh, sl = div(zh, zl, nh, nl)
            if panel == inner + 1:
                ch, cl, sh, sl = sh, sl, ch, cl
            out[0, i], out[1, i], out[2, i], out[3, i], out[4, i], out[5, i] = ch, cl, sh, sl, wh, wl
    return out


def radial_sums(size: Pairs, columns: "list[Pairs]", x: Pairs, head: int, exponent: float) -> Pairs:
    """sum_i column_i exp(x size_i) for each x <= 0 (falling) and column; from `head` on in float64."""
    hi, lo = np.zeros((len(columns), x.hi.size)), np.zeros((len(columns), x.hi.size))
    column_h, column_l = np.array([f.hi for f in columns]), np.array([f.lo for f in columns])
    _head_sums(size.hi[:head], size.lo[:head], column_h, column_l, x.hi, x.lo, exponent, hi, lo)
    rest = np.zeros(hi.shape)
    _tail_sums(size.hi[head:], column_h[:, head:], x.hi, exponent, rest)
    return Pairs(hi) + Pairs(lo) + Pairs(rest)


@njit(error_model="numpy", nogil=True)
def _head_sums(sh, sl, ch, cl, xh, xl, exponent, out_h, out_l):  # type: ignore[no-untyped-def]
    gh, gl = np.empty(xh.size), np.empty(xh.size)
    for i in range(sh.size):
        n = np.searchsorted(-xh, exponent / sh[i])
        for p in range(n):
            ah, al = mul(xh[p], xl[p], sh[i], sl[i])
            gh[p], gl[p] = exp(ah, al)
        for k in range(ch.shape[0]):
            accumulate(ch[k, i], cl[k, i], gh[:n], gl[:n], out_h[k], out_l[k])


@njit(error_model="numpy", nogil=True)
def _tail_sums(s, c, x, exponent, out):  # type: ignore[no-untyped-def]
    g = np.empty(x.size)
    for i in range(s.size):
        n = np.searchsorted(-x, exponent / s[i])
        for p in range(n):
            g[p] = math.exp(x[p] * s[i])
        for k in range(c.shape[0]):
            for p in range(n):
                out[k, p] += c[k, i] * g[p]


@njit(error_model="numpy", nogil=True)
def _pick(sizes, wanted):  # type: ignore[no-untyped-def]
    """Index of the smallest size >= wanted (the largest there is, if none), and where its table starts."""
    start = 0
    for k in range(sizes.size - 1):
        if sizes[k] >= wanted:
            return sizes[k], start
        start += sizes[k]
    return sizes[-1], start


@njit(error_model="numpy", nogil=True)
def _nodes(th, tl, qh, ql, kh, kl, vh, vl, wh, wl, ch, cl, sh, sl, sizes, gauss, exponent, fineness):  # type: ignore[no-untyped-def]
    """Nodes of (w, direction of v) at one h_1: |C g|^2/|g|^2, mass |det C|, and the squares along and across v.

    t = 1 + kappa_1 |h_1|^2 and its weight q, kappa_2 = k; nodes v and weights w of |w|; c, s tables of the circle.
    """
    capacity = 1 << 16
    out = np.empty((8, capacity))
    count = 0
    left = exponent + min(0.0, math.log(qh))
    if left <= 0:
        return (out[0, :0], out[1, :0]), (out[2, :0], out[3, :0]), (out[4, :0], out[5, :0]), (out[6, :0], out[7, :0])
    ith, itl = div(1.0, 0.0, th, tl)
    angles = _angles(th, left, fineness, gauss)
    for a in range(angles.shape[1]):
        uch, ucl, ush, usl, ah, al = angles[:, a]
        for b in range(vh.size):
            # density of w: exp(-V^2 (cos^2/t^2 + sin^2)/2)/(2 pi t), dw = V dV d phi
            v2h, v2l = square(vh[b], vl[b])
            xh, xl = mul(uch, ucl, ith, itl)
            xh, xl = add(*square(xh, xl), *square(ush, usl))
            xh, xl = mul(xh, xl, v2h, v2l)
            mh, ml = exp(-0.5 * xh, -0.5 * xl)
            mh, ml = mul(mh, ml, *mul(vh[b], vl[b], wh[b], wl[b]))
            mh, ml = mul(mh, ml, *mul(ah, al, ith, itl))
            mh, ml = mul(mh, ml, qh, ql)
            left = exponent + math.log(max(mh, 1e-300)) + 3
            if left <= 0:
                continue
            # gamma = k V^2/(1 + k V^2); C = diag(1/t, 1) (1 - gamma w w^T/V^2)
            xh, xl = mul(kh, kl, v2h, v2l)
            dh, dl = add(1.0, 0.0, xh, xl)
            idh, idl = div(1.0, 0.0, dh, dl)
            gh, gl = mul(xh, xl, idh, idl)
            mh, ml = mul(mh, ml, *mul(idh, idl, ith, itl))
            xh, xl = mul(gh, gl, *square(uch, ucl))
            c11h, c11l = add(1.0, 0.0, -xh, -xl)
            c11h, c11l = mul(c11h, c11l, ith, itl)
            xh, xl = mul(gh, gl, *square(ush, usl))
            c22h, c22l = add(1.0, 0.0, -xh, -xl)
            xh, xl = mul(gh, gl, *mul(uch, ucl, ush, usl))
            c21h, c21l = -xh, -xl
            c12h, c12l = mul(-xh, -xl, ith, itl)
            # The frame in which |C g|^2 is diagonal, its smaller entry first; any frame is allowed, so float64 will do.
            p = c11h * c11h + c21h * c21h
            r = c12h * c12h + c22h * c22h
            o = c11h * c12h + c21h * c22h
            angle = 0.5 * math.atan2(-2 * o, r - p)
            trace = 0.5 * (p + r)
            determinant = idh * ith
            large = trace + math.sqrt(max(trace * trace - determinant * determinant, 0.0))
            lam = math.sqrt(determinant / large)
            fa, fb = math.cos(angle), math.sin(angle)
            number, start = _pick(sizes, fineness * left / (2 * min(0.7, math.atanh(min(lam, 0.999)))) + 4)
            # lam (fa^2 + fb^2), the determinant of the map from psi's circle
            jh, jl = add(*two_product(fa, fa), *two_product(fb, fb))
            jh, jl = mul_float(jh, jl, lam)
            jh, jl = div(jh, jl, float(number), 0.0)
            mh, ml = mul(mh, ml, jh, jl)
            while count + number > capacity:
                grown = np.empty((8, 2 * capacity))
                grown[:, :capacity] = out
                out = grown
                capacity *= 2
            for e in range(start, start + number):
                yh, yl = mul_float(sh[e], sl[e], lam)
                g1h, g1l = add(*mul_float(ch[e], cl[e], fa), *mul_float(yh, yl, -fb))
                g2h, g2l = add(*mul_float(ch[e], cl[e], fb), *mul_float(yh, yl, fa))
                h1h, h1l = add(*mul(c11h, c11l, g1h, g1l), *mul(c12h, c12l, g2h, g2l))
                h2h, h2l = add(*mul(c21h, c21l, g1h, g1l), *mul(c22h, c22l, g2h, g2l))
                nh, nl = add(*square(g1h, g1l), *square(g2h, g2l))
                inh, inl = div(1.0, 0.0, nh, nl)
                xh, xl = add(*square(h1h, h1l), *square(h2h, h2l))
                out[0, count], out[1, count] = mul(xh, xl, inh, inl)
                out[2, count], out[3, count] = mul(mh, ml, inh, inl)
                xh, xl = add(*mul(h1h, h1l, g1h, g1l), *mul(h2h, h2l, g2h, g2l))
                xh, xl = mul(xh, xl, inh, inl)
                out[4, count], out[5, count] = square(xh, xl)
                xh, xl = add(*mul(h2h, h2l, g1h, g1l), *mul(-h1h, -h1l, g2h, g2l))
                xh, xl = mul(xh, xl, inh, inl)
                out[6, count], out[7, count] = square(xh, xl)
                count += 1
    return (
        (out[0, :count].copy(), out[1, :count].copy()),
        (out[2, :count].copy(), out[3, :count].copy()),
        (out[4, :count].copy(), out[5, :count].copy()),
        (out[6, :count].copy(), out[7, :count].copy()),
    )
