"""Kernels of a chart: what an output fixes of the indices that made it, and the indices from that and the coordinates.

`read` takes indices to (data, variables, signs), `from_output` an output to its data; `complete` takes (data, hidden
entries, variables, signs) to all indices and the log-weight. Before anything is printed, the printed functions are run
against each other at 40 digits: `complete` must undo `read`, `from_output` must find in the output what `read` finds in
the indices, and the log-weight must be minus the logarithm of the Jacobian of `read`, by differences.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import sympy as sp
from mpmath import mpf
from mpmath.ctx_mp import MPContext

from ..chart_parts import Chart
from ..emit.ir import lower
from ..emit.render import run_mp
from ..nodes import own
from ..proof import ProofError
from ..straightline import straight_link
from ..symbols import ARGUMENTS
from .kernel import Kernel

__all__ = ["chart_constants", "chart_kernels", "prove_chart"]

_DIGITS = 40
_DOMAIN = "c > 0, beta > 0, indices in general position"


def chart_constants(found: Chart) -> tuple[sp.Symbol, ...]:
    """Return the constants of a chart: those of its model, and the deviation of the noise if there is any."""
    return (*found.model.constants, *(() if found.deviation is None else (found.deviation,)))


def chart_kernels(found: Chart) -> tuple[Kernel, Kernel, Kernel]:
    """Return the kernels `read`, `complete` and `from_output` of a chart.

    Parameters
    ----------
    found : Chart
    """
    constants = chart_constants(found)
    meanings = (
        *((s.name, "real", "entry of h") for s in found.entries),
        *((s.name, "as `read` gives it", "what y fixes") for s in found.data),
        *((s.name, "real", "coordinate of the fibre of the readout") for s in found.variables),
        *((s.name, "+1 or -1", "sign that y leaves free") for s in found.signs),
        *((s.name, "real", "constant of the model") for s in found.model.constants if s.name not in ARGUMENTS),
    )
    if found.deviation is not None:
        meanings += ((found.deviation.name, "> 0", "standard deviation of the noise"),)
    equations = found.equations
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


class _Proof(NamedTuple):
    """The printed functions of a chart, in numbers of many digits, at constants of general position."""

    found: Chart
    printed: Mapping[str, Callable[..., Any]]
    ctx: MPContext
    constants: list[mpf]

    def read(self, h: list[mpf]) -> tuple[list[mpf], list[mpf]]:
        """What the output of indices fixes, and all coordinates."""
        found = self.found
        values = list(self.printed["read"](self.ctx, *h, *self.constants))
        place = {symbol: number for number, symbol in enumerate(found.entries)}
        data = len(found.data)
        return values[:data], [*(h[place[s]] for s in found.hidden), *values[data:]]

    def mean(self, h: list[mpf], row: int) -> mpf:
        """Mean of a row over the tokens."""
        tokens = self.found.model.tokens
        return sum(h[row * tokens : (row + 1) * tokens]) / tokens

    def centred(self, h: list[mpf]) -> list[mpf]:
        """Indices without the means that the output does not depend on."""
        out, tokens = list(h), self.found.model.tokens
        for row in self.found.free:
            mean = self.mean(h, row)
            for m in range(tokens):
                out[row * tokens + m] -= mean
        return out

    def log_volume(self, h: list[mpf]) -> mpf:
        """Logarithm of the Jacobian of what is read of indices, and of the means that are free, by differences."""
        found, ctx = self.found, self.ctx
        kept = len(found.hidden) + len(found.variables)
        solved = _solved_means(found)

        def changed(number: int, step: mpf) -> list[mpf]:
            moved = list(h)
            moved[number] += step
            values, others = self.read(moved)
            return [*values, *others[:kept], *(self.mean(moved, row) for row in solved)]

        step = ctx.mpf(10) ** (-_DIGITS // 3)
        columns = [
            [(a - b) / (2 * step) for a, b in zip(changed(n, step), changed(n, -step), strict=True)]
            for n in range(len(h))
        ]
        return ctx.log(abs(ctx.det(ctx.matrix(columns))))


def prove_chart(found: Chart, kernels: tuple[Kernel, Kernel, Kernel], seed: int = 0) -> None:
    """Compare the printed kernels with each other at two points of general position.

    Raises
    ------
    ProofError
        `complete` does not undo `read`, `from_output` finds other data than `read`, or the weight is not the inverse
        Jacobian up to a factor that is the same at both points.
    """
    ctx = MPContext()
    ctx.dps = _DIGITS
    draw = random.Random(seed)
    constants = [ctx.mpf(str(found.least + draw.random())) for _ in chart_constants(found)]
    printed = run_mp([lower(kernel) for kernel in (*kernels, _link_kernel(found, kernels[0]))])
    proof = _Proof(found, printed, ctx, constants)
    points = [[ctx.mpf(str(draw.gauss(0, 1))) for _ in found.entries] for _ in range(2)]
    weights = [_proved(proof, h) for h in points]
    size = len(found.data) + len(found.hidden) + len(found.variables) + len(_solved_means(found))
    if size != len(found.entries):
        return  # a sequence output with more entries than degrees of freedom, which `derive.sequence_inversion` proves
    factors = [weight + proof.log_volume(h) for weight, h in zip(weights, points, strict=True)]
    # Where attention is nearly saturated differences lose digits, too.
    if abs(factors[0] - factors[1]) > ctx.mpf(10) ** (-_DIGITS // 4):
        raise ProofError(
            f"chart of {found.model.name}: weight times Jacobian are {ctx.nstr(factors[0], 12)} at one point, "
            f"{ctx.nstr(factors[1], 12)} at another (logarithms)"
        )


def _proved(proof: _Proof, h: list[mpf]) -> mpf:
    """Return the log-weight at indices, which must come back, as the data of their output must."""
    found, ctx, size = proof.found, proof.ctx, len(h)
    known, coordinates = proof.read(h)
    made = list(proof.printed["complete"](ctx, *known, *coordinates, *proof.constants))
    # Where attention is nearly saturated a sequence output loses digits.
    small = ctx.mpf(10) ** (-_DIGITS // 2)
    off = max(abs(a - b) for a, b in zip(proof.centred(made[:size]), proof.centred(h), strict=True))
    if not off < small:
        raise ProofError(f"chart of {found.model.name}: the indices come back off by {ctx.nstr(off, 3)}")
    indices = found.model.indices * found.model.tokens
    exact = [*h[:indices], *[ctx.zero] * (size - indices)]
    told = proof.printed["from_output"](ctx, *proof.printed["link"](ctx, *exact, *proof.constants), *proof.constants)
    off = max((abs(a - b) for a, b in zip(told, proof.read(exact)[0], strict=True)), default=ctx.zero)
    if not off < small:
        raise ProofError(f"chart of {found.model.name}: the data of the output are off by {ctx.nstr(off, 3)}")
    if any(not condition > 0 for condition in made[size + 1 :]):
        raise ProofError(f"chart of {found.model.name}: a condition fails at indices that make the output")
    return made[size]


def _link_kernel(found: Chart, read: Kernel) -> Kernel:
    """Return the link as a kernel, or the scores of the last layer, for the proof."""
    line = straight_link(found.model)
    outputs = line.scores if found.of_scores else line.outputs
    assert outputs is not None
    return replace(
        read,
        name="link",
        outputs=tuple((f"y_{n}", own(value)) for n, value in enumerate(outputs)),
        body=tuple((name, own(value)) for name, value in line.body),
    )


def _solved_means(found: Chart) -> list[int]:
    """Return the rows of free means that are no hidden entries."""
    return [row for row in found.free if found.entries[row, 0] not in found.hidden]
