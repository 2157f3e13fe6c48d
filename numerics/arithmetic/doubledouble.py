"""Arithmetic of pairs of float64, about 32 digits: the unevaluated sum hi + lo with |lo| <= ulp(hi)/2.

The functions are compiled and meant for the inner loops of other compiled functions; `pairs.Pairs` wraps arrays of
them. A sum, product, quotient or exponential is good to a few units of 2^-104 of its value (a difference, of its larger
term). NumPy's longdouble would have 19 digits at best and on some machines is float64; ball arithmetic costs fifty
times as much per operation.
"""

import decimal
import math
import operator
from fractions import Fraction
from itertools import accumulate as accumulated
from itertools import repeat

import numpy as np
from numba import float64, njit, types
from numba.extending import intrinsic

__all__ = [
    "EPSILON",
    "accumulate",
    "add",
    "add_arrays",
    "div",
    "divide_arrays",
    "exp",
    "exp_arrays",
    "leading_floats",
    "mul",
    "mul_float",
    "multiply_arrays",
    "sqrt",
    "sqrt_arrays",
    "square",
    "two_product",
    "two_sum",
]

# Unit of the last place of a pair, generously.
EPSILON = 2.0**-102


# Errors of single operations ----------------------------------------------------------------------------------------


@intrinsic
def _fma(typingctx, a, b, c):  # type: ignore[no-untyped-def]
    """A b + c with one rounding."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fma(*args)

    return float64(float64, float64, float64), codegen


@intrinsic
def _from_bits(typingctx, bits):  # type: ignore[no-untyped-def]
    """The float64 with these 64 bits."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return float64(types.uint64), codegen


@intrinsic
def _to_bits(typingctx, value):  # type: ignore[no-untyped-def]
    """The 64 bits of a float64."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], context.get_value_type(types.uint64))

    return types.uint64(float64), codegen


@njit(error_model="numpy")
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """A + b exactly, as (rounded sum, its error)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@njit(error_model="numpy")
def _fast_two_sum(a, b):  # type: ignore[no-untyped-def]
    """`two_sum` where |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


@njit(error_model="numpy")
def two_product(a, b):  # type: ignore[no-untyped-def]
    """A b exactly, as (rounded product, its error)."""
    p = a * b
    return p, _fma(a, b, -p)


# Pairs --------------------------------------------------------------------------------------------------------------


@njit(error_model="numpy")
def add(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    """Sum of two pairs, relative to the result even where they cancel."""
    s, e = two_sum(ah, bh)
    t, f = two_sum(al, bl)
    s, e = _fast_two_sum(s, e + t)
    return _fast_two_sum(s, e + f)


@njit(error_model="numpy")
def mul(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    """Product of two pairs."""
    p, e = two_product(ah, bh)
    return _fast_two_sum(p, _fma(al, bh, _fma(ah, bl, e)))


@njit(error_model="numpy")
def mul_float(ah, al, b):  # type: ignore[no-untyped-def]
    """Product of a pair and a float64."""
    p, e = two_product(ah, b)
    return _fast_two_sum(p, _fma(al, b, e))


@njit(error_model="numpy")
def square(ah, al):  # type: ignore[no-untyped-def]
    """Square of a pair."""
    p, e = two_product(ah, ah)
    return _fast_two_sum(p, _fma(2 * ah, al, e))


@njit(error_model="numpy")
def div(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    """Quotient of two pairs: long division with three float64 digits."""
    q0 = ah / bh
    ph, pl = mul_float(bh, bl, q0)
    rh, rl = add(ah, al, -ph, -pl)
    q1 = rh / bh
    ph, pl = mul_float(bh, bl, q1)
    rh, rl = add(rh, rl, -ph, -pl)
    q2 = rh / bh
    q0, q1 = _fast_two_sum(q0, q1)
    s, e = two_sum(q1, q2)
    h, t = _fast_two_sum(q0, s)
    return _fast_two_sum(h, t + e)


@njit(error_model="numpy")
def sqrt(ah, al):  # type: ignore[no-untyped-def]
    """Square root: Newton's step from the float64 one."""
    if ah <= 0:
        return 0.0 if ah == 0 else math.nan, 0.0
    x = math.sqrt(ah)
    p, e = two_product(x, x)
    rh, _ = add(ah, al, -p, -e)
    return _fast_two_sum(x, rh / (2 * x))


@njit(error_model="numpy", nogil=True)
def accumulate(ah, al, bh, bl, ch, cl):  # type: ignore[no-untyped-def]
    """Vectors: c += a b for a pair a. The low parts of c only gather up, and are to be renormalised at the end."""
    for i in range(bh.size):
        p, e = two_product(ah, bh[i])
        ch[i], f = two_sum(ch[i], p)
        cl[i] += f + _fma(al, bh[i], _fma(ah, bl[i], e))


# Exponential and logarithm ------------------------------------------------------------------------------------------


def leading_floats(value: Fraction | decimal.Decimal, parts: int) -> tuple[float, ...]:
    """Leading float64 digits of an exact number."""
    rest = Fraction(value)
    out = []
    for _ in range(parts):
        out.append(float(rest))
        rest -= Fraction(out[-1])
    return tuple(out)


