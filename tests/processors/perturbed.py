"""Rounding as another processor would have it: results of products, decompositions and special functions, disturbed.

`instrument` has the modules of `attnlimits` that are imported after it call what rounds through this module; within
`perturbed(seed)`, each result is off by what another processor's BLAS, LAPACK or library of functions may make of it:

- a product by one rounding of the sum of the moduli of its terms (none where it is exact: integers, or one term);
- exp, log and their like, special functions, and what a compiled loop gives, by one unit in the last place at most;
- a decomposition or the solution of equations by that of a matrix whose entries are off by one unit in the last place
  (a diagonal one is left), and eigenvectors and singular vectors may have the other sign.

Results follow from the arguments and the seed alone, as those of one processor do. Compiled loops are disturbed as a
whole, not inside; `emulated` processors show those. Numbers that are zero, infinite or multiples of one half are kept.

As a command it runs a module or a script with its arguments: ``python perturbed.py SEED -m pytest tests/numerics``.
"""

import ast
import contextlib
import importlib.abc
import importlib.machinery
import math
import runpy
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special
from numba.core.dispatcher import Dispatcher

__all__ = ["instrument", "perturbed"]

_NAME = "__rounding__"
_COMPILED = {"njit", "jit", "overload", "intrinsic", "vectorize", "guvectorize", "cfunc", "register_jitable"}
_FUNCTIONS = "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh arcsin arccos arctan arctan2 power cbrt"
_MATHS = "exp expm1 log log2 log10 log1p sin cos tan sinh cosh tanh atan atan2 erf erfc gamma lgamma pow"
_SYMMETRIC = {np.linalg.eigh, np.linalg.eigvalsh, np.linalg.cholesky, scipy.linalg.eigh, scipy.linalg.eigvalsh}
_DECOMPOSED = {
    *_SYMMETRIC,
    *(getattr(np.linalg, name) for name in "svd eig eigvals solve lstsq inv pinv det slogdet qr".split()),
    *(getattr(scipy.linalg, name) for name in "svd solve lstsq inv pinv det qr cho_factor cholesky lu_factor".split()),
}
_ELEMENTWISE = {
    *(getattr(np, name) for name in _FUNCTIONS.split()),
    *(value for value in vars(scipy.special).values() if isinstance(value, np.ufunc)),
    scipy.special.logsumexp,
    scipy.special.softmax,
    scipy.special.log_softmax,
    np.linalg.norm,
}
_SCALAR = {getattr(math, name) for name in _MATHS.split()}
_PRODUCTS = {np.matmul, np.dot}
_SUMS = {np.einsum, np.tensordot, np.vdot, np.inner}
_KNOWN = _DECOMPOSED | _ELEMENTWISE | _SCALAR | _PRODUCTS | _SUMS

_THIS = sys.modules[__name__]
_seed: int | None = None
#: How many results were disturbed, by kind.
counts: dict[str, int] = {}


