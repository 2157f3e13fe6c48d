"""Render a package of programs as Python source, one function per kernel, for each of the three backends."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from mpmath import mpf

from .. import symbols
from ..kernels.kernel import Kernel, KernelPackage
from . import runtime_checked
from .ir import Program
from .printers import MpmathPrinter, NumbaPrinter, NumpyPrinter, PlainPrinter, Printer

__all__ = ["facts", "render_init", "render_mp", "render_numba", "render_numpy", "render_plain", "run_mp"]

_KIND = {"numpy": "array_like", "numba": "float", "mp": "mpf", "plain": "number"}

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
    lines += [f"{kernel.paper}, {numbers}.", '"""']
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


_NUMPY_HEAD = """
import numpy as np
from numpy.typing import NDArray

from {runtime}checked import vectorised

Array = NDArray[np.float64]
"""


def _decorator(kernel: Kernel, name: str, *more: str) -> str:
    """Return the line that has a function's outputs checked."""
    numbers = ", ".join(f"({number})" for number in kernel.equations)
    return f"@{name}({', '.join([repr(f'{kernel.paper}, {numbers}'), repr(kernel.domain), *more])})"


def render_numpy(programs: Sequence[Program], runtime: str = "..") -> str:
    """Return the source of the vectorised float64 module, without its header.

    Parameters
    ----------
    programs : sequence of Program
    runtime : str
        What stands before the name of a module of shared functions where it is imported, here and in `render_numba`
        and `render_mp`.
    """
    parts = []
    for program in programs:
        lines, values = _body(program.specialise(bounded=True), NumpyPrinter())
        arguments = ", ".join(f"{name}: Array" for name in _names(program))
        total = str(program.kernel.total)
        signature = f"def {program.kernel.name}({arguments}) -> tuple[Array | float, ...]:"
        signature = f"{_decorator(program.kernel, 'vectorised', total)}\n{signature}"
        parts.append(_function(signature, [_docstring(program, "numpy"), *lines, _tuple(values, "return ")]))
    head = _NUMPY_HEAD.replace("{runtime}", runtime)
    if any("special." in part for part in parts):
        head = head.replace("import NDArray\n", "import NDArray\nfrom scipy import special\n")
    return "\n\n\n".join(part.strip("\n") for part in [head, *parts]) + "\n"


def _refusal(program: Program) -> list[str]:
    """Return the body of a compiled function that refuses what `_<name>` overflows to; its message is a constant."""
    kernel, names = program.kernel, _names(program)
    numbers = ", ".join(f"({number})" for number in kernel.equations)
    # Numbers of one type, whatever was handed in: a loop over a tuple needs that.
    inputs = ", ".join(f"float({name})" for name in names)
    message = (
        f"{kernel.name}: an output is not finite in float64 at finite {_listed(names, 4)}; use smaller arguments, or "
        f"`{kernel.name}` of the module mp ({kernel.paper}, {numbers}; domain: {kernel.domain})"
    )
    return [
        f"inputs = ({inputs},)",
        f"values = _{kernel.name}(*inputs)",
        "if not finite(values) and finite(inputs):",
        f"    raise OverflowError({_literal(message)})",
        "return values",
    ]


def render_numba(programs: Sequence[Program], runtime: str = "..") -> str:
    """Return the source of the compiled scalar module, without its header; ``runtime`` as in `render_numpy`."""
    functions = []
    for program in programs:
        kernel = program.kernel
        lines, values = _body(program.specialise(bounded=True), NumbaPrinter(kernel.hot))
        arguments = ", ".join(f"{name}: float" for name in _names(program))
        returns = ", ".join(["float"] * len(values)) if len(values) <= _LISTED else "float, ..."
        signature = f"{kernel.name}({arguments}) -> tuple[{returns}]:"
        said = _docstring(program, "numba")
        body = [*lines, _tuple(values, "return ")]
        if kernel.refuses:
            functions.append(_function(f"@njit(**OPTIONS)\ndef _{signature}", body))
            functions.append(_function(f"@njit(**CHECKED)\ndef {signature}", [said, *_refusal(program)]))
        else:
            functions.append(_function(f"@njit(**OPTIONS)\ndef {signature}", [said, *body]))
    text = "\n\n\n".join(function.strip("\n") for function in functions) + "\n"
    shared = [name for name in ("at_least", "at_most", "exp_fast", "expm1_fast", "finite") if f"{name}(" in text]
    shared = [*(name for name in ("CHECKED", "OPTIONS") if f"**{name}" in text), *shared]
    head = ["import math", ""] if "math." in text else []
    head += ["from numba import njit", "", f"from {runtime}fastmath import {', '.join(shared)}"]
    return "\n".join(head) + "\n\n\n" + text


