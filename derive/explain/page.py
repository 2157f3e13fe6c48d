"""What the theory says about one architecture, as plain text, LaTeX or a record: `attnlimits explain`.

The mixing recursion and the link are written as layered definitions between named matrices, so that a page stays
short at any depth.  They are SymPy matrix expressions, printed by SymPy; the readout, the triangular form and the
thresholds are the derived expressions themselves.  One module of this folder writes each section.
"""

import json
from dataclasses import asdict

import sympy as sp

from ..architecture import Architecture
from .channel import channel_section
from .depth import committee_layers, depth_sections
from .indices import index_rows, indices_section
from .lines import Section, say, to_latex, to_text
from .link import definitions, link_section
from .readout import readout_section
from .symmetries import symmetries, symmetry_section
from .threshold import exact_threshold, threshold_section
from .written import as_latex, as_text

__all__ = ["explain", "explain_record"]

FORMATS = ("text", "latex", "json")


def description(model: Architecture) -> str:
    """Describe the architecture in one sentence."""
    kind = "tied" if model.tied else "untied"
    heads = "one head" if model.heads == 1 else f"{model.heads} heads"
    layers = "one layer" if model.layers == 1 else f"{model.layers} layers"
    same = len(set(model.rank_vector)) == 1
    ranks = f"rank {model.rank_vector[0]}" if same else f"ranks {', '.join(map(str, model.rank_vector))}"
    output = "last attention matrix observed" if model.output == "last" else "output sequence observed"
    return (
        f"{kind} attention, {heads}, {layers} of {ranks}, {model.tokens} tokens, "
        f"{_activation(model)} activation, {output}"
    )


def _equations(model: Architecture) -> str:
    numbers = []
    if model.heads > 1:
        numbers.append("(27)-(45)")
    if not model.tied:
        numbers.append("(19)-(24)")
    if model.output == "sequence":
        numbers.append("(25)-(26)")
    return ", ".join(numbers) or "(2)-(7)"


def _references(model: Architecture) -> list[str]:
    found = [f"model and link: troiani2025, {_equations(model)}"]
    found.append("channel and denoiser: troiani2025, (9), (12), (163)-(170)")
    if model.single and model.tokens == 2 and model.rank_vector[-1] == 1 and isinstance(model.activation, str):
        found.append(f"readout: troiani2025, {'(175)-(183)' if model.activation == 'softmax' else '(171)-(174)'}")
    elif model.heads == 1 and isinstance(model.activation, str):
        found.append("readout: derived here, beyond troiani2025, (171)-(183)")
    if committee_layers(model):
        beyond = "" if model.single else ", beyond it for this architecture"
        found.append(f"large depth: troiani2025, (46)-(54){beyond}")
    numbers = "(15)-(16), (184)-(185)" if model.single else "(15)-(16)"
    found.append(f"threshold: troiani2025, {numbers}")
    return found


def _sections(model: Architecture, value: sp.Expr | None, why: str) -> list[Section]:
    return [
        indices_section(model),
        link_section(model),
        symmetry_section(model),
        readout_section(model),
        channel_section(model),
        *depth_sections(model),
        threshold_section(model, value, why),
        Section("References", [say(entry) for entry in _references(model)]),
    ]


def _activation(model: Architecture) -> str:
    """Name of the activation, or its formula."""
    return str(model.activation.expr) if isinstance(model.activation, sp.Lambda) else model.activation_name


def explain_record(model: Architecture) -> dict[str, object]:
    """Return what the theory says about an architecture, as a record for JSON.

    Parameters
    ----------
    model : Architecture
        Any architecture.

    Returns
    -------
    dict
        ``model`` (a sentence), ``P``, ``indices`` (name, rows, shape, meaning), ``definitions`` (name, text, latex),
        ``symmetries`` (layer, head, group, text, latex), ``sections`` (title and lines: text, latex, formula),
        ``threshold`` (text, latex; None with a ``reason`` where no closed form is known), ``references``, ``text`` and
        ``latex``.

    References
    ----------
    troiani2025, (2)-(7), (9), (12), (15)-(16), (19)-(45), (163)-(187).
    """
    value, why = exact_threshold(model)
    sections = _sections(model, value, why)
    threshold: dict[str, str | None] = {
        "text": None if value is None else to_text(value),
        "latex": None if value is None else str(to_latex(value)),
    }
    if why:
        threshold["reason"] = why
    return {
        "model": description(model),
        "P": model.indices,
        "indices": index_rows(model),
        "definitions": [
            {"name": str(line.name), "text": line.text, "latex": line.latex} for line in definitions(model)
        ],
        "symmetries": [
            {"layer": s.layer, "head": s.head, "group": s.group, "text": s.text, "latex": s.latex}
            for s in symmetries(model)
        ],
        "sections": [{"title": s.title, "lines": [asdict(line) for line in s.lines]} for s in sections],
        "threshold": threshold,
        "references": _references(model),
        "text": as_text(description(model), sections),
        "latex": as_latex(description(model), sections),
    }


def explain(model: Architecture, fmt: str = "text") -> str:
    """Write what the theory says about an architecture: indices, mixing, link, symmetries, channel, threshold.

    Parameters
    ----------
    model : Architecture
        Any architecture.
    fmt : {"text", "latex", "json"}
        Plain text, a LaTeX document (of amsmath, amssymb and geometry), or the record of `explain_record` as JSON.

    Raises
    ------
    ValueError
        For another format.

    References
    ----------
    troiani2025, (2)-(7), (9), (12), (15)-(16), (19)-(45), (163)-(187).
    """
    if fmt not in FORMATS:
        raise ValueError(f"fmt must be one of {', '.join(FORMATS)}, got {fmt!r}")
    record = explain_record(model)
    return json.dumps(record, indent=2) if fmt == "json" else str(record[fmt])
