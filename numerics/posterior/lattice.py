"""Posterior moments of a two-layer channel: a trapezoidal lattice over h_1, pruned by rigorous ranges.

For one output the integrand over x = h_1 (two token modes) is exp(-Q(x)/2)/|det B_1(x)| with Q = |z(x)|^2 the squared
distance from the prior mean in whitened indices, summed over the branches h_2 = +-B_1^{-1} v. Four steps:

1. Levenberg-Marquardt from the best of a few points gives an upper bound of min Q and the local widths.
2. Boxes of x are halved until their range of z (from `ranges`) is narrow; a box is dropped when Q exceeds the bound by
   `cut` on all of it, and the largest mass it can hold is added to `lost`.
3. The trapezoidal rule on a lattice of the rest, sheared along the posterior's principal direction, as four cosets: the
   sums over the cosets differ by the error of each of them, direction by direction.
4. For an analytic integrand the error is squared when the step is halved, so the error of the union is the difference
   of its cosets to the power 1.7 (two, less a margin). A direction that misses the tolerance is halved again.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64, njit, types

from ..arithmetic.addresses import address, function_at

__all__ = ["MAX_NODES", "N_INFO", "N_MOMENTS", "N_PARAMETERS", "STATUS", "bind", "run"]

# (vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2, shift): see `posterior64`.
N_PARAMETERS = 12
# 1, z_i, z_i z_j for i <= j.
N_MOMENTS = 15
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
_MAX_BOXES = 1 << 15
# Nodes that wait for evaluation, and pieces of rows that wait for theirs: a few tens of kB, which stay in cache.
_BUFFER = 256
_BUFFER_ROWS = 9
_PIECES = 256
_VECTOR_LENGTH = 8
# An analytic integrand squares its error when the step is halved; the rest is margin.
_SQUARING = 1.7
# Steps of the coarse lattice: in units of the kernel's distance to its nearest singularity (`scale`) along each axis
# and of the local posterior width. They only set where refinement starts.
_STEP_PLUS = 10.0
_STEP_MINUS = 5.0
_STEP_WIDTH = 0.75
# Beyond this many natural lengths 1/stiffness from the origin, the kernel's changes get narrower as 1/|h_1|.
_STEP_REACH = 3.0
# Rounding of the sums.
_LEAST_TOLERANCE = 1e-14
# Sixteen roundings of 2^-53 on both sides of a difference; and that of a weight from which there is nothing to sum.
_ROUNDINGS = 2.0**-48
_NO_DIGITS = 1e-2
# A side lobe of amplitude A and unit width in z, crossed in coarse steps of d, leaves the error A exp(-8 pi^2/d^2) in
# the union of the cosets. Their differences cannot show it if A is small: they see A exp(-2 pi^2/d^2) beneath what the
# main lobe leaves there. So d is set beforehand, from the range of z over each box and its largest possible A, to
# sqrt(8 pi^2/k): k = ln(A/tolerance) and a margin. Nor need k pass _LOBE_SHARE ln(1/tolerance): beyond it the
# differences, about tolerance^(1/_SQUARING), do show the lobe.
_LOBE_MARGIN = 4.0
_LOBE_SHARE = 0.55
_LOBE_FLOOR = 1e-3
# Boxes are halved while z varies by more than this over one, unless they are small beside the lattice already.
_BOX_RANGE = 8.0
_BOX_NODES = 24.0
# Nor then, while a lattice that resolves every lobe would have more coarse nodes than this.
_MANY_NODES = 4e5
# The search covers prior distances up to the root of 2 ln(1/tolerance) and this.
_SEARCH_MARGIN = 17.0
# One over the share of the tolerance that the mass outside the outer circle may take; dropped boxes take about as much.
_CUT_SHARE = 6.0

# No reference counts: they are atomic operations, and inner functions only look at arrays that `run` owns.
_INNER = {"error_model": "numpy", "_nrt": False}

_VECTOR = float64[::1]
_MATRIX = float64[:, ::1]
_PAIR = types.FunctionType(types.void(_VECTOR, _MATRIX, int64, _VECTOR))
_BRANCH = types.FunctionType(types.void(_VECTOR, _MATRIX, int64, float64, _VECTOR))
_RANGE = types.FunctionType(types.UniTuple(float64, 4)(_VECTOR, float64, float64, float64, float64))
_ROWS = types.FunctionType(types.void(_VECTOR, _MATRIX, int64))
_UNDO = types.FunctionType(types.UniTuple(float64, 3)(float64, float64, float64, float64, float64, float64))
_pair_at, _branch_at, _range_at = function_at(_PAIR), function_at(_BRANCH), function_at(_RANGE)
_rows_at, _undo_at = function_at(_ROWS), function_at(_UNDO)


def bind(pair: Any, branch: Any, ranges: Any, undo_rows: Any, undo: Any) -> tuple[int, ...]:
    """What `run` takes for the compiled functions of a kernel and its `ranges`; they must be kept while it is used."""
    kinds = (_PAIR, _BRANCH, _RANGE, _ROWS, _UNDO)
    return tuple(address(*both) for both in zip((pair, branch, ranges, undo_rows, undo), kinds, strict=True))


@njit(**_INNER)
def _residual(undo, p, xp, xm, sign, z):  # type: ignore[no-untyped-def]
    """Fill z(x) of one branch and return Q = |z|^2."""
    a, b, _ = undo(xp, xm, p[0], p[1], p[2], p[3])
    dp = xp - p[4]
    dm = xm - p[5]
    z[0] = dp * p[8]
    z[1] = dm * p[8]
    z[2] = (sign * a - p[6] - p[9] * dp) * p[10]
    z[3] = (sign * b - p[7] - p[9] * dm) * p[10]
    return z[0] * z[0] + z[1] * z[1] + z[2] * z[2] + z[3] * z[3]


@njit(**_INNER)
def _both(undo, p, xp, xm):  # type: ignore[no-untyped-def]
    """Q of the branches plus and minus at x: `_residual` for both at the price of one."""
    a, b, _ = undo(xp, xm, p[0], p[1], p[2], p[3])
    dp = xp - p[4]
    dm = xm - p[5]
    hp = p[6] + p[9] * dp
    hm = p[7] + p[9] * dm
    outer = (dp * dp + dm * dm) * p[8] * p[8]
    scale = p[10] * p[10]
    return (
        outer + ((a - hp) * (a - hp) + (b - hm) * (b - hm)) * scale,
        outer + ((a + hp) * (a + hp) + (b + hm) * (b + hm)) * scale,
    )


@njit(**_INNER)
def _slopes(undo, p, xp, xm, sign, z, work, slopes):  # type: ignore[no-untyped-def]
    """Fill dz/dxp and dz/dxm by one-sided differences: they steer the search only, never enter a result."""
    step = 1e-6 * (1.0 + abs(xp))
    _residual(undo, p, xp + step, xm, sign, work)
    for i in range(4):
        slopes[i] = (work[i] - z[i]) / step
    step = 1e-6 * (1.0 + abs(xm))
    _residual(undo, p, xp, xm + step, sign, work)
    for i in range(4):
        slopes[4 + i] = (work[i] - z[i]) / step


@njit(**_INNER)
def _descend(undo, p, xp, xm, sign, z, work, slopes):  # type: ignore[no-untyped-def]
    """Levenberg-Marquardt on Q; return the last Q, with slopes taken there."""
    q = _residual(undo, p, xp, xm, sign, z)
    damping = 1e-3
    _slopes(undo, p, xp, xm, sign, z, work, slopes)
    for _ in range(20):
        pp = 0.0
        pm = 0.0
        mm = 0.0
        gp = 0.0
        gm = 0.0
        for i in range(4):
            pp += slopes[i] * slopes[i]
            pm += slopes[i] * slopes[4 + i]
            mm += slopes[4 + i] * slopes[4 + i]
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
            trial = _residual(undo, p, xp + step_p, xm + step_m, sign, work)
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
            z[i] = work[i]
        _slopes(undo, p, xp, xm, sign, z, work, slopes)
        if small:
            break
    return q


@njit(**_INNER)
def _flush(pair, branch, p, nodes, count, kind, out):  # type: ignore[no-untyped-def]
    """Evaluate the buffered nodes of one kind (0: both branches, 1: plus, 2: minus)."""
    n = count[kind]
    if n == 0:
        return
    far = p[4] + 60.0 / p[8]
    while n % _VECTOR_LENGTH:  # the padding has weight exp(-1800)
        nodes[kind, 0, n] = far
        for k in range(1, 4):
            nodes[kind, k, n] = nodes[kind, k, n - 1]
        n += 1
    if kind == 0:
        pair(p, nodes[0], n, out)
    elif kind == 1:
        branch(p, nodes[1], n, 1.0, out)
    else:
        branch(p, nodes[2], n, -1.0, out)
    count[kind] = 0


@njit(**_INNER)
def _fill(pair, branch, undo_rows, p, pieces, step, halves, nodes, count, out):  # type: ignore[no-untyped-def]
    """Turn the listed pieces of rows into nodes, evaluate them and empty the list."""
    undo_rows(p, pieces, count[3])
    for half in range(halves):
        for t in range(count[3]):
            values = pieces[0, t], pieces[1, t], pieces[2, t]
            kind = int(pieces[3, t])
            first = pieces[4 + half, t]
            m = int(pieces[6 + half, t])
            while m > 0:
                n = count[kind]
                taken = min(m, _BUFFER - n)
                # Whole vectors: what is written past the end is overwritten by the next piece.
                whole = (taken + _VECTOR_LENGTH - 1) // _VECTOR_LENGTH * _VECTOR_LENGTH
                # Views and plain loops over them vectorise; indices with an offset would be checked for their sign.
                xp = nodes[kind, 0, n : n + whole]
                xm = nodes[kind, 1, n : n + whole]
                row1 = nodes[kind, 2, n : n + whole]
                row2 = nodes[kind, 3, n : n + whole]
                for k in range(whole):
                    xp[k] = first + k * step
                for k in range(whole):
                    xm[k] = values[0]
                for k in range(whole):
                    row1[k] = values[1]
                for k in range(whole):
                    row2[k] = values[2]
                count[kind] = n + taken
                m -= taken
                first += taken * step
                if n + taken == _BUFFER:
                    _flush(pair, branch, p, nodes, count, kind, out[half])
        for kind in range(3):
            _flush(pair, branch, p, nodes, count, kind, out[half])
    count[3] = 0


@njit(**_INNER)
def _cosets(  # type: ignore[no-untyped-def]
    pair,
    branch,
    undo_rows,
    p,
    rows,
    n_rows,
    spans,
    step_p,
    step_m,
    half_p,
    half_m,
    halves,
    shear,
    radius2,
    even,
    pieces,
    nodes,
    count,
    out,
):
    """Sum the moments over one coset, or two that share their rows; return the number of nodes.

    The lattice of steps (step_p, step_m) is shifted by half_m steps from row to row, and along the rows by half_p steps
    or, with `halves` = 2, by none for out[0] and half a step for out[1].
    """
    for half in range(halves):
        for k in range(N_MOMENTS):
            out[half, k] = 0.0
    per_step = 1.0 / step_p
    second = 0.5 * step_p
    total = 0
    # The integrand may be even in x: then the half plane xm > 0 counts twice, and the row xm = 0 once.
    for centre in range(1 if even and half_m == 0.0 else 0, -1, -1):
        for r in range(n_rows):
            i = math.ceil(rows[r, 0] / step_m - half_m)
            if even:
                i = max(i, 0.0 if centre else 1.0 - 2.0 * half_m)
            while True:
                xm = (i + half_m) * step_m
                if xm >= rows[r, 1] or (centre and i > 0.0):
                    break
                i += 1.0
                reach = radius2 - (xm - p[5]) * (xm - p[5])
                if reach <= 0.0:
                    continue
                reach = math.sqrt(reach)
                offset = shear * xm + half_p * step_p
                for t in range(int(rows[r, 2]), int(rows[r, 3])):
                    low = (max(spans[t, 0], p[4] - reach) - offset) * per_step
                    high = (min(spans[t, 1], p[4] + reach) - offset) * per_step
                    j = math.ceil(low)
                    m = math.ceil(high) - j
                    j2 = math.ceil(low - 0.5)
                    m2 = math.ceil(high - 0.5) - j2
                    if m <= 0.0 and m2 <= 0.0:
                        continue
                    n = count[3]
                    pieces[0, n] = xm
                    pieces[3, n] = 0.0 if spans[t, 2] == 3.0 else spans[t, 2]
                    pieces[4, n] = j * step_p + offset
                    pieces[5, n] = j2 * step_p + offset + second
                    pieces[6, n] = m
                    pieces[7, n] = m2
                    count[3] = n + 1
                    total += int(max(m, 0.0))
                    if halves == 2:
                        total += int(max(m2, 0.0))
                    if n + 1 == _PIECES:
                        _fill(pair, branch, undo_rows, p, pieces, step_p, halves, nodes, count, out)
        _fill(pair, branch, undo_rows, p, pieces, step_p, halves, nodes, count, out)
        if centre:
            for half in range(halves):
                for k in range(N_MOMENTS):
                    out[half, k] *= 0.5
    if even:
        for half in range(halves):
            for k in range(N_MOMENTS):
                out[half, k] *= 2.0
            for k in (1, 2, 7, 8, 10, 11):  # odd in x: z_1, z_2 and their products with z_3, z_4
                out[half, k] = 0.0
    return total


@njit(**_INNER)
def _difference(a, b, c, d):  # type: ignore[no-untyped-def]
    """Largest difference between the moments of a + b and of c + d, relative to the mass or themselves."""
    mass = a[0] + b[0] + c[0] + d[0]
    worst = 0.0
    for k in range(N_MOMENTS):
        x = a[k] + b[k]
        y = c[k] + d[k]
        worst = max(worst, abs(x - y) / (mass + abs(x + y)))
    return worst


@njit(**_INNER)
def _gap(low, high):  # type: ignore[no-untyped-def]
    """Distance of zero from an interval."""
    if low > 0.0:
        return low
    if high < 0.0:
        return -high
    return 0.0


@njit(**_INNER)
def _halve(boxes, mask, n, new_boxes, new_mask):  # type: ignore[no-untyped-def]
    """Quarter every box, keeping the order by rows; return the number of new boxes."""
    k = 0
    t = 0
    while t < n:
        end = t
        while end < n and boxes[end, 0] == boxes[t, 0]:
            end += 1
        for sy in range(2):
            for q in range(t, end):
                for sx in range(2):
                    new_boxes[k, 0] = 2 * boxes[q, 0] + sy
                    new_boxes[k, 1] = 2 * boxes[q, 1] + sx
                    new_mask[k] = mask[q]
                    k += 1
        t = end
    return k


@njit(**_INNER)
def _lobe(excess, digits):  # type: ignore[no-untyped-def]
    """The number k of `_LOBE_SHARE` for a lobe whose least Q exceeds that of the main one by `excess`."""
    return max(_LOBE_FLOOR, min(digits + _LOBE_MARGIN - 0.5 * excess, _LOBE_SHARE * digits))


@njit(**_INNER)
def _rise(p, step_p, step_m, a, b, sign):  # type: ignore[no-untyped-def]
    """|z' - z|^2 of one branch where h_1 changes by a step and the modes of undo(v) by a and b."""
    outer = (step_p * step_p + step_m * step_m) * p[8] * p[8]
    da = sign * a - p[9] * step_p
    db = sign * b - p[9] * step_m
    return outer + (da * da + db * db) * p[10] * p[10]


