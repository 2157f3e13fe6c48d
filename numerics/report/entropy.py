"""The part of the page on the free entropy: its transitions, and how it depends on the overlap."""

import math
from collections.abc import Callable, Iterator

import numpy as np

import attnlimits as al

from ..core.decimals import to_error
from ..core.results import Estimate
from ..model.described import Model, kernel_or_network
from ..model.routes import require
from .cost import averages, chosen, costly
from .steps import Found, Number, Outcome, Part, Runner, Setting, Step

__all__ = ["TRANSITIONS", "entropy", "marks"]

TRANSITIONS = "transitions"
_MODULES = ("attnlimits.numerics.free_energy.thresholds", "attnlimits.numerics.free_energy.located")


def entropy(run: Runner, weak: float | None) -> Part:
    """Compute the transitions and the free entropy of one overlap, or the stationary points of several."""
    settings = averages(run, "free energy")
    try:
        require("free energy", kernel_or_network(run.model))
        single = len(al.free_energy.entropy_of(run.model, **settings).groups) == 1
    except (ValueError, ArithmeticError, RuntimeError) as error:
        return Part("entropy", _TITLE, (run.refuse("entropy", "free entropy", str(error)),))
    if not single:
        return _stationary(run, weak, settings)
    first = run.run(
        Step("entropy", TRANSITIONS, "free-energy --transitions", settings, _transitions(run.model), _MODULES)
    )
    alphas = sorted({round(a, 12) for a in _alphas(first, weak)})
    asked = {"alphas": alphas, "count": run.effort.overlaps, **settings}
    drawn = run.run(Step("entropy", "against the overlap", "", asked, _drawn(run.model), _MODULES))
    return Part("entropy", _TITLE, (first, drawn))


_TITLE = "Free entropy"


def marks(first: Outcome) -> Iterator[tuple[str, float]]:
    """Names and alphas of the first-order transitions that were found."""
    for one in first.data.get("first_order", ()):
        for name in ("informed", "information", "algorithmic"):
            yield _NAMES[name][1], float(one[name]["value"])


_NAMES = {
    "informed": ("spinodal of the upper branch", "spinodal, from above"),
    "information": ("information-theoretic threshold", "information-theoretic"),
    "algorithmic": ("algorithmic threshold, spinodal of the lower branch", "algorithmic"),
}


def _number(name: str, found: Estimate) -> Number:
    return Number(name, to_error(found.value, found.error), found.error, found.how)


def _transitions(model: Model) -> Callable[..., Found]:
    def call(**given: Setting) -> Found:
        found = al.free_energy.transitions(al.free_energy.entropy_of(model, **given))
        numbers = []
        if found.weak is not None:
            numbers.append(_number("weak recovery, where zero overlap becomes unstable", found.weak))
        for one in found.first_order:
            numbers += [_number(text, getattr(one, name)) for name, (text, _) in _NAMES.items()]
        if found.perfect is not None:
            numbers.append(_number("recovery from the uninformed start", found.perfect))
        data = {
            "first_order": found.first_order,
            "weak": found.weak,
            "perfect": found.perfect,
            "recovery": found.recovery if math.isfinite(found.recovery) else None,
        }
        return tuple(numbers), data

    return call


def _alphas(first: Outcome, weak: float | None) -> Iterator[float]:
    """Where the free entropy is drawn: at the transitions, or around weak recovery."""
    found = dict(marks(first)) if first.done else {}
    yield from found.values()
    # Shares of the weak-recovery threshold at which it is drawn where there is no first-order transition.
    around = (0.8, 1.2, 1.6)
    if not found:
        yield from (share * (weak or 1.0) for share in around)


def _drawn(model: Model) -> Callable[..., Found]:
    # Overlaps up to which the free entropy is drawn.
    nearest = 0.995

    def call(alphas: list[float], count: int, **given: Setting) -> Found:
        free = al.free_energy.FreeEntropy(al.free_energy.entropy_of(model, **given), 1.0)
        size = kernel_or_network(model).indices
        q = np.linspace(0, nearest, count)
        outputs = [free.output.value(x * np.eye(size)) for x in q]
        prior = [free.prior.potential(x * np.eye(size)) for x in q]
        curves = [
            {
                "alpha": alpha,
                "value": [p + alpha * out.value for p, out in zip(prior, outputs, strict=True)],
                "error": [alpha * out.error for out in outputs],
            }
            for alpha in alphas
        ]
        return (), {"overlap": q, "curves": curves, "how": outputs[-1].how}

    return call


def _stationary(run: Runner, weak: float | None, settings: dict[str, object]) -> Part:
    """Stationary points of several overlaps."""

    def call(alpha: float, **given: Setting) -> Found:
        free = al.free_energy.FreeEntropy(al.free_energy.entropy_of(run.model, **given), alpha)
        points, status, converged = al.free_energy.located(free)
        return (), {"alpha": alpha, "points": points, "status": status, "converged": converged}

    alphas = chosen(run, weak)
    if costly(run):
        if run.effort.quick:
            why = "stationary points take minutes for this model, and --effort usual computes them"
            return Part("entropy", _TITLE, (run.refuse("entropy", "free entropy", why),))
        alphas = alphas[-1:]
    steps = [
        Step("entropy", f"alpha = {alpha:g}", "free-energy", {"alpha": alpha, **settings}, call, _MODULES)
        for alpha in alphas
    ]
    note = "Several overlaps are free; the table has the stationary points that were found, the global maximum first."
    return Part("entropy", _TITLE, tuple(map(run.run, steps)), (note,))
