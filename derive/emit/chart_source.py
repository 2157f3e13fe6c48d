"""Print a chart as a module of compiled functions on arrays, for the posterior that numerics samples on it."""

import hashlib
from collections.abc import Sequence
from functools import singledispatch

import sympy as sp

from ..architecture import Architecture
from ..blocks import Composition, composed_chart
from ..chart_parts import Chart
from ..charts import chart
from ..kernels.chart import chart_constants, chart_kernels, prove_chart
from ..kernels.kernel import Kernel
from ..noisy_chart import noisy_chart
from ..straightline import Described
from .ir import Program, lower
from .lanes_printer import LanesPrinter
from .printers import NumbaPrinter, Printer
from .runtime_lanes import LANES

__all__ = ["IMPORTS", "render_chart", "source_of_chart"]

_HEAD = '''"""Chart of the indices that share an output: {title}."""
# derived by attnlimits.derive.charts; do not edit
# derivation: sha256 {hash}

import math

{imports}

DERIVATION_HASH = "{hash}"
# Rows of h (indices, and those of the noise), tokens M, numbers that the output fixes.
ROWS, TOKENS, DATA = {rows}, {tokens}, {data}
# Rows of h that are coordinates as they are, and those whose mean over the tokens the output does not depend on.
HIDDEN, FREE = {hidden}, {free}
# Kinds of the other coordinates, and how many signs follow them.
VARIABLES, SIGNS = {variables}, {signs}
# Constants of the model; the deviation of the noise follows them if it has rows.
CONSTANTS, NOISE = {constants}, {noise}
'''

#: What the modules printed here import, apart from their text, which is no import of this one.
IMPORTS = "from numba import njit\n\nfrom attnlimits.generated.fastmath import at_least, at_most"

_IMPORTED_LANES = "from attnlimits.generated.lanes import exp_lanes, fill, larger, load, smaller, store, where_less"

_READ = '''

@njit(cache=True, nogil=True, error_model="numpy")
def read(h, constants, data, coordinates):
    """Set what the output of indices h, shape (P, M), fixes, and the variables and signs of their readout."""
{body}
'''

_COMPLETE = '''

@njit(cache=True, nogil=True, error_model="numpy")
def complete(data, coordinates, constants, h):
    """Set all indices h, shape (P, M); return the log-weight, -inf where there are none."""
{body}
'''

_COMPLETE_LANES = '''

@njit(cache=True, nogil=True, error_model="numpy")
def complete_lanes(data, coordinates, constants, h, log_weight):
    """`complete` at eight coordinates at once, in flat arrays."""
{body}
'''

_FROM_OUTPUT = '''

@njit(cache=True, nogil=True, error_model="numpy")
def from_output(y, constants, data):
    """Set what an output, in the shape of the link, fixes of the indices that made it."""
{body}
'''


def source_of_chart(model: Described, noisy: bool = False) -> str:
    """Derive, prove and print the chart of a model.

    Parameters
    ----------
    model : Architecture, or a list of blocks
        With symbols for its constants.
    noisy : bool, optional
        Whether its outputs have Gaussian noise.

    Returns
    -------
    str
        Source of a module with the functions `read`, `complete` and `from_output`.

    Raises
    ------
    ValueError
        As `derive.charts.chart`.
    ProofError
        The printed functions do not undo each other.
    """
    found = noisy_chart(model) if noisy else chart_of(model)
    kernels = chart_kernels(found)
    prove_chart(found, kernels)
    return render_chart(found, kernels)


@singledispatch
def chart_of(model: Described) -> Chart:
    """Chart of a model whose outputs have no noise."""
    raise ValueError(f"no chart is derived for {model.name}; give the output noise, with which every model is served")


chart_of.register(Architecture, chart)
chart_of.register(Composition, composed_chart)