@njit(**_INNER)
def _lobe_steps(undo, p, boxes, mask, level, n, x0, y0, size, best, digits, shear):  # type: ignore[no-untyped-def]
    """Longest steps along the rows and from row to row that resolve every lobe, from the slopes of z over each box."""
    steepest_p = 1e-300
    steepest_m = 1e-300
    half = 0.5 * size
    for t in range(n):
        plus = _lobe(level[t, 0] - best, digits) if mask[t] & 1 else 0.0
        minus = _lobe(level[t, 1] - best, digits) if mask[t] & 2 else 0.0
        if max(plus, minus) <= _LOBE_FLOOR:
            continue
        xp = x0 + boxes[t, 1] * size + half
        xm = y0 + boxes[t, 0] * size + half
        a, b, _ = undo(xp, xm, p[0], p[1], p[2], p[3])
        for side in (-half, half):
            a1, b1, _ = undo(xp + side, xm, p[0], p[1], p[2], p[3])
            a2, b2, _ = undo(xp + side * shear, xm + side, p[0], p[1], p[2], p[3])
            if plus > _LOBE_FLOOR:
                steepest_p = max(steepest_p, plus * _rise(p, side, 0.0, a1 - a, b1 - b, 1.0))
                steepest_m = max(steepest_m, plus * _rise(p, side * shear, side, a2 - a, b2 - b, 1.0))
            if minus > _LOBE_FLOOR:
                steepest_p = max(steepest_p, minus * _rise(p, side, 0.0, a1 - a, b1 - b, -1.0))
                steepest_m = max(steepest_m, minus * _rise(p, side * shear, side, a2 - a, b2 - b, -1.0))
    return math.pi * math.sqrt(8.0 / steepest_p) * half, math.pi * math.sqrt(8.0 / steepest_m) * half


