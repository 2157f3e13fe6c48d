"""Largest modulus of the integrand of (169) on ellipses around lines: it gives the orders of Gauss-Legendre rules.

The integrand is analytic. A rule of order n on [-1, 1] errs by at most 64/15 M rho^(-2 n)/(1 - rho^-2), where M is the
largest modulus on the ellipse with foci +-1 and semi-axes that sum to rho, for every rho within which there is no
singularity. Singular are the zeros of det B_1, which the winding of det B_1 along the ellipse counts. The logarithm of
the modulus has no floor in float64, so one table of ellipses gives the orders for any number of digits.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.pair_softmax_m2.numba64 import numerators

__all__ = [
    "GOOD",
    "ROUGH",
    "Ellipses",
    "Line",
    "Link",
    "Sides",
    "best_ellipses",
    "continued_linear",
    "continued_softmax",
    "largest_on",
    "lobatto",
]

Array = NDArray[np.float64]


class Ellipses(NamedTuple):
    """Ellipses around lines through a rectangle.

    Attributes
    ----------
    lines : ndarray
        Where the lines are across the rectangle, between 0 and 1.
    log_rho : ndarray
    points : ndarray of complex, shape (ellipses, angles)
        Relative to a unit interval, from one real one to the other; the other half of an ellipse is the mirror image.
    constant : ndarray
        Logarithm of 64/15/2/(1 - rho^-2).
    """

    lines: Array
    log_rho: Array
    points: NDArray[np.complex128]
    constant: Array

    @classmethod
    def of(cls, lines: int, ellipses: int, angles: int) -> "Ellipses":
        """Table of so many lines, ellipses, and points on each."""
        log_rho = 0.13 * (13.0 ** (1 / (ellipses - 1))) ** np.arange(ellipses)
        points = 0.5 + 0.5 * np.cosh(log_rho[:, None] + 1j * np.linspace(0.0, math.pi, angles))
        return cls(lobatto(lines), log_rho, points, math.log(64 / 15 / 2) - np.log(-np.expm1(-2 * log_rho)))


class Link(NamedTuple):
    """Whether attention is linear, and the parameters of `Integrand`."""

    linear: bool
    parameters: tuple[float, ...]


class Line(NamedTuple):
    """A piece of a line along an axis: the other coordinate, where it starts, and its length."""

    axis: int
    fixed: complex
    start: float
    length: float


class Sides(NamedTuple):
    """Rectangles seen along an axis: start and length of the sides along it and across, shape (n, 2)."""

    axis: int
    along: Array
    across: Array


def lobatto(points: int) -> Array:
    """Chebyshev-Lobatto points on [0, 1], increasing."""
    return 0.5 * (1.0 - np.cos(math.pi * np.arange(points) / (points - 1)))


# To compare ways to cut, and for the orders that are used.
ROUGH, GOOD = Ellipses.of(7, 13, 17), Ellipses.of(13, 30, 33)


# `undo` of the generated kernels at complex indices, where sign functions and absolute values do not apply; and a
# function with the zeros of det B_1 and no others, with the exponents whose phases it may follow.


@njit(error_model="numpy", cache=True)
def _split(x):  # type: ignore[no-untyped-def]
    """e^x and e^-x over e^|Re x|."""
    phase, least = complex(math.cos(x.imag), math.sin(x.imag)), math.exp(-2.0 * abs(x.real))
    if x.real >= 0:
        return phase, phase.conjugate() * least
    return phase * least, phase.conjugate()


@njit(error_model="numpy", cache=True)
def _inverse(x):  # type: ignore[no-untyped-def]
    """1/x, not finite at zero, where a compiled division would raise."""
    square = x.real * x.real + x.imag * x.imag
    return complex(x.real / square, -x.imag / square)


@njit(error_model="numpy", cache=True)
def continued_softmax(xp, xm, vp, vm, c, beta):  # type: ignore[no-untyped-def]
    """h_2 in modes, 1/det B_1, a function with its poles as zeros, and two exponents, for softmax attention."""
    u, w = beta * xm * xm, beta * xp * xm
    up, wp = abs(u.real), abs(w.real)
    scale_u, scale_w = math.exp(min(up - wp, 0.0)), math.exp(min(wp - up, 0.0))
    (rise_u, fall_u), (rise_w, fall_w) = _split(u), _split(w)
    upper, det, total = numerators(rise_u * scale_u, fall_u * scale_u, rise_w * scale_w, fall_w * scale_w, c)
    inverse = _inverse(det)
    a = (vp - vm * upper * inverse) / (1 + c)
    return a, vm * total * inverse, total * inverse / (1 + c), det, u, w


@njit(error_model="numpy", cache=True)
def continued_linear(xp, xm, vp, vm, c, beta):  # type: ignore[no-untyped-def]
    """The same for linear attention, where no exponents are."""
    det = c * (c + beta * (xp * xp + xm * xm))
    inverse, cross = _inverse(det), beta * (vp * xm - vm * xp)
    return (c * vp + cross * xm) * inverse, (c * vm - cross * xp) * inverse, inverse, det, 0j, 0j


@njit(error_model="numpy", cache=True)
def _log_modulus(tp, tm, a, b, inv_det, parameters):  # type: ignore[no-untyped-def]
    """Logarithm of |weight| (1 + |z|^2), of the larger branch."""
    _, _, _, _, _, _, w2p, w2m, i1, slope, i2 = parameters
    det = inv_det.real * inv_det.real + inv_det.imag * inv_det.imag
    most = -math.inf
    for sign in (1.0, -1.0):
        real, imag = 0.0, 0.0
        for z in (tp * i1, tm * i1, (sign * a - w2p - slope * tp) * i2, (sign * b - w2m - slope * tm) * i2):
            real += z.real * z.real
            imag += z.imag * z.imag
        most = max(most, math.log1p(real + imag) - 0.5 * (real - imag))
    return most + 0.5 * math.log(det)


@njit(error_model="numpy", cache=True)
def largest_on(link, line, points):  # type: ignore[no-untyped-def]
    """Largest log-modulus on an ellipse around a line along an axis; infinite where it holds a singularity."""
    vp, vm, c, beta, w1p, w1m = link.parameters[:6]
    most, turned, before, follows_u, sense = -math.inf, 0.0, 0.0, True, 0.0
    # The middle first: the phase of the exponential that is largest there is no turn around a zero.
    for step in range(-1, len(points)):
        at = line.start + line.length * points[len(points) // 2 if step < 0 else step]
        tp, tm = (at, line.fixed) if line.axis == 0 else (line.fixed, at)
        if link.linear:
            a, b, inv_det, det, u, w = continued_linear(w1p + tp, w1m + tm, vp, vm, c, beta)
        else:
            a, b, inv_det, det, u, w = continued_softmax(w1p + tp, w1m + tm, vp, vm, c, beta)
        if step < 0:
            follows_u = abs(u.real) > abs(w.real)
            sense = np.sign(u.real if follows_u else w.real)
            continue
        value = _log_modulus(tp, tm, a, b, inv_det, link.parameters)
        if not -math.inf < value < math.inf:
            return math.inf
        most = max(most, value)
        phase = math.atan2(det.imag, det.real) - sense * (u.imag if follows_u else w.imag)
        if step > 0:
            turn = phase - before
            turn -= 2.0 * math.pi * math.floor(turn / (2.0 * math.pi) + 0.5)
            # A determinant that turns by more from one point to the next is not followed: the ellipse counts as
            # singular.
            if not abs(turn) < 2.4:
                return math.inf
            turned += turn
        before = phase
    # Half an ellipse and its mirror image: a turn by 2 pi for every pair of zeros.
    return math.inf if abs(turned) > math.pi else most


@njit(error_model="numpy", cache=True)
def best_ellipses(link, sides, table, targets, out):  # type: ignore[no-untyped-def]
    """Fill out, which holds infinities, as `Integrand.largest` describes."""
    along, log_rho = sides.along, table.log_rho
    ellipses = len(log_rho)
    wanted, most = np.empty(ellipses + 1), np.empty(ellipses + 1)
    best = ellipses // 2
    for n in range(len(along)):
        for row in range(len(table.lines)):
            fixed = complex(sides.across[n, 0] + sides.across[n, 1] * table.lines[row])
            line = Line(sides.axis, fixed, along[n, 0], along[n, 1])
            wanted[:], most[:] = math.nan, math.nan
            # No ellipse is larger than the last.
            most[ellipses] = 0.0
            # Downhill from the best of the line before.
            while True:
                for k in range(best - 1, best + 2):
                    if 0 <= k < ellipses and wanted[k] != wanted[k]:
                        for j in (k, k + 1):
                            if most[j] != most[j]:
                                most[j] = largest_on(link, line, table.points[j])
                        bound = max(most[k], most[k - 1]) if k > 0 and most[k - 1] < math.inf else most[k]
                        wanted[k] = math.inf
                        if most[k] < math.inf and most[k + 1] < math.inf:
                            out[n, row, k] = bound
                            wanted[k] = (bound + table.constant[k] - targets[n]) / (2.0 * log_rho[k])
                if best + 1 < ellipses and wanted[best + 1] < wanted[best]:
                    best += 1
                elif best > 0 and (wanted[best - 1] < wanted[best] or wanted[best] == math.inf):
                    best -= 1
                else:
                    break
