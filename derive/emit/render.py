"""Render a package of programs as Python source, one function per kernel, for each of the three backends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from .. import symbols
from ..kernel import Kernel, KernelPackage
from .ir import Program
from .printers import MpmathPrinter, NumbaPrinter, NumpyPrinter, Printer

__all__ = ["facts", "render_init", "render_mp", "render_numba", "render_numpy"]

_KIND = {"numpy": "array_like", "numba": "float", "mp": "mpf"}

# More names than this are given by the first and the last.
_LISTED = 12


def _listed(names: Sequence[str], most: int) -> str:
    """Return the names, or the first and the last few of them."""
    return ", ".join(names if len(names) <= most else [*names[:2], "..", names[-1]])


def _documented(kernel: Kernel) -> Iterator[tuple[list[str], tuple[str, str]]]:
    """Yield the arguments, those in a row with the same domain and meaning together."""
    pairs = [(argument.name, symbols.meaning(argument.name, kernel.meanings)) for argument in kernel.arguments]
    for about, group in groupby(pairs, key=lambda pair: pair[1]):
        yield [name for name, _ in group], about


def _docstring(program: Program, backend: str) -> str:
    kernel = program.kernel
    lines = [f'"""{kernel.summary}', "", *kernel.notes, "", "Parameters", "----------"]
    if backend == "mp":
        lines += ["ctx : mpmath context", "    Its own precision is used; the global one is never read."]
    for names, (domain, meaning) in _documented(kernel):
        lines += [f"{_listed(names, 4)} : {_KIND[backend]}", f"    {meaning[0].upper()}{meaning[1:]}; {domain}."]
    lines += ["", "Returns", "-------"]
    shape = ", each with the broadcast shape of the arguments" if backend == "numpy" else ""
    lines += [f"tuple of {_KIND[backend].replace('array_like', 'ndarray')}"]
    lines += [f"    ({_listed([name for name, _ in kernel.outputs], _LISTED)}){shape}."]
    numbers = ", ".join(f"({number})" for number in kernel.equations)
    lines += ["", "Notes", "-----", f"Domain: {kernel.domain}.", "", "References", "----------"]
    lines += [f"troiani2025, {numbers}.", '"""']
    return "\n".join(line.rstrip() for line in lines)


def _body(program: Program, printer: Printer) -> tuple[list[str], list[str]]:
    lines = [f"{name.name} = {printer.text(value)}" for name, value in program.assignments]
    return lines, [printer.text(value) for value in program.outputs]


def _function(signature: str, parts: Sequence[str]) -> str:
    return f"{signature}\n{textwrap.indent(chr(10).join(parts), '    ')}\n"


def _tuple(values: Sequence[str], prefix: str = "") -> str:
    """Return the values on a line each, after a prefix, in parentheses."""
    return "\n".join([f"{prefix}(", *(f"    {value}," for value in values), ")"])


def _names(program: Program) -> list[str]:
    return [argument.name for argument in program.kernel.arguments]


_NUMPY_HEAD = '''
import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def _inputs(*values: ArrayLike) -> tuple[Array, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def _outputs(inputs: tuple[Array, ...], *values: Array | np.float64 | float) -> tuple[Array, ...]:
    """Give every output the broadcast shape of the inputs (a scalar stays one), as an array of its own."""
    shape = np.broadcast_shapes(*(value.shape for value in inputs))
    return tuple(np.array(np.broadcast_to(value, shape))[()] for value in values)
'''


def render_numpy(programs: Sequence[Program]) -> str:
    """Return the source of the vectorised float64 module, without its header."""
    parts = [_NUMPY_HEAD]
    for program in programs:
        lines, values = _body(program.specialise(bounded=True), NumpyPrinter())
        names = _names(program)
        arguments = ", ".join(f"{name}: ArrayLike" for name in names)
        signature = f"def {program.kernel.name}({arguments}) -> tuple[Array, ...]:"
        unpack = f"{', '.join(names)} = inputs = _inputs({', '.join(names)})"
        # Outside the domain the outputs are nan or inf; warnings would only repeat it.
        work = textwrap.indent("\n".join([*lines, _tuple(["inputs", *values], "return _outputs")]), "    ")
        body = [_docstring(program, "numpy"), unpack, 'with np.errstate(all="ignore"):', work]
        parts.append(_function(signature, body))
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def render_numba(programs: Sequence[Program], fastmath: str = "..fastmath") -> str:
    """Return the source of the compiled scalar module, which imports ``fastmath``, without its header."""
    functions = []
    for program in programs:
        kernel = program.kernel
        lines, values = _body(program.specialise(bounded=True), NumbaPrinter(kernel.hot))
        arguments = ", ".join(f"{name}: float" for name in _names(program))
        returns = ", ".join(["float"] * len(values)) if len(values) <= _LISTED else "float, ..."
        signature = f"@njit(**OPTIONS)\ndef {kernel.name}({arguments}) -> tuple[{returns}]:"
        body = [_docstring(program, "numba"), *lines, _tuple(values, "return ")]
        functions.append(_function(signature, body))
    text = "\n\n\n".join(function.strip("\n") for function in functions) + "\n"
    shared = [name for name in ("at_least", "at_most", "exp_fast", "expm1_fast") if f"{name}(" in text]
    head = ["import math", ""] if "math." in text else []
    head += ["from numba import njit", "", f"from {fastmath} import {', '.join(['OPTIONS', *shared])}"]
    return "\n".join(head) + "\n\n\n" + text