@njit(**_INNER)
def _prune(undo, ranges, p, boxes, mask, level, n, x0, y0, size, best, first, cut, digits, even, where):  # type: ignore[no-untyped-def]
    """Drop boxes and branches with Q > best + cut on all of the box.

    Returns the number kept, the widest range of z over a box, the largest range squared times what a side lobe in that
    box asks for (see `_LOBE_SHARE`), the improved bound of min Q, and the mass dropped (in units of exp(-first/2), per
    unit of 1/|det B|, weighted by 1 + Q for the sake of the second moments). `where` is set to the point and branch of
    the bound if it improved.
    """
    kept = 0
    widest = 0.0
    steepest = 0.0
    lost = 0.0
    for t in range(n):
        bottom = y0 + boxes[t, 0] * size
        left = x0 + boxes[t, 1] * size
        top = bottom + size
        right = left + size
        if even and top <= 0.0:
            continue
        dx = _gap(left - p[4], right - p[4])
        dy = _gap(bottom - p[5], top - p[5])
        outer = (dx * dx + dy * dy) * p[8] * p[8]
        if outer > best + cut:  # outside the circle, which is accounted for as a whole
            continue
        a0, a1, b0, b1 = ranges(p, left, right, bottom, top)
        l0 = p[9] * (left - p[4])
        l1 = p[9] * (right - p[4])
        kx0 = p[6] + min(l0, l1)
        kx1 = p[6] + max(l0, l1)
        l0 = p[9] * (bottom - p[5])
        l1 = p[9] * (top - p[5])
        ky0 = p[7] + min(l0, l1)
        ky1 = p[7] + max(l0, l1)
        bits = 0
        promising = False
        for s in range(2):
            if not (mask[t] >> s) & 1:
                continue
            if s == 0:
                low_p, high_p, low_m, high_m = a0 - kx1, a1 - kx0, b0 - ky1, b1 - ky0
            else:
                low_p, high_p, low_m, high_m = -a1 - kx1, -a0 - kx0, -b1 - ky1, -b0 - ky0
            gap_p = _gap(low_p, high_p)
            gap_m = _gap(low_m, high_m)
            least = outer + (gap_p * gap_p + gap_m * gap_m) * p[10] * p[10]
            if least > best + cut:
                if least < first + cut + 60.0:
                    lost += size * size * (1.0 + least) * math.exp(-0.5 * (least - first))
                continue
            bits |= 1 << s
            width = max(high_p - low_p, high_m - low_m) * p[10]
            widest = max(widest, width)
            steepest = max(steepest, width * width * _lobe(least - best, digits))
            level[kept, s] = least
            promising = promising or least < best
        if promising:  # the centre may improve the bound
            plus, minus = _both(undo, p, left + 0.5 * size, bottom + 0.5 * size)
            if min(plus, minus) < best:
                best = min(plus, minus)
                where[0] = left + 0.5 * size
                where[1] = bottom + 0.5 * size
                where[2] = 1.0 if plus < minus else -1.0
        if bits:
            boxes[kept, 0] = boxes[t, 0]
            boxes[kept, 1] = boxes[t, 1]
            mask[kept] = bits
            kept += 1
    return kept, widest, steepest, best, lost


