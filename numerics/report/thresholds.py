"""The part of the page on thresholds."""

from collections.abc import Callable

import attnlimits as al

from ..core.results import ThresholdResult
from ..model.described import Model
from ..model.link import Link
from ..model.network import Network
from ..model.routes import BALLS, CHART_OPERATOR, PAIRS, preferred, require, serving
from ..thresholds.link.thresholds import LinkThreshold
from .steps import Found, Number, Outcome, Part, Runner, Setting, Step

__all__ = ["MAIN", "number_of", "thresholds", "value_of"]

#: The step without which a report is not complete.
MAIN = "weak recovery"
_MODULES = ("attnlimits.verbs.threshold",)


def thresholds(run: Runner) -> Part:
    """Compute the weak-recovery threshold, and the others that are served."""
    model = run.model
    found = [run.run(_weak_recovery(model, run))]
    if isinstance(model, Link):
        found.append(run.run(Step("thresholds", "staircase", "threshold --staircase", {}, _stairs(model), _STAIRS, {})))
    else:
        found += _earlier_layers(run, model)
        if run.effort.thorough and serving("enclosure", model):
            found.append(run.run(_enclosure(model)))
    return Part("thresholds", "Thresholds", tuple(found))


def number_of(name: str, found: ThresholdResult | LinkThreshold) -> Number:
    """What the page shows of a threshold."""
    if found.value is None:
        lower = getattr(found, "at_least", None)
        return Number(name, "infinite at this order" if lower is None else f"more than {lower:.2g}", None, found.how)
    return Number(name, found.value, found.error, found.how, found.exact)


def value_of(outcome: Outcome) -> float | None:
    """Finite threshold of an outcome, None without one."""
    value = outcome.data.get("alpha")
    return float(value) if outcome.done and isinstance(value, int | float) else None


def _data(found: ThresholdResult | LinkThreshold) -> dict[str, object]:
    return {
        "alpha": None if found.value is None else float(found.value),
        "converged": found.converged,
        "status": found.status,
        "subspace": found.subspace,
    }


def _weak_recovery(model: Model, run: Runner) -> Step:
    settings: dict[str, object] = {}
    if not isinstance(model, Link):
        first = preferred("last layer", model)
        if first in (BALLS, PAIRS):
            settings = {"digits": run.effort.digits}
        elif first == CHART_OPERATOR:
            settings = {"samples": None}

    def call(**given: Setting) -> Found:
        found = al.threshold(model, **given)
        return (number_of(f"threshold of {found.subspace}", found),), _data(found)

    return Step("thresholds", MAIN, "threshold", settings, call, _MODULES)


def _earlier_layers(run: Runner, model: Network) -> list[Outcome]:
    """Thresholds of the layers before the last one, where they are served."""
    if model.layers == 1:
        return []
    try:
        require("first layer", model)
    except ValueError as error:
        name = "first layer" if model.layers == 2 else f"layers 1 to {model.layers - 1}"
        return [run.refuse("thresholds", name, str(error))]

    def call(**given: Setting) -> Found:
        found = al.threshold(model, **given)
        known = "perfectly known" if given["given"] == "perfect" else "at its fixed point"
        return (number_of(f"threshold of layer 1, the last layer {known}", found),), _data(found)

    return [
        run.run(Step("thresholds", f"layer 1, {given}", "threshold", {"layer": 1, "given": given}, call, _MODULES))
        for given in ("perfect", "self-consistent")
    ]


def _enclosure(model: Network) -> Step:
    def call(**given: Setting) -> Found:
        found, _ = al.prove(model, **given)
        return (number_of(f"proved threshold of {found.subspace}", found),), _data(found)

    modules = ("attnlimits.numerics.thresholds.last_layer", "attnlimits.numerics.thresholds.enclosure.threshold")
    return Step("thresholds", "enclosure", "threshold --rigorous", {"digits": 8}, call, modules)


_STAIRS = ("attnlimits.numerics.thresholds.link.choice",)


def _stairs(model: Link) -> Callable[..., Found]:
    def call(**given: Setting) -> Found:
        found = al.staircase(model, **given)
        numbers = tuple(number_of(f"step of the staircase: {step.subspace}", step) for step in found.steps)
        steps = [_data(step) | {"given": list(step.given), "transition": step.transition} for step in found.steps]
        return numbers, {"steps": steps, "status": found.status, "converged": found.converged}

    return call