_MP_HELPERS = {
    "_sqrt": '''
def _sqrt(ctx: MPContext, x: mpf) -> mpf:
    """Real square root; nan for x < 0, as in float64."""
    return ctx.sqrt(x) if x >= 0 else ctx.nan
''',
    "_log": '''
def _log(ctx: MPContext, x: mpf) -> mpf:
    """Real logarithm; -inf at 0 and nan for x < 0, as in float64."""
    return ctx.log(x) if x > 0 else (-ctx.inf if x == 0 else ctx.nan)
''',
    "_log1p": '''
def _log1p(ctx: MPContext, x: mpf) -> mpf:
    """Real log(1 + x); -inf at -1 and nan below, as in float64."""
    return ctx.log1p(x) if x > -1 else (-ctx.inf if x == -1 else ctx.nan)
''',
    "_copysign": '''
def _copysign(ctx: MPContext, x: mpf) -> mpf:
    """1 with the sign of x, and 1 at x = 0."""
    return ctx.mpf(-1) if x < 0 else ctx.mpf(1)
''',
}


def render_mp(programs: Sequence[Program]) -> str:
    """Return the source of the arbitrary-precision module, without its header."""
    functions = []
    for program in programs:
        kernel = program.kernel
        lines, values = _body(program.specialise(bounded=False), MpmathPrinter())
        names = _names(program)
        arguments = ", ".join(["ctx: MPContext", *(f"{name}: mpf" for name in names)])
        signature = f"def {kernel.name}({arguments}) -> tuple[mpf, ...]:"
        convert = f"{', '.join(names)} = {', '.join(f'ctx.convert({name})' for name in names)}"
        body = [_docstring(program, "mp"), convert, *lines, _tuple(values, "return ")]
        functions.append(_function(signature, body))
    text = "\n\n\n".join(function.strip("\n") for function in functions) + "\n"
    helpers = [code.strip("\n") for name, code in _MP_HELPERS.items() if f"{name}(ctx" in text]
    # For the signatures; what computes is the context that a caller hands in.
    head = "from mpmath import mpf\nfrom mpmath.ctx_mp import MPContext\n"
    return "\n\n\n".join([head.strip("\n"), *helpers, text.strip("\n")]) + "\n"


def facts(package: KernelPackage) -> dict[str, object]:
    """Return what a package says of its one model, by name; nothing for a family."""
    model = package.model
    if model is None:
        return {}
    return {
        "layers": model.layers,
        "ranks": list(model.rank_vector),
        "heads": model.heads,
        "tied": model.tied,
        "output": model.output,
    }


def _constants(package: KernelPackage) -> str:
    if package.model is None:
        return ""
    link = package.kernels[0]
    named = facts(package)
    named["ranks"] = package.model.rank_vector
    named["skip"], named["beta"] = str(package.model.skip), str(package.model.beta)
    lines = [f"{name.upper()} = {_literal(value)}" for name, value in named.items()]
    lines += [f"ARGUMENTS = {_tuple([_literal(argument.name) for argument in link.arguments])}"]
    lines += [f"OUTPUTS = {_tuple([_literal(name) for name, _ in link.outputs])}"]
    return "\n".join(lines) + "\n"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def render_init(package: KernelPackage, digest: str) -> str:
    """Return the source of the package's ``__init__``, without its header."""
    numbers = ", ".join(str(number) for number in package.equations)
    listed = ", ".join(f"`{kernel.name}`" for kernel in package.kernels)
    return f'''"""{package.title}.

Each of the modules `numpy64` (vectorised), `numba64` (compiled scalars) and `mp` (arbitrary precision, an
mpmath context first) holds the same functions: {listed}.
"""

DERIVATION_HASH = "{digest}"
EQUATIONS = ({numbers}{"," if len(package.equations) == 1 else ""})
TOKENS = {package.tokens}
ACTIVATION = "{package.activation}"
{_constants(package)}'''