@njit(**_INNER)
def _spans(boxes, mask, n, x0, y0, size, rows, spans):  # type: ignore[no-untyped-def]
    """Merge neighbouring boxes of a row with the same branches; return the number of rows."""
    n_rows = 0
    m = 0
    t = 0
    while t < n:
        row = boxes[t, 0]
        rows[n_rows, 0] = y0 + row * size
        rows[n_rows, 1] = y0 + (row + 1) * size
        rows[n_rows, 2] = m
        while t < n and boxes[t, 0] == row:
            start = boxes[t, 1]
            end = start
            bits = mask[t]
            t += 1
            while t < n and boxes[t, 0] == row and boxes[t, 1] == end + 1 and mask[t] == bits:
                end += 1
                t += 1
            spans[m, 0] = x0 + start * size
            spans[m, 1] = x0 + (end + 1) * size
            spans[m, 2] = bits
            m += 1
        rows[n_rows, 3] = m
        n_rows += 1
    return n_rows


@njit(**_INNER)
def _lobe_mass(slopes):  # type: ignore[no-untyped-def]
    """Integral of exp(-Q/2) over h_1, in units of its maximum, for the Gaussian of these slopes of z."""
    pp = 0.0
    pm = 0.0
    mm = 0.0
    for i in range(4):
        pp += slopes[i] * slopes[i]
        pm += slopes[i] * slopes[4 + i]
        mm += slopes[4 + i] * slopes[4 + i]
    return 2.0 * math.pi / math.sqrt(max(pp * mm - pm * pm, 1e-6 * pp * mm))


