"""Print the output of a list of blocks as a module with one compiled function on arrays of indices."""

import hashlib
import random

from mpmath.ctx_mp import MPContext

from ..kernels.kernel import Kernel
from ..proof import ProofError
from ..straightline import Described, StraightLine, straight_jacobian, straight_link
from ..symbols import ARGUMENTS
from .chart_source import IMPORTS
from .ir import lower
from .printers import NumbaPrinter
from .render import run_mp

__all__ = ["line_kernel", "source_of_outputs"]

_DIGITS = 40

_SOURCE = '''"""Output of indices: {title}."""
# derived by attnlimits.derive.straightline; do not edit
# derivation: sha256 {hash}

import math

{imports}

DERIVATION_HASH = "{hash}"
# Shape of one output.
ROWS, COLUMNS = {rows}, {columns}


@njit(cache=True, nogil=True, error_model="numpy")
def outputs(h, constants, out):
    """Set the outputs, shape (n, rows, columns), of indices h of shape (n, P, M)."""
{constants}
    for n in range(len(h)):
{body}
'''


def source_of_outputs(model: Described) -> str:
    """Derive, prove and print the output of a model.

    Parameters
    ----------
    model : Architecture, or a list of blocks
        With symbols for its constants.

    Returns
    -------
    str
        Source of a module with the function `outputs`.

    Raises
    ------
    ProofError
        The Jacobian of the link is not the slope of what is printed.
    """
    line = straight_link(model)
    kernel = line_kernel(line, "outputs")
    _prove(model, kernel)
    program = lower(kernel)
    plain, printer = program.specialise(bounded=True), NumbaPrinter(hot=False)
    columns = line.outputs.cols
    body = [f"{s.name} = h[n, {k // model.tokens}, {k % model.tokens}]" for k, s in enumerate(line.variables)]
    body += [f"{name.name} = {printer.text(value)}" for name, value in plain.assignments]
    body += [f"out[n, {k // columns}, {k % columns}] = {printer.text(value)}" for k, value in enumerate(plain.outputs)]
    constants = [f"{s.name} = constants[{k}]" for k, s in enumerate(model.constants)]
    return _SOURCE.format(
        title=model.title,
        hash=hashlib.sha256(program.digest().encode()).hexdigest(),
        imports=IMPORTS,
        rows=line.outputs.rows,
        columns=columns,
        constants="\n".join(f"    {line}" for line in constants),
        body="\n".join(f"        {line}" for line in body),
    )


def line_kernel(line: StraightLine, name: str) -> Kernel:
    """Kernel of a straight-line program of a model: of its variables, then its constants."""
    return Kernel(
        name=name,
        arguments=(*line.variables, *line.model.constants),
        outputs=tuple((f"out_{n}", value) for n, value in enumerate(line.outputs)),
        summary="Output of the indices, its loss, or slopes of these.",
        notes=("Row by row.",),
        equations=(6, 23),
        domain="constants in the domain of the model, indices real",
        body=line.body,
        meanings=(
            *((s.name, "real", "entry of h, or of y") for s in line.variables),
            *((s.name, "real", "constant of the model") for s in line.model.constants if s.name not in ARGUMENTS),
        ),
    )


def _prove(model: Described, link: Kernel) -> None:
    """Compare the derived Jacobian with differences of what is printed, at a random point and 40 digits."""
    jacobian = line_kernel(straight_jacobian(model), "jacobian")
    printed = run_mp([lower(kernel) for kernel in (link, jacobian)])
    ctx, draw = MPContext(), random.Random(2025)
    ctx.dps = _DIGITS
    size = len(link.arguments) - len(model.constants)
    h = [ctx.mpf(str(draw.gauss(0, 1))) for _ in range(size)]
    constants = [ctx.mpf(str(0.5 + draw.random())) for _ in model.constants]
    slopes, step = printed["jacobian"](ctx, *h, *constants), ctx.mpf(10) ** (-_DIGITS // 3)
    for n in range(size):
        moved = [[*h[:n], h[n] + side * step, *h[n + 1 :]] for side in (1, -1)]
        above, below = (printed["outputs"](ctx, *at, *constants) for at in moved)
        for k, (a, b) in enumerate(zip(above, below, strict=True)):
            off = abs((a - b) / (2 * step) - slopes[k * size + n])
            if not off < ctx.mpf(10) ** (-_DIGITS // 4):
                raise ProofError(f"the Jacobian of {model.name} is not that of its link: off by {ctx.nstr(off, 3)}")
