"""Fixed-point numbers as digits in float64: products of matrices run as exact products of digits in BLAS.

A number x, |x| < 2^20, is sum_k d_k 2^(-22 k), k = 0 .. S, with integers |d_k| <= 2^21 in float64. 2048 products of
two digits add up to 2^53 at most, so that a float64 matrix product of digits has no rounding. Products are kept to the
level k = S: what is left out is below `Scale.rounding`. Every number has a bound of its error beside it, which goes
through all operations as the radius of a ball does.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, fmpz
from numba import float64, int64, njit
from numpy.typing import NDArray

from .ball import working_bits
from .balls import Balls

__all__ = [
    "BITS",
    "MOST_TERMS",
    "Digits",
    "Fixed",
    "Scale",
    "add_product",
    "advance",
    "carried",
    "clear",
    "dot",
    "from_balls",
    "multiply_row",
    "product_error",
]

Digits = NDArray[np.float64]
Array = NDArray[np.float64]
Levels = NDArray[np.int64]

# Of one digit.
BITS = 22
# Terms whose products of digits add up exactly.
MOST_TERMS = 2 ** (53 - 2 * (BITS - 1))
# Numbers that are multiplied together: their digits stay in the cache.
_RUN = 64
# Bounds are computed in float64 and to first order: a thousandth more covers the rest.
_MORE = 1.001


@dataclass(frozen=True)
class Scale:
    """How many digits there are behind the first."""

    last: int

    @classmethod
    def for_bits(cls, bits: int) -> "Scale":
        """Digits whose products are good to so many bits."""
        return cls(-(-(bits + 24) // BITS))

    @property
    def bits(self) -> int:
        """Bits of the last digit."""
        return BITS * self.last

    @property
    def unit(self) -> float:
        """Value of one in the last digit."""
        return math.ldexp(1.0, -self.bits)

    @property
    def rounding(self) -> float:
        """Bound of what a product leaves out: sum over k > S of (2 S - k + 1) 2^(42 - 22 k)."""
        return 1.01 * self.last * math.ldexp(self.unit, 2 * (BITS - 1) - BITS)


@dataclass(frozen=True)
class Fixed:
    """Numbers with bounds of their errors.

    Attributes
    ----------
    digits : array, shape (S + 1, ...)
    error : array, shape (...)
    """

    digits: Digits
    error: Array

    @property
    def scale(self) -> Scale:
        """Digits behind the first."""
        return Scale(len(self.digits) - 1)

    @property
    def value(self) -> Array:
        """Nearly the nearest float64."""
        levels = len(self.digits)
        units = np.ldexp(1.0, -BITS * np.arange(levels))
        return np.asarray((units @ self.digits.reshape(levels, -1)).reshape(self.error.shape))

    @property
    def size(self) -> Array:
        """Bound of the absolute value."""
        return _MORE * np.abs(self.value)

    def __getitem__(self, index: Any) -> "Fixed":
        """Some of the numbers."""
        parts = index if isinstance(index, tuple) else (index,)
        return Fixed(self.digits[(slice(None), *parts)], self.error[index])

    def __add__(self, other: "Fixed") -> "Fixed":
        """Sum."""
        return carried((self.digits + other.digits).astype(np.int64), self.error + other.error)

    def __sub__(self, other: "Fixed") -> "Fixed":
        """Difference."""
        return carried((self.digits - other.digits).astype(np.int64), self.error + other.error)

    def __mul__(self, other: "Fixed") -> "Fixed":
        """Product, entry by entry; shapes of equal length are broadcast."""
        error = _MORE * (self.size * other.error + self.error * other.size) + self.scale.rounding
        whole = (len(self.digits), *error.shape)
        # Copies: the first one turns into the product.
        out, factor = (
            np.array(np.broadcast_to(x.digits, whole), order="C").reshape(whole[0], 1, -1) for x in (self, other)
        )
        multiply_row(out, 0, 0, factor, 0, -1)
        return Fixed(out.reshape(whole), error)

    @property
    def turned(self) -> "Fixed":
        """Transpose of a matrix."""
        return Fixed(self.digits.transpose(0, 2, 1), self.error.T)

    def times_power(self, power: int, levels: int) -> "Fixed":
        """2^power times the numbers, 0 <= power <= 31, with fewer digits."""
        shifted = carried((self.digits * 2.0**power).astype(np.int64), self.error * 2.0**power)
        return shifted.cut(levels)

    def cut(self, levels: int) -> "Fixed":
        """Only so many digits."""
        if levels == len(self.digits):
            return self
        return Fixed(self.digits[:levels], self.error + Scale(levels - 1).unit)

    def balls(self) -> Balls:
        """Numbers with their errors, flat."""
        total = self.digits[0].ravel().astype(np.int64).astype(object)
        for row in self.digits[1:]:
            total = (total << BITS) + row.ravel().astype(np.int64)
        with working_bits(self.scale.bits + 64):
            unit = arb(2) ** -self.scale.bits
            return [
                arb(fmpz(value)) * unit + arb(0, error)
                for value, error in zip(total.tolist(), self.error.ravel().tolist(), strict=True)
            ]


def from_balls(values: Balls, scale: Scale) -> Fixed:
    """Numbers below 2^20."""
    size = -(-(scale.bits + BITS) // 8) + 4
    offset = 1 << (scale.bits + BITS - 1)
    with working_bits(scale.bits + 64):
        unit = arb(2) ** scale.bits
        parts = [
            (int((value.mid() * unit).floor().unique_fmpz()) + offset).to_bytes(size, "little") for value in values
        ]
        error = _MORE * (np.array([float(value.rad()) for value in values]) + scale.unit)
    raw = np.frombuffer(b"".join(parts), dtype=np.uint8).reshape(len(values), size).T.astype(np.int64)
    levels = np.empty((scale.last + 1, len(values)), dtype=np.int64)
    for place in range(scale.last + 1):
        byte, bit = divmod(BITS * place, 8)
        word = raw[byte] | raw[byte + 1] << 8 | raw[byte + 2] << 16 | raw[byte + 3] << 24
        levels[scale.last - place] = word >> bit & (2**BITS - 1)
    levels[0] -= 2 ** (BITS - 1)
    return carried(levels, error)


def carried(levels: Levels, error: Array) -> Fixed:
    """Numbers from sums of digits, shape (S + 1, ...)."""
    digits = np.ascontiguousarray(levels).reshape(len(levels), -1)
    out = np.empty(digits.shape)
    _carry(digits, out)
    return Fixed(out.reshape(levels.shape), error)


def dot(left: Fixed, right: Fixed) -> Fixed:
    """Matrix product of left, (rows, n), and the transpose of right, (columns, n); n <= MOST_TERMS."""
    levels = np.zeros((len(left.digits), left.error.shape[0], right.error.shape[0]), dtype=np.int64)
    add_product(levels, np.ascontiguousarray(left.digits), right.digits)
    return carried(levels, product_error(left.size, left.error, right.size, right.error, left.scale))


def product_error(size: Array, error: Array, other_size: Array, other_error: Array, scale: Scale) -> Array:
    """Bounds of the errors of a matrix product of `dot`, from bounds of absolute values and of errors."""
    return _MORE * (size @ other_error.T + error @ other_size.T) + size.shape[1] * scale.rounding


@njit((int64[:, ::1], float64[:, ::1]), cache=True)
def _carry(levels: Levels, out: Digits) -> None:
    """Bring sums of digits to digits, but for the first."""
    half, last = 1 << (BITS - 1), len(levels) - 1
    carry = np.zeros(levels.shape[1], dtype=np.int64)
    for k in range(last, 0, -1):
        for t in range(levels.shape[1]):
            value = levels[k, t] + carry[t]
            carry[t] = (value + half) >> BITS
            out[k, t] = value - (carry[t] << BITS)
    for t in range(levels.shape[1]):
        out[0, t] = levels[0, t] + carry[t]


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


@njit(
    (
        float64[:, :, ::1],
        float64[:, ::1],
        float64[:, ::1],
        float64[:, :, ::1],
        float64[:, ::1],
        float64[:, ::1],
        float64[::1],
        float64,
        int64[::1],
        int64[::1],
        int64,
        float64,
    ),
    cache=True,
)
def advance(
    digits: Digits,
    error: Array,
    size: Array,
    factor: Digits,
    factor_error: Array,
    factor_size: Array,
    ratio: Digits,
    ratio_error: float,
    low: Levels,
    high: Levels,
    levels: int,
    rounding: float,
) -> None:
    """Multiply, in place, columns low to high of each row by those of factor and by one ratio, with so many levels.

    Shapes (S + 1, rows, columns), and (rows, columns) of errors and of bounds of the absolute values; ratio (S + 1,).
    """
    one = np.zeros((levels, _RUN))
    other = np.zeros((levels, _RUN))
    third = np.zeros((levels, _RUN))
    product = np.zeros((levels, _RUN))
    # Digits that are left out, of all three.
    cut = 0.51 * 2.0 ** (-BITS * (levels - 1)) if levels < len(digits) else 0.0
    ratio_size = 0.0
    for k in range(levels):
        ratio_size += ratio[k] * 2.0 ** (-BITS * k)
    ratio_size = _MORE * abs(ratio_size)
    for k in range(levels):
        third[k] = ratio[k]
    row, column = 0, low[0]
    rows = len(low)
    # Where each piece of a run comes from.
    pieces = np.zeros((_RUN, 4), dtype=np.int64)
    while row < rows:
        filled = count = 0
        while row < rows and filled < _RUN:
            if column >= high[row]:
                row += 1
                if row < rows:
                    column = low[row]
                continue
            more = min(high[row] - column, _RUN - filled)
            for k in range(levels):
                _copy(one[k, filled : filled + more], digits[k, row, column : column + more])
                _copy(other[k, filled : filled + more], factor[k, row, column : column + more])
            pieces[count, 0], pieces[count, 1], pieces[count, 2], pieces[count, 3] = row, column, more, filled
            filled += more
            column += more
            count += 1
        if filled == 0:
            break
        # The ratio may have a single digit.
        _convolve(product, third, other, levels)
        _carry_run(product, levels)
        other[:] = product
        _convolve(product, one, other, levels)
        _carry_run(product, levels)
        for j in range(count):
            r, c, more, place = pieces[j]
            for k in range(levels):
                _copy(digits[k, r, c : c + more], product[k, place : place + more])
            for k in range(levels, len(digits)):
                digits[k, r, c : c + more] = 0.0
            bound, most = error[r, c : c + more], size[r, c : c + more]
            bounds, mosts = factor_error[r, c : c + more], factor_size[r, c : c + more]
            for t in range(more):
                full = mosts[t] * ratio_size
                off = (bounds[t] + cut) * ratio_size + mosts[t] * (ratio_error + cut) + rounding
                bound[t] = _MORE * ((bound[t] + cut) * full + most[t] * off) + rounding
                most[t] = (1.0 + 1e-6) * most[t] * full + rounding


@njit((float64[:, :, ::1], float64[:, ::1], float64[:, ::1], int64[::1], int64[::1]), cache=True)
def clear(digits: Digits, error: Array, size: Array, low: Levels, high: Levels) -> None:
    """Set columns low to high of each row to zero."""
    for row in range(len(low)):
        if low[row] < high[row]:
            digits[:, row, low[row] : high[row]] = 0.0
            error[row, low[row] : high[row]] = 0.0
            size[row, low[row] : high[row]] = 0.0


def add_product(levels: Levels, left: Digits, right: Digits) -> None:
    """Add left times right, digit by digit, to sums of digits.

    Parameters
    ----------
    levels : array, shape (S + 1, rows, columns), int64
    left : array, shape (S + 1, rows, n)
        Leading digits that vanish in all rows cost nothing.
    right : array, shape (S + 1, columns, n)
        It may have fewer digits. n <= MOST_TERMS. Each of the n terms errs by `Scale.rounding` at most.
    """
    last, rows = len(left) - 1, left.shape[1]
    first = 0
    while first < last and not left[first].any():
        first += 1
    # So many products of matrices still add up exactly.
    room = max(1, MOST_TERMS // left.shape[2])
    total = np.zeros((last + 1 - first, rows, right.shape[1]))
    count = min(last + 1 - first, len(right))
    for k in range(count):
        product = left[first : last + 1 - k].reshape(-1, left.shape[2]) @ right[k].T
        total[k:] += product.reshape(last + 1 - k - first, rows, -1)
        if (k + 1) % room == 0 or k == count - 1:
            levels[first:] += total.astype(np.int64)
            total[:] = 0.0
