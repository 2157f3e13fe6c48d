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

from .ball import working_bits
from .balls import Balls
from .digit_runs import BITS, MORE, Array, Digits, Levels, carry, multiply_row

__all__ = [
    "MOST_TERMS",
    "Fixed",
    "Scale",
    "add_product",
    "carried",
    "dot",
    "from_balls",
    "product_error",
]

# Terms whose products of digits add up exactly.
MOST_TERMS = 2 ** (53 - 2 * (BITS - 1))


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
        return MORE * np.abs(self.value)

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
        error = MORE * (self.size * other.error + self.error * other.size) + self.scale.rounding
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
    """Numbers below 2^20; OverflowError where one is not below 2^21, which digits cannot hold."""
    size = -(-(scale.bits + BITS) // 8) + 4
    offset = 1 << (scale.bits + BITS - 1)
    with working_bits(scale.bits + 64):
        unit = arb(2) ** scale.bits
        whole = [int((value.mid() * unit).floor().unique_fmpz()) + offset for value in values]
        error = MORE * (np.array([float(value.rad()) for value in values]) + scale.unit)
    if not (0 <= min(whole, default=0) and max(whole, default=0) < 2 * offset):
        largest = max(abs(float(value.mid())) for value in values)
        raise OverflowError(f"{largest:.3g} is beyond the range 2^{BITS - 1} of numbers in fixed point")
    parts = [number.to_bytes(size, "little") for number in whole]
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
    carry(digits, out)
    return Fixed(out.reshape(levels.shape), error)


def dot(left: Fixed, right: Fixed) -> Fixed:
    """Matrix product of left, (rows, n), and the transpose of right, (columns, n); n <= MOST_TERMS."""
    levels = np.zeros((len(left.digits), left.error.shape[0], right.error.shape[0]), dtype=np.int64)
    add_product(levels, np.ascontiguousarray(left.digits), right.digits)
    return carried(levels, product_error(left.size, left.error, right.size, right.error, left.scale))


def product_error(size: Array, error: Array, other_size: Array, other_error: Array, scale: Scale) -> Array:
    """Bounds of the errors of a matrix product of `dot`, from bounds of absolute values and of errors."""
    return MORE * (size @ other_error.T + error @ other_size.T) + size.shape[1] * scale.rounding


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