_TABLE = 1024
with decimal.localcontext(decimal.Context(prec=80)):
    _STEP = decimal.Decimal(2).ln() / _TABLE
    # 2^(j/n) by products, a few units of 1e-80 off: twenty times faster than as many exponentials.
    _ROOTS = list(accumulated(repeat(_STEP.exp(), _TABLE - 1), initial=decimal.Decimal(1), func=operator.mul))
    _ROOT_HI = np.array([float(root) for root in _ROOTS])
    _ROOT_LO = np.array([float(root - decimal.Decimal(hi)) for root, hi in zip(_ROOTS, _ROOT_HI.tolist(), strict=True)])
    # The first two parts are short: their products with integers below 2^21 are exact.
    _STEP_1 = math.floor(float(_STEP) * 2.0**41) / 2.0**41
    _STEP_2 = math.floor(float(_STEP - decimal.Decimal(_STEP_1)) * 2.0**73) / 2.0**73
    _STEP_3, _STEP_4 = leading_floats(_STEP - decimal.Decimal(_STEP_1) - decimal.Decimal(_STEP_2), 2)
_PER_STEP = float(1 / _STEP)
_SIXTH, _SIXTH_LO = leading_floats(Fraction(1, 6), 2)
# Adding it rounds to an integer, which the last bits of the sum then hold.
_ROUND = 1.5 * 2.0**52


@njit(error_model="numpy", inline="always")
def exp(ah, al):  # type: ignore[no-untyped-def]
    """Exponential; zero below -600, and to be called below 700."""
    # Below, exp counts as zero: its low part would be subnormal soon after.
    lowest = -600.0
    x = ah if ah > lowest else lowest
    shifted = x * _PER_STEP + _ROUND
    k = shifted - _ROUND
    # k times the short parts is exact, and so is the first difference (Sterbenz)
    rh, rl = two_sum(x - k * _STEP_1, -k * _STEP_2)
    ph, pl = two_product(k, _STEP_3)
    lh, ll = two_sum(al, -ph)
    rh, e = two_sum(rh, lh)
    rl += e + (ll - pl - k * _STEP_4)
    rh, rl = _fast_two_sum(rh, rl)
    # |r| < 3.4e-4: from the fourth power on, float64 coefficients are enough
    top = rh * (1 / 24 + rh * (1 / 120 + rh * (1 / 720 + rh * (1 / 5040))))
    sh, sl = _fast_two_sum(_SIXTH, top + _SIXTH_LO)
    sh, sl = mul(sh, sl, rh, rl)
    sh, e = _fast_two_sum(0.5, sh)
    sh, sl = mul(sh, sl + e, rh, rl)
    sh, e = _fast_two_sum(1.0, sh)
    sh, sl = mul(sh, sl + e, rh, rl)
    # e^r - 1 is small: 2^(j/n) (1 + it) loses nothing
    bits = _to_bits(shifted)
    j = bits & np.uint64(_TABLE - 1)
    th, tl = _ROOT_HI[j], _ROOT_LO[j]
    sh, sl = mul(sh, sl, th, tl)
    sh, e = _fast_two_sum(th, sh)
    sh, sl = _fast_two_sum(sh, sl + e + tl)
    scale = _from_bits(((bits - j) >> np.uint64(10)) + np.uint64(1023) << np.uint64(52))
    scale = scale if ah > lowest else 0.0
    return sh * scale, sl * scale


# Arrays -------------------------------------------------------------------------------------------------------------

# Each is written out: the cache cannot recognise a kernel that closes over another one, and would keep one more copy of
# it for every process. They are no universal functions: numba keeps the loop of one and its kernel in two files, and
# the files of two processes that compile it at the same time do not fit each other.


@njit(cache=True)
def add_arrays(ah, al, bh, bl, rh, rl):  # type: ignore[no-untyped-def]
    """Sums of flat arrays."""
    for i in range(len(rh)):
        rh[i], rl[i] = add(ah[i], al[i], bh[i], bl[i])


@njit(cache=True)
def multiply_arrays(ah, al, bh, bl, rh, rl):  # type: ignore[no-untyped-def]
    """Products of flat arrays."""
    for i in range(len(rh)):
        rh[i], rl[i] = mul(ah[i], al[i], bh[i], bl[i])


@njit(cache=True)
def divide_arrays(ah, al, bh, bl, rh, rl):  # type: ignore[no-untyped-def]
    """Quotients of flat arrays."""
    for i in range(len(rh)):
        rh[i], rl[i] = div(ah[i], al[i], bh[i], bl[i])


@njit(cache=True)
def exp_arrays(ah, al, rh, rl):  # type: ignore[no-untyped-def]
    """Exponentials of flat arrays."""
    for i in range(len(rh)):
        rh[i], rl[i] = exp(ah[i], al[i])


@njit(cache=True)
def sqrt_arrays(ah, al, rh, rl):  # type: ignore[no-untyped-def]
    """Square roots of flat arrays."""
    for i in range(len(rh)):
        rh[i], rl[i] = sqrt(ah[i], al[i])
