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
from numba import njit, types
from numba.core.cgutils import pack_array
from numba.extending import intrinsic
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from .ball import working_bits

__all__ = ["Fixed", "words_for"]

Words = NDArray[np.uint64]

# Larger numbers might overflow in the next operation.
_MOST = 2.0**61
# Bits of the argument of an exponential that its tables take, in steps.
_STEP, _TABLES = 8, 4


def words_for(bits: int) -> int:
    """Words of numbers with so many bits behind the point, an odd number: every other one is compiled anew."""
    return 1 + 2 * max(1, -(-bits // 128))


# Single numbers: `size` is a tuple of n zeros, whose length the compiler knows, so that it unrolls the loops ---------


@intrinsic
def _accumulate(typingctx, a, b, low, middle, high):  # type: ignore[no-untyped-def]
    """Words of low + 2^64 middle + 2^128 high + a b."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        word = context.get_value_type(types.uint64)
        wide = type(word)(128)
        a, b, low, middle, high = args
        product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
        before = builder.or_(builder.zext(low, wide), builder.shl(builder.zext(middle, wide), wide(64)))
        after = builder.add(before, product)
        high = builder.add(high, builder.zext(builder.icmp_unsigned("<", after, product), word))
        middle = builder.trunc(builder.lshr(after, wide(64)), word)
        return pack_array(builder, [builder.trunc(after, word), middle, high])

    return types.UniTuple(types.uint64, 3)(*5 * (types.uint64,)), codegen


@njit(error_model="numpy")
def _magnitude(x, out, size):  # type: ignore[no-untyped-def]
    """Set out to |x|; return one where x < 0, else zero."""
    n = len(size)
    negative = x[n - 1] >> np.uint64(63)
    mask, carry = np.uint64(0) - negative, negative
    for k in range(n):
        word = (x[k] ^ mask) + carry
        carry = np.uint64(word < carry)
        out[k] = word
    return negative


@njit(error_model="numpy")
def _product(a, b, out, size):  # type: ignore[no-untyped-def]
    """Set out to a b for a, b >= 0; out is neither.

    Columns of the product that reach these words by a carry alone are left out, less than n units.
    """
    n = len(size)
    zero = np.uint64(0)
    low, middle, high = zero, zero, zero
    for column in range(n - 2, 2 * n - 1):
        for i in range(max(0, column - n + 1), min(n, column + 1)):
            low, middle, high = _accumulate(a[i], b[column - i], low, middle, high)
        if column >= n - 1:
            out[column - n + 1] = low
        low, middle, high = middle, high, zero


@njit(error_model="numpy")
def _add_into(x, y, negative, size):  # type: ignore[no-untyped-def]
    """X += y or, with `negative` one instead of zero, x -= y."""
    mask, carry = np.uint64(0) - negative, negative
    for k in range(len(size)):
        s = x[k] + carry
        carry = np.uint64(s < carry)
        word = y[k] ^ mask
        s += word
        carry += np.uint64(s < word)
        x[k] = s


@njit(error_model="numpy")
def _float(x, size):  # type: ignore[no-untyped-def]
    """X in float64, to 2^-128 at least."""
    n = len(size)
    top = np.float64(np.int64(x[n - 1]))
    return top + (np.float64(x[n - 2]) * 2.0**-64 + np.float64(x[n - 3]) * 2.0**-128)


# Arrays --------------------------------------------------------------------------------------------------------------


@njit(error_model="numpy", cache=True)
def _largest(x, size):  # type: ignore[no-untyped-def]
    most = 0.0
    for t in range(len(x)):
        most = max(most, abs(_float(x[t], size)))
    return most


@njit(error_model="numpy", cache=True)
def _sum(x, dx, y, dy, negative, out, size):  # type: ignore[no-untyped-def]
    """Set out to x + y or x - y, and return the largest; a stride of zero repeats the one number of an argument."""
    most = 0.0
    for t in range(len(out)):
        for k in range(len(size)):
            out[t, k] = x[t * dx, k]
        _add_into(out[t], y[t * dy], np.uint64(negative), size)
        most = max(most, abs(_float(out[t], size)))
    return most


@njit(error_model="numpy", cache=True)
def _multiply(x, dx, y, dy, out, size):  # type: ignore[no-untyped-def]
    """Set out to x y, and return the largest."""
    n = len(size)
    zero = np.uint64(0)
    a, b, c = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    most = 0.0
    for t in range(len(out)):
        negative = _magnitude(x[t * dx], a, size) ^ _magnitude(y[t * dy], b, size)
        _product(a, b, c, size)
        most = max(most, _float(c, size))
        for k in range(n):
            out[t, k] = zero
        _add_into(out[t], c, negative, size)
    return most


@njit(error_model="numpy", cache=True)
def _dot(x, y, dy, out, size):  # type: ignore[no-untyped-def]
    """Add the sum of the products to out."""
    n = len(size)
    a, b, c = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    for t in range(len(x)):
        negative = _magnitude(x[t], a, size) ^ _magnitude(y[t * dy], b, size)
        _product(a, b, c, size)
        _add_into(out, c, negative, size)


@njit(error_model="numpy", cache=True)
def _exponential(x, tables, series, log2, out, size):  # type: ignore[no-untyped-def]
    """Set out to exp(x); return the largest k of the reduction x = k log 2 + r, 0 <= r < 0.7."""
    n = len(size)
    zero = np.uint64(0)
    r, p, q = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    most = -64 * n
    for t in range(len(x)):
        for i in range(n):
            out[t, i] = zero
        rough = _float(x[t], size)
        if rough < -45.0 * n:  # below 2^(-64 n)
            continue
        k = math.floor(rough * 1.4426950408889634 - 1e-9)
        most = max(most, k)
        if k > 60:
            continue
        low, middle, high = zero, zero, zero
        for i in range(n):
            low, middle, high = _accumulate(np.uint64(abs(k)), log2[i], low, middle, high)
            p[i] = low
            low, middle, high = middle, high, zero
            r[i] = x[t, i]
        _add_into(r, p, np.uint64(k > 0), size)
        steps = r[n - 2] >> np.uint64(64 - _STEP * _TABLES)
        r[n - 2] &= np.uint64((1 << (64 - _STEP * _TABLES)) - 1)
        degree = len(series) - 1
        p[:] = series[degree]
        for i in range(degree - 1, -1, -1):
            _product(r, p, q, size)
            _add_into(q, series[i], zero, size)
            p, q = q, p
        for table in range(_TABLES):
            step = (steps >> np.uint64(_STEP * (_TABLES - 1 - table))) & np.uint64((1 << _STEP) - 1)
            _product(tables[table, step], p, q, size)
            p, q = q, p
        words, bits = abs(k) // 64, np.uint64(abs(k) % 64)
        if k < 0:
            for i in range(n - words):
                out[t, i] = p[i + words] >> bits
                if bits and i + words + 1 < n:
                    out[t, i] |= p[i + words + 1] << (np.uint64(64) - bits)
        else:
            for i in range(n):
                out[t, i] = p[i] << bits
                if bits and i:
                    out[t, i] |= p[i - 1] >> (np.uint64(64) - bits)
    return most


@njit(error_model="numpy", cache=True)
def _reciprocal(x, out, size):  # type: ignore[no-untyped-def]
    """Set out to 1/x for x > 0, by Newton's steps until the square of 1 - x/x' is below a unit; return the largest.

    Infinite where that fails.
    """
    n = len(size)
    zero = np.uint64(0)
    e, a, b = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    most = 0.0
    for t in range(len(x)):
        start = 1.0 / _float(x[t], size)
        if not 0.0 < start < 2.0**61:
            return math.inf
        y = out[t]
        for k in range(n):
            y[k] = zero
        whole = math.floor(start)
        y[n - 1] = np.uint64(whole)
        y[n - 2] = np.uint64((start - whole) * 2.0**64)
        close = False
        for _ in range(16):
            _product(x[t], y, a, size)
            for k in range(n):
                e[k] = zero
            e[n - 1] = np.uint64(1)
            _add_into(e, a, np.uint64(1), size)
            negative = _magnitude(e, a, size)
            left = 0.0
            for k in range(n):
                left = left * 2.0**-64 + np.float64(a[k])
            if not left < 0.5:
                return math.inf
            _product(a, y, b, size)
            _add_into(y, b, negative, size)
            if left < 2.0 ** (-32 * (n - 1)):
                close = True
                break
        if not close:
            return math.inf
        most = max(most, start)
    return most


@lru_cache(maxsize=32)
def _exponential_tables(n: int) -> tuple[Words, Words, Words, float]:
    """Tables of `_exponential` for n words, and how many units it errs by where k <= 0."""
    taken = _STEP * _TABLES
    bits, degree = 64 * (n - 1), 1
    while taken * (degree + 1) + math.log2(math.factorial(degree + 1)) < bits:
        degree += 1
    with working_bits(bits + 64):
        tables = np.stack(
            [_to_words([(arb(j) / 2 ** (_STEP * (k + 1))).exp() for j in range(2**_STEP)], n) for k in range(_TABLES)]
        )
        series = _to_words([1 / arb(math.factorial(i)) for i in range(degree + 1)], n)
        log2 = _to_words([arb.const_log2()], n)[0]
    # Every product leaves out n units and every constant one; what follows at most doubles them.
    units = 2.0 * ((degree + 2) * (n + 2) + 2 * _TABLES * (n + 3)) + 2.0
    return tables, series, log2, units


def _to_words(values: Sequence[Any], n: int) -> Words:
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
        most = _sum(self.words, self._stride, other.words, other._stride, minus, out, self._size)
        return Fixed(out, self.error + other.error, _rounded_up(most))

    def __mul__(self, other: "Fixed") -> "Fixed":
        if not self.most * other.most < _MOST:
            raise _too_large()
        out = self._empty(other)
        most = _multiply(self.words, self._stride, other.words, other._stride, out, self._size)
        return Fixed(out, self._product_error(other), _rounded_up(most))

    def dot(self, other: "Fixed") -> "Fixed":
        """Sum of the products, an array of one number."""
        out = np.zeros((1, self.words.shape[1]), np.uint64)
        if len(self) * self.most * other.most > _MOST:
            raise _too_large()
        _dot(self.words, other.words, other._stride, out[0], self._size)
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
        k = _exponential(self.words, tables, series, log2, out, self._size)
        if k >= 60:
            raise _too_large()
        size = 2.0 ** max(k + 1, -1000)
        return Fixed(out, 1.001 * max(1.0, size) * units * self.unit + size * math.expm1(self.error), size)

    def reciprocal(self) -> "Fixed":
        """One over each number, which must be positive."""
        out, n = np.empty_like(self.words), self.words.shape[1]
        most = _rounded_up(_reciprocal(self.words, out, self._size))
        if not most * self.error < 0.5:
            raise _too_large()
        rounding = ((n + 2) * most + n + 2) * self.unit
        return Fixed(out, rounding + 1.001 * most * most * self.error / (1.0 - most * self.error), most)

    @property
    def unit(self) -> float:
        """One in the last word."""
        return _unit(self.words.shape[1])

    @property
    def _size(self) -> tuple[int, ...]:
        return (0,) * self.words.shape[1]

    @property
    def _stride(self) -> int:
        return 0 if len(self.words) == 1 else 1

    def _empty(self, other: "Fixed") -> Words:
        return np.empty((max(len(self), len(other)), self.words.shape[1]), np.uint64)

    def _product_error(self, other: "Fixed") -> float:
        shared = self.most * other.error + other.most * self.error + self.error * other.error
        return 1.001 * shared + self.words.shape[1] * self.unit


def _unit(n: int) -> float:
    return 2.0 ** (-64 * (n - 1))


def _largest_of(words: Words) -> float:
    return _rounded_up(_largest(words, (0,) * words.shape[1]))


def _rounded_up(most: float) -> float:
    return most * (1.0 + 1e-12) + 2.0**-64
