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

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.doubledouble import Pairs, add, concatenate, div, exp, mul, sqrt, square
from .linear_table import average_table, bound_index, evaluate
from .mixing import Progress, workers
from .rules import PairRule, cut, double_exponential, gauss_legendre, pi

__all__ = ["norm_three_linear", "output_moments"]

# Panels of tan(psi) end at 4^-k, k < _PANELS.
_PANELS = 48


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
    starts, angles = _angles(math.ceil(1.2 * digits * fineness) + 2)
    arrays = [x for f in (radius.nodes, radius.weights, *angles) for x in (f.hi, f.lo)]
    tables = (table.hi, table.lo, table.head, table.bound)
    moments = np.zeros((2, 3, len(outer)))

    def work(k: int) -> None:
        r = outer.nodes[k]
        numbers = [float(x) for f in (r, k2) for x in (f.hi, f.lo)]
        _moments(*numbers, *arrays, starts, *tables, 10.0 ** (-digits - 10), moments[:, :, k])

    with ThreadPoolExecutor(workers()) as pool:
        for k, _ in enumerate(pool.map(work, range(len(outer)))):
            if progress is not None:
                progress(k + 1, len(outer))
    # densities of two normal vectors, and the four quadrants of psi
    return PairRule(outer.nodes, outer.nodes * outer.weights * pi() * 2.0), Pairs(*moments) / (pi() * pi())


def _angles(order: int) -> tuple[NDArray[np.int64], tuple[Pairs, Pairs, Pairs]]:
    """Where the panels start, then cos(psi), sin(psi) and weights on all of them.

    Panel 0 is 1 < tan(psi); panels 1.. are 4^-k < tan(psi) < 4^(1 - k) in the logarithm; then come those of
    0 < tan(psi) < 4^-k, k = 0, 1, ..
    """
    rule = gauss_legendre(order)
    x, w = rule.nodes * 0.5 + 0.5, rule.weights * 0.5
    rise = (x * (Pairs(2.0).log() * 2.0)).exp()
    rise_w = w * rise * (Pairs(2.0).log() * 2.0)
    scales = 0.25 ** np.arange(_PANELS)
    tangents = [x, *(rise * s for s in scales[1:]), *(x * s for s in scales)]
    weights = [w, *(rise_w * s for s in scales[1:]), *(w * s for s in scales)]
    t, dt = concatenate(tangents), concatenate(weights)
    square_ = t * t + 1.0
    cos, dpsi = 1.0 / square_.sqrt(), dt / square_
    sin = t * cos
    cos, sin = (concatenate([a[:order], b[order:]]) for a, b in ((sin, cos), (cos, sin)))  # panel 0 is in the cotangent
    return order * np.arange(len(tangents) + 1), (cos, sin, dpsi)


@njit(error_model="numpy", nogil=True)
def _squares(a1h, a1l, a2h, a2l, x1h, x1l, x2h, x2l, mh, ml):  # type: ignore[no-untyped-def]
    """E[(a.h_3)^2 ..] of a unit vector a from the averages m, with h_3 = n' (n'.x) + tau n (n.x), n' across n.

    a and x in the frame of the eigenvectors. No terms cancel where x is large.
    """
    aah, aal = square(a1h, a1l)
    bbh, bbl = square(a2h, a2l)
    abh, abl = mul(a1h, a1l, a2h, a2l)
    xxh, xxl = square(x1h, x1l)
    yyh, yyl = square(x2h, x2l)
    xyh, xyl = mul(x1h, x1l, x2h, x2l)
    bothh, bothl = mul(4 * abh, 4 * abl, xyh, xyl)
    mixh, mixl = add(*mul(bbh, bbl, xxh, xxl), *mul(aah, aal, yyh, yyl))
    mixh, mixl = add(mixh, mixl, bothh, bothl)
    longh, longl = mul(aah, aal, xxh, xxl)
    sideh, sidel = mul(bbh, bbl, yyh, yyl)
    # tau^0: sin^4 long + sin^2 cos^2 mix + cos^4 side
    oh, ol = add(mh[0], ml[0], -2 * mh[1], -2 * ml[1])
    oh, ol = mul(*add(oh, ol, -mh[2], -ml[2]), sideh, sidel)
    oh, ol = add(oh, ol, *mul(mh[1], ml[1], mixh, mixl))
    oh, ol = add(oh, ol, *mul(mh[2], ml[2], longh, longl))
    # tau^1: 2 sin^2 cos^2 (a1^2 - a2^2)(x1^2 - x2^2) + 2 (1 - 4 sin^2 cos^2) a1 a2 x1 x2
    dh, dl = mul(*add(aah, aal, -bbh, -bbl), *add(xxh, xxl, -yyh, -yyl))
    dh, dl = add(dh, dl, -bothh, -bothl)
    oh, ol = add(oh, ol, *mul(2 * mh[4], 2 * ml[4], dh, dl))
    oh, ol = add(oh, ol, *mul(0.5 * mh[3], 0.5 * ml[3], bothh, bothl))
    # tau^2: cos^4 long + sin^2 cos^2 mix + sin^4 side
    dh, dl = add(mh[5], ml[5], -2 * mh[6], -2 * ml[6])
    dh, dl = mul(*add(dh, dl, -mh[7], -ml[7]), longh, longl)
    oh, ol = add(oh, ol, dh, dl)
    oh, ol = add(oh, ol, *mul(mh[6], ml[6], mixh, mixl))
    return add(oh, ol, *mul(mh[7], ml[7], sideh, sidel))


