"""Operator norm (184) of softmax attention with two tokens at any depth, in pairs of float64."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.doubledouble import Pairs, accumulate, add, exp, square
from .mixing import PairLaw, workers
from .rules import PairRule, cut, pi

__all__ = ["gaussian_sums", "norm_from_law"]

Array = NDArray[np.float64]


def norm_from_law(law: PairLaw, minus: PairRule, plus: PairRule, digits: float) -> Pairs:
    """E || E[h_L h_L^T | y] - I ||_F^2 from the law of (S, T).

    The last layer's modes are h_- = v_-/T, h_+ = v_+ - S h_-; both rules cover v >= 0, the weights included.
    """
    inverse_t = (-law.log_t).exp()
    base = law.weights * inverse_t / (pi() * 2.0)
    top = cut(digits)
    tiny = 10.0 ** (-digits - 8)

    def work(k: int) -> Pairs:
        b = inverse_t * minus.nodes[k]
        keep = np.abs(b.hi) < top + 2
        if not keep.any():
            return Pairs(0.0)
        b = b[keep]
        mass = base[:, keep] * (b * b * -0.5).exp()
        shift = law.s.reshape(-1, 1) * b
        ones = Pairs(np.ones(shift.shape))
        columns = [ones, shift, shift * shift, b * ones, shift * b, b * b * ones]
        z, mean, square_, mean_b, mixed, square_b = gaussian_sums(
            shift.ravel(), [(mass * f).ravel() for f in columns], plus.nodes, tiny
        )
        v = plus.nodes
        # below, the signed weights leave but noise
        ok = z.hi > 10.0 ** (-digits - 7)
        pp = v * (v * z - mean * 2.0) + square_ - z
        value = pp * pp + (v * mean_b - mixed) * (v * mean_b - mixed) * 2.0 + (square_b - z) * (square_b - z)
        value = value * plus.weights
        ratio = value[ok] / z[ok]
        return ratio.sum() * minus.weights[k] * 4.0

    total = Pairs(0.0)
    with ThreadPoolExecutor(workers()) as pool:
        for part in pool.map(work, range(len(minus))):
            total = total + part
    return total


def gaussian_sums(shift: Pairs, columns: "list[Pairs]", v: Pairs, tiny: float) -> "list[Pairs]":
    """sum_i column_i exp(-(v - shift_i)^2/2) at each v, for each column; less than `tiny` in the first is left out."""
    out_h, out_l = np.zeros((len(columns), v.hi.size)), np.zeros((len(columns), v.hi.size))
    column_h, column_l = np.array([f.hi for f in columns]), np.array([f.lo for f in columns])
    _sums(shift.hi, shift.lo, column_h, column_l, v.hi, v.lo, tiny, out_h, out_l)
    # + 0: the low parts were only gathered up
    return [Pairs(h) + Pairs(lo) for h, lo in zip(out_h, out_l, strict=True)]


@njit(error_model="numpy", nogil=True)
def _sums(sh, sl, ch, cl, vh, vl, tiny, out_h, out_l):  # type: ignore[no-untyped-def]
    """out[k, p] += sum_i c[k, i] exp(-(v[p] - s[i])^2/2)."""
    n = vh.size
    gh, gl = np.empty(n), np.empty(n)
    for i in range(sh.size):
        if abs(ch[0, i]) < tiny:
            continue
        for p in range(n):
            ah, al = add(vh[p], vl[p], -sh[i], -sl[i])
            ah, al = square(ah, al)
            gh[p], gl[p] = exp(-0.5 * ah, -0.5 * al)
        for k in range(ch.shape[0]):
            accumulate(ch[k, i], cl[k, i], gh, gl, out_h[k], out_l[k])
