"""Compiled loops over numbers of many digits in float64, see `fixed_digits`: a run of numbers at a time."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, njit, types
from numpy.typing import NDArray

__all__ = ["BITS", "MORE", "Array", "Digits", "Levels", "Numbers", "Step", "advance", "carry", "clear", "multiply_row"]

Digits = NDArray[np.float64]
Array = NDArray[np.float64]
Levels = NDArray[np.int64]

# Of one digit.
BITS = 22
# Numbers that are multiplied together: their digits stay in the cache.
_RUN = 64
# Bounds are computed in float64 and to first order: a thousandth more covers the rest.
MORE = 1.001


class Numbers(NamedTuple):
    """Rows of numbers with bounds of their errors and of their absolute values.

    Shapes (S + 1, rows, columns), and (rows, columns) of both bounds.
    """

    digits: Digits
    error: Array
    size: Array


class Step(NamedTuple):
    """A ratio of neighbours, shape (S + 1,), and its error; how many levels products have, and what they leave out."""

    ratio: Digits
    error: float
    levels: int
    rounding: float


_NUMBERS = types.NamedTuple((float64[:, :, ::1], float64[:, ::1], float64[:, ::1]), Numbers)
_STEP = types.NamedTuple((float64[::1], float64, int64, float64), Step)


@njit((int64[:, ::1], float64[:, ::1]), cache=True)
def carry(levels: Levels, out: Digits) -> None:
    """Bring sums of digits to digits, but for the first."""
    half, last = 1 << (BITS - 1), len(levels) - 1
    carried = np.zeros(levels.shape[1], dtype=np.int64)
    for k in range(last, 0, -1):
        for t in range(levels.shape[1]):
            value = levels[k, t] + carried[t]
            carried[t] = (value + half) >> BITS
            out[k, t] = value - (carried[t] << BITS)
    for t in range(levels.shape[1]):
        out[0, t] = levels[0, t] + carried[t]


# Sums of integers below 2^53: contraction changes nothing but the time.
@njit((float64[:, ::1], float64[:, ::1], float64[:, ::1], int64), fastmath={"contract"}, cache=True)
def _convolve(product: Digits, one: Digits, other: Digits, levels: int) -> None:
    """Set product to that of two runs of numbers, before carrying."""
    # Small numbers begin with zeros, and short ones end with them.
    first, last = 0, levels - 1
    while first < last and not one[first].any():
        first += 1
    while last > first and not one[last].any():
        last -= 1
    product[:first] = 0.0
    for k in range(first, levels):
        out, x, e = product[k], one[first], other[k - first]
        for t in range(_RUN):
            out[t] = x[t] * e[t]
        i, end = first + 1, min(k, last)
        # Four terms at a time share the sum.
        while i + 3 <= end:
            x, y, z, w = one[i], one[i + 1], one[i + 2], one[i + 3]
            e, f, g, h = other[k - i], other[k - i - 1], other[k - i - 2], other[k - i - 3]
            for t in range(_RUN):
                out[t] += x[t] * e[t] + y[t] * f[t] + z[t] * g[t] + w[t] * h[t]
            i += 4
        while i <= end:
            x, e = one[i], other[k - i]
            for t in range(_RUN):
                out[t] += x[t] * e[t]
            i += 1


@njit((float64[::1], float64[::1]), cache=True)
def _copy(out: Digits, values: Digits) -> None:
    """Copy as many numbers as the shorter one has."""
    for t in range(min(len(out), len(values))):
        out[t] = values[t]


@njit((float64[:, ::1], int64), fastmath={"contract"}, cache=True)
def _carry_run(product: Digits, levels: int) -> None:
    """Bring a run of sums of digits to digits, but for the first."""
    base, inverse = 2.0**BITS, 2.0**-BITS
    # Adding and subtracting it rounds to integers.
    middle = 1.5 * 2.0**52
    for k in range(levels - 1, 0, -1):
        a, b = product[k], product[k - 1]
        for t in range(_RUN):
            carry = (a[t] * inverse + middle) - middle
            a[t] -= carry * base
            b[t] += carry


@njit((float64[:, :, ::1], int64, int64, float64[:, :, ::1], int64, int64), cache=True)
def multiply_row(out: Digits, n: int, p: int, factor: Digits, q: int, less: int) -> None:
    """Set row n of out to row p of it times row q of factor or, with less >= 0, to twice that minus its row less.

    Shapes (S + 1, rows, nodes) and (S + 1, rows, nodes).
    """
    levels = out.shape[0]
    nodes = out.shape[2]
    one = np.zeros((levels, _RUN))
    other = np.zeros((levels, _RUN))
    product = np.zeros((levels, _RUN))
    for start in range(0, nodes, _RUN):
        size = min(_RUN, nodes - start)
        for k in range(levels):
            _copy(one[k], out[k, p, start : start + size])
            _copy(other[k], factor[k, q, start : start + size])
        _convolve(product, one, other, levels)
        if less >= 0:
            for k in range(levels):
                a, b = product[k], out[k, less, start : start + size]
                for t in range(size):
                    a[t] = 2.0 * a[t] - b[t]
        _carry_run(product, levels)
        for k in range(levels):
            _copy(out[k, n, start : start + size], product[k])


@njit((int64[::1], int64[::1], int64, int64, int64[:, ::1]), cache=True)
def _pieces(low: Levels, high: Levels, row: int, column: int, pieces: Levels) -> tuple[int, int, int]:
    """Fill a run from `column` of `row` on: row, column, number and place of each piece.

    Return how many pieces there are, and where the next run begins.
    """
    rows = len(low)
    filled = count = 0
    while row < rows and filled < _RUN:
        if column >= high[row]:
            row += 1
            if row < rows:
                column = low[row]
            continue
        more = min(high[row] - column, _RUN - filled)
        pieces[count, 0], pieces[count, 1], pieces[count, 2], pieces[count, 3] = row, column, more, filled
        filled += more
        column += more
        count += 1
    return count, row, column


@njit((_NUMBERS, _NUMBERS, _STEP, int64[::1], int64[::1]), cache=True)
def advance(numbers: Numbers, factor: Numbers, step: Step, low: Levels, high: Levels) -> None:
    """Multiply, in place, columns low to high of each row by those of factor and by one ratio."""
    digits, levels = numbers.digits, step.levels
    one = np.zeros((levels, _RUN))
    other = np.zeros((levels, _RUN))
    third = np.zeros((levels, _RUN))
    product = np.zeros((levels, _RUN))
    # Digits that are left out, of all three.
    cut = 0.51 * 2.0 ** (-BITS * (levels - 1)) if levels < len(digits) else 0.0
    ratio_size = 0.0
    for k in range(levels):
        ratio_size += step.ratio[k] * 2.0 ** (-BITS * k)
    ratio_size = MORE * abs(ratio_size)
    for k in range(levels):
        third[k] = step.ratio[k]
    pieces = np.zeros((_RUN, 4), dtype=np.int64)
    row, column = 0, low[0]
    while row < len(low):
        count, row, column = _pieces(low, high, row, column, pieces)
        if count == 0:
            break
        for j in range(count):
            r, c, more, place = pieces[j]
            for k in range(levels):
                _copy(one[k, place : place + more], digits[k, r, c : c + more])
                _copy(other[k, place : place + more], factor.digits[k, r, c : c + more])
        # The ratio may have a single digit.
        _convolve(product, third, other, levels)
        _carry_run(product, levels)
        for k in range(levels):
            _copy(other[k], product[k])
        _convolve(product, one, other, levels)
        _carry_run(product, levels)
        for j in range(count):
            r, c, more, place = pieces[j]
            for k in range(levels):
                _copy(digits[k, r, c : c + more], product[k, place : place + more])
            for k in range(levels, len(digits)):
                digits[k, r, c : c + more] = 0.0
            bound, most = numbers.error[r, c : c + more], numbers.size[r, c : c + more]
            bounds, mosts = factor.error[r, c : c + more], factor.size[r, c : c + more]
            for t in range(more):
                full = mosts[t] * ratio_size
                off = (bounds[t] + cut) * ratio_size + mosts[t] * (step.error + cut) + step.rounding
                bound[t] = MORE * ((bound[t] + cut) * full + most[t] * off) + step.rounding
                most[t] = (1.0 + 1e-6) * most[t] * full + step.rounding


@njit((_NUMBERS, int64[::1], int64[::1]), cache=True)
def clear(numbers: Numbers, low: Levels, high: Levels) -> None:
    """Set columns low to high of each row to zero."""
    for row in range(len(low)):
        if low[row] < high[row]:
            numbers.digits[:, row, low[row] : high[row]] = 0.0
            numbers.error[row, low[row] : high[row]] = 0.0
            numbers.size[row, low[row] : high[row]] = 0.0
