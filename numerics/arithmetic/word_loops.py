"""Compiled loops over arrays of fixed-point numbers of n words, see `fixed_words`, of shape (numbers, n).

`size` is a tuple of n zeros, whose length the compiler knows, so that it unrolls the loops over words. The arguments
`left` and `right` are arrays with a stride, which is zero where one number counts for all.
"""

import math

import numpy as np
from numba import njit, types
from numba.core.cgutils import pack_array
from numba.extending import intrinsic

__all__ = ["STEP", "TABLES", "dot", "exponential", "largest", "multiply", "reciprocal", "signed_sum"]

# Bits of the argument of an exponential that its tables take, in steps.
STEP, TABLES = 8, 4


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


@njit(error_model="numpy", cache=True)
def largest(x, size):  # type: ignore[no-untyped-def]
    """Largest modulus."""
    most = 0.0
    for t in range(len(x)):
        most = max(most, abs(_float(x[t], size)))
    return most


@njit(error_model="numpy", cache=True)
def signed_sum(left, right, negative, out, size):  # type: ignore[no-untyped-def]
    """Set out to x + y or x - y, and return the largest."""
    (x, dx), (y, dy) = left, right
    most = 0.0
    for t in range(len(out)):
        for k in range(len(size)):
            out[t, k] = x[t * dx, k]
        _add_into(out[t], y[t * dy], np.uint64(negative), size)
        most = max(most, abs(_float(out[t], size)))
    return most


@njit(error_model="numpy", cache=True)
def multiply(left, right, out, size):  # type: ignore[no-untyped-def]
    """Set out to x y, and return the largest."""
    (x, dx), (y, dy) = left, right
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
def dot(x, right, out, size):  # type: ignore[no-untyped-def]
    """Add the sum of the products to out; x is an array alone."""
    y, dy = right
    n = len(size)
    a, b, c = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    for t in range(len(x)):
        negative = _magnitude(x[t], a, size) ^ _magnitude(y[t * dy], b, size)
        _product(a, b, c, size)
        _add_into(out, c, negative, size)


@njit(error_model="numpy", cache=True)
def exponential(x, tables, series, log2, out, size):  # type: ignore[no-untyped-def]
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
        steps = r[n - 2] >> np.uint64(64 - STEP * TABLES)
        r[n - 2] &= np.uint64((1 << (64 - STEP * TABLES)) - 1)
        degree = len(series) - 1
        for i in range(n):
            p[i] = series[degree, i]
        for i in range(degree - 1, -1, -1):
            _product(r, p, q, size)
            _add_into(q, series[i], zero, size)
            p, q = q, p
        for table in range(TABLES):
            step = (steps >> np.uint64(STEP * (TABLES - 1 - table))) & np.uint64((1 << STEP) - 1)
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
def reciprocal(x, out, size):  # type: ignore[no-untyped-def]
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
