"""Arrays of fixed-point numbers of many words, each array with one bound of its errors: balls, thousands at a time.

A number is an integer of n words of 64 bits, in two's complement, times 2^(-64 (n - 1)): the first word is the integer
part. Every operation bounds the error of its results by those of its arguments and its own rounding, as ball arithmetic
does, with one radius for the whole array. Compiled loops make an operation ten times faster than one on balls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, fmpz
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from .ball import working_bits
from .balls import Ball
from .word_loops import STEP, TABLES, dot, exponential, largest, multiply, reciprocal, signed_sum

__all__ = ["Fixed", "words_for"]

Words = NDArray[np.uint64]

# Larger numbers might overflow in the next operation.
_MOST = 2.0**61


def words_for(bits: int) -> int:
    """Words of numbers with so many bits behind the point, an odd number: every other one is compiled anew."""
    return 1 + 2 * max(1, -(-bits // 128))


@lru_cache(maxsize=32)
def _exponential_tables(n: int) -> tuple[Words, Words, Words, float]:
    """Tables of `exponential` for n words, and how many units it errs by where k <= 0."""
    taken = STEP * TABLES
    bits, degree = 64 * (n - 1), 1
    while taken * (degree + 1) + math.log2(math.factorial(degree + 1)) < bits:
        degree += 1
    with working_bits(bits + 64):
        tables = np.stack(
            [_to_words([(arb(j) / 2 ** (STEP * (k + 1))).exp() for j in range(2**STEP)], n) for k in range(TABLES)]
        )
        series = _to_words([1 / arb(math.factorial(i)) for i in range(degree + 1)], n)
        log2 = _to_words([arb.const_log2()], n)[0]
    # Every product leaves out n units and every constant one; what follows at most doubles them.
    units = 2.0 * ((degree + 2) * (n + 2) + 2 * TABLES * (n + 3)) + 2.0
    return tables, series, log2, units


def _to_words(values: Sequence[Ball], n: int) -> Words:
    """Words of the numbers, rounded down; the precision at work must hold them."""
    unit = arb(2) ** (64 * (n - 1))
    whole = [int((value.mid() * unit).floor().unique_fmpz()) for value in values]
    if any(abs(number) >> (64 * n - 2) for number in whole):
        raise _too_large()
    raw = b"".join(number.to_bytes(8 * n, "little", signed=True) for number in whole)
    return np.frombuffer(raw, dtype="<u8").astype(np.uint64).reshape(-1, n)


def _too_large() -> ConvergenceError:
    return ConvergenceError(
        "numbers of the posterior (169) exceed 2^61 prior widths: V is too near a singular matrix next to the indices, "
        "or y too unlikely; take V away from singular, e.g. V + 1e-12 I"
    )


@dataclass(frozen=True)
class Fixed:
    """Numbers of n words each.

    Attributes
    ----------
    words : ndarray of uint64, shape (size, n)
        The lowest word first.
    error : float
        What each number stands for is no further away.
    most : float
        No number is larger in modulus.
    """

    words: Words
    error: float
    most: float

    def __post_init__(self) -> None:
        if not self.most + self.error < _MOST:
            raise _too_large()

    @classmethod
    def of(cls, values: Sequence[arb], n: int) -> "Fixed":
        """Numbers from balls."""
        size = max([1.0, *(abs(float(value)) for value in values)])
        if not size < _MOST:
            raise _too_large()
        with working_bits(64 * (n + 1)):
            words = _to_words(values, n)
        return cls(words, 1.001 * max(float(value.rad()) for value in values) + _unit(n), _largest_of(words))

    @classmethod
    def dyadic(cls, integers: NDArray[np.int64], places: int, n: int) -> "Fixed":
        """Integers times 2^-places, exactly; 0 < places < 64."""
        words = np.zeros((len(integers), n), np.uint64)
        words[:, n - 1] = (integers >> places).view(np.uint64)
        words[:, n - 2] = integers.view(np.uint64) << np.uint64(64 - places)
        return cls(words, 0.0, _largest_of(words))

    @classmethod
    def together(cls, parts: Sequence["Fixed"]) -> "Fixed":
        """One array after the other."""
        return cls(
            np.concatenate([part.words for part in parts]),
            max(part.error for part in parts),
            max(part.most for part in parts),
        )

    def balls(self) -> list[arb]:
        """Enclose what each number stands for."""
        n = self.words.shape[1]
        raw, unit = self.words.astype("<u8").tobytes(), arb(2) ** (-64 * (n - 1))
        integers = (int.from_bytes(raw[k : k + 8 * n], "little", signed=True) for k in range(0, len(raw), 8 * n))
        with working_bits(64 * n):
            return [arb(fmpz(integer)) * unit + arb(0, self.error) for integer in integers]

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: Any) -> "Fixed":
        return Fixed(np.ascontiguousarray(self.words[index]), self.error, self.most)

    def __add__(self, other: "Fixed") -> "Fixed":
        return self._sum(other, False)

    def __sub__(self, other: "Fixed") -> "Fixed":
        return self._sum(other, True)

    def _sum(self, other: "Fixed", minus: bool) -> "Fixed":
        out = self._empty(other)
        most = signed_sum(self.repeated, other.repeated, minus, out, self._size)
        return Fixed(out, self.error + other.error, _rounded_up(most))

    def __mul__(self, other: "Fixed") -> "Fixed":
        if not self.most * other.most < _MOST:
            raise _too_large()
        out = self._empty(other)
        most = multiply(self.repeated, other.repeated, out, self._size)
        return Fixed(out, self._product_error(other), _rounded_up(most))

    def dot(self, other: "Fixed") -> "Fixed":
        """Sum of the products, an array of one number."""
        out = np.zeros((1, self.words.shape[1]), np.uint64)
        if len(self) * self.most * other.most > _MOST:
            raise _too_large()
        dot(self.words, other.repeated, out[0], self._size)
        return Fixed(out, len(self) * self._product_error(other), _largest_of(out))

    def __neg__(self) -> "Fixed":
        return Fixed(np.zeros((1, self.words.shape[1]), np.uint64), 0.0, 0.0) - self

    def signed(self, negative: NDArray[np.bool_]) -> "Fixed":
        """Numbers with other signs where `negative`."""
        return self.where(~negative, -self)

    def shortened(self, n: int) -> "Fixed":
        """Numbers without their lowest words, rounded down."""
        left_out = self.words.shape[1] - n
        return self if left_out == 0 else Fixed(self.words[:, left_out:], self.error + _unit(n), self.most)

    @property
    def negative(self) -> NDArray[np.bool_]:
        """Which numbers are below zero."""
        return self.words[:, -1] >> np.uint64(63) != 0

    def where(self, mask: NDArray[np.bool_], other: "Fixed") -> "Fixed":
        """These numbers where `mask`, and the other ones elsewhere."""
        return Fixed(
            np.where(mask[:, None], self.words, other.words),
            max(self.error, other.error),
            max(self.most, other.most),
        )

    def exp(self) -> "Fixed":
        """Exponentials."""
        tables, series, log2, units = _exponential_tables(self.words.shape[1])
        out = np.empty_like(self.words)
        k = exponential(self.words, tables, series, log2, out, self._size)
        if k >= 60:
            raise _too_large()
        size = 2.0 ** max(k + 1, -1000)
        return Fixed(out, 1.001 * max(1.0, size) * units * self.unit + size * math.expm1(self.error), size)

    def reciprocal(self) -> "Fixed":
        """One over each number, which must be positive."""
        out, n = np.empty_like(self.words), self.words.shape[1]
        most = _rounded_up(reciprocal(self.words, out, self._size))
        if not most * self.error < 0.5:
            raise _too_large()
        rounding = ((n + 2) * most + n + 2) * self.unit
        return Fixed(out, rounding + 1.001 * most * most * self.error / (1.0 - most * self.error), most)

    @property
    def unit(self) -> float:
        """One in the last word."""
        return _unit(self.words.shape[1])

    @property
    def repeated(self) -> tuple[Words, int]:
        """Numbers and their stride: zero where there is a single one, which then counts for all others."""
        return self.words, 0 if len(self.words) == 1 else 1

    @property
    def _size(self) -> tuple[int, ...]:
        return (0,) * self.words.shape[1]

    def _empty(self, other: "Fixed") -> Words:
        return np.empty((max(len(self), len(other)), self.words.shape[1]), np.uint64)

    def _product_error(self, other: "Fixed") -> float:
        shared = self.most * other.error + other.most * self.error + self.error * other.error
        return 1.001 * shared + self.words.shape[1] * self.unit


def _unit(n: int) -> float:
    return 2.0 ** (-64 * (n - 1))


def _largest_of(words: Words) -> float:
    return _rounded_up(largest(words, (0,) * words.shape[1]))


def _rounded_up(most: float) -> float:
    return most * (1.0 + 1e-12) + 2.0**-64