def _mixed(bits: Any) -> Any:
    """Uniform 64-bit numbers that follow from these and the seed (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        z = bits + np.uint64((_seed or 0) * 0x9E3779B97F4A7C15 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _nudged(values: Any) -> Any:
    """The same real numbers, each one unit in the last place lower or higher, or as it was."""
    values = np.array(values, dtype=np.float64)
    kept = ~np.isfinite(values) | (np.abs(values) < 1e-300) | (2 * values == np.round(2 * values))
    bits = np.atleast_1d(values).view(np.uint64)
    moved = bits + (_mixed(bits) % np.uint64(3)) - np.uint64(1)
    return np.where(kept, values, moved.view(np.float64).reshape(values.shape))


def _disturbed(result: Any, kind: str) -> Any:
    """Each float64 number of a result nudged."""
    if isinstance(result, bool | int | str | None):
        return result
    if isinstance(result, float):
        return type(result)(_nudged(result))
    if isinstance(result, np.ndarray) and result.dtype == np.float64:
        counts[kind] = counts.get(kind, 0) + 1
        out = _nudged(result).reshape(result.shape)
        return out.view(type(result)) if type(result) is not np.ndarray else out
    if type(result) is tuple:
        return tuple(_disturbed(part, kind) for part in result)
    return result


def _drawn(*arrays: Any) -> np.random.Generator:
    key = _seed or 0
    for array in arrays:
        key = zlib.crc32(np.ascontiguousarray(array), key)
    return np.random.default_rng(key)


def _is_coarse(array: Any) -> bool:
    """Whether products and sums of such numbers are exact."""
    return bool((np.abs(array) < 2**16).all()) and bool((array * 2**8 == np.round(array * 2**8)).all())


def _product(a: Any, b: Any, result: Any) -> Any:
    if getattr(result, "dtype", None) != np.float64:
        return result
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape[-1] < 2 or a.size * b.size == 0 or (_is_coarse(a) and _is_coarse(b)):
        return result
    counts["product"] = counts.get("product", 0) + 1
    with np.errstate(all="ignore"):
        terms = (a != 0).astype(np.float32) @ (b != 0).astype(np.float32)
        off = np.finfo(float).eps * (np.abs(a) @ np.abs(b))
    part = _drawn(a, b).integers(-1, 2, np.shape(off))
    if a.ndim == b.ndim == 2 and a.shape == b.shape[::-1] and np.array_equal(a, b.T):
        part = np.triu(part) + np.triu(part, 1).T
    out = result + np.where((terms > 1) & np.isfinite(off), part * off, 0.0)
    return type(result)(out) if isinstance(result, np.floating) else out


def _entries(matrix: Any, *, symmetric: bool) -> Any:
    """A matrix whose entries are off by one unit in the last place, but a diagonal one."""
    matrix = np.asarray(matrix)
    if matrix.dtype != np.float64 or matrix.ndim < 2 or matrix.shape[-1] < 2:
        return matrix
    if matrix.shape[-1] == matrix.shape[-2] and not (matrix * (1 - np.eye(matrix.shape[-1]))).any():
        return matrix
    out = matrix * (1 + np.finfo(float).eps * _drawn(matrix).integers(-1, 2, matrix.shape))
    if symmetric:
        lower = np.tril(out)
        return lower + np.swapaxes(np.tril(out, -1), -1, -2)
    return out


def _decomposed(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    first, *others = args
    symmetric = function in _SYMMETRIC or (options.get("hermitian") or options.get("assume_a") == "pos")
    matrix = _entries(first, symmetric=bool(symmetric))
    counts["decomposition"] = counts.get("decomposition", 0) + 1
    result = function(matrix, *others, **options)
    if matrix is first or not isinstance(result, tuple):
        return result
    if function in (np.linalg.eigh, scipy.linalg.eigh) and not options.get("eigvals_only"):
        values, vectors = result
        signs = _drawn(matrix).choice([-1.0, 1.0], (*vectors.shape[:-2], 1, vectors.shape[-1]))
        vectors = vectors * signs
        return type(result)(values, vectors) if hasattr(result, "_fields") else (values, vectors)
    if function in (np.linalg.svd, scipy.linalg.svd):
        u, s, vh = result
        rank = min(u.shape[-1], vh.shape[-2])
        signs = _drawn(matrix).choice([-1.0, 1.0], (*u.shape[:-2], rank))
        u, vh = np.array(u), np.array(vh)
        u[..., :rank] *= signs[..., None, :]
        vh[..., :rank, :] *= signs[..., :, None]
        return type(result)(u, s, vh) if hasattr(result, "_fields") else (u, s, vh)
    return result


def matmul(a: Any, b: Any) -> Any:
    """A @ b."""
    return a @ b if _seed is None else _product(a, b, a @ b)


def raised(a: Any, b: Any) -> Any:
    """A ** b: whole powers of two or less, and roots, are exact."""
    out = a**b
    exact = isinstance(b, int) or (isinstance(b, float) and b in (0.5, -0.5, 1.0, 2.0))
    return out if _seed is None or exact else _disturbed(out, "function")


def _filled(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A compiled function: what it gives, and what it has written to the arrays that it was given."""
    arrays = [a for a in args if isinstance(a, np.ndarray) and a.dtype == np.float64 and a.flags.writeable]
    before = [a.copy() for a in arrays if a.size < 2**18]
    result = function(*args, **options)
    for array, was in zip([a for a in arrays if a.size < 2**18], before, strict=True):
        changed = (array != was) & ~(np.isnan(array) & np.isnan(was))
        if changed.any():
            array[changed] = _nudged(array[changed])
    return _disturbed(result, "compiled")


