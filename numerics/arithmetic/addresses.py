"""Compiled functions as arguments by their address: one passed as itself takes numba 0.1 ms to unpack at a call."""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["address", "function_at"]


def address(function: Any, kind: types.FunctionType) -> int:
    """Address of a compiled function for the signature of `kind`; good as long as the function is kept."""
    compiled = function.get_compile_result(kind.signature)
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def function_at(kind: types.FunctionType) -> Callable[[int], Any]:
    """Inverse of `address`, for use in compiled code."""

    @intrinsic
    def function(typingctx: Any, number: Any) -> Any:
        del typingctx, number

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            del signature
            model, pointer = context.data_model_manager[kind], context.get_value_type(types.voidptr)
            # Addresses for C and for Python are those of no function: compiled code calls by the third one.
            fields = [cgutils.get_null_value(pointer)] * model.field_count
            fields[model.get_field_position("jit_addr")] = builder.inttoptr(args[0], pointer)
            return cgutils.make_anonymous_struct(builder, fields, context.get_value_type(kind))

        return kind(types.int64), codegen

    return function
