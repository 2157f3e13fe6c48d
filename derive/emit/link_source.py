"""Print a derived link as a numpy module: the link, its regions, its branches."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import sympy as sp

from ..links.branches import Region
from ..links.critical import critical_values, nondegenerate
from ..links.form import FORMAT, Branches, Link
from ..links.functions import ArgMax
from ..links.parser import LinkError
from .files import write_whole
from .printers import NumpyPrinter

__all__ = ["LinkPrinter", "render", "write"]

_HEAD = '''"""Kernel of the link {title}."""
# derived by attnlimits.derive.links.link; do not edit
# derivation: sha256 {hash}

import numpy as np
from scipy import special

FORMAT = {format}
DERIVATION_HASH = "{hash}"
TEXT = {text!r}
INDICES, TOKENS = {indices}, {tokens}
NOISE = {noise}
KIND = {kind!r}
# Closed form of alpha_c, its value, and why it holds.
EXACT, EXACT_VALUE, REASON = {exact!r}, {value}, {reason!r}
# The same of the other indices, once those named are known.
STEPS = {steps}
# Eigenvectors of those in closed form; the empty key is for EXACT.
DIRECTIONS = {directions}
# The same link in the table of closed forms.
TABLE = {table!r}
# Changes of sign of the entries of h, counted token by token, that leave the link as it is.
FLIPS = {flips}
'''


class LinkPrinter(NumpyPrinter):
    """Vectorised numpy for everything the grammar of links allows."""

    functions = {
        **NumpyPrinter.functions,
        sp.exp: "np.exp",
        sp.tanh: "np.tanh",
        sp.sinh: "np.sinh",
        sp.cosh: "np.cosh",
        sp.sin: "np.sin",
        sp.cos: "np.cos",
        sp.erf: "special.erf",
        sp.erfinv: "special.erfinv",
        sp.atanh: "np.arctanh",
        sp.asinh: "np.arcsinh",
        sp.acosh: "np.arccosh",
        sp.asin: "np.arcsin",
        sp.acos: "np.arccos",
        sp.Abs: "np.abs",
        sp.sign: "np.sign",
    }

    def with_level(self, expr: sp.Expr) -> tuple[str, int]:
        """Return the text of an expression and how tightly it binds."""
        if isinstance(expr, (sp.Max, sp.Min)):
            name = "np.maximum" if isinstance(expr, sp.Max) else "np.minimum"
            first, *rest = sorted((self.text(arg) for arg in expr.args), key=len)
            for other in rest:
                first = f"{name}({first}, {other})"
            return first, 4
        if isinstance(expr, ArgMax):
            values = ", ".join(self.text(arg) for arg in expr.args)
            return f"1.0 + np.argmax(np.stack(np.broadcast_arrays({values})), axis=0)", 0
        if isinstance(expr, sp.Piecewise):
            text = "np.nan"
            for value, condition in reversed(expr.args):
                if condition == sp.true:
                    text = self.text(value)
                    continue
                text = f"np.where({self.condition(condition)}, {self.text(value)}, {text})"
            return text, 4
        return super().with_level(expr)

    def condition(self, expr: sp.Basic) -> str:
        """Return the text of a condition, an array of truth values."""
        if expr in (sp.true, sp.false):
            return str(expr == sp.true)
        if isinstance(expr, (sp.And, sp.Or)):
            mark = " & " if isinstance(expr, sp.And) else " | "
            return "(" + mark.join(sorted(self.condition(part) for part in expr.args)) + ")"
        if isinstance(expr, sp.Not):
            return f"~({self.condition(expr.args[0])})"
        return f"({self.text(expr.lhs)} {expr.rel_op} {self.text(expr.rhs)})"

    def product_or_power(self, expr: sp.Pow) -> tuple[str, int]:
        """Return the text of a power; numpy has a function for higher ones."""
        base, exponent = expr.args
        if exponent == sp.Rational(1, 2) or exponent.is_negative or (exponent.is_Integer and int(exponent) <= 4):
            return super().product_or_power(expr)
        return f"{self._wrap(base, 4)}**{self.number(exponent)}", 2


def _function(name: str, head: str, values: Sequence[sp.Expr], symbols: dict[sp.Symbol, int]) -> list[str]:
    printer = LinkPrinter()
    used = sorted({symbols[s] for value in values for s in value.free_symbols if s in symbols})
    names = {number: symbol.name for symbol, number in symbols.items()}
    lines = [f"def {name}({head}):", *(f"    {names[number]} = h[{number}]" for number in used)]
    lines += ["    return (", *(f"        {printer.text(value)}," for value in values), "    )", "", ""]
    return lines


def _number(value: sp.Expr) -> str:
    if value.is_infinite:
        return "np.inf" if value > 0 else "-np.inf"
    if value.is_Rational:
        return LinkPrinter().text(value)
    # Differences such as erf(x) - 1 cancel: as many digits as that takes.
    number = float(sp.N(value, 20, maxn=20_000))
    if not math.isfinite(number):
        raise LinkError(f"link: {value} is beyond the range of float64")
    return format(number, ".17g")


def _region(
    name: str, region: Region, solved: Sequence[Branches], symbols: dict[sp.Symbol, int]
) -> tuple[list[str], list[str]]:
    """Functions of a region, and the lines of its record."""
    lines: list[str] = []
    bounds = ", ".join(
        f"{symbols[s]}: ({_number(lo)}, {_number(hi)})"
        for s, (lo, hi) in sorted(region.bounds.items(), key=lambda item: item[0].name)
    )
    depends = tuple(tuple(sorted(symbols[s] for s in output.free_symbols)) for output in region.outputs)
    fields = [
        f"bounds={{{bounds}}}",
        f"depends={depends!r}",
        f"active={tuple(sorted(symbols[s] for s in region.active))!r}",
    ]
    lines += _function(f"{name}_output", "h", region.outputs, symbols)
    fields.append(f"output={name}_output")
    if region.conditions:
        lines += _function(f"{name}_conditions", "h", region.conditions, symbols)
    fields.append(f"conditions={name}_conditions" if region.conditions else "conditions=None")
    entries: list[list[str]] = [[] for _ in region.outputs]
    for one in solved:
        at = symbols[one.unknown]
        own = f"{one.output}_{at}"
        solve = "None"
        if one.solutions:
            solve = f"{name}_branches_{own}"
            lines += _function(solve, "y, h", one.solutions, symbols)
        lines += _function(f"{name}_slope_{own}", "h", (one.slope,), symbols)
        entries[one.output].append(f"{at}: ({len(one.solutions)}, {solve}, {name}_slope_{own})")
    critical = [critical_values(region, output) for output in range(len(region.outputs))]
    points: dict[int, tuple[float, ...]] = {}
    for _, found in critical:
        for s, places in found.items():
            points[symbols[s]] = tuple(sorted({*points.get(symbols[s], ()), *places}))
    tables = ["{" + ", ".join(one) + "}" for one in entries]
    fields += [
        f"branches=({', '.join(tables)},)",
        f"critical={tuple(values for values, _ in critical)!r}",
        f"centres={dict(sorted(points.items()))!r}",
        f"nondegenerate={nondegenerate(region)}",
    ]
    return lines, ["dict(", *(f"    {field}," for field in fields), "),"]


def render(link: Link) -> str:
    """Return the source of the kernel module of a link.

    Returns
    -------
    str
        A module with the facts as constants, ``link(h)`` for h of shape (..., P, M), and ``PARTS``: groups of
        outputs that share no entry of h, with the regions of each: bounds, conditions, outputs, branches and slopes
        as functions of the entries of h.
    """
    symbols = {symbol: number for number, symbol in enumerate(link.coordinates)}
    exact = link.exact
    head = _HEAD.format(
        title="; ".join(map(str, link.outputs)),
        text=tuple(map(str, link.outputs)),
        hash=link.hash,
        format=FORMAT,
        indices=link.indices,
        tokens=link.tokens,
        noise=_number(link.noise),
        kind=link.kind,
        exact=None if exact is None else str(exact),
        value=None if exact is None else _number(exact),
        reason=link.reason,
        flips=repr(link.flips),
        directions=repr(dict(sorted(link.directions.items()))),
        table=link.table,
        steps="{" + ", ".join(f"{key!r}: ({str(v)!r}, {_number(v)})" for key, v in sorted(link.steps.items())) + "}",
    )
    lines = [head, ""]
    lines += _function("_outputs", "h", link.outputs, symbols)
    lines += [
        "def link(h):",
        '    """Outputs g(h) without noise, shape (..., K), for h of shape (..., P, M)."""',
        "    h = np.asarray(h, dtype=np.float64)",
        f"    entries = [h[..., p, m] for m in range({link.tokens}) for p in range({link.indices})]",
        "    return np.stack(np.broadcast_arrays(*_outputs(entries)), axis=-1)",
        "",
        "",
    ]
    rows = []
    for part_number, part in enumerate(link.parts):
        entries = tuple(sorted(symbols[s] for s in part.entries))
        rows += ["dict(", f"    outputs={part.numbers!r},", f"    entries={entries!r},", f"    fixed={part.fixed},"]
        # In the order of the entries.
        ordered = sorted(zip(part.entries, part.direction, strict=False), key=lambda pair: symbols[pair[0]])
        rows.append(f"    direction=({''.join(f'{_number(value)}, ' for _, value in ordered)}),")
        rows.append("    regions=(")
        for number, (region, solved) in enumerate(zip(part.regions, part.branches, strict=True)):
            functions, record = _region(f"region_{part_number}_{number}", region, solved, symbols)
            lines += functions
            rows += [f"        {row}" for row in record]
        rows += ["    ),", "),"]
    lines += ["PARTS = (", *(f"    {row}" for row in rows), ")", ""]
    return "\n".join(lines)


def write(link: Link, folder: Path) -> Path:
    """Write the kernel as ``<sha256 of its source>.py`` into a folder, whole or not at all; return its path."""
    source = render(link)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(source.encode()).hexdigest()}.py"
    write_whole(path, source)
    return path
