"""Moments of the posterior to a tolerance: boxes, sums over a lattice in them, and refinement where these miss it."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import float64, int64, njit, types
from numpy.typing import NDArray

from ...arithmetic.addresses import MATRIX
from ...arithmetic.references import INNER
from .boxes import MAX_BOXES, Boxes, Cut, cover, lobe_steps, merge
from .cosets import BUFFER_SHAPES, Buffer, Coset, Region, coset_sums, difference
from .integrand import (
    N_MOMENTS,
    SQUARING,
    Integrand,
    Scales,
    branch_at,
    pair_at,
    range_at,
    rows_at,
    undo_at,
)
from .peak import Peak, Steps, coarse_steps, descend, peak_share, rounding, search, steepest

__all__ = ["MAX_NODES", "N_INFO", "SCRATCH", "STATUS", "compiled"]

# Errors of the rule and of what it left out, nodes, boxes, status, steepest slope of z.
N_INFO = 6

STATUS = {
    0: "converged",
    1: "the lattice did not reach the tolerance",
    2: "the posterior is too narrow for the prior: too many boxes or nodes",
    3: "the likelihood underflows",
    4: "float64 has no digits for it: y is too unlikely under (omega, V), or V too small beside omega^2 and v^2",
}

MAX_NODES = 80_000_000
# Numbers of memory for `run`: nine and four indices and two bytes for each box.
SCRATCH = MAX_BOXES * 11 + MAX_BOXES // 4
# Rounding of a weight from which there is nothing to sum.
_NO_DIGITS = 1e-2
# The search covers prior distances up to the root of 2 ln(1/tolerance) and this.
_SEARCH_MARGIN = 17.0
# One over the share of the tolerance that the mass outside the outer circle may take; dropped boxes take about as much.
_CUT_SHARE = 6.0


class Workspace(NamedTuple):
    """Arrays that every output of a batch uses anew.

    `sums` has the cosets (0, 0), (1/2, 0), (0, 1/2), (1/2, 1/2), a refinement, zeros, and the moments wanted.
    """

    peak: Peak
    boxes: Boxes
    spare: Boxes
    rows: NDArray[np.float64]
    spans: NDArray[np.float64]
    buffer: Buffer
    sums: NDArray[np.float64]


class _Goal(NamedTuple):
    """Error at which refinement ends, and nodes at which it gives up."""

    error: float
    nodes: int


class _Answer(NamedTuple):
    """The first five columns of `info`, see `run`."""

    error: float
    lost: float
    nodes: int
    boxes: int
    status: int


@njit(**INNER)
def _refined_sums(f, region, steps, goal, buffer, sums):  # type: ignore[no-untyped-def]
    """Sum four cosets, then halve the steps along the worse direction; return the error and the number of nodes."""
    s00, s10, s01, s11, extra, zero, out = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6]
    nodes = 0
    for half_m in range(2):
        coset = Coset(steps.p, steps.m, steps.shear, 0.0, 0.5 * half_m)
        nodes += coset_sums(f, region, coset, buffer, sums[2 * half_m : 2 * half_m + 2])
    both = difference(s00, s11, s01, s10) ** SQUARING
    error_m = max(both, difference(s00, s10, s01, s11) ** SQUARING)
    error_p = max(both, difference(s00, s01, s10, s11) ** SQUARING)
    fine_p = 0.5 * steps.p
    fine_m = 0.5 * steps.m
    for k in range(N_MOMENTS):
        out[k] = s00[k] + s01[k] + s10[k] + s11[k]
    while error_p + error_m > goal.error and nodes < goal.nodes:
        along = error_p >= error_m
        coset = Coset(fine_p, fine_m, steps.shear, 0.5 if along else 0.0, 0.0 if along else 0.5)
        nodes += coset_sums(f, region, coset, buffer, sums[4:5])
        if along:
            error_p = difference(out, zero, extra, zero) ** SQUARING
            fine_p *= 0.5
        else:
            error_m = difference(out, zero, extra, zero) ** SQUARING
            fine_m *= 0.5
        for k in range(N_MOMENTS):
            out[k] += extra[k]
    for k in range(N_MOMENTS):
        out[k] *= fine_p * fine_m
    return error_p + error_m, nodes


@njit(**INNER)
def _integrate(f, scales, tolerance, space):  # type: ignore[no-untyped-def]
    """Moments of one output, in the last row of `sums`; sets p[11] to the shift."""
    p, peak, total = f.p, space.peak, space.sums[6]
    sd = 1.0 / p[8]
    digits = math.log(1.0 / tolerance)
    eta = digits / SQUARING
    best = search(f, sd * math.sqrt(2.0 * digits + _SEARCH_MARGIN), peak)
    steps = coarse_steps(f, scales, eta, peak)
    noise = rounding(f, scales.stiffness == 0.0, peak, best)
    # Rounding leaves no digits, or is not a number as exponents are beyond float64.
    if not noise < _NO_DIGITS:
        return _Answer(noise, 0.0, 0, 0, 4)
    # Cosets differ by their rounding at least.
    enough = max(0.5 * tolerance, noise**SQUARING)
    # The least cut that can do: all that is outside the circle against the mass of the main lobe, if it were Gaussian.
    outside = 4.0 * math.pi * sd * sd * (3.0 + best + 2.0 * digits) * scales.det_bound
    cut = 2.0 * math.log(_CUT_SHARE * outside / peak_share(f, peak, tolerance))
    first = best
    error = np.inf
    lost = np.inf
    n_nodes = 0
    n_boxes = 0
    status = 1
    for _ in range(12):
        radius = sd * math.sqrt(best + cut)
        covered = cover(f, space.boxes, space.spare, Cut(best, first, cut, digits), steps, peak.where)
        best, lost, grid = covered.best, covered.lost, covered.grid
        n_boxes += covered.visited
        if best < first - 0.5:
            # The search had stopped in another valley: take the steps from this one.
            best = min(best, descend(f, peak))
            steps = coarse_steps(f, scales, eta, peak)
            first = best
            continue
        if covered.narrowest < max(steps.p, steps.m):
            lobe_p, lobe_m = lobe_steps(f, covered.boxes, grid, Cut(best, first, cut, digits), steps.shear)
            step_p = min(steps.p, max(covered.narrowest, lobe_p))
            steps = Steps(step_p, min(steps.m, max(covered.narrowest, lobe_m)), steps.shear)
        p[11] = best
        if grid.n * grid.size * grid.size > 0.25 * MAX_NODES * steps.p * steps.m:
            status = 2
            break
        n_rows = merge(covered.boxes, grid, space.rows, space.spans)
        region = Region(space.rows, n_rows, space.spans, radius * radius, scales.stiffness**2)
        goal = _Goal(enough, MAX_NODES - n_nodes)
        error, nodes = _refined_sums(f, region, steps, goal, space.buffer, space.sums)
        n_nodes += nodes
        # All weights have underflowed, or they are not numbers.
        if not total[0] > 0.0:
            status = 3
            break
        lost *= scales.det_bound * math.exp(0.5 * (best - first)) / total[0]
        status = 0 if error <= enough else 1
        if error > 0.5 * tolerance:
            error = max(error, noise)
        if lost <= 0.5 * tolerance:
            break
        status = 1
        cut += 2.0 * math.log(lost / tolerance) + 3.0
    return _Answer(error, lost, n_nodes, n_boxes, status)


@cache
def compiled() -> Callable[..., None]:
    """`run` as machine code, which takes seconds to compile: when it is first asked for, not when it is imported."""
    numbers = (float64, float64, float64, float64)
    signature = types.void(types.UniTuple(int64, 5), MATRIX, *numbers, MATRIX, MATRIX, float64[::1])
    made: Callable[..., None] = njit(signature, error_model="numpy", cache=True, nogil=True)(run)
    return made


def run(functions, parameters, tolerance, scale, stiffness, det_bound, moments, info, scratch):  # type: ignore[no-untyped-def]
    """Moments of a batch.

    Parameters
    ----------
    functions : tuple of int
        From `bind`.
    parameters : ndarray, shape (n, 12)
        See `posterior64`; the last column is set to the shift that `moments` are scaled by (exp(shift/2)).
    tolerance : float
        Of the moments, relative to the mass, in whitened indices; divided by 1/(1 - correlation^2) of the layers, the
        factor by which V^{-1} can magnify their errors.
    scale : float
        Length on which the kernel varies with h_1 near the origin.
    stiffness : float
        The kernel varies within 1/(stiffness^2 |h_1|) far out; 0 if it does not.
    det_bound : float
        Upper bound of 1/|det B_1|.
    moments : ndarray, shape (n, 15)
        Filled.
    info : ndarray, shape (n, N_INFO)
        Filled: discretisation error, bound of the truncated mass, nodes, boxes, status, largest |dz/dh_1| along an axis
        at the least Q.
    scratch : ndarray, shape (SCRATCH,)
        Memory that no other thread uses meanwhile.
    """
    pair, branch = pair_at(functions[0]), branch_at(functions[1])
    ranges, undo_rows, undo = range_at(functions[2]), rows_at(functions[3]), undo_at(functions[4])
    scales = Scales(scale, stiffness, det_bound)
    n = MAX_BOXES
    least, rows = scratch[: 2 * n].reshape(n, 2), scratch[2 * n : 6 * n].reshape(n, 4)
    spans, rest = scratch[6 * n : 9 * n].reshape(n, 3), scratch[9 * n :]
    cells = rest[: 2 * n].view(np.int32).reshape(2, n, 2)
    branches = rest[2 * n :].view(np.int8).reshape(2, n)
    points = np.empty((4, 8))
    listed, ordered, sums, places = BUFFER_SHAPES
    filled, scratch = np.zeros(3, np.int64), np.zeros(places, np.int64)
    buffer = Buffer(np.zeros(listed), filled, np.zeros(ordered), np.zeros(sums), scratch, pair, branch, undo_rows)
    space = Workspace(
        Peak(points[0], points[1], points[2], points[3]),
        Boxes(cells[0], branches[0], least),
        Boxes(cells[1], branches[1], least),
        rows,
        spans,
        buffer,
        np.zeros((7, N_MOMENTS)),
    )
    total = space.sums[6]
    # Rounding of the sums.
    least_tolerance = 1e-14
    for i in range(len(parameters)):
        p = parameters[i]
        even = p[4] == 0.0 and p[5] == 0.0 and p[9] == 0.0
        wanted = max(least_tolerance, tolerance / (1.0 + (p[9] * p[10] / p[8]) ** 2))
        answer = _integrate(Integrand(p, even, ranges, undo), scales, wanted, space)
        for k in range(N_MOMENTS):
            moments[i, k] = total[k]
        info[i, 0] = answer.error
        info[i, 1] = answer.lost
        info[i, 2] = answer.nodes
        info[i, 3] = answer.boxes
        info[i, 4] = answer.status
        info[i, 5] = steepest(space.peak.slopes)