@njit(**_INNER)
def _steps(slopes, eta, scale, stiffness, reach):  # type: ignore[no-untyped-def]
    """Steps and shear of the coarse lattice from the curvature of Q at its minimum and the kernel's own scale."""
    scale *= min(1.0, _STEP_REACH / (stiffness * reach + 1e-300))
    pp = 0.0
    pm = 0.0
    mm = 0.0
    for i in range(4):
        pp += slopes[i] * slopes[i]
        pm += slopes[i] * slopes[4 + i]
        mm += slopes[4 + i] * slopes[4 + i]
    width = math.pi * math.sqrt(2.0 / (eta + 0.7)) * _STEP_WIDTH
    step_p = min(_STEP_PLUS / eta * scale, width / math.sqrt(pp))
    step_m = min(_STEP_MINUS / eta * scale, width * math.sqrt(pp / max(pp * mm - pm * pm, 1e-6 * pp * mm)))
    return step_p, step_m, -pm / pp


@njit(**_INNER)
def _noise(undo, p, where, best, slopes, linear):  # type: ignore[no-untyped-def]
    """Rounding of a weight near the least Q, relative: of Q, and of z where large numbers are subtracted in it."""
    a, b, _ = undo(where[0], where[1], p[0], p[1], p[2], p[3])
    undone = (abs(p[0]) + abs(p[1])) / (p[2] if linear else 1.0 + p[2])
    second = max(abs(a) + abs(p[6]), abs(b) + abs(p[7])) + undone
    steepest = 0.0
    for k in range(8):
        steepest = max(steepest, abs(slopes[k]))
    off = second * p[10] + steepest * max(abs(where[0]), abs(where[1]))
    return _ROUNDINGS * (best + off * math.sqrt(best + 1.0))


