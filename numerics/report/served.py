"""The part of the page on what is served of a model, how, and what is not and why."""

from ..model.charts import computed_as
from ..model.described import Model, kernel_or_network
from ..model.network import Network
from ..model.refusals import REFUSALS
from ..model.routes import require

__all__ = ["served"]

#: What the verbs of the routes are called; those left out are parts of others.
_NAMES = {
    "last layer": "weak-recovery threshold of the last layer",
    "first layer": "threshold of the first layer",
    "enclosure": "proof of a threshold's digits",
    "evolve": "state evolution",
    "curve": "curves of fixed points",
    "free energy": "free entropy",
    "denoise": "denoiser, deterministic",
    "denoise-sampled": "denoiser, sampled",
    "denoise-mp": "denoiser to many digits",
    "gamp": "message passing",
    "descend": "gradient descent",
}
# Verbs that compute one layer as one of its heads.
_REDUCED = ("last layer", "evolve")
# Verbs that serve links without a route of their own.
_OF_LINKS = {
    "last layer": "operator of the derived link",
    "evolve": "averages over the derived link",
    "curve": "averages over the derived link",
}


def served(model: Model) -> list[dict[str, str]]:
    """One row a verb: the route, its kind of error and its limits, or why there is none."""
    rows = []
    network = model if isinstance(model, Network) else None
    for verb, name in _NAMES.items():
        if network is None and verb in _OF_LINKS:
            rows.append({"name": name, "route": _OF_LINKS[verb], "how": "as its numbers say", "note": "", "why": ""})
        elif verb in REFUSALS and (network is not None or verb in ("free energy", "gamp", "descend")):
            rows.append({"name": name} | _row(verb, model))
    return rows


def _row(verb: str, model: Model) -> dict[str, str]:
    try:
        asked = computed_as(model) if isinstance(model, Network) and verb in _REDUCED else kernel_or_network(model)
        found = require(verb, asked)
    except ValueError as error:
        return {"route": "", "how": "", "note": "", "why": str(error)}
    return {"route": found.name, "how": found.how, "note": found.note, "why": ""}
