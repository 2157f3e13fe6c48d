"""The part of the page on large depth: thresholds as the skip strength grows, and infinitely many layers."""

from dataclasses import replace

import attnlimits as al

from ..model.network import Network
from ..model.routes import FLOAT64, SCORES, preferred
from ..thresholds.flow import flow
from .steps import Found, Number, Outcome, Part, Runner, Setting, Step
from .thresholds import number_of

__all__ = ["depth"]

_THRESHOLD, _FLOW = ("attnlimits.verbs.threshold",), ("attnlimits.numerics.thresholds.flow",)


def depth(run: Runner) -> Part | None:
    """Compute the limits of a network of several layers; None where there is none to take."""
    model = run.model
    if (
        not isinstance(model, Network)
        or model.chain is not None
        or model.layers == 1
        or model.heads > 1
        or model.output != "last"
    ):
        return None
    shallow = replace(model, layers=1, rank=model.ranks[-1], readouts=None)
    found: list[Outcome] = []
    limit = Step("depth", "one layer", "", {}, lambda: _limit(shallow), _THRESHOLD)
    found.append(run.run(limit))
    skips = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    if preferred("last layer", model) in (FLOAT64, SCORES):
        found += [run.run(_at(model, skip)) for skip in sorted({*skips, model.skip})]
    if len(set(model.ranks)) == 1 and not model.noise:
        found.append(run.run(Step("depth", "infinitely many layers", "", {}, lambda: _flow(model), _FLOW)))
    notes = (
        "As c grows the layers before the last one leave its input as it is, so that its threshold becomes that of "
        "one layer; the first order in 1/c is in the derivation. With L and c to infinity at L/c = kappa, the mixing "
        "matrix becomes the deterministic B(kappa), with one value on the vector of ones and one on its complement.",
    )
    return Part("depth", "Large depth and large skip strength", tuple(found), notes)


def _limit(shallow: Network) -> Found:
    found = al.threshold(shallow)
    name = "limit c to infinity of the threshold: that of one layer"
    return (number_of(name, found),), {"alpha": float(found.value)}


def _at(model: Network, skip: float) -> Step:
    near = replace(model, skip=skip)

    def call(**given: Setting) -> Found:
        found = al.threshold(near, digits=given["digits"])
        return (number_of(f"threshold of {found.subspace} at c = {skip:g}", found),), {
            "skip": skip,
            "alpha": float(found.value),
        }

    return Step("depth", f"c = {skip:g}", "threshold", {"skip": skip, "digits": 8}, call, _THRESHOLD)


def _flow(model: Network) -> Found:
    kappa = model.layers / model.skip
    found = flow(kappa, model.tokens, model.ranks[0], model.activation_name, tied=model.tied, beta=model.beta)
    kind = found.how if found.how in ("rigorous", "monte-carlo") else "estimated"
    numbers = (
        Number(f"B(kappa) on the vector of ones, kappa = L/c = {kappa:g}", f"{found.plus:.10g}", found.error, kind),
        Number("B(kappa) on its complement", f"{found.minus:.10g}", found.error, kind),
    )
    return numbers, {"kappa": kappa, "plus": found.plus, "minus": found.minus, "status": found.status}