@njit(**_INNER)
def _integrate(  # type: ignore[no-untyped-def]
    pair,
    branch,
    ranges,
    undo_rows,
    undo,
    p,
    tolerance,
    scale,
    stiffness,
    det_bound,
    out,
    boxes,
    spare,
    mask,
    spare_mask,
    level,
    rows,
    spans,
    pieces,
    nodes,
    sums,
    count,
    z,
    work,
    slopes,
    where,
):
    """Moments of one output; returns error, lost, nodes, boxes, status, and sets p[11] to the shift."""
    sd = 1.0 / p[8]
    # x -> -x with omega_1 = 0 and no correlation between the layers leaves Q as it is.
    even = p[4] == 0.0 and p[5] == 0.0 and p[9] == 0.0
    digits = math.log(1.0 / tolerance)
    eta = digits / _SQUARING
    radius = sd * math.sqrt(2.0 * digits + _SEARCH_MARGIN)
    best = np.inf
    where[0] = p[4]
    where[1] = p[5]
    where[2] = 1.0
    for i in range(6):
        for j in range(6):
            xp = p[4] + radius * 0.7 * ((2 * i + 1) / 6 - 1)
            xm = p[5] + radius * 0.7 * ((2 * j + 1) / 6 - 1)
            if even and xm < 0.0:
                continue
            plus, minus = _both(undo, p, xp, xm)
            if min(plus, minus) < best:
                best = min(plus, minus)
                where[0] = xp
                where[1] = xm
                where[2] = 1.0 if plus < minus else -1.0
    best = _descend(undo, p, where[0], where[1], where[2], z, work, slopes)
    reach = math.hypot(where[0], where[1]) + 2.0 * sd
    step_p, step_m, shear = _steps(slopes, eta, scale, stiffness, reach)
    noise = _noise(undo, p, where, best, slopes, stiffness == 0.0)
    if not noise < _NO_DIGITS:
        return noise, 0.0, 0, 0, 4
    # Cosets differ by their rounding at least.
    enough = max(0.5 * tolerance, noise**_SQUARING)
    # The least cut that can do: all that is outside the circle against the mass of the main lobe, if it were Gaussian.
    _, _, inv_det = undo(where[0], where[1], p[0], p[1], p[2], p[3])
    outside = 4.0 * math.pi * sd * sd * (3.0 + best + 2.0 * digits) * det_bound
    cut = 2.0 * math.log(_CUT_SHARE * outside / (tolerance * _lobe_mass(slopes) * inv_det))

    first = best
    error = np.inf
    lost = np.inf
    n_nodes = 0
    n_boxes = 0
    status = 1
    for _ in range(12):
        radius = sd * math.sqrt(best + cut)
        # Both branches outside the circle: their mass, weighted by 1 + Q.
        lost = 4.0 * math.pi * sd * sd * (3.0 + best + cut) * math.exp(-0.5 * (cut + best - first))
        n = 0
        for i in range(4):
            for j in range(4):
                boxes[n, 0] = i
                boxes[n, 1] = j
                mask[n] = 3
                n += 1
        x0 = p[4] - radius
        y0 = p[5] - radius
        size = 0.5 * radius
        while True:
            n_boxes += n
            n, widest, steepest, best, dropped = _prune(
                undo, ranges, p, boxes, mask, level, n, x0, y0, size, best, first, cut, digits, even, where
            )
            lost += dropped * (2.0 if even else 1.0)
            fine = widest < _BOX_RANGE
            # No lobe narrower than this may hide between the nodes.
            narrowest = math.pi * math.sqrt(8.0 / steepest) * size
            cell = min(step_p, narrowest) * min(step_m, narrowest)
            small = size * size < _BOX_NODES * step_p * step_m and n * size * size < _MANY_NODES * cell
            if fine or small or 4 * n > _MAX_BOXES:
                break
            n = _halve(boxes, mask, n, spare, spare_mask)
            boxes, spare = spare, boxes
            mask, spare_mask = spare_mask, mask
            size *= 0.5
        if best < first - 0.5:
            # The search had stopped in another valley: take the steps from this one.
            best = min(best, _descend(undo, p, where[0], where[1], where[2], z, work, slopes))
            reach = math.hypot(where[0], where[1]) + 2.0 * sd
            step_p, step_m, shear = _steps(slopes, eta, scale, stiffness, reach)
            first = best
            continue
        if narrowest < max(step_p, step_m):
            lobe_p, lobe_m = _lobe_steps(undo, p, boxes, mask, level, n, x0, y0, size, best, digits, shear)
            step_p = min(step_p, max(narrowest, lobe_p))
            step_m = min(step_m, max(narrowest, lobe_m))
        n_rows = _spans(boxes, mask, n, x0, y0, size, rows, spans)
        p[11] = best
        if n * size * size > 0.25 * MAX_NODES * step_p * step_m:
            status = 2
            break
        s00 = sums[0]
        s10 = sums[1]
        s01 = sums[2]
        s11 = sums[3]
        extra = sums[4]
        zero = sums[5]
        zero[:] = 0.0
        r2 = radius * radius
        for half_m in range(2):
            n_nodes += _cosets(
                pair, branch, undo_rows, p, rows, n_rows, spans, step_p, step_m, 0.0, 0.5 * half_m, 2, shear, r2, even,
                pieces, nodes, count, sums[2 * half_m : 2 * half_m + 2],
            )  # fmt: skip
        both = _difference(s00, s11, s01, s10) ** _SQUARING
        error_m = max(both, _difference(s00, s10, s01, s11) ** _SQUARING)
        error_p = max(both, _difference(s00, s01, s10, s11) ** _SQUARING)
        fine_p = 0.5 * step_p
        fine_m = 0.5 * step_m
        for k in range(N_MOMENTS):
            out[k] = s00[k] + s01[k] + s10[k] + s11[k]
        while error_p + error_m > enough and n_nodes < MAX_NODES:
            along = error_p >= error_m
            n_nodes += _cosets(
                pair, branch, undo_rows, p, rows, n_rows, spans, fine_p, fine_m, 0.5 if along else 0.0,
                0.0 if along else 0.5, 1, shear, r2, even, pieces, nodes, count, sums[4:5],
            )  # fmt: skip
            if along:
                error_p = _difference(out, zero, extra, zero) ** _SQUARING
                fine_p *= 0.5
            else:
                error_m = _difference(out, zero, extra, zero) ** _SQUARING
                fine_m *= 0.5
            for k in range(N_MOMENTS):
                out[k] += extra[k]
        for k in range(N_MOMENTS):
            out[k] *= fine_p * fine_m
        error = error_p + error_m
        if not out[0] > 0.0:
            status = 3
            break
        lost *= det_bound * math.exp(0.5 * (best - first)) / out[0]
        status = 0 if error <= enough else 1
        if error > 0.5 * tolerance:
            error = max(error, noise)
        if lost <= 0.5 * tolerance:
            break
        status = 1
        cut += 2.0 * math.log(lost / tolerance) + 3.0
    return error, lost, n_nodes, n_boxes, status


