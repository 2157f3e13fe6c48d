"""Named tuples by reference, against the same tuples by value."""

import ast
import gc
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import NumbaValueError

from attnlimits import numerics
from attnlimits.numerics.arithmetic.references import lend, reference


class Inner(NamedTuple):
    x: np.ndarray
    scale: float
    count: int
    pair: tuple[float, float]


class Outer(NamedTuple):
    inner: Inner
    matrix: np.ndarray
    whole: np.ndarray
    flags: np.ndarray


class Alike(NamedTuple):
    a: np.ndarray
    b: np.ndarray


@njit
def _value(t):
    inner, matrix, whole = t.inner, t.matrix, t.whole
    total = inner.scale * inner.count + inner.pair[0] - 2.0 * inner.pair[1]
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if t.flags[i]:
                total += (i + 2 * j + 1) * matrix[i, j] + whole[i] * inner.x[j]
    return total + matrix.size + len(inner.x)


_plain = _value.py_func


@njit
def _value_within(t):
    inner = reference(t.inner)
    return _value(reference(Outer(inner, t.matrix[1:], t.whole[1:], t.flags[1:])))


@njit
def _set(t, value):
    t.a[0] = value
    t.b[1] = 2 * value


def _outer(matrix, x=None):
    inner = Inner(np.arange(4.0) if x is None else x, -0.75, 1 << 40, (0.5, np.pi))
    return Outer(inner, matrix, np.arange(10, 10 + len(matrix)), np.arange(len(matrix)) % 2 == 0)


@pytest.mark.parametrize("layout", ["rows", "columns", "strides"])
def test_fields_are_those_of_the_tuple(layout):
    matrix = np.random.default_rng(0).standard_normal((6, 8))
    matrix = {"rows": matrix[:3, :4].copy(), "columns": np.asfortranarray(matrix[:3, :4]), "strides": matrix[::2, ::2]}[
        layout
    ]
    t = _outer(matrix)
    assert _value(lend(t)) == _value(t) == _plain(t)
    assert _value(lend(Outer(lend(t.inner), *t[1:]))) == _plain(t)
    assert _value_within(t) == _plain(Outer(t.inner, t.matrix[1:], t.whole[1:], t.flags[1:]))


def test_two_tuples_of_other_types_are_read_as_their_own():
    # Same class, other types of fields: the second one must not be read as the first.
    x = np.arange(4, dtype=np.float32)
    for t in (_outer(np.ones((3, 4))), _outer(np.ones((3, 4)), x), _outer(np.ones((3, 4), dtype=np.int64), x)):
        assert _value(lend(t)) == _plain(t)


def test_classes_of_one_name_are_read_by_their_own_fields():
    def of_fields(*names):
        return NamedTuple("Pair", [(name, float) for name in names])

    @njit
    def first(t):
        return t.a

    assert [first(lend(of_fields(*names)(1.0, 2.0))) for names in ("ab", "ba")] == [1.0, 2.0]


def test_arrays_of_other_bytes_are_not_read_as_their_own():
    t = Alike(np.arange(3.0), np.zeros(3))
    lend(t)
    with pytest.raises(NumbaValueError, match="dtype"):
        lend(Alike(t.a.astype(">f8"), t.b))


def test_arrays_in_plain_tuples_are_not_read():
    t = Alike((np.arange(3.0), np.arange(3.0)), np.zeros(3))

    @njit
    def first(t):
        return t.a[0][1]

    with pytest.raises(TypeError, match="not read by reference"):
        first(lend(t))


def test_arrays_are_written_where_they_are():
    t = Alike(np.zeros(3), np.zeros(3))
    _set(lend(t), 2.5)
    np.testing.assert_array_equal(t.a, [2.5, 0, 0])
    np.testing.assert_array_equal(t.b, [0, 5.0, 0])


def test_no_reference_is_counted_and_the_arrays_are_held():
    gc.freeze()  # what there was before is not looked through
    x = np.arange(4.0)
    before = sys.getrefcount(x)
    lent = lend(_outer(np.ones((3, 4)), x))
    expected = _value(lent)
    held = sys.getrefcount(x)
    assert held > before
    for _ in range(100):
        _value(lent)
    assert sys.getrefcount(x) == held
    address = x.__array_interface__["data"][0]
    del x
    gc.collect(0)  # a cycle of these objects would be among the youngest
    filler = [np.full(4, -1.0) for _ in range(100)]  # would take its place
    assert all(array.__array_interface__["data"][0] != address for array in filler)
    assert _value(lent) == expected
    del lent


@pytest.mark.parametrize("field", [True, "text", None, 1j], ids=["bool", "str", "none", "complex"])
def test_other_fields_are_refused(field):
    with pytest.raises(TypeError, match="not passed by reference"):
        lend(Alike(np.zeros(2), field))


def _calls_from_python(tree: ast.Module, inner: set[str]) -> list[str]:
    """Calls of these functions, by the names they have in a module, from functions that are not compiled."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    # `njit(..)(function)` compiles without a decorator.
    compiled = {
        one.id
        for call in calls
        if isinstance(call.func, ast.Call) and getattr(call.func.func, "id", "") == "njit"
        for one in call.args
        if isinstance(one, ast.Name)
    }
    within: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name in compiled or _compiled(node)):
            within |= set(ast.walk(node))
    return [
        f"{call.func.id}, line {call.lineno}"
        for call in calls
        if call not in within and isinstance(call.func, ast.Name) and call.func.id in inner
    ]


def _compiled(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).startswith("njit") for one in function.decorator_list)


def _inner(tree: ast.Module) -> set[str]:
    """Functions of a module with the options `INNER`, or others that hold them."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(re.search(r"\*\*(INNER|LOOPS)\b", ast.unparse(one)) for one in node.decorator_list)
    }


def test_calls_from_python_are_seen():
    source = "@njit(**INNER)\ndef f(x): return x\n@njit\ndef g(x): return f(x)\ndef h(x): return f(x)\n"
    assert _inner(ast.parse(source)) == {"f"}
    assert _calls_from_python(ast.parse(source), {"f"}) == ["f, line 5"]
    assert not _calls_from_python(ast.parse(source + "njit(int64(int64))(h)\n"), {"f"})


def test_what_only_compiled_functions_may_call_is_not_called_from_python():
    # Without a wrapper for Python such a call ends the process.
    sources = {path: path.read_text(encoding="utf-8") for path in Path(next(iter(numerics.__path__))).rglob("*.py")}
    trees = {path: ast.parse(source) for path, source in sources.items() if re.search("INNER|LOOPS", source)}
    names = {path: _inner(tree) for path, tree in trees.items()}
    assert sum(map(len, names.values())) > 60
    imports = re.compile(rf"\b({'|'.join(path.stem for path in names)}) import\b")
    wrong = []
    for path, source in sources.items():
        if path not in names and not imports.search(source):
            continue
        tree = trees.get(path) or ast.parse(source)
        known = set(names.get(path, ()))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                origin = path.parents[node.level - 1].joinpath(*(node.module or "").split(".")).with_suffix(".py")
                known |= {one.asname or one.name for one in node.names if one.name in names.get(origin, set())}
        wrong += [f"{path.name}: {call}" for call in _calls_from_python(tree, known)]
    assert not wrong
