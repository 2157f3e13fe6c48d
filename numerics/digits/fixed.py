"""Fixed-point numbers as digits in float64: products of matrices run as exact products of digits in BLAS.

A number x, |x| <= 1 or little more, is sum_k d_k 2^(-22 k), k = 0 .. S, with integers |d_k| <= 2^21 in float64. 2048
products of two digits add up to 2^53 at most, so that a float64 matrix product of digits has no rounding. Products are
kept to the level k = S: what is left out is below `Scale.rounding` (a bound, which callers carry into their balls).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, fmpz
from numba import float64, int64, njit
from numpy.typing import NDArray

from ..ball import working_bits
from .balls import Ball, Balls

__all__ = ["MOST_TERMS", "Scale", "add_product", "from_balls", "multiply_row", "to_balls"]

Digits = NDArray[np.float64]
Errors = NDArray[np.float64]

_BITS = 22
# Terms whose products of digits add up exactly.
MOST_TERMS = 2 ** (53 - 2 * (_BITS - 1))
# Numbers that are multiplied together: their digits stay in the cache.
_RUN = 64


@dataclass(frozen=True)
class Scale:
    """How many digits there are behind the first."""

    last: int

    @classmethod
    def for_bits(cls, bits: int) -> "Scale":
        """Digits whose products are good to so many bits."""
        return cls(-(-(bits + 24) // _BITS))

    @property
    def bits(self) -> int:
        """Bits of the last digit."""
        return _BITS * self.last

    @property
    def unit(self) -> Ball:
        """Value of one in the last digit."""
        return arb(2) ** -self.bits

    @property
    def rounding(self) -> float:
        """Bound of what a product leaves out: sum over k > S of (2 S - k + 1) 2^(42 - 22 k)."""
        return 1.01 * self.last * math.ldexp(1.0, 2 * (_BITS - 1) - _BITS - self.bits)


def from_balls(values: Balls, scale: Scale) -> tuple[Digits, Errors]:
    """Digits of numbers in [-1, 1], shape (S + 1, n), and bounds of their errors, shape (n,)."""
    size = -(-(scale.bits + 2) // 8) + 4
    one = 1 << scale.bits
    with working_bits(scale.bits + 64):
        unit = arb(2) ** scale.bits
        parts = []
        for value in values:
            parts.append((int((value.mid() * unit).floor().unique_fmpz()) + one).to_bytes(size, "little"))
        error = 1.001 * (np.array([float(value.rad()) for value in values]) + float(scale.unit))
    raw = np.frombuffer(b"".join(parts), dtype=np.uint8).reshape(len(values), size).T.astype(np.int64)
    out = np.empty((scale.last + 1, len(values)))
    carry = np.zeros(len(values), dtype=np.int64)
    for place in range(scale.last + 1):
        byte, bit = divmod(_BITS * place, 8)
        word = raw[byte] | raw[byte + 1] << 8 | raw[byte + 2] << 16 | raw[byte + 3] << 24
        digit = (word >> bit & (2**_BITS - 1)) + carry
        if place == scale.last:
            out[0] = digit - 1
            break
        carry = (digit > 2 ** (_BITS - 1)).astype(np.int64)
        out[scale.last - place] = digit - (carry << _BITS)
    return out, error


def to_balls(levels: NDArray[np.int64], scale: Scale, error: Sequence[float]) -> Balls:
    """Numbers from sums of digits, shape (S + 1, n), with the given radii."""
    total = levels[0].astype(object)
    for row in levels[1:]:
        total = (total << _BITS) + row
    unit = scale.unit
    with working_bits(scale.bits + 64):
        return [arb(fmpz(value)) * unit + arb(0, radius) for value, radius in zip(total.tolist(), error, strict=True)]


@njit((float64[:, :, ::1], int64, int64, float64[:, :, ::1], int64, int64), error_model="numpy", cache=True)
def multiply_row(out: Digits, n: int, p: int, factor: Digits, q: int, less: int) -> None:
    """Set row n of out to row p of it times row q of factor or, with less >= 0, to twice that minus its row less.

    Shapes (S + 1, rows, nodes) and (S + 1, rows, nodes); n is none of the rows that are read.
    """
    levels = out.shape[0]
    nodes = out.shape[2]
    base = 2.0**_BITS
    # Adding and subtracting it rounds to integers.
    middle = 1.5 * 2.0**52
    one = np.zeros((levels, _RUN))
    other = np.zeros((levels, _RUN))
    product = np.zeros((levels, _RUN))
    for start in range(0, nodes, _RUN):
        size = min(_RUN, nodes - start)
        for k in range(levels):
            for t in range(size):
                one[k, t] = out[k, p, start + t]
                other[k, t] = factor[k, q, start + t]
        first = 0
        while first < levels - 1 and not one[first].any():
            first += 1
        for k in range(levels):
            for t in range(_RUN):
                product[k, t] = 0.0
            for i in range(first, k + 1):
                for t in range(_RUN):
                    product[k, t] += one[i, t] * other[k - i, t]
        if less >= 0:
            for k in range(levels):
                for t in range(size):
                    product[k, t] = 2.0 * product[k, t] - out[k, less, start + t]
        for k in range(levels - 1, 0, -1):
            for t in range(_RUN):
                carry = (product[k, t] / base + middle) - middle
                product[k, t] -= carry * base
                product[k - 1, t] += carry
        for k in range(levels):
            for t in range(size):
                out[k, n, start + t] = product[k, t]


def add_product(levels: NDArray[np.int64], left: Digits, right: Digits) -> None:
    """Add left times right, digit by digit, to sums of digits.

    Parameters
    ----------
    levels : array, shape (S + 1, rows, columns), int64
    left : array, shape (S + 1, rows, n)
        Leading digits that vanish in all rows cost nothing.
    right : array, shape (S + 1, columns, n)
        n <= MOST_TERMS. Each of the n terms errs by `Scale.rounding` at most.
    """
    last, rows = len(left) - 1, left.shape[1]
    first = 0
    while first < last and not left[first].any():
        first += 1
    # So many products of matrices still add up exactly.
    room = max(1, MOST_TERMS // left.shape[2])
    total = np.zeros((last + 1 - first, rows, right.shape[1]))
    for k in range(last + 1 - first):
        product = left[first : last + 1 - k].reshape(-1, left.shape[2]) @ right[k].T
        total[k:] += product.reshape(last + 1 - k - first, rows, -1)
        if (k + 1) % room == 0 or k == last - first:
            levels[first:] += total.astype(np.int64)
            total[:] = 0.0
