"""Print the square loss of an architecture and its slopes as a module with one compiled function on arrays."""

import hashlib
import random

from mpmath.ctx_mp import MPContext

from ..kernels.kernel import Kernel
from ..proof import ProofError
from ..pullback import straight_loss
from ..straightline import Described, straight_jacobian, straight_link
from .chart_source import IMPORTS
from .ir import lower
from .outputs_source import line_kernel
from .printers import NumbaPrinter
from .render import run_mp

__all__ = ["source_of_loss"]

_DIGITS = 40

_SOURCE = '''"""Square loss of an output and its slopes in the indices: {title}."""
# derived by attnlimits.derive.pullback; do not edit
# derivation: sha256 {hash}

import math

{imports}

DERIVATION_HASH = "{hash}"


@njit(cache=True, nogil=True, error_model="numpy")
def square_loss(h, y, constants, losses, slopes):
    """Set ||y - g(h)||^2 / 2 for h of shape (n, P, M) and y of shape (n, rows, columns), and its slopes in h."""
{constants}
    for n in range(len(h)):
{body}
'''


def _prove(model: Described, loss: Kernel) -> None:
    """Compare the slopes with those that the Jacobian of the link gives, at a random point and 40 digits."""
    link, jacobian = straight_link(model), straight_jacobian(model)
    kernels = [loss, line_kernel(link, "link"), line_kernel(jacobian, "jacobian")]
    printed = run_mp([lower(kernel) for kernel in kernels])
    ctx, draw = MPContext(), random.Random(2025)
    ctx.dps = _DIGITS
    h, y = ([ctx.mpf(str(draw.gauss(0, 1))) for _ in entries] for entries in (link.variables, link.outputs))
    constants = [ctx.mpf(str(0.5 + draw.random())) for _ in model.constants]
    found = printed["square_loss"](ctx, *h, *y, *constants)
    g, slopes = (printed[name](ctx, *h, *constants) for name in ("link", "jacobian"))
    residuals = [value - told for value, told in zip(g, y, strict=True)]
    wanted = [sum(r * r for r in residuals) / 2]
    wanted += [sum(r * slopes[k * len(h) + n] for k, r in enumerate(residuals)) for n in range(len(h))]
    off = max(abs(a - b) for a, b in zip(found, wanted, strict=True))
    if not off < ctx.mpf(10) ** (-_DIGITS // 2):
        raise ProofError(f"the slopes of the square loss of {model.name} are not those of its Jacobian: off by {off}")


def source_of_loss(model: Described) -> str:
    """Derive, prove and print the square loss of a model with its slopes.

    Parameters
    ----------
    model : Architecture, or a list of blocks
        With symbols for its constants.

    Returns
    -------
    str
        Source of a module with the function `square_loss`.

    Raises
    ------
    ValueError
        As `derive.pullback.straight_loss`.
    ProofError
        The slopes are not those that the Jacobian gives.
    """
    line = straight_loss(model)
    kernel = line_kernel(line, "square_loss")
    _prove(model, kernel)
    program = lower(kernel)
    digest = hashlib.sha256(program.digest().encode()).hexdigest()
    plain, printer = program.specialise(bounded=True), NumbaPrinter(hot=False)
    tokens, columns = model.tokens, straight_link(model).outputs.cols
    inputs = sum(len(matrix) for matrix in model.index_matrices())
    h, y = line.variables[:inputs], line.variables[inputs:]
    body = [f"{s.name} = h[n, {k // tokens}, {k % tokens}]" for k, s in enumerate(h)]
    body += [f"{s.name} = y[n, {k // columns}, {k % columns}]" for k, s in enumerate(y)]
    body += [f"{name.name} = {printer.text(value)}" for name, value in plain.assignments]
    loss, *slopes = (printer.text(value) for value in plain.outputs)
    body.append(f"losses[n] = {loss}")
    body += [f"slopes[n, {k // tokens}, {k % tokens}] = {value}" for k, value in enumerate(slopes)]
    constants = [f"{s.name} = constants[{k}]" for k, s in enumerate(model.constants)]
    return _SOURCE.format(
        title=model.title,
        hash=digest,
        imports=IMPORTS,
        constants="\n".join(f"    {line}" for line in constants),
        body="\n".join(f"        {line}" for line in body),
    )
