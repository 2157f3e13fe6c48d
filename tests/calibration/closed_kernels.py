"""E f(x) f(y) of two Gaussian variables in closed form, in mpmath, and prediction errors of links from it.

With K(s, t, c) = E f(x) f(y), E x^2 = s, E y^2 = t, E x y = c: the error of the posterior mean is
K(1, 1, 1) - K(1, 1, q) and that of the plug-in is K(1, 1, 1) + K(q, q, q) - 2 K(1, q, q).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpmath.ctx_mp import MPContext

__all__ = ["CTX", "KERNELS", "Covariance", "Function", "joint_steps", "of_sum", "of_vector"]

CTX = MPContext()
CTX.dps = 30
Covariance = Callable[[Any, Any, Any], Any]
#: Steps (v_j, a_j): f(u) = sum_j v_j sign(u - a_j).
Function = Sequence[tuple[float, float]]


def _correlation(s: Any, t: Any, c: Any) -> Any:
    return c / CTX.sqrt(s * t) if s and t else CTX.zero


def _below(a: Any, b: Any, rho: Any) -> Any:
    """Probability of x < a, y < b for standard normal x, y of this correlation: Plackett's integral in sin(theta)."""
    rho = max(CTX.mpf(-1), min(CTX.mpf(1), rho))

    def density(theta: Any) -> Any:
        cosine = CTX.cos(theta)
        if not cosine:
            return CTX.zero
        return CTX.exp(-(a * a + b * b - 2 * a * b * CTX.sin(theta)) / (2 * cosine * cosine))

    return CTX.ncdf(a) * CTX.ncdf(b) + CTX.quad(density, [0, CTX.asin(rho) / 2, CTX.asin(rho)]) / (2 * CTX.pi)


def joint_steps(first: Function, second: Function, s: Any, t: Any, c: Any) -> Any:
    """E f(x) g(y) of two functions of steps; all variances positive."""
    rho = _correlation(s, t, c)
    total = CTX.zero
    for v, a in first:
        for w, b in second:
            low, high = CTX.mpf(a) / CTX.sqrt(s), CTX.mpf(b) / CTX.sqrt(t)
            if low == high == 0:
                total += v * w * 2 * CTX.asin(rho) / CTX.pi
            else:
                total += v * w * (4 * _below(low, high, rho) - 2 * CTX.ncdf(low) - 2 * CTX.ncdf(high) + 1)
    return total


def _steps(function: Function) -> Covariance:
    return lambda s, t, c: joint_steps(function, function, s, t, c)


def _moment(i: int, j: int, s: Any, t: Any, c: Any) -> Any:
    """E x^i y^j by Isserlis's theorem."""
    if i == j == 0:
        return CTX.one
    if i == 0:
        return (j - 1) * t * _moment(0, j - 2, s, t, c) if j > 1 else CTX.zero
    first = (i - 1) * s * _moment(i - 2, j, s, t, c) if i > 1 else CTX.zero
    return first + (j * c * _moment(i - 1, j - 1, s, t, c) if j else CTX.zero)


def _polynomial(*coefficients: float) -> Covariance:
    terms = [(k, CTX.mpf(v)) for k, v in enumerate(coefficients) if v]
    return lambda s, t, c: sum(v * w * _moment(i, j, s, t, c) for i, v in terms for j, w in terms)


def _relu(s: Any, t: Any, c: Any) -> Any:
    rho = max(CTX.mpf(-1), min(CTX.mpf(1), _correlation(s, t, c)))
    angle = CTX.acos(rho)
    return CTX.sqrt(s * t) * (CTX.sqrt(1 - rho * rho) + rho * (CTX.pi - angle)) / (2 * CTX.pi)


def _abs(s: Any, t: Any, c: Any) -> Any:
    rho = max(CTX.mpf(-1), min(CTX.mpf(1), _correlation(s, t, c)))
    return 2 * CTX.sqrt(s * t) * (CTX.sqrt(1 - rho * rho) + rho * CTX.asin(rho)) / CTX.pi


def _erf(a: float) -> Covariance:
    return lambda s, t, c: 2 / CTX.pi * CTX.asin(2 * a * a * c / CTX.sqrt((1 + 2 * a * a * s) * (1 + 2 * a * a * t)))


def _sin(a: float) -> Covariance:
    return lambda s, t, c: CTX.exp(-a * a * (s + t) / 2) * CTX.sinh(a * a * c)


def _exp(a: float) -> Covariance:
    return lambda s, t, c: CTX.exp(a * a * (s + t + 2 * c) / 2)


def _root(s: Any, t: Any, c: Any) -> Any:
    """Of |u|^(1/2)."""
    quarter = CTX.mpf(1) / 4
    scale = CTX.sqrt(2) * CTX.gamma(3 * quarter) ** 2 / CTX.pi * (s * t) ** quarter
    return scale * CTX.hyp2f1(-quarter, -quarter, CTX.mpf(1) / 2, _correlation(s, t, c) ** 2)


#: Links of one entry, their noise, and their kernels.
KERNELS: dict[str, tuple[str, Covariance]] = {
    "sign(h[1])": ("0", _steps([(1, 0)])),
    "sign(h[1]-1)+2*sign(h[1]+1/2)": ("0", _steps([(1, 1), (2, -0.5)])),
    "sign(h[1]**2-1)": ("0.1", _steps([(1, 1), (-1, -1)])),
    "h[1]**2": ("0", _polynomial(0, 0, 1)),
    "h[1]**3": ("0.1", _polynomial(0, 0, 0, 1)),
    "h[1]**4-3*h[1]": ("0.1", _polynomial(0, -3, 0, 0, 1)),
    "Max(h[1],0)": ("0", _relu),
    "abs(h[1])": ("0", _abs),
    "erf(h[1])": ("0.1", _erf(1)),
    "erf(20*h[1])": ("0.1", _erf(20)),
    "sin(3*h[1])": ("0.1", _sin(3)),
    "exp(h[1])": ("0.1", _exp(1)),
    "sqrt(abs(h[1]))": ("0.1", _root),
}


def of_vector(kernel: Covariance, q: float) -> list[Any]:
    """Both prediction errors of a link of one entry at this overlap."""
    one, q = CTX.one, CTX.mpf(q)
    whole = kernel(one, one, one)
    return [whole - kernel(one, one, q), whole + kernel(q, q, q) - 2 * kernel(one, q, q)]


def of_sum(functions: Sequence[Function], q: np.ndarray) -> list[Any]:
    """The same of a sum of functions of steps, of one entry of h each, at this matrix of overlaps."""
    q = [[CTX.mpf(float(x)) for x in row] for row in q]
    best = plug = CTX.zero
    for k, f in enumerate(functions):
        for m, g in enumerate(functions):
            whole = joint_steps(f, g, CTX.one, CTX.one, CTX.mpf(int(k == m)))
            best += whole - joint_steps(f, g, CTX.one, CTX.one, q[k][m])
            crossed = joint_steps(f, g, CTX.one, q[m][m], q[k][m]) + joint_steps(f, g, q[k][k], CTX.one, q[k][m])
            plug += whole - crossed + joint_steps(f, g, q[k][k], q[m][m], q[k][m])
    return [best, plug]
