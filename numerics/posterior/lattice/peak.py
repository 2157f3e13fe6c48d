"""The least Q, and what its neighbourhood asks of the lattice: steps, mass and rounding.

Slopes of z are one-sided differences: they steer the search and set where refinement starts, and enter no result.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.references import INNER
from .integrand import distance, distances

__all__ = ["Peak", "Steps", "coarse_steps", "descend", "improve", "peak_share", "rounding", "search", "steepest"]


class Peak(NamedTuple):
    """The point of the least Q known (xp, xm, sign of the branch), z near it and where tried, and dz/dxp, dz/dxm."""

    where: NDArray[np.float64]
    z: NDArray[np.float64]
    trial: NDArray[np.float64]
    slopes: NDArray[np.float64]


class Steps(NamedTuple):
    """Steps of a lattice along its rows and from row to row, and the shift of a row per unit of xm."""

    p: float
    m: float
    shear: float


@njit(**INNER)
def search(f, radius, peak):  # type: ignore[no-untyped-def]
    """Descend from the best of a few points within the radius of the prior mean; return the least Q found."""
    p, where = f.p, peak.where
    best = np.inf
    where[0] = p[4]
    where[1] = p[5]
    where[2] = 1.0
    for i in range(6):
        for j in range(6):
            xp = p[4] + radius * 0.7 * ((2 * i + 1) / 6 - 1)
            xm = p[5] + radius * 0.7 * ((2 * j + 1) / 6 - 1)
            if f.even and xm < 0.0:
                continue
            best = improve(f, xp, xm, best, where)
    return descend(f, peak)


@njit(**INNER)
def improve(f, xp, xm, best, where):  # type: ignore[no-untyped-def]
    """Lesser one of `best` and Q at a point; `where` becomes that point and its branch if it is the latter."""
    plus, minus = distances(f, xp, xm)
    if min(plus, minus) < best:
        best = min(plus, minus)
        where[0] = xp
        where[1] = xm
        where[2] = 1.0 if plus < minus else -1.0
    return best


@njit(**INNER)
def descend(f, peak):  # type: ignore[no-untyped-def]
    """Levenberg-Marquardt on Q from `where`, which stays; return the last Q, with z and slopes taken there."""
    z, tried, slopes = peak.z, peak.trial, peak.slopes
    xp, xm, sign = peak.where[0], peak.where[1], peak.where[2]
    q = distance(f, xp, xm, sign, z)
    damping = 1e-3
    _differentiate(f, xp, xm, sign, peak)
    for _ in range(20):
        pp, pm, mm = _metric(slopes)
        gp = 0.0
        gm = 0.0
        for i in range(4):
            gp += slopes[i] * z[i]
            gm += slopes[4 + i] * z[i]
        better = False
        step_p = 0.0
        step_m = 0.0
        trial = q
        for _ in range(8):
            a = pp * (1.0 + damping)
            b = mm * (1.0 + damping)
            det = a * b - pm * pm
            step_p = -(b * gp - pm * gm) / det
            step_m = -(a * gm - pm * gp) / det
            trial = distance(f, xp + step_p, xm + step_m, sign, tried)
            if trial < q:
                better = True
                break
            damping *= 8.0
        if not better:
            break
        small = q - trial < 0.05
        xp += step_p
        xm += step_m
        q = trial
        damping *= 0.1
        for i in range(4):
            z[i] = tried[i]
        _differentiate(f, xp, xm, sign, peak)
        if small:
            break
    return q


@njit(**INNER)
def _differentiate(f, xp, xm, sign, peak):  # type: ignore[no-untyped-def]
    """Fill the slopes of z by one-sided differences."""
    z, trial, slopes = peak.z, peak.trial, peak.slopes
    step = 1e-6 * (1.0 + abs(xp))
    distance(f, xp + step, xm, sign, trial)
    for i in range(4):
        slopes[i] = (trial[i] - z[i]) / step
    step = 1e-6 * (1.0 + abs(xm))
    distance(f, xp, xm + step, sign, trial)
    for i in range(4):
        slopes[4 + i] = (trial[i] - z[i]) / step


@njit(**INNER)
def _metric(slopes):  # type: ignore[no-untyped-def]
    """Return |dz/dxp|^2, dz/dxp . dz/dxm and |dz/dxm|^2."""
    pp = 0.0
    pm = 0.0
    mm = 0.0
    for i in range(4):
        pp += slopes[i] * slopes[i]
        pm += slopes[i] * slopes[4 + i]
        mm += slopes[4 + i] * slopes[4 + i]
    return pp, pm, mm


@njit(**INNER)
def steepest(slopes):  # type: ignore[no-untyped-def]
    """Largest |dz/dh_1| along an axis."""
    pp, _, mm = _metric(slopes)
    return math.sqrt(max(pp, mm))


@njit(**INNER)
def peak_share(f, peak, share):  # type: ignore[no-untyped-def]
    """A share of the integral of exp(-Q/2)/|det B_1| in units of exp(-Q/2) at the peak, if it were Gaussian."""
    p = f.p
    _, _, inv_det = f.undo(peak.where[0], peak.where[1], p[0], p[1], p[2], p[3])
    pp, pm, mm = _metric(peak.slopes)
    return share * (2.0 * math.pi / math.sqrt(max(pp * mm - pm * pm, 1e-6 * pp * mm))) * inv_det


@njit(**INNER)
def coarse_steps(f, scales, eta, peak):  # type: ignore[no-untyped-def]
    """Steps and shear of the coarse lattice from the curvature of Q at its minimum and the kernel's own scale."""
    reach = math.hypot(peak.where[0], peak.where[1]) + 2.0 * (1.0 / f.p[8])
    # Beyond this many natural lengths 1/stiffness from the origin, the kernel's changes get narrower as 1/|h_1|.
    step_reach = 3.0
    scale = scales.near * min(1.0, step_reach / (scales.stiffness * reach + 1e-300))
    # At its singularities h_2 is infinite: it is large for z the farther away, the larger v is in prior widths of h_2,
    # up to so many; beyond, the posterior's width sets the steps.
    step_readout = 0.09
    far_readout = 8.0
    scale /= 1.0 + step_readout * min(abs(f.p[1]) * f.p[10], far_readout)
    pp, pm, mm = _metric(peak.slopes)
    # Steps of the coarse lattice: in units of the kernel's distance to its nearest singularity (`Scales.near`) along
    # each axis and of the local posterior width. They only set where refinement starts; with them the samples of the
    # channel at q = diag(0, 0.5) need the fewest nodes (tests/benchmarks/drawn.py).
    step_plus = 14.0
    step_minus = 5.75
    step_width = 0.75
    width = math.pi * math.sqrt(2.0 / (eta + 0.7)) * step_width
    step_p = min(step_plus / eta * scale, width / math.sqrt(pp))
    step_m = min(step_minus / eta * scale, width * math.sqrt(pp / max(pp * mm - pm * pm, 1e-6 * pp * mm)))
    return Steps(step_p, step_m, -pm / pp)


@njit(**INNER)
def rounding(f, linear, peak, best):  # type: ignore[no-untyped-def]
    """Rounding of a weight near the least Q, relative: of Q, and of z where large numbers are subtracted in it."""
    p, where, slopes = f.p, peak.where, peak.slopes
    a, b, _ = f.undo(where[0], where[1], p[0], p[1], p[2], p[3])
    undone = (abs(p[0]) + abs(p[1])) / (p[2] if linear else 1.0 + p[2])
    second = max(abs(a) + abs(p[6]), abs(b) + abs(p[7])) + undone
    largest = 0.0
    for k in range(8):
        largest = max(largest, abs(slopes[k]))
    off = second * p[10] + largest * max(abs(where[0]), abs(where[1]))
    # Sixteen roundings of 2^-53 on both sides of a difference.
    roundings = 2.0**-48
    return roundings * (best + off * math.sqrt(best + 1.0))
