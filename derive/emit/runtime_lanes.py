"""Template of ``generated/lanes.py``: eight numbers at once, for loops that no compiler vectorises by itself."""

import sympy as sp

from .polynomial import exponential_coefficients

__all__ = ["LANES", "render"]

#: Numbers that are computed with at once.
LANES = 8

BODY = '''
import math
import operator

from numba import njit, types
from numba.core.cgutils import get_or_insert_function, ir
from numba.core.typing import signature
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = @LANES@
_LOG2_E = 1.4426950408889634
# Functions that take the lanes one by one.
_ONE_BY_ONE = (
    math.log, math.log1p, math.expm1, math.erf, math.erfc,
    math.sin, math.cos, math.tan, math.sinh, math.cosh, math.tanh,
    math.asin, math.acos, math.atan, math.asinh, math.acosh, math.atanh,
)  # fmt: skip
# As in `fastmath`: sums and products keep their order.
_FLAGS = ("contract", "nsz", "arcp")
_NUMBER = ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)
_INDEX = ir.IntType(32)

# Adding this number puts an integer n, |n| < 2^51, into the low bits of a double.
_INTEGER_SHIFT = 6755399441055744.0
# Between these 2^n is a normal number.
LOWEST, HIGHEST = -1020.0, 1020.0

# 2^r = 1 + _P0 r + r^2 (_P1 + _P2 r + ..) for |r| <= 1/2.
@COEFFICIENTS@


class Lanes(types.Type):
    """Type of LANES float64 numbers that are computed with at once."""

    def __init__(self):
        super().__init__(name=f"Lanes({LANES})")


lanes = Lanes()


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    """One vector of the machine, or as many as it takes."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


def _splat(builder, number):
    """Fill all lanes with one number."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES))


def _wide(builder, kinds, args):
    """Bring numbers to lanes."""
    return [arg if isinstance(kind, Lanes) else _splat(builder, arg) for kind, arg in zip(kinds, args, strict=True)]


def _instruction(builder, name, args):
    """Call a function of LLVM that works lane by lane."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(args))
    return builder.call(get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64"), args)


def _arithmetic(function, instruction):
    """Register an operator of two arguments, of which one may be a number."""
    pairs = [(lanes, lanes), (lanes, types.float64), (types.float64, lanes)]
    name = f"_Typed_{instruction}_{function.__name__}"
    infer_global(function)(type(name, (ConcreteTemplate,), {"cases": [signature(lanes, *pair) for pair in pairs]}))

    def lower(context, builder, sig, args):
        return getattr(builder, instruction)(*_wide(builder, sig.args, args), flags=_FLAGS)

    for pair in pairs:
        lower_builtin(function, *pair)(lower)


for _plain, _in_place, _name in (
    (operator.add, operator.iadd, "fadd"),
    (operator.sub, operator.isub, "fsub"),
    (operator.mul, operator.imul, "fmul"),
    (operator.truediv, operator.itruediv, "fdiv"),
):
    _arithmetic(_plain, _name)
    _arithmetic(_in_place, _name)


@infer_global(operator.neg)
class _Negative(ConcreteTemplate):
    cases = [signature(lanes, lanes)]


@lower_builtin(operator.neg, lanes)
def _negate(context, builder, sig, args):
    return builder.fneg(args[0], flags=_FLAGS)


def _whole(function, instruction):
    """Register a function that LLVM has for all lanes at once."""
    name = f"_Typed_{function.__name__}"
    infer_global(function)(type(name, (ConcreteTemplate,), {"cases": [signature(lanes, lanes)]}))

    @lower_builtin(function, lanes)
    def lower(context, builder, sig, args):
        return _instruction(builder, instruction, args)


def _one_by_one(function, *others):
    """Register a function that takes one lane after the other, with arguments of these types behind it."""
    name = f"_Typed_{function.__name__}"
    infer_global(function)(type(name, (ConcreteTemplate,), {"cases": [signature(lanes, lanes, *others)]}))
    plain = signature(types.float64, types.float64, *others)

    @lower_builtin(function, lanes, *others)
    def lower(context, builder, sig, args):
        call = context.get_function(function, plain)
        found = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            place = ir.Constant(_INDEX, lane)
            number = call(builder, [builder.extract_element(args[0], place), *args[1:]])
            found = builder.insert_element(found, number, place)
        return found


for _function in _ONE_BY_ONE:
    _one_by_one(_function)
_one_by_one(operator.pow, types.float64)
_whole(math.sqrt, "sqrt")
_whole(abs, "fabs")


def _pointer(context, builder, kind, array, index):
    place = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(place, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, index):
    """Lanes of a contiguous array from an index on."""

    def codegen(context, builder, sig, args):
        return builder.load(_pointer(context, builder, sig.args[0], *args), align=8)

    return lanes(array, types.int64), codegen


@intrinsic
def store(typingctx, array, index, value):
    """Write lanes to a contiguous array from an index on."""

    def codegen(context, builder, sig, args):
        builder.store(args[2], _pointer(context, builder, sig.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), codegen


@intrinsic
def fill(typingctx, number):
    """Lanes that all hold one number."""

    def codegen(context, builder, sig, args):
        return _splat(builder, args[0])

    return lanes(types.float64), codegen


@intrinsic
def where_less(typingctx, left, right, value, other):
    """`value` in the lanes where left < right, `other` in the rest."""

    def codegen(context, builder, sig, args):
        left, right, value, other = _wide(builder, sig.args, args)
        return builder.select(builder.fcmp_ordered("<", left, right), value, other)

    return lanes(left, right, value, other), codegen


@intrinsic
def nearest(typingctx, x):
    """Round to the nearest integers."""

    def codegen(context, builder, sig, args):
        return _instruction(builder, "rint", args)

    return lanes(x), codegen


@intrinsic
def _pow2(typingctx, n):
    """2^n of integral numbers, -1022 <= n <= 1023, by writing the exponent field."""

    def codegen(context, builder, sig, args):
        shifted = builder.fadd(args[0], ir.Constant(_VECTOR, [_INTEGER_SHIFT] * LANES))
        biased = builder.add(builder.bitcast(shifted, _BITS), ir.Constant(_BITS, [1023] * LANES))
        return builder.bitcast(builder.shl(biased, ir.Constant(_BITS, [52] * LANES)), _VECTOR)

    return lanes(n), codegen


@njit(forceinline=True, error_model="numpy", cache=True)
def exp2_fast(x):
    """2^x, at most 2 ulp off on [-1020, 1020]; clamped outside; NaN stays."""
    x = where_less(x, LOWEST, LOWEST, x)
    x = where_less(HIGHEST, x, HIGHEST, x)
    n = nearest(x)
    r = x - n
    r2 = r * r
    r4 = r2 * r2
    low = (_P1 + _P2 * r) + r2 * (_P3 + _P4 * r)
    high = (_P5 + _P6 * r) + r2 * (_P7 + _P8 * r)
    q = low + r4 * (high + r4 * (_P9 + _P10 * r))
    scale = _pow2(n)
    # A product by a power of two is exact.
    return scale * (_P0 * r + r2 * q) + scale


@njit(forceinline=True, error_model="numpy", cache=True)
def exp_lanes(x):
    """e^x, at most |x| + 2 ulp off where it is from 2^-1020 to 2^1020; clamped outside; NaN stays."""
    return exp2_fast(x * _LOG2_E)


@njit(forceinline=True, error_model="numpy", cache=True)
def smaller(x, bound):
    """min(x, bound); a NaN in x stays."""
    return where_less(bound, x, bound, x)


@njit(forceinline=True, error_model="numpy", cache=True)
def larger(x, bound):
    """max(x, bound); a NaN in x stays."""
    return where_less(x, bound, bound, x)
'''


def render() -> str:
    """Return the source below the header, with the coefficients of the polynomial filled in."""
    log2 = sp.log(2)
    exact = [log2, *(sp.Float(value, 40) * log2 ** (k + 2) for k, value in enumerate(exponential_coefficients()))]
    lines = [f"_P{k} = {float(sp.N(value, 40)):.17g}" for k, value in enumerate(exact)]
    return BODY.replace("@COEFFICIENTS@", "\n".join(lines)).replace("@LANES@", str(LANES))
