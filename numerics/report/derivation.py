"""The part of the page on the derivation, as `explain` has it: indices, link, symmetries, inversion, channel."""

import attnlimits as al

from ..model.described import Model
from ..model.link import Link
from ..model.network import Network
from .steps import Data, Found, Part, Runner, Step

__all__ = ["derivation"]

_EXPLAIN = (
    "attnlimits.derive.explain.page",
    "attnlimits.derive.explain.link_page",
    "attnlimits.derive.links.activation",
)


def derivation(run: Runner) -> Part:
    """Derive the formulas, with c and beta as symbols."""
    model = run.model
    notes: tuple[str, ...] = ()
    if isinstance(model, Link):
        step = Step("derivation", "formulas", "explain", {}, lambda: _of_model(model), _EXPLAIN)
    else:
        numbers = (
            ("skip", "beta", "noise", "blocks", "tokens") if model.chain is not None else ("skip", "beta", "noise")
        )
        asked = {name: value for name, value in model.parameters.items() if name not in numbers}
        step = Step("derivation", "formulas", "explain", asked, lambda **_: _of_model(model), _EXPLAIN)
        notes = (f"Numbers on this page are for {_values(model)}.",)
    return Part("derivation", "Derivation", (run.run(step),), notes)


def _values(model: Network) -> str:
    noise = f" and noise of variance {model.noise:g} on the output" if model.noise else ""
    if model.chain is not None:
        return f"the constants of {model.describe()}"
    skip = f"c = {model.skip:g}, " if "skip" in model.parameters else ""
    return f"{skip}beta = {model.beta:g}{noise}"


def _of_model(model: Model) -> Found:
    if isinstance(model, Link):
        page: Data = al.derivations.explain_link(model)
    elif model.chain is not None:
        page = al.derivations.explain_blocks(model)
    else:
        page = al.derivations.explain_record(al.derivations.architecture_of(model))
    # References stand below.
    sections = [section for section in page["sections"] if section["title"] != "References"]
    return (), {"model": page["model"], "sections": sections, "references": page["references"]}
