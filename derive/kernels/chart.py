"""Kernels of a chart: what an output fixes of the indices that made it, and the indices from that and the coordinates.

`read` takes indices to (data, variables, signs), `from_output` an output to its data; `complete` takes (data, hidden
entries, variables, signs) to all indices and the log-weight. Before anything is printed, the printed functions are run
against each other at 40 digits: `complete` must undo `read`, `from_output` must find in the output what `read` finds in
the indices, and the log-weight must be minus the logarithm of the Jacobian of `read`, by differences.
"""

import random
from dataclasses import replace

import sympy as sp
from mpmath import mpf
from mpmath.ctx_mp import MPContext

from ..architecture import Architecture, IndexBlock
from ..chart_parts import Chart
from ..emit.ir import lower
from ..emit.render import run_mp
from ..nodes import own
from ..proof import ProofError
from ..straightline import straight_link
from .kernel import Kernel

__all__ = ["chart_constants", "chart_kernels", "constants_of", "prove_chart"]

_DIGITS = 40
_DOMAIN = "c > 0, beta > 0, indices in general position"


def constants_of(model: Architecture) -> tuple[sp.Symbol, ...]:
    """Return the symbols of skip and beta, then the readout weights."""
    found = [s for value in (model.skip, model.beta) for s in sorted(value.free_symbols, key=lambda s: s.name)]
    return (*found, *(entry for matrix in model.readouts for entry in matrix))


def chart_constants(found: Chart) -> tuple[sp.Symbol, ...]:
    """Return the constants of a chart: those of its model, and the deviation of the noise if there is any."""
    return (*constants_of(found.model), *(() if found.deviation is None else (found.deviation,)))


def chart_kernels(found: Chart) -> tuple[Kernel, Kernel, Kernel]:
    """Return the kernels `read`, `complete` and `from_output` of a chart.

    Parameters
    ----------
    found : Chart
    """
    model, constants = found.model, chart_constants(found)
    meanings = (
        *((s.name, "real", "entry of h") for s in found.entries),
        *((s.name, "as `read` gives it", "what y fixes") for s in found.data),
        *((s.name, "real", "coordinate of the fibre of the readout") for s in found.variables),
        *((s.name, "+1 or -1", "sign that y leaves free") for s in found.signs),
        *((s.name, "real", "readout weight o") for matrix in model.readouts for s in matrix),
    )
    if found.deviation is not None:
        meanings += ((found.deviation.name, "> 0", "standard deviation of the noise"),)
    equations = (6, 163, 164, 165) if model.output == "last" else (25, 163, 164, 165)
    names = [*found.data, *found.variables, *found.signs]
    read = Kernel(
        name="read",
        arguments=(*found.entries, *constants),
        outputs=tuple(
            (f"at_{s.name}", own(value)) for s, value in zip(names, (*found.shown, *found.coordinates), strict=True)
        ),
        summary="What the output of indices fixes, and the coordinates of their readout.",
        notes=("Data, variables, signs, in the order of `complete`.",),
        equations=equations,
        domain=_DOMAIN,
        meanings=meanings,
        total=False,
        body=tuple((name, own(value)) for name, value in found.reading),
    )
    complete = Kernel(
        name="complete",
        arguments=(*found.data, *found.hidden, *found.variables, *found.signs, *constants),
        outputs=(
            *((f"at_{s.name}", own(value)) for s, value in zip(found.entries, found.h, strict=True)),
            ("log_weight", own(found.log_weight)),
            *((f"condition_{n}", own(value)) for n, value in enumerate(found.conditions, start=1)),
        ),
        summary="All indices from what the output fixes and the coordinates, and the logarithm of their weight.",
        notes=("The weight counts where all conditions are > 0; means that y does not depend on are arbitrary.",),
        equations=equations,
        domain=_DOMAIN,
        meanings=meanings,
        total=False,
        body=tuple((name, own(value)) for name, value in found.body),
    )
    from_output = Kernel(
        name="from_output",
        arguments=(*found.output, *constants),
        outputs=tuple((f"at_{s.name}", own(value)) for s, value in zip(found.data, found.given, strict=True)),
        summary="What an output fixes of the indices that made it.",
        notes=("The data, in the order of `complete`.",),
        equations=equations,
        domain=_DOMAIN,
        meanings=(*((s.name, "an output of the link", "entry of y") for s in found.output), *meanings),
        total=False,
    )
    return read, complete, from_output