def called(function: Any, /, *args: Any, **options: Any) -> Any:
    """function(*args, **options)."""
    if _seed is None:
        return function(*args, **options)
    if isinstance(function, Dispatcher):
        return _filled(function, args, options)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ndarray):
        result = function(*args, **options)
        return _product(owner, args[0], result) if function.__name__ == "dot" else result
    try:
        known = function in _KNOWN
    except TypeError:
        known = False
    if not known or "out" in options:
        return function(*args, **options)
    if function in _DECOMPOSED:
        return _decomposed(function, args, options)
    result = function(*args, **options)
    if function in _PRODUCTS:
        return _product(args[0], args[1], result)
    if function in _SUMS:
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        return result if all(_is_coarse(a) for a in arrays) else _disturbed(result, "sum")
    if all(isinstance(a, int) for a in args):
        return result
    return _disturbed(result, "function")


def _names(*trees: ast.AST) -> set[str]:
    return {n.id for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Name)}


class _Through(ast.NodeTransformer):
    """Products, powers and calls go through this module, except in what is compiled."""

    def __init__(self, tree: ast.AST) -> None:
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _names(n.func) & _COMPILED]
        #: Functions that are compiled after they are defined.
        self.later = {a.id for call in calls for a in call.args if isinstance(a, ast.Name)}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.name in self.later or _names(*node.decorator_list) & _COMPILED:
            return node
        decorators = node.decorator_list
        node.decorator_list = []
        self.generic_visit(node)
        node.decorator_list = decorators
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.body = [self.visit(part) for part in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _call(self, name: str, node: ast.AST, args: list[ast.expr], keywords: list[ast.keyword]) -> ast.AST:
        function = ast.Attribute(ast.Name(_NAME, ast.Load()), name, ast.Load())
        return ast.copy_location(ast.Call(function, args, keywords), node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.MatMult):
            return self._call("matmul", node, [node.left, node.right], [])
        if isinstance(node.op, ast.Pow):
            return self._call("raised", node, [node.left, node.right], [])
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in {"super", "locals", "globals", "vars", "eval", "exec"}:
            return node
        return self._call("called", node, [node.func, *node.args], node.keywords)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the source as transformed, and keeps no bytecode of it."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        tree = ast.fix_missing_locations(_Through(tree).visit(tree))
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        setattr(module, _NAME, _THIS)
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the others find, and has it loaded through `_Loader`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith(("attnlimits.numerics", "attnlimits.generated")):
            return None
        for finder in sys.meta_path:
            if finder is self or (spec := finder.find_spec(name, path, target)) is None:
                continue
            if type(spec.loader) is importlib.machinery.SourceFileLoader:
                spec.loader = _Loader(spec.loader.name, spec.loader.path)
            return spec
        return None


def instrument() -> None:
    """Have modules of attnlimits that are imported from now on round through this one."""
    loaded = [name for name in sys.modules if name.startswith("attnlimits.numerics.")]
    if loaded:
        raise RuntimeError(f"{len(loaded)} modules of attnlimits are imported already, {loaded[0]} among them")
    sys.meta_path.insert(0, _Finder())


@contextlib.contextmanager
def perturbed(seed: int) -> Iterator[None]:
    """Results are disturbed, as the seed says; seed 0 leaves them as they are."""
    global _seed
    before, _seed = _seed, seed or None
    try:
        yield
    finally:
        _seed = before


def _main(seed: str, *command: str) -> None:
    sys.modules["perturbed"] = sys.modules[__name__]
    instrument()
    with perturbed(int(seed)):
        if command[0] == "-m":
            sys.argv = list(command[1:])
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(command)
            runpy.run_path(command[0], run_name="__main__")


_Check = Callable[..., Any]

if __name__ == "__main__":
    _main(*sys.argv[1:])
