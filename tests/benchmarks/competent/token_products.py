"""y = h_11 h_12, one index of two tokens: V E |g|^2 is the mean of one function F of omega / sqrt(V), tabulated once.

At V = 1 the mean of h less omega, given y, has the square F = E |E[h | y] - omega|^2. In units of sqrt(V) nothing
depends on V, so f(V) = V E |g|^2 is the average of F over omega ~ N(0, (1 - V)/V). Far out, y = omega_1 omega_2 + R a
with a curvature of 1/R gives F = 1 + (cos^2(2 theta) - sin^2(2 theta)/2)/R^2, 1 + 1/(4 R^2) on average. Hence

    f(V) = 1 + V (log(1/V)/8 + c) + ..,    1 - q' = V / (1 + (f - 1) + V)    at alpha = 1,

so perfect recovery is reached at alpha = 1, by 1 - q ~ 1 / (n (log(n)/8 + 1 + c)) after n iterations, if f > 1 - V at
every V: which the table decides.
"""

import math
import time
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import brentq

from .iteration import Found

__all__ = ["fraction", "improvement", "solve"]

Array = NDArray[np.float64]

# Radii between which F is summed: nearer it is constant, farther its expansion. The least V where one looks.
_CLOSE, _FAR, _LEAST = 1e-3, 300.0, 1e-9


@njit(cache=True, error_model="numpy")
def _F(u0, v0, n):  # type: ignore[no-untyped-def]
    """F by outputs y = +- r^2 / 2, r = e^t, and the two branches of (r cosh s, r sinh s) of each."""
    R = math.hypot(u0, v0)
    step, F = 6.0 / (n * (1.0 + 0.5 * R)), 0.0
    for t in np.arange(-18.0, math.log(R + 9.5), step):
        r = math.exp(t)
        m = int(math.asinh((9.0 + R) / r) / step) + 1
        for sign in range(2):
            Z = du = dv = 0.0
            for k in range(-m, m + 1):
                c, d = r * math.cosh(k * step), r * math.sinh(k * step)
                u, v = (c, d) if sign else (d, c)
                for _ in range(2):
                    e = (u - u0) ** 2 + (v - v0) ** 2
                    if e < 160.0:
                        p = math.exp(-0.5 * e)
                        Z, du, dv = Z + p, du + p * (u - u0), dv + p * (v - v0)
                    u, v = -u, -v
            if Z > 0.0:
                F += r * r * step * step / (2.0 * math.pi) * (du * du + dv * dv) / Z
    return F


@njit(cache=True, error_model="numpy")
def _far_F(w1, w2, n):  # type: ignore[no-untyped-def]
    """F far out, where h_1 > 0 and y = w_1 w_2 + R x."""
    R, dx, F = math.hypot(w1, w2), 18.0 / n, 0.0
    for i in range(n + 1):
        y = w1 * w2 + R * (i * dx - 9.0)
        Z = m1 = m2 = 0.0
        for k in range(n + 1):
            z1 = k * dx - 9.0
            z2 = y / (w1 + z1) - w2
            p = math.exp(-0.5 * (z1 * z1 + z2 * z2)) / (w1 + z1)
            Z, m1, m2 = Z + p, m1 + p * z1, m2 + p * z2
        if Z > 0.0:
            F += R * dx * dx / (2.0 * math.pi) * (m1 * m1 + m2 * m2) / Z
    return F


@lru_cache
def _table(n: int) -> tuple[Array, Array]:
    """Radii, at equal steps of their logarithm, and F - 1 there, averaged over an eighth of the circle."""
    R = np.exp(np.arange(math.log(_CLOSE), math.log(_FAR), 2.0 / n))
    theta = (np.arange(n // 2) + 0.5) * math.pi / (2 * n)
    excess = np.empty(len(R))
    for i, r in enumerate(R):
        one, two = r * np.cos(theta), r * np.sin(theta)
        if r < 16:
            found = [_F((a + b) / math.sqrt(2), (a - b) / math.sqrt(2), n) for a, b in zip(one, two, strict=True)]
        else:
            found = [_far_F(a, b, 3 * n) for a, b in zip(one, two, strict=True)]
        excess[i] = np.mean(found) - 1
    within, beyond = R[0] * np.exp(-2.0 / n * np.arange(4 * n, 0, -1)), R[-1] * np.exp(2.0 / n * np.arange(1, 4 * n))
    return np.concatenate([within, R, beyond]), np.concatenate([0 * within + excess[0], excess, 1 / (4 * beyond**2)])


def improvement(V: float, n: int) -> float:
    """(f(V) - 1 + V)/V: what an iteration at alpha = 1 takes from V is V^2 times this, to leading order."""
    return (fraction(V, n) - 1 + V) / V


def fraction(V: float, n: int) -> float:
    """f(V) = V E |g|^2 of one sample, of at most two."""
    R, excess = _table(n)
    spread = (1 - V) / V
    return float(1 + (2.0 / n) * (R * R / spread * np.exp(-R * R / (2 * spread))) @ excess)


def solve(alpha: float, coarse: int, fine: int) -> Found:
    """Overlap where 1 - q = V first equals 1 - alpha f(V), coming from q = 0; 1 where it does not above `_LEAST`."""
    begin = time.process_time()
    _table.cache_clear()
    ends = [1 - _left(alpha, n) for n in (coarse, fine)]
    return Found(np.array([ends[1]]), np.array([abs(ends[1] - ends[0]) + _LEAST]), time.process_time() - begin)


def _left(alpha: float, n: int) -> float:
    """V of the fixed point, 0 where recovery is perfect."""

    def rest(log_v: float) -> float:
        return alpha * fraction(math.exp(log_v), n) + math.exp(log_v) - 1

    before = math.log(1 - 1e-6)
    for log_v in [-0.01, *np.arange(-0.05, math.log(_LEAST), -0.05)]:
        if rest(log_v) < 0:
            return math.exp(brentq(rest, log_v, before, xtol=1e-15, rtol=1e-14))
        before = log_v
    return 0.0