def prove_chart(found: Chart, kernels: tuple[Kernel, Kernel, Kernel], seed: int = 0) -> None:
    """Compare the printed kernels with each other at one point of general position.

    Raises
    ------
    ProofError
        `complete` does not undo `read`, `from_output` finds other data than `read`, or the weight is not the inverse
        Jacobian up to the constant of the free means.
    """
    ctx = MPContext()
    ctx.dps = _DIGITS
    printed = run_mp([lower(kernel) for kernel in (*kernels, _link_kernel(found, kernels[0]))])
    draw = random.Random(seed)
    entries, tokens = list(found.entries), found.model.tokens
    # Charts of untied sequence outputs are those of c >= 1.
    least = 1.0 if found.model.output == "sequence" and not found.model.tied else 0.5
    constants = [ctx.mpf(str(least + draw.random())) for _ in chart_constants(found)]
    data, count = len(found.data), len(found.variables)
    place = {symbol: number for number, symbol in enumerate(entries)}

    def read(h: list[mpf]) -> tuple[list[mpf], list[mpf]]:
        values = list(printed["read"](ctx, *h, *constants))
        return values[:data], [*(h[place[s]] for s in found.hidden), *values[data:]]

    def centred(h: list[mpf]) -> list[mpf]:
        out = list(h)
        for row in found.free:
            mean = sum(h[row * tokens : (row + 1) * tokens]) / tokens
            for m in range(tokens):
                out[row * tokens + m] -= mean
        return out

    h = [ctx.mpf(str(draw.gauss(0, 1))) for _ in entries]
    known, coordinates = read(h)
    made = list(printed["complete"](ctx, *known, *coordinates, *constants))
    # Where attention is nearly saturated a sequence output loses digits.
    small = ctx.mpf(10) ** (-_DIGITS // 2)
    off = max(abs(a - b) for a, b in zip(centred(made[: len(h)]), centred(h), strict=True))
    if not off < small:
        raise ProofError(f"chart of {found.model.name}: the indices come back off by {ctx.nstr(off, 3)}")
    exact = [*h[: found.model.indices * tokens], *[ctx.zero] * (len(h) - found.model.indices * tokens)]
    told = printed["from_output"](ctx, *printed["link"](ctx, *exact, *constants), *constants)
    off = max(abs(a - b) for a, b in zip(told, read(exact)[0], strict=True))
    if not off < small:
        raise ProofError(f"chart of {found.model.name}: the data of the output are off by {ctx.nstr(off, 3)}")
    if any(not condition > 0 for condition in made[len(h) + 1 :]):
        raise ProofError(f"chart of {found.model.name}: a condition fails at indices that make the output")
    solved = _solved_means(found)
    if len(known) + len(found.hidden) + count + len(solved) != len(h):
        return  # a sequence output with more entries than degrees of freedom, which `derive.sequence_inversion` proves

    def changed(number: int, step: mpf) -> list[mpf]:
        moved = list(h)
        moved[number] += step
        values, others = read(moved)
        means = [sum(moved[row * tokens : (row + 1) * tokens]) / tokens for row in solved]
        return [*values, *others[: len(found.hidden) + count], *means]

    step = ctx.mpf(10) ** (-_DIGITS // 3)
    columns = [
        [(a - b) / (2 * step) for a, b in zip(changed(n, step), changed(n, -step), strict=True)] for n in range(len(h))
    ]
    volume = ctx.log(abs(ctx.det(ctx.matrix(columns))))
    constant = _constant(found, constants, ctx)
    # Where attention is nearly saturated differences lose digits, too.
    if abs(made[len(h)] + volume - constant) > ctx.mpf(10) ** (-_DIGITS // 4):
        raise ProofError(
            f"chart of {found.model.name}: the weight is {ctx.nstr(made[len(h)], 12)}, the inverse Jacobian "
            f"{ctx.nstr(constant - volume, 12)}"
        )


def _link_kernel(found: Chart, read: Kernel) -> Kernel:
    """Return the link as a kernel, or the scores of the last layer, for the proof."""
    line = straight_link(found.model)
    outputs = sp.Matrix.vstack(*line.stages[-1].scores) if found.of_scores else line.outputs
    return replace(
        read,
        name="link",
        outputs=tuple((f"y_{n}", own(value)) for n, value in enumerate(outputs)),
        body=tuple((name, own(value)) for name, value in line.body),
    )


def _constant(found: Chart, constants: list[mpf], ctx: MPContext) -> mpf:
    """Return what does not depend on the indices: beta of the data, and the unit of the last layer's free means."""
    model, names = found.model, chart_constants(found)
    if found.deviation is not None or model.output == "sequence":
        return ctx.zero
    skip, beta = (ctx.mpf(1), ctx.mpf(1))
    for symbol, value in zip(names, constants, strict=True):
        skip = value if symbol in model.skip.free_symbols else skip
        beta = value if symbol in model.beta.free_symbols else beta
    total = -len(found.data) * ctx.log(beta)
    weights = {s: v for s, v in zip(names, constants, strict=True) if s not in model.beta.free_symbols}
    for block in _solved_queries(found):
        total -= block.rank * ctx.log(abs(_row_sum(model, block.head, skip, weights, ctx)))
    return total


def _solved_means(found: Chart) -> list[int]:
    """Return the rows of free means that are no hidden entries."""
    if found.deviation is None and found.model.output == "sequence":
        return list(found.free)
    return [row for b in _solved_queries(found) for row in range(b.start, b.start + b.rank)]


def _solved_queries(found: Chart) -> list[IndexBlock]:
    """Return the blocks of the last layer that are solved for, and whose means are free."""
    if found.deviation is not None:
        return []
    last = [b for b in found.model.index_blocks if b.layer == found.model.layers and b.block == b.head]
    return [b for b in last if b.start in found.free]


def _row_sum(model: Architecture, head: int, skip: mpf, weights: dict[sp.Symbol, mpf], ctx: MPContext) -> mpf:
    """Return kappa of one block on the diagonal: B^(aa) 1 = kappa 1."""
    size = model.heads
    product = ctx.eye(size)
    for layer in range(1, model.layers):
        factor = skip * ctx.eye(size)
        for a in range(size):
            for b in range(size):
                factor[a, b] += ctx.one if size == 1 else weights[model.readouts[layer - 1][a, b]]
        product = factor * product
    return product[head - 1, head - 1]