def render_plain(programs: Sequence[Program]) -> str:
    """Return the source of the functions for numbers of any kind, without its header; of kernels that are `plain`."""
    functions = []
    for program in programs:
        lines, values = _body(program.specialise(bounded=False), PlainPrinter())
        arguments = ", ".join(f"{name}: Any" for name in _names(program))
        signature = f"def {program.kernel.name}({arguments}) -> tuple[Any, ...]:"
        functions.append(_function(signature, [_docstring(program, "plain"), *lines, _tuple(values, "return ")]))
    return "\n\n\n".join(["from typing import Any", *(function.strip("\n") for function in functions)]) + "\n"


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
    "_power": '''
def _power(ctx: MPContext, x: mpf, p: mpf) -> mpf:
    """Real power x^p; nan for x < 0, as in float64."""
    return ctx.power(x, p) if x > 0 else (ctx.nan if x < 0 else (ctx.zero if p > 0 else ctx.inf))
''',
    "_asin": '''
def _asin(ctx: MPContext, x: mpf) -> mpf:
    """Real arc sine; nan for |x| > 1, as in float64."""
    return ctx.asin(x) if abs(x) <= 1 else ctx.nan
''',
    "_acos": '''
def _acos(ctx: MPContext, x: mpf) -> mpf:
    """Real arc cosine; nan for |x| > 1, as in float64."""
    return ctx.acos(x) if abs(x) <= 1 else ctx.nan
''',
    "_acosh": '''
def _acosh(ctx: MPContext, x: mpf) -> mpf:
    """Real inverse of cosh; nan for x < 1, as in float64."""
    return ctx.acosh(x) if x >= 1 else ctx.nan
''',
    "_atanh": '''
def _atanh(ctx: MPContext, x: mpf) -> mpf:
    """Real inverse of tanh; nan for |x| >= 1, where float64 has inf or nan."""
    return ctx.atanh(x) if abs(x) < 1 else ctx.nan
''',
    "_copysign": '''
def _copysign(ctx: MPContext, x: mpf) -> mpf:
    """1 with the sign of x, and 1 at x = 0."""
    return ctx.mpf(-1) if x < 0 else ctx.mpf(1)
''',
}


# For the signatures; what computes is the context that a caller hands in.
_MP_HEAD = "from mpmath import mpf\nfrom mpmath.ctx_mp import MPContext"


def _mp_functions(programs: Sequence[Program]) -> list[str]:
    functions = []
    for program in programs:
        lines, values = _body(program.specialise(bounded=False), MpmathPrinter(program.kernel.towers))
        arguments = ", ".join(["ctx: MPContext", *(f"{name}: mpf" for name in _names(program))])
        signature = f"def {program.kernel.name}({arguments}) -> tuple[mpf, ...]:"
        signature = f"{_decorator(program.kernel, 'precise')}\n{signature}"
        functions.append(_function(signature, [_docstring(program, "mp"), *lines, _tuple(values, "return ")]))
    text = "\n".join(functions)
    helpers = [code for name, code in _MP_HELPERS.items() if re.search(rf"\b{name}\(ctx", text)]
    return [part.strip("\n") for part in (*helpers, *functions)]


def render_mp(programs: Sequence[Program], runtime: str = "..") -> str:
    """Return the source of the arbitrary-precision module, without its header; ``runtime`` as in `render_numpy`."""
    functions = _mp_functions(programs)
    shared = ", ".join([*(["bounded"] if any("bounded(ctx" in text for text in functions) else []), "precise"])
    return "\n\n\n".join([f"{_MP_HEAD}\n\nfrom {runtime}checked import {shared}", *functions]) + "\n"


def run_mp(programs: Sequence[Program]) -> dict[str, Callable[..., tuple[mpf, ...]]]:
    """Return the functions that `render_mp` prints, by name, made from that very text; nothing is imported for them."""
    names: dict[str, Callable[..., tuple[mpf, ...]]] = {}
    for part in (runtime_checked.BODY, _MP_HEAD, *_mp_functions(programs)):
        exec(compile(part, "printed", "exec"), names)
    return {program.kernel.name: names[program.kernel.name] for program in programs}


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
    compiled = ", `numba64` (compiled scalars)" if package.compiled else ""
    return f'''"""{package.title}.

Each of the modules `numpy64` (vectorised){compiled} and `mp` (arbitrary precision, an
mpmath context first) holds the same functions: {listed}.
"""

DERIVATION_HASH = "{digest}"
PAPER = "{package.paper}"
EQUATIONS = ({numbers}{"," if len(package.equations) == 1 else ""})
TOKENS = {package.tokens}
ACTIVATION = "{package.activation}"
{_constants(package)}'''
