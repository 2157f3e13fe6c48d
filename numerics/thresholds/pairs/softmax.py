"""Operator norm (184) of softmax attention with two tokens at any depth, in pairs of float64."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from ...arithmetic.doubledouble import accumulate, add, exp, square
from ...arithmetic.pairs import Pairs, Parts
from .mixing import PairLaw, workers
from .rules import PairRule, cut, pi

__all__ = ["gaussian_sums", "norm_from_law"]


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
    out = Parts.zeros(len(columns), v.hi.size)
    column = Parts(np.array([f.hi for f in columns]), np.array([f.lo for f in columns]))
    _sums(shift.parts, column, v.parts, tiny, out)
    # + 0: the low parts were only gathered up
    return [Pairs(h) + Pairs(lo) for h, lo in zip(*out, strict=True)]


@njit(error_model="numpy", nogil=True, cache=True)
def _sums(shift: Parts, column: Parts, v: Parts, tiny: float, out: Parts) -> None:
    """out[k, p] += sum_i column[k, i] exp(-(v[p] - shift[i])^2/2)."""
    n = v.hi.size
    gh, gl = np.empty(n), np.empty(n)
    for i in range(shift.hi.size):
        if abs(column.hi[0, i]) < tiny:
            continue
        for p in range(n):
            ah, al = add(v.hi[p], v.lo[p], -shift.hi[i], -shift.lo[i])
            ah, al = square(ah, al)
            gh[p], gl[p] = exp(-0.5 * ah, -0.5 * al)
        for k in range(column.hi.shape[0]):
            accumulate(column.hi[k, i], column.lo[k, i], gh, gl, out.hi[k], out.lo[k])
