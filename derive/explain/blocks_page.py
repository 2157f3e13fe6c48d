"""What the theory says about a list of blocks, as plain text, LaTeX or a record: `attnlimits explain --blocks`."""

from dataclasses import asdict
from functools import singledispatch

import sympy as sp

from ..architecture import Architecture
from ..blocks import MLP, Attention, Composition, Correlation, Norm, Output, Readout, Residual, composed_chart
from ..mixing import activate_score
from .lines import Line, Section, counted, say, to_latex, to_text
from .written import as_latex, as_text

__all__ = ["blocks_record"]

_NAMES = {"h": "tied weights", "k": "keys", "q": "queries", "a": "rows A", "w": "weights of the readout"}
_Z = sp.Symbol("z", real=True)


def blocks_record(model: Composition) -> dict[str, object]:
    """Return what the theory says about a list of blocks, as a record for JSON, with the keys of `explain_record`."""
    headline = f"{model.title}: a list of {len(model.blocks)} blocks over {model.tokens} tokens"
    rows = _index_rows(model)
    indices = Section(
        "Indices",
        [
            say(f"the rows of h = W x / sqrt(D), P x M = {model.indices} x {model.tokens}, are in this order:"),
            *(say(f"row {row['rows']}: {row['name']}, {row['meaning']}") for row in rows),
        ],
    )
    blocks = Section("Blocks", [say(_INTRODUCTION), *_definitions(model)])
    sections = [indices, blocks, Section("Output", _left_open(model))]
    references = ["attention and residuals: troiani2025, (2)-(7), (19)", "other blocks: derived here"]
    sections.append(Section("References", [say(entry) for entry in references]))
    return {
        "model": headline,
        "P": model.indices,
        "indices": rows,
        "definitions": [
            {"name": str(n), "text": x.text, "latex": x.latex} for n, x in enumerate(_definitions(model), 1)
        ],
        "symmetries": [],
        "sections": [{"title": s.title, "lines": [asdict(line) for line in s.lines]} for s in sections],
        "threshold": {"text": None, "latex": None, "reason": "no closed form is known; `attnlimits threshold` has it"},
        "references": references,
        "text": as_text(headline, sections),
        "latex": as_latex(headline, sections),
    }


_INTRODUCTION = (
    "the tokens behind block n are X_n = B_n X_0, of independent standard normal X_0; sigma is the activation, by rows"
)


def _index_rows(model: Composition) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    start = 1
    for number, block in enumerate(model.blocks, start=1):
        for role, count in block.roles:
            place = f"{start}" if count == 1 else f"{start}-{start + count - 1}"
            meaning = f"{_NAMES[role]} of block {number}"
            found.append(
                {"name": f"{role}_{number}", "rows": place, "shape": [count, model.tokens], "meaning": meaning}
            )
            start += count
    return found


def _definitions(model: Composition) -> list[Line]:
    lines = []
    for number, block in enumerate(model.blocks, start=1):
        lines += _lines(block, number)
    return lines


@singledispatch
def _lines(block: object, n: int) -> list[Line]:
    """The formulas of block n."""
    raise NotImplementedError(f"no formulas are known of {type(block).__name__}")


@_lines.register
def _(block: Correlation, n: int) -> list[Line]:
    return [Line(f"B_{n} = C^(1/2)", rf"B_{n} = C^{{1/2}}")]


@_lines.register
def _(block: Attention, n: int) -> list[Line]:
    before, tail, (left, right) = f"B_{n - 1}", "", (block.roles[0][0], block.roles[-1][0])
    if block.mask is not None:
        seen = "; ".join(",".join(str(j + 1) for j, x in enumerate(row) if x) for row in block.mask)
        tail = f", rows see the tokens {seen}"
    name = _function(block.activation) if callable(block.activation) else str(block.activation)
    scores = f"beta_{n}*({left}_{n}*{before}.T).T*({right}_{n}*{before}.T)"
    return [
        Line(
            f"S_{n} = sigma({scores}), sigma = {name}{tail}",
            rf"S_{n} = \sigma\left(\beta_{n} {before} {left}_{n}^T {right}_{n} {before}^T\right)"
            rf"\quad \text{{({name.replace('_', ' ')}{tail})}}",
        ),
        Line(f"B_{n} = S_{n}*{before}", rf"B_{n} = S_{n} {before}"),
    ]


@_lines.register
def _(block: Residual, n: int) -> list[Line]:
    entered = f"B_{n - 1 - block.over}"
    return [Line(f"B_{n} = c_{n}*{entered} + B_{n - 1}", rf"B_{n} = c_{n} {entered} + B_{n - 1}")]


@_lines.register
def _(block: Norm, n: int) -> list[Line]:
    before = f"B_{n - 1}"
    return [
        Line(
            f"B_{n} = diag({before}*{before}.T)^(-1/2)*{before}, as |x_m|^2/D = ({before}*{before}.T)_mm",
            rf"B_{n} = \mathrm{{diag}}({before} {before}^T)^{{-1/2}} {before}",
        )
    ]


@_lines.register
def _(block: MLP, n: int) -> list[Line]:
    kept = "0" if block.bare else f"B_{n - 1}"
    if not block.planted:
        return [say(f"block {n}, an mlp of width {block.width}, is invisible to what follows: B_{n} = {kept}")]
    value = _function(block.activation)
    return [Line(f"B_{n} = {kept}, E_{n} = phi(a_{n}*B_{n - 1}.T).T, phi = {value}", rf"B_{n} = {kept}")]


@_lines.register
def _(block: Output, n: int) -> list[Line]:
    where = f"all rows of B_{n - 1}" if block.token is None else f"row {block.token + 1} of B_{n - 1}"
    return [say(f"observed: {where}, the tokens that leave in terms of those that enter")]


@_lines.register
def _(block: Readout, n: int) -> list[Line]:
    pooled = "the mean of the tokens" if block.token is None else f"token {block.token + 1}"
    seen = f"w_{n}*B_{n - 1}.T"
    read = {
        "mean": "the mean of the tokens in terms of those that enter",
        "mlp": f"phi({seen}) of every token, phi = {_function(block.activation)}",
        "linear": f"{seen} for {pooled}",
        "softmax": f"softmax({seen}) over the classes for {pooled}",
    }[block.reads]
    return [say(f"observed: {read}")]


def _function(activation: object) -> str:
    if activation == "linear":
        return "z"
    return to_text(activate_score(Architecture(1, 2, activation=activation), _Z))  # type: ignore[arg-type]


def _left_open(model: Composition) -> list[Line]:
    """What an output without noise leaves open of the indices, or why there are no coordinates on it."""
    size = model.indices * model.tokens
    try:
        found = composed_chart(model)
    except ValueError as error:
        return [say(str(error))]
    free = len(found.hidden) + len(found.variables)
    signs = f" and {counted(len(found.signs), 'sign')}" if found.signs else ""
    lines = [
        say(f"an output fixes {size - free} of the {size} entries of h; it leaves {counted(free, 'variable')}{signs}")
    ]
    lines.append(Line(f"log weight = {to_text(found.log_weight)}", rf"\log w = {to_latex(found.log_weight)}"))
    return lines
