"""The part of the page on state evolution: fixed points from both starts along alpha, and where they jump."""

from collections.abc import Callable, Sequence

import numpy as np

import attnlimits as al

from ..core.decimals import to_error
from ..core.results import EvolutionResult
from ..core.standard_error import SIGMAS
from ..model.charts import computed_as
from ..model.described import Model, kernel_or_network
from ..model.link import Link
from ..model.routes import require
from .cost import averages, chosen, costly
from .steps import Found, Number, Outcome, Part, Runner, Setting, Step

__all__ = ["STARTS", "evolution", "fixed_point"]

STARTS = ("uninformed", "informed")
_MODULES = ("attnlimits.verbs.evolve",)


def evolution(run: Runner, weak: float | None, marks: Sequence[tuple[str, float]], *, jumps: bool) -> Part:
    """Compute fixed points from both starts on a grid of alpha, which has the thresholds among its points.

    Parameters
    ----------
    run : Runner
    weak : float or None
        Weak-recovery threshold.
    marks : sequence of (name, alpha)
        Further thresholds.
    jumps : bool
        Whether to follow the fixed points to find where they jump.
    """
    title = "State evolution"
    model = run.model
    try:
        if isinstance(model, Link):
            kernel_or_network(model)
        else:
            require("evolve", computed_as(model))
    except (ValueError, RuntimeError) as error:
        return Part("evolution", title, (run.refuse("evolution", "fixed points", str(error)),))
    alphas = _grid(run, weak, sorted(alpha for _, alpha in marks))
    found = [fixed_point(run, alpha, start) for alpha, starts in alphas.items() for start in starts]
    known = [*([] if weak is None else [("weak recovery", weak)]), *marks]
    note = _both_starts(found)
    if jumps and run.effort.thorough and not costly(run):
        followed = run.run(_followed(run, list(alphas)))
        found.append(followed)
        known += [("spinodal", jump["value"]) for jump in followed.data.get("jumps", ())]
    return Part("evolution", title, tuple(found), note, {"marks": [[name, alpha] for name, alpha in known]})


def _grid(run: Runner, weak: float | None, others: list[float]) -> dict[float, tuple[str, ...]]:
    """Values of alpha with their starts: even ones with both, the thresholds and points just above them with one.

    At a threshold the iteration from full overlap takes very long.
    """
    scale = weak or (others[0] if others else 1.0)
    # The curve ends at so many times the largest threshold, and has a point just above each.
    beyond, above = 1.4, 1.03
    # In units of weak recovery: where the curve begins and where it ends at the least.
    first, least = 0.5, 3.0
    top = max(least * scale, beyond * max(others, default=0.0))
    few = costly(run)
    even = np.linspace(first * scale, top, run.effort.costly_points if few else run.effort.points)
    exact = [alpha for alpha in (weak, *others) if alpha]
    # At a threshold itself rounding decides which side it is on.
    below = 0.9999
    found: dict[float, tuple[str, ...]] = {
        float(f"{share * alpha:.6g}"): STARTS[:1] for alpha in exact for share in ((below,) if few else (below, above))
    }
    # Even ones nearer to a threshold than this share of it are left out.
    close = 0.02
    near = [alpha for alpha in even if all(abs(alpha - at) > close * at for at in exact)]
    found |= {float(f"{alpha:.4g}"): STARTS for alpha in (*near, *chosen(run, weak))}
    return dict(sorted(found.items()))


def fixed_point(run: Runner, alpha: float, start: str) -> Outcome:
    """Fixed point at one alpha from one start."""
    settings = {"alpha": alpha, "start": start, **averages(run, "evolve")}

    def call(**given: Setting) -> Found:
        return (), _data(al.evolve(run.model, given.pop("alpha"), **given), start)

    return run.run(Step("evolution", f"alpha = {alpha:.6g}, {start}", "evolve", settings, call, _MODULES))


def _both_starts(found: Sequence[Outcome]) -> tuple[str, ...]:
    """Where the starts lead to different overlaps, as a sentence; none where both were run at no alpha."""
    of = {start: {o.data["alpha"]: o.data for o in found if o.done and o.data["start"] == start} for start in STARTS}
    both = sorted(set(of[STARTS[0]]) & set(of[STARTS[1]]))
    if not both:
        return ()
    apart: list[float] = []
    stuck: list[float] = []
    # Difference of overlaps that counts for nothing, below the tolerance of the iteration.
    rounding = 1e-3
    for alpha in both:
        low, high = (of[start][alpha] for start in STARTS)
        gap = np.diagonal(np.abs(np.subtract(high["overlap"], low["overlap"])))
        reach = np.diagonal(np.add(high["overlap_error"], low["overlap_error"]))
        if (gap > SIGMAS * reach + rounding).any():
            # Distance to one of what is recovered completely.
            recovered = min(np.diagonal(high["overlap"])) > 1 - 1e-5
            (stuck if recovered else apart).append(alpha)
    if not apart and not stuck:
        return (f"Both starts lead to the same overlaps within {SIGMAS:g} errors, at all {len(both)} alphas.",)
    said = []
    if apart:
        said.append(
            f"The starts lead to different overlaps at alpha = {_listed(apart)}: there are several fixed points."
        )
    if stuck:
        said.append(
            f"At alpha = {_listed(stuck)} the informed start stays at complete recovery, which is a fixed point "
            "without noise, but not always a stable one; `attnlimits free-energy --transitions` decides whether it is."
        )
    return tuple(said)


def _listed(alphas: Sequence[float]) -> str:
    return ", ".join(f"{alpha:g}" for alpha in alphas)


def _data(found: EvolutionResult, start: str) -> dict[str, object]:
    return {
        "alpha": found.alpha,
        "start": start,
        "overlap": found.overlap,
        "overlap_error": found.overlap_error,
        "estimation_error": found.estimation_error,
        "prediction_error": found.prediction_error,
        "plugin_error": found.plugin_error,
        "how": found.estimation_error.how,
        "converged": found.converged,
        "reached": found.reached,
        "status": found.status,
    }


def _followed(run: Runner, alphas: list[float]) -> Step:
    settings: dict[str, object] = {"first": alphas[0], "last": alphas[-1], "points": run.effort.points}
    flags = {"from": alphas[0], "to": alphas[-1], "points": run.effort.points, "start": "both"}
    return Step("evolution", "jumps", "curve", settings, _jumps(run.model), ("attnlimits.verbs.curve",), flags)


def _jumps(model: Model) -> Callable[..., Found]:
    def call(first: float, last: float, points: int) -> Found:
        found = al.curve(model, np.linspace(first, last, points), start="both")
        names = _names(model)
        numbers = []
        for one in found.onsets:
            who = ", ".join(names[i] for i in one.indices)
            text = f"onset of {who}, {one.start} start"
            numbers.append(Number(text, to_error(one.value, one.error), one.error, found.how))
        for jump in found.jumps:
            text = f"spinodal, where the {jump.start} start jumps {jump.direction}"
            numbers.append(Number(text, to_error(jump.value, jump.error), jump.error, found.how))
        marks = [{"value": jump.value, "error": jump.error, "direction": jump.direction} for jump in found.jumps]
        return tuple(numbers), {"jumps": marks, "status": found.status, "converged": found.converged}

    return call


def _names(model: Model) -> list[str]:
    """Names of the diagonal overlaps."""
    return [f"q_{i + 1}{i + 1}" for i in range(kernel_or_network(model).indices)]