def render_chart(found: Chart, kernels: tuple[Kernel, Kernel, Kernel]) -> str:
    """Return the source of a chart's module.

    Parameters
    ----------
    found : Chart
    kernels : tuple of Kernel
        Of `chart_kernels`.
    """
    model = found.model
    programs = [lower(kernel) for kernel in kernels]
    read, complete, from_output = programs
    digest = hashlib.sha256(" ".join(part.digest() for part in programs).encode()).hexdigest()
    tokens = model.tokens
    hidden = [number for number in range(found.h.rows) if found.entries[number, 0] in found.hidden]
    head = _HEAD.format(
        imports=f"{IMPORTS}\n{_IMPORTED_LANES}",
        title=model.title,
        hash=digest,
        rows=found.h.rows,
        tokens=tokens,
        data=len(found.data),
        hidden=_tuple(hidden),
        free=_tuple(found.free),
        variables=_tuple([repr(_kind(pair)) for pair in found.ranges]),
        signs=len(found.signs),
        constants=len(model.constants),
        noise=found.h.rows - model.indices,
    )
    parts = [
        _READ.format(body=_read(found, read)),
        _COMPLETE.format(body=_complete(found, complete)),
        _COMPLETE_LANES.format(body=_complete_lanes(found, complete)),
        _FROM_OUTPUT.format(body=_from_output(found, from_output)),
    ]
    return head + "".join(parts)


def _tuple(values: Sequence[object]) -> str:
    return "(" + "".join(f"{value}, " for value in values).rstrip() + ")"


def _kind(pair: tuple[sp.Expr, sp.Expr]) -> str:
    """Return the kind of a variable by its range."""
    if pair == (-sp.oo, sp.oo):
        return "line"
    return "circle" if pair[1] == 2 * sp.pi else "arc"


def _constants(found: Chart) -> list[str]:
    return [f"{symbol.name} = constants[{n}]" for n, symbol in enumerate(chart_constants(found))]


def _lines(program: Program, printer: Printer) -> tuple[list[str], list[str]]:
    """Return the assignments of a program, and its outputs, as Python."""
    plain = program.specialise(bounded=True)
    return [f"{name.name} = {printer.text(value)}" for name, value in plain.assignments], [
        printer.text(value) for value in plain.outputs
    ]


def _read(found: Chart, program: Program) -> str:
    lines, values = _lines(program, NumbaPrinter(hot=False))
    rows, columns = found.entries.shape
    unpacked = [f"{found.entries[p, m].name} = h[{p}, {m}]" for p in range(rows) for m in range(columns)]
    count = len(found.data)
    told = [f"data[{n}] = {value}" for n, value in enumerate(values[:count])]
    told += [f"coordinates[{n}] = {value}" for n, value in enumerate(values[count:])]
    return _indented([*unpacked, *_constants(found), *lines, *told])


def _complete(found: Chart, program: Program) -> str:
    lines, values = _lines(program, NumbaPrinter(hot=False))
    rows, columns = found.h.shape
    unpacked = [f"{symbol.name} = data[{n}]" for n, symbol in enumerate(found.data)]
    free = (*found.hidden, *found.variables, *found.signs)
    unpacked += [f"{symbol.name} = coordinates[{n}]" for n, symbol in enumerate(free)]
    told = [f"h[{n // columns}, {n % columns}] = {value}" for n, value in enumerate(values[: rows * columns])]
    log_weight, conditions = values[rows * columns], values[rows * columns + 1 :]
    held = [f"if not ({value} > 0.0):\n        return -math.inf" for value in conditions]
    return _indented([*unpacked, *_constants(found), *lines, *held, *told, f"return {log_weight}"])


def _complete_lanes(found: Chart, program: Program) -> str:
    """Return the same with a lane for each of eight coordinates; what all share stays a number."""
    lines, values = _lines(program, LanesPrinter())
    size = len(found.h)
    unpacked = [f"{symbol.name} = data[{n}]" for n, symbol in enumerate(found.data)]
    free = (*found.hidden, *found.variables, *found.signs)
    unpacked += [f"{symbol.name} = load(coordinates, {LANES * n})" for n, symbol in enumerate(free)]
    # A number is as many lanes.
    told = [f"store(h, {LANES * n}, fill(0.0) + ({value}))" for n, value in enumerate(values[:size])]
    told.append(f"weight = fill(0.0) + ({values[size]})")
    told += [f"weight = where_less(0.0, {value}, weight, -math.inf)" for value in values[size + 1 :]]
    return _indented([*unpacked, *_constants(found), *lines, *told, "store(log_weight, 0, weight)"])


def _from_output(found: Chart, program: Program) -> str:
    lines, values = _lines(program, NumbaPrinter(hot=False))
    rows, columns = found.output.shape
    unpacked = [f"{found.output[a, b].name} = y[{a}, {b}]" for a in range(rows) for b in range(columns)]
    told = [f"data[{n}] = {value}" for n, value in enumerate(values)]
    return _indented([*unpacked, *_constants(found), *lines, *told])


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
