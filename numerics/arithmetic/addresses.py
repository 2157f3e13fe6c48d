"""Compiled functions as arguments by their address: one passed as itself takes numba 0.1 ms to unpack at a call."""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, typing
from numba.core.base import BaseContext
from numba.extending import intrinsic

__all__ = ["MATRIX", "VECTOR", "address", "function_at"]

#: Arguments of compiled functions.
VECTOR, MATRIX = types.float64[::1], types.float64[:, ::1]


def address(function: Any, kind: types.FunctionType) -> int:
    """Address of a compiled function for the signature of `kind`; good as long as the function is kept."""
    compiled = function.get_compile_result(kind.signature)
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def function_at(kind: types.FunctionType) -> Callable[[int], Any]:
    """Inverse of `address`, for use in compiled code."""

    @intrinsic
    def function(typingctx: typing.Context, number: types.Type) -> Any:
        del typingctx, number

        def codegen(
            context: BaseContext, builder: ir.IRBuilder, signature: typing.Signature, args: Sequence[ir.Value]
        ) -> ir.Value:
            del signature
            model, pointer = context.data_model_manager[kind], context.get_value_type(types.voidptr)
            # Addresses for C and for Python are those of no function: compiled code calls by the third one.
            fields = [cgutils.get_null_value(pointer)] * model.field_count
            fields[model.get_field_position("jit_addr")] = builder.inttoptr(args[0], pointer)
            return cgutils.make_anonymous_struct(builder, fields, context.get_value_type(kind))

        return kind(types.int64), codegen

    return function
