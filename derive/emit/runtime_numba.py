"""Template of ``generated/fastmath.py``: the branch-free exponentials that compiled kernels share."""

from .polynomial import exponential_coefficients

__all__ = ["BODY", "HIGHEST", "render"]

#: Upper clamp of `exp_fast`.
HIGHEST = 709

BODY = '''
import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Lower and upper clamp: between them 2^n is a normal number for every n below.
LOWEST = -708.0
HIGHEST = @HIGHEST@

# log(2) in two parts; the first has trailing zeros, so n times it is exact for |n| <= 1023.
_LOG2_HIGH = 6.93147180369123816490e-01
_LOG2_LOW = 1.90821492927058770002e-10
_LOG2_E = 1.4426950408889634

# Adding this number puts an integer n, |n| < 2^51, into the low bits of a double.
_INTEGER_SHIFT = 6755399441055744.0

# exp(r) - 1 = r + r^2 (_Q0 + _Q1 r + ..) for |r| <= log(2)/2.
@COEFFICIENTS@

# No reassociation: sums and products keep their order. What must not be touched at all (rounding, the bits of
# 2^n) is written with intrinsics, which stay correct under any flags of a caller.
# Sums of a product are fused where the processor does so, and nowhere else: a call of the C library for each
# takes 30 times as long as all the rest. Products by a power of two, and n times the first part of log(2), are
# exact, so that fused or not the sums are the same but for the last bits of n times the second part.
FLAGS = {"contract", "nsz", "arcp"}
OPTIONS = {"forceinline": True, "cache": True, "error_model": "numpy", "fastmath": FLAGS}


@intrinsic
def _rint(typingctx, x):
    """Round to the nearest integer, one instruction."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(types.float64)
        return builder.call(builder.module.declare_intrinsic("llvm.rint", [kind]), args)

    return types.float64(types.float64), codegen


@intrinsic
def _pow2(typingctx, n):
    """2^n of an integral double, -1022 <= n <= 1023, by writing the exponent field."""

    def codegen(context, builder, signature, args):
        double, integer = context.get_value_type(types.float64), context.get_value_type(types.int64)
        shifted = builder.fadd(args[0], context.get_constant(types.float64, _INTEGER_SHIFT))
        biased = builder.add(builder.bitcast(shifted, integer), context.get_constant(types.int64, 1023))
        return builder.bitcast(builder.shl(biased, context.get_constant(types.int64, 52)), double)

    return types.float64(types.float64), codegen


# Nothing may be assumed here about what is finite.
CHECKED = {"forceinline": True, "cache": True, "error_model": "numpy"}


@njit(**CHECKED)
def finite(values: tuple[float, ...]) -> bool:
    """Whether every number of a tuple is finite; zero times anything else is no zero."""
    total = 0.0
    for value in values:
        total += 0.0 * value
    return total == 0.0


@njit(**OPTIONS)
def at_most(x: float, bound: float) -> float:
    """min(x, bound), a NaN in x stays."""
    return bound if x > bound else x


@njit(**OPTIONS)
def at_least(x: float, bound: float) -> float:
    """max(x, bound), a NaN in x stays."""
    return bound if x < bound else x


@njit(**OPTIONS)
def _reduce(x: float) -> tuple[float, float]:
    """Return (p, 2^n) with exp(x) = 2^n (1 + p), |log(1 + p)| <= log(2)/2, for x clamped."""
    x = at_most(at_least(x, LOWEST), HIGHEST)
    n = _rint(x * _LOG2_E)
    r = (x - _LOG2_HIGH * n) - _LOG2_LOW * n
    r2 = r * r
    r4 = r2 * r2
    low = (_Q0 + _Q1 * r) + r2 * (_Q2 + _Q3 * r)
    high = (_Q4 + _Q5 * r) + r2 * (_Q6 + _Q7 * r)
    q = low + r4 * (high + r4 * (_Q8 + _Q9 * r))
    return r + r2 * q, _pow2(n)


@njit(**OPTIONS)
def exp_fast(x: float) -> float:
    """exp(x) without branches, at most 2 ulp off on [-708, 709]; clamped outside; NaN stays.

    Below -708 the result is exp(-708) = 3.3e-308, not zero.
    """
    p, scale = _reduce(x)
    return scale * p + scale


@njit(**OPTIONS)
def expm1_fast(x: float) -> float:
    """exp(x) - 1 without branches, at most 3 ulp off on [-708, 709]; clamped outside; NaN stays."""
    p, scale = _reduce(x)
    return scale * p + (scale - 1.0)


@njit(cache=True, error_model="numpy", fastmath=FLAGS)
def exp_array(x: Array) -> Array:
    """`exp_fast` of every entry of a one-dimensional float64 array."""
    out = np.empty_like(x)
    for j in range(x.size):
        out[j] = exp_fast(x[j])
    return out


@njit(cache=True, error_model="numpy", fastmath=FLAGS)
def expm1_array(x: Array) -> Array:
    """`expm1_fast` of every entry of a one-dimensional float64 array."""
    out = np.empty_like(x)
    for j in range(x.size):
        out[j] = expm1_fast(x[j])
    return out
'''


def render() -> str:
    """Return the source below the header, with the coefficients of the polynomial filled in."""
    lines = [f"_Q{k} = {value:.17g}" for k, value in enumerate(exponential_coefficients())]
    return BODY.replace("@COEFFICIENTS@", "\n".join(lines)).replace("@HIGHEST@", f"{HIGHEST}.0")