@njit(error_model="numpy", nogil=True)
def _moments(  # type: ignore[no-untyped-def]
    rh, rl, kh, kl, vh, vl, wh, wl, ch, cl, sh, sl, ah, al, starts, table_h, table_l, head, bound, tiny, out
):
    """Integral over a quadrant of w of (1, (v.h_3)^2/R^2, |h_3|^2 less that) (2 pi)^2 p(w) p(x)/(1 + kappa_2 |w|^2).

    R = r, kappa_2 = k; nodes v and weights w of |w|; c, s, a: cos, sin and weights of psi.
    """
    panels = (starts.size - 1) // 2
    columns = table_h.shape[4]
    work = np.empty((7, table_h.shape[2] * columns))
    mh, ml = np.empty(columns), np.empty(columns)
    r2 = rh * rh
    for b in range(vh.size):
        v2h, v2l = square(vh[b], vl[b])
        gh, gl = add(1.0, 0.0, *mul(kh, kl, v2h, v2l))
        gh, gl = div(1.0, 0.0, gh, gl)
        fh, fl = mul(*mul(vh[b], vl[b], wh[b], wl[b]), gh, gl)
        # what is smaller does not matter, R^2 Z times (N/Z)^2 < 10^4 being what counts
        least = tiny / (r2 * fh)
        if bound[bound_index(v2h + r2 * gh * gh, bound.size)] < least:
            continue
        # below this tangent nothing depends on psi: the smaller eigenvalue is small, the larger one constant
        flat = math.sqrt(gh * gh + (1 + v2h) / r2) / max(1.0, vh[b])
        inner = min(panels - 1, max(0, math.ceil(-0.5 * math.log2(flat))))
        for panel in range(inner + 2):
            block = panel if panel <= inner else panels + inner
            for e in range(starts[block], starts[block + 1]):
                # frame of w: w = (|w|, 0), v = R (cos, sin)
                xh, xl = mul(rh, rl, ch[e], cl[e])
                xh, xl = mul(xh, xl, gh, gl)
                yh, yl = mul(rh, rl, sh[e], sl[e])
                # (G_11 - G_22)/2, G_12 of G = w w^T + x x^T
                x2h, x2l = square(xh, xl)
                y2h, y2l = square(yh, yl)
                sumh, suml = add(v2h, v2l, x2h, x2l)
                dh, dl = add(sumh, suml, -y2h, -y2l)
                th, tl = add(sumh, suml, y2h, y2l)
                oh, ol = mul(2 * xh, 2 * xl, yh, yl)
                gaph, gapl = sqrt(*add(*square(dh, dl), *square(oh, ol)))
                l1h, l1l = add(th, tl, gaph, gapl)
                l1h, l1l = 0.5 * l1h, 0.5 * l1l
                l2h, l2l = div(*mul(v2h, v2l, y2h, y2l), l1h, l1l)
                if math.exp(-0.5 * l2h) * bound[bound_index(l1h, bound.size)] * ah[e] < least:
                    continue
                if not evaluate(table_h, table_l, head, l2h, l2l, gaph, gapl, work, mh, ml):
                    continue
                eh, el = exp(-0.5 * l2h, -0.5 * l2l)
                eh, el = mul(*mul(eh, el, fh, fl), ah[e], al[e])
                # first eigenvector (p, q): from the larger of gap + d and gap - d
                if gaph == 0.0:
                    ph, pl, qh, ql = 1.0, 0.0, 0.0, 0.0
                else:
                    ph, pl = add(gaph, gapl, abs(dh), dl if dh > 0 else -dl)
                    nh, nl = sqrt(*mul(2 * gaph, 2 * gapl, ph, pl))
                    ph, pl = div(ph, pl, nh, nl)
                    qh, ql = div(oh, ol, nh, nl)
                    if dh < 0:
                        ph, pl, qh, ql = qh, ql, ph, pl
                x1h, x1l = add(*mul(ph, pl, xh, xl), *mul(qh, ql, yh, yl))
                x2h, x2l = add(*mul(ph, pl, yh, yl), *mul(-qh, -ql, xh, xl))
                a1h, a1l = add(*mul(ph, pl, ch[e], cl[e]), *mul(qh, ql, sh[e], sl[e]))
                a2h, a2l = add(*mul(ph, pl, sh[e], sl[e]), *mul(-qh, -ql, ch[e], cl[e]))
                along = _squares(a1h, a1l, a2h, a2l, x1h, x1l, x2h, x2l, mh, ml)
                across = _squares(-a2h, -a2l, a1h, a1l, x1h, x1l, x2h, x2l, mh, ml)
                out[0, 0], out[1, 0] = add(out[0, 0], out[1, 0], *mul(eh, el, mh[0], ml[0]))
                out[0, 1], out[1, 1] = add(out[0, 1], out[1, 1], *mul(eh, el, *along))
                out[0, 2], out[1, 2] = add(out[0, 2], out[1, 2], *mul(eh, el, *across))
