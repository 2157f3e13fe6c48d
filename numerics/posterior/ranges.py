"""Ranges of h_2 = B_1(x)^{-1} v over boxes of x: what lets the denoiser discard boxes without sampling them.

Functions of `(parameters, xp_low, xp_high, xm_low, xm_high)` in token modes with parameters = (vp, vm, c, beta, ...);
they return (a_low, a_high, b_low, b_high), an enclosure of both modes of h_2 up to rounding.
"""

import math

from numba import float64, njit, types

from attnlimits.generated.pair_softmax_m2.numba64 import ratios

__all__ = ["RANGES", "inverse_determinant_bound"]

_SIGNATURE = types.UniTuple(float64, 4)(float64[::1], float64, float64, float64, float64)


@njit(_SIGNATURE, error_model="numpy", cache=True)
def _softmax(parameters, x0, x1, y0, y1):  # type: ignore[no-untyped-def]
    """Use monotonicity: tau grows with u and falls with |w|; |s|/(c + tau) falls with u and grows with |w|.

    u = beta xm^2, w = beta xp xm; b = vm/(c + tau), a = (vp - vm s/(c + tau))/(1 + c).
    """
    vp, vm, c, beta = parameters[0], parameters[1], parameters[2], parameters[3]
    near_y = 0.0 if y0 * y1 <= 0.0 else min(abs(y0), abs(y1))
    near_x = 0.0 if x0 * x1 <= 0.0 else min(abs(x0), abs(x1))
    far_y = max(abs(y0), abs(y1))
    far_x = max(abs(x0), abs(x1))
    s_low, inverse_low = ratios(beta * far_y * far_y, beta * near_x * near_y, c)
    s_high, inverse_high = ratios(beta * near_y * near_y, beta * far_x * far_y, c)
    if (x0 >= 0.0 and y0 >= 0.0) or (x1 <= 0.0 and y1 <= 0.0):
        low, high = s_low, s_high
    elif (x0 >= 0.0 and y1 <= 0.0) or (x1 <= 0.0 and y0 >= 0.0):
        low, high = -s_high, -s_low
    else:
        low, high = -s_high, s_high
    b0, b1 = vm * inverse_high, vm * inverse_low
    a0, a1 = (vp - vm * low) / (1.0 + c), (vp - vm * high) / (1.0 + c)
    return min(a0, a1), max(a0, a1), min(b0, b1), max(b0, b1)


@njit(_SIGNATURE, error_model="numpy", cache=True)
def _linear(parameters, x0, x1, y0, y1):  # type: ignore[no-untyped-def]
    """Bound the three fractions of h_2 = (v - x (x.v)/(c/beta + |x|^2))/c.

    xp^2/(c/beta + |x|^2) grows with |xp| and falls with |xm|; xp xm/(c/beta + |x|^2) by interval arithmetic and
    by its maximum over each variable.
    """
    vp, vm, c, beta = parameters[0], parameters[1], parameters[2], parameters[3]
    d = c / beta
    near_y = 0.0 if y0 * y1 <= 0.0 else min(abs(y0), abs(y1))
    near_x = 0.0 if x0 * x1 <= 0.0 else min(abs(x0), abs(x1))
    far_y = max(abs(y0), abs(y1))
    far_x = max(abs(x0), abs(x1))
    # 1 - xp^2/(..) = (d + xm^2)/(..), and likewise for xm.
    keep_p0 = (d + near_y * near_y) / (d + near_y * near_y + far_x * far_x)
    keep_p1 = (d + far_y * far_y) / (d + far_y * far_y + near_x * near_x)
    keep_m0 = (d + near_x * near_x) / (d + near_x * near_x + far_y * far_y)
    keep_m1 = (d + far_x * far_x) / (d + far_x * far_x + near_y * near_y)
    s_low = near_x * near_y / (d + far_x * far_x + far_y * far_y)
    s_high = min(
        far_x * far_y / (d + near_x * near_x + near_y * near_y),
        min(0.5 * far_y / math.sqrt(d + far_y * far_y), 0.5 * far_x / math.sqrt(d + far_x * far_x)),
    )
    if (x0 >= 0.0 and y0 >= 0.0) or (x1 <= 0.0 and y1 <= 0.0):
        low, high = s_low, s_high
    elif (x0 >= 0.0 and y1 <= 0.0) or (x1 <= 0.0 and y0 >= 0.0):
        low, high = -s_high, -s_low
    else:
        low, high = -s_high, s_high
    a_low = min(vp * keep_p0, vp * keep_p1) - max(vm * low, vm * high)
    a_high = max(vp * keep_p0, vp * keep_p1) - min(vm * low, vm * high)
    b_low = min(vm * keep_m0, vm * keep_m1) - max(vp * low, vp * high)
    b_high = max(vm * keep_m0, vm * keep_m1) - min(vp * low, vp * high)
    return a_low / c, a_high / c, b_low / c, b_high / c


RANGES = {"softmax": _softmax, "linear": _linear}


def inverse_determinant_bound(activation: str, skip: float) -> float:
    """Largest 1/|det B_1| over all x: 1/(c (1 + c)) for softmax, 1/c^2 for linear attention."""
    return 1.0 / (skip * (1.0 + skip)) if activation == "softmax" else 1.0 / (skip * skip)