@njit(
    types.void(types.UniTuple(int64, 5), _MATRIX, float64, float64, float64, float64, _MATRIX, _MATRIX),
    error_model="numpy",
    cache=True,
    nogil=True,
)
def run(functions, parameters, tolerance, scale, stiffness, det_bound, moments, info):  # type: ignore[no-untyped-def]
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
    """
    pair, branch = _pair_at(functions[0]), _branch_at(functions[1])
    ranges, undo_rows, undo = _range_at(functions[2]), _rows_at(functions[3]), _undo_at(functions[4])
    boxes = np.empty((_MAX_BOXES, 2), np.int32)
    spare = np.empty((_MAX_BOXES, 2), np.int32)
    mask = np.empty(_MAX_BOXES, np.int8)
    spare_mask = np.empty(_MAX_BOXES, np.int8)
    level = np.empty((_MAX_BOXES, 2))
    rows = np.empty((_MAX_BOXES, 4))
    spans = np.empty((_MAX_BOXES, 3))
    # xm, two numbers of `undo_row`, kind, first xp of both halves, nodes of both halves
    pieces = np.zeros((8, _PIECES))
    nodes = np.zeros((3, _BUFFER_ROWS, _BUFFER + _VECTOR_LENGTH))
    sums = np.empty((6, N_MOMENTS))
    count = np.zeros(4, np.int64)  # nodes of each kind, pieces of rows
    z = np.empty(4)
    work = np.empty(4)
    slopes = np.empty(8)
    where = np.empty(3)
    for i in range(len(parameters)):
        p = parameters[i]
        wanted = max(_LEAST_TOLERANCE, tolerance / (1.0 + (p[9] * p[10] / p[8]) ** 2))
        error, lost, n_nodes, n_boxes, status = _integrate(
            pair, branch, ranges, undo_rows, undo, p, wanted, scale, stiffness, det_bound, moments[i],
            boxes, spare, mask, spare_mask, level, rows, spans, pieces, nodes, sums, count, z, work, slopes, where,
        )  # fmt: skip
        info[i, 0] = error
        info[i, 1] = lost
        info[i, 2] = n_nodes
        info[i, 3] = n_boxes
        info[i, 4] = status
        steep_p = 0.0
        steep_m = 0.0
        for k in range(4):
            steep_p += slopes[k] * slopes[k]
            steep_m += slopes[4 + k] * slopes[4 + k]
        info[i, 5] = math.sqrt(max(steep_p, steep_m))
