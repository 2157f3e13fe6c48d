"""(a^2 + 2 b^2 + d^2)/z in fixed point, by long division that leaves no rounding but that of the last digit.

z and the others may be tiny: the squares are kept to twice as many digits.
"""

import numpy as np
from numba import float64, int64, njit
from numpy.typing import NDArray

from ...arithmetic.digit_runs import BITS, Digits
from ...arithmetic.fixed_digits import Fixed, carried

__all__ = ["squares_over"]

Levels = NDArray[np.int64]


def squares_over(z: Fixed, a: Fixed, b: Fixed, d: Fixed) -> Fixed:
    """(a^2 + 2 b^2 + d^2)/z, with results below 2^20.

    Parameters
    ----------
    z, a, b, d : Fixed, shape (n,)
        z is positive and at least twice its error.
    """
    levels = np.zeros(z.digits.shape, dtype=np.int64)
    _divide(*(np.ascontiguousarray(x.digits.T) for x in (a, b, d, z)), levels)
    # |N^2/Z - n^2/z| <= ((2 |n| + e) e + n^2/z e_z)/(z - e_z) for errors e and e_z.
    value, off = z.value, z.error
    error, total = np.zeros(len(value)), np.zeros(len(value))
    for count, x in ((1, a), (2, b), (1, d)):
        size = x.size
        error += count * ((2 * size + x.error) / value) * x.error
        total += count * (size / value) ** 2
    return carried(levels, 1.001 * (error + total * off) * (value / (value - off)) + z.scale.unit)


@njit((float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64[:, ::1]), cache=True)
def _divide(a: Digits, b: Digits, d: Digits, z: Digits, out: Levels) -> None:
    """Quotients, for shapes (n, S + 1) and, of out, (S + 1, n)."""
    count, levels = z.shape
    half = 1 << (BITS - 1)
    rest = np.zeros(2 * levels + 3, dtype=np.int64)
    number = np.zeros(levels, dtype=np.int64)
    divisor = np.zeros(levels, dtype=np.int64)
    for t in range(count):
        rest[:] = 0
        for part in range(3):
            source = a[t] if part == 0 else (b[t] if part == 1 else d[t])
            first = levels
            for k in range(levels - 1, -1, -1):
                number[k] = int(source[k])
                if number[k] != 0:
                    first = k
            for i in range(first, levels):
                x = number[i] * (2 if part == 1 else 1)
                rest[2 * i] += x * number[i]
                for j in range(i + 1, levels):
                    rest[i + j] += 2 * x * number[j]
        for k in range(2 * levels - 2, 0, -1):
            carry = (rest[k] + half) >> BITS
            rest[k] -= carry << BITS
            rest[k - 1] += carry
        top = levels
        for k in range(levels - 1, -1, -1):
            divisor[k] = int(z[t, k])
            if divisor[k] != 0:
                top = k
        lead = 0.0
        for k in range(min(levels - 1, top + 3), top - 1, -1):
            lead = lead * 2.0**-BITS + divisor[k]
        for k in range(top):
            rest[k + 1] += rest[k] << BITS
        for k in range(levels):
            # All that is left stands at the level `place` and below.
            place = k + top
            near = (rest[place + 2] * 2.0**-BITS + rest[place + 1]) * 2.0**-BITS + rest[place]
            digit = int(np.rint(near / lead))
            out[k, t] = digit
            for j in range(top, levels):
                rest[k + j] -= digit * divisor[j]
            rest[place + 1] += rest[place] << BITS
