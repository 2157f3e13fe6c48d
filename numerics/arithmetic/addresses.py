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
            value = cgutils.create_struct_proxy(kind)(context, builder)
            value.jit_addr = builder.inttoptr(args[0], context.get_value_type(types.voidptr))
            return value._getvalue()

        return kind(types.int64), codegen

    return function
