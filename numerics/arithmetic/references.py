"""Named tuples that compiled functions take by reference.

numba passes a named tuple as all the numbers of all its arrays, counts the references to each of them wherever a field
is read, and repeats both in every function on the way: for two dozen arrays that is most of the machine code, and of
the time it takes to make it. By reference a tuple is one pointer, a field is read where it stands, and nothing is
counted.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils, typing
from numba.core.base import BaseContext
from numba.core.datamodel import DataModelManager
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, intrinsic, lower_getattr_generic, models, register_model, unbox

__all__ = ["INNER", "Lent", "lend", "reference"]

#: Options of functions that only compiled ones call, and that only look at arrays of others. No reference counts: they
#: are atomic operations. Nor what calls from Python take: compiling that costs a sixth of the time, and without it such
#: a call ends the process; a test looks for them. `py_func` is the function as Python runs it.
INNER = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_NAMED = (types.NamedTuple, types.NamedUniTuple)  # the second one where all fields are of one type
# Types of named tuples, by what they depend on: numba takes a millisecond to find the one of twenty arrays.
_KINDS: dict[tuple[object, ...], types.Type] = {}


class _Reference(types.Type):
    """Where a named tuple stands."""

    def __init__(self, whole: types.NamedTuple) -> None:
        self.whole = whole
        super().__init__(name=f"reference({whole.name})")

    @property
    def key(self) -> types.Type:
        """What makes it equal to another one: names of types do not have the fields' names in them."""
        return self.whole


@register_model(_Reference)
class _Pointer(models.PrimitiveModel):
    """A pointer to the tuple as numba lays it out."""

    def __init__(self, manager: DataModelManager, kind: _Reference) -> None:
        super().__init__(manager, kind, manager[kind.whole].get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    """A field that is a named tuple is a reference to it."""

    key = _Reference

    def generic_resolve(self, kind: _Reference, name: str) -> types.Type | None:
        """Type of a field."""
        if name not in kind.whole.fields:
            return None
        field = kind.whole[kind.whole.fields.index(name)]
        return _Reference(field) if isinstance(field, _NAMED) else field


@lower_getattr_generic(_Reference)
def _field(context: BaseContext, builder: ir.IRBuilder, kind: _Reference, pointer: ir.Value, name: str) -> ir.Value:
    number = kind.whole.fields.index(name)
    field, place = kind.whole[number], cgutils.gep_inbounds(builder, pointer, 0, number)
    if isinstance(field, _NAMED):
        return place
    value = builder.load(place)
    if not isinstance(field, types.Array):
        if context.data_model_manager[field].contains_nrt_meminfo():
            raise TypeError(f"a field of type {field} is not read by reference: its arrays would be counted")
        return value
    array = context.make_array(field)(context, builder, value=value)
    # An array without an owner: references to it are not counted.
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@intrinsic
def reference(typingctx: typing.Context, whole: types.Type) -> Any:
    """Reference to a named tuple of arrays, numbers, and such tuples or references; for use in compiled code.

    It is good until the function returns that makes it, and as long as its arrays are held.
    """
    del typingctx
    if not isinstance(whole, _NAMED):
        return None

    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: typing.Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        del context, signature
        slot = cgutils.alloca_once(builder, args[0].type)
        builder.store(args[0], slot)
        return slot

    return _Reference(whole)(whole), codegen


class Lent:
    """A named tuple that Python holds while compiled functions read it by reference.

    Attributes
    ----------
    address : int
    """

    __slots__ = ("_held", "_numba_type_", "address")

    def __init__(self, whole: tuple[object, ...]) -> None:
        words: list[int] = []
        key = _lay_out(whole, words)
        if key not in _KINDS:
            _KINDS[key] = _Reference(_kind(whole))
        memory = np.array(words, dtype=np.int64)
        self._held, self._numba_type_ = (whole, memory), _KINDS[key]
        self.address: int = memory.__array_interface__["data"][0]

    @property
    def kind(self) -> types.Type:
        """Numba's type of it."""
        return self._numba_type_


def lend(whole: tuple[object, ...]) -> Any:
    """Named tuple of arrays, numbers, and such tuples or lent ones, as compiled functions take it by reference."""
    return Lent(whole)


def _lay_out(whole: tuple[object, ...], words: list[int]) -> tuple[object, ...]:
    """Append the numbers that numba has for the fields, and return what their types depend on.

    Of an array these are its owners, sizes, address, shape and strides.
    """
    key: list[object] = [type(whole)]
    for field in whole:
        if isinstance(field, np.ndarray):
            words += (0, 0, field.size, field.itemsize, field.__array_interface__["data"][0])
            words += field.shape
            words += field.strides
            key.append((field.dtype, field.ndim, field.flags.num))
        elif isinstance(field, Lent):
            words.append(field.address)
            key.append(field.kind)
        elif isinstance(field, tuple):
            key.append(_lay_out(field, words))
        elif isinstance(field, float):
            words += struct.unpack("q", struct.pack("d", field))
            key.append(float)
        elif isinstance(field, int) and not isinstance(field, bool):
            words.append(field)
            key.append(int)
        else:
            raise TypeError(f"a {type(field).__name__} is not passed by reference")
    return tuple(key)


def _kind(whole: tuple[Any, ...]) -> types.Type:
    """Type of a named tuple, by those of its fields."""
    fields = tuple(_kind(field) if hasattr(field, "_fields") else typeof(field) for field in whole)
    if all(field == fields[0] for field in fields):
        return types.NamedUniTuple(fields[0], len(fields), type(whole))
    return types.NamedTuple(fields, type(whole))


@unbox(_Reference)
def _address(kind: _Reference, lent: ir.Value, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(lent, "address")
    pointer = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.bitcast(pointer, c.context.get_value_type(kind)), is_error=c.pyapi.c_api_error())
