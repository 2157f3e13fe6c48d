"""The part of the page on the derivation, as `explain` has it: indices, link, symmetries, inversion, channel."""

from typing import Any

import attnlimits as al

from ..model.link import Link
from ..model.network import Network
from .steps import Found, Part, Runner, Step

__all__ = ["derivation"]

_EXPLAIN = ("attnlimits.derive.explain.page", "attnlimits.derive.links.activation")


def derivation(run: Runner) -> Part:
    """Derive the formulas, with c and beta as symbols."""
    model = run.model
    notes: tuple[str, ...] = ()
    if isinstance(model, Link):
        step = Step("derivation", "formulas", "derive", {}, lambda: _of_link(model), ("attnlimits.derive.links.link",))
    else:
        asked = {name: value for name, value in model.parameters.items() if name not in ("skip", "beta", "noise")}
        step = Step("derivation", "formulas", "explain", asked, lambda **_: _of_network(model), _EXPLAIN)
        notes = (f"Numbers on this page are for {_values(model)}.",)
    return Part("derivation", "Derivation", (run.run(step),), notes)


def _values(model: Network) -> str:
    noise = f" and noise of variance {model.noise:g} on the output" if model.noise else ""
    skip = f"c = {model.skip:g}, " if "skip" in model.parameters else ""
    return f"{skip}beta = {model.beta:g}{noise}"


def _of_network(model: Network) -> Found:
    page: dict[str, Any] = al.derivations.explain_record(al.derivations.architecture_of(model))
    # The numbers have parts of their own.
    sections = [section for section in page["sections"] if section["title"] != "References"]
    return (), {"model": page["model"], "sections": sections, "references": page["references"]}


def _of_link(model: Link) -> Found:
    kernel = model.kernel
    outputs = al.derivations.link_formulas(model.text)
    lines: list[dict[str, object]] = [
        {"text": f"y_{k} = {text}", "latex": f"y_{{{k}}} = {latex}", "formula": True}
        for k, (text, latex) in enumerate(outputs, start=1)
    ]
    if kernel.noise:
        text = f"observed with Gaussian noise of variance {kernel.noise:g}"
        lines.append({"text": text, "latex": text, "formula": False})
    kinds = {"discrete": "finitely many values", "real": "a continuum of values", "mixed": "values of both kinds"}
    about = [
        f"h has P x M = {kernel.indices} x {kernel.tokens} entries, the rows of h = W x / sqrt(D)",
        f"the output has {kinds[kernel.kind]}; the kernel has {len(kernel.regions)} regions on which it is smooth",
    ]
    # Signs of the entries, which are counted token by token.
    flips = [[k for k, sign in enumerate(flip) if sign < 0] for flip in kernel.flips]
    named = [
        ", ".join(f"h[{k % kernel.indices + 1}, {k // kernel.indices + 1}]" for k in flip) for flip in flips if flip
    ]
    symmetries = [f"changing the sign of {entries} leaves the link as it is" for entries in named]
    if kernel.noise == 0 and model.noiseless is not None and kernel.text != model.noiseless.text:
        about.append(f"what it says about h is that of {', '.join(kernel.text)}")
    sections = [
        {"title": "Indices", "lines": _said(about[:1])},
        {"title": "Link", "lines": lines + _said(about[1:])},
        {"title": "Symmetries of the link", "lines": _said(symmetries or ["no change of signs of entries leaves it"])},
        {"title": "Output channel at (omega, V)", "lines": [_CHANNEL]},
    ]
    if kernel.exact is not None:
        sections.append({"title": "Weak-recovery threshold", "lines": _said([f"{kernel.exact}: {kernel.reason}"])})
    return (), {"model": kernel.describe(), "sections": sections, "references": [_REFERENCE]}


_REFERENCE = "channel and threshold: troiani2025, (9), (12), (15)-(18)"
_CHANNEL: dict[str, object] = {
    "text": "Z_out(y; omega, V) = Int dh prod_m N(h_m; omega_m, V) delta(y - g(h))",
    "latex": r"Z_{\rm out}(y;\omega,V) = \int dh\,\prod_m\mathcal N(h_m;\omega_m,V)\,\delta(y-g(h))",
    "formula": True,
}


def _said(sentences: list[str]) -> list[dict[str, object]]:
    return [{"text": sentence, "latex": sentence, "formula": False} for sentence in sentences]
