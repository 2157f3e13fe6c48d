"""The verb `free-energy`, and what `landscape` shares with it."""

import argparse
import math
from typing import Any

import attnlimits as al

from ..core.cluster_pool import Workers, workers_of
from ..core.decimals import pm, recorded
from ..core.results import Origin, as_dict
from ..core.shown import overlap_entries
from ..model.described import Model
from .flags import (
    check_accuracy,
    check_model,
    dask_flag,
    link_flags,
    model_flags,
    model_of,
    sampling_flags,
)
from .plot import check_plot, plot_flag, plotted
from .prior_flags import check_prior, prior_flags, prior_of, side_flags
from .verbs import Outcome, Record, Verbs, add_verb

__all__ = ["about_of", "add", "answer_of", "check", "inference_flags", "line_of", "run"]

# Relative accuracy of two layers' averages of which transitions are made.
_TRANSITIONS = 1e-2


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "free-energy",
        run,
        "stationary points of the free entropy: the Bayes-optimal overlap, and the transitions",
        'attnlimits free-energy --link "h[1]**2" --alpha 1.05 --json',
    )
    inference_flags(parser)
    group = parser.add_argument_group("free energy")
    group.add_argument(
        "--transitions",
        action="store_true",
        help="instead of one alpha: where branches begin and end, and where the global maximum changes (one overlap)",
    )
    plot_flag(parser, "the stationary points at --alpha")
    sampling_flags(parser, samples=None, exact=1024)


def inference_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a model, of its prior and of the search for stationary points."""
    model_flags(parser)
    link_flags(parser)
    group = parser.add_argument_group("inference")
    group.add_argument("--alpha", "-a", type=float, help="samples per dimension, N/D")
    prior_flags(group)
    side_flags(group)
    group.add_argument(
        "--accuracy",
        type=float,
        help="of overlaps and free entropies, or of the transitions, absolute: by as fine rules or as many samples as "
        "it takes, and status 1 where it is not reached (default: one effort, two layers' averages to 1e-2 relative)",
    )
    group.add_argument(
        "--starts", type=int, default=2, help="random starts where several overlaps are free (default: %(default)s)"
    )
    dask_flag(parser, "to which the starts of the search go, and the parts of each average that do not need each other")


def run(args: argparse.Namespace) -> Outcome:
    """Stationary points at one alpha, or the transitions."""
    check(args)
    if args.transitions and args.alpha is not None:
        raise ValueError("--transitions finds all alphas; leave out --alpha")
    if args.transitions and args.plot is not None:
        raise ValueError("--plot draws the stationary points at one alpha; give --alpha instead of --transitions")
    check_plot(args)
    with workers_of(args.dask, args.workers) as workers:
        return _found(args, workers)


def _found(args: argparse.Namespace, workers: Workers) -> Outcome:
    prior = prior_of(args)
    if args.transitions:
        return _transitions(args, workers)
    found, name = answer_of(args, workers)
    free, points, status = found.free, found.points, found.status
    best, about = points[0], about_of(args, free.output, name)
    optimal = al.free_energy.bayes_optimal(free, best, rng=args.seed)
    finite = math.isfinite(best.free_entropy.value)
    record = about | {
        "alpha": args.alpha,
        "value": recorded(best.free_entropy.value, best.free_entropy.error) if finite else None,
        "error": best.free_entropy.error,
        "how": best.free_entropy.how,
        "overlap": best.overlap,
        "overlap_error": best.overlap_error,
        "stationary": points,
        "optimal": optimal,
        "converged": found.converged,
        "reached": found.reached,
        "status": status,
    }
    lines = [f"{name}; {prior.describe()}", f"alpha = {args.alpha:g}"]
    lines += [line_of(point) + ("; the global maximum" if point is best else "") for point in points]
    mean, plugin = optimal.prediction_error, optimal.plugin_error
    lines.append(
        f"prediction error: {pm(mean.value, mean.error)} (posterior mean), {pm(plugin.value, plugin.error)} (plug-in)"
    )
    if optimal.information is not None:
        lines.append(f"information in a sample: {pm(optimal.information.value, optimal.information.error)} nats")
    title = f"{name}, $\\alpha$ = {args.alpha:g}"
    text = plotted(args, lambda: al.free_energy.draw_stationary(free, points, title), "\n".join([*lines, status]))
    return as_dict(record), text, found.converged and found.reached


def check(args: argparse.Namespace) -> None:
    """Refuse flags out of range, before anything is loaded."""
    check_model("free-energy")(args)
    if args.alpha is not None and not (math.isfinite(args.alpha) and args.alpha > 0):
        raise ValueError(f"--alpha must be finite and > 0, got {args.alpha:g}")
    check_accuracy(args)
    if args.starts < 0:
        raise ValueError(f"--starts must be >= 0, got {args.starts}")
    check_prior(args)
    if args.alpha is None and not getattr(args, "transitions", False):
        raise ValueError("--alpha is needed: samples per dimension, N/D")


def answer_of(args: argparse.Namespace, workers: Workers) -> tuple["al.free_energy.Answer", str]:
    """Stationary points of the flags at one alpha, and the name of the model."""
    model = model_of(args, "free-energy")
    effort = _effort(args, model, workers)
    found = al.free_energy.answer(
        model, args.alpha, prior=prior_of(args), accuracy=args.accuracy, starts=args.starts, **effort
    )
    return found, model.describe()


def _effort(args: argparse.Namespace, model: Model, workers: Workers) -> dict[str, Any]:
    """Settings of averages, those that are usual with them."""
    if args.samples is None:
        args.samples = al.free_energy.usual_samples(model)
    return {"samples": args.samples, "replicas": args.replicas, "rng": args.seed, "workers": workers}


def about_of(args: argparse.Namespace, output: "al.free_energy.OutputEntropy", name: str) -> Record:
    """What names a record."""
    prior = prior_of(args).describe()
    return {"model": name, "prior": prior, "route": output.route, "origin": _origin_of(output, args)}


def _origin_of(output: "al.free_energy.OutputEntropy", args: argparse.Namespace) -> Origin:
    """Model and settings of the flags."""
    names = ("prior", "density", "known", "side_strength", "accuracy", "starts", "samples", "replicas", "seed")
    given = {} if args.spectrum is None else {"spectrum": args.spectrum}
    return Origin.of(output.model, **{name: getattr(args, name) for name in names}, **given)


def _transitions(args: argparse.Namespace, workers: Workers) -> Outcome:
    args.doing = "averages over the output along the overlap, for the spinodals and for equal free entropies"
    model, prior = model_of(args, "free-energy"), prior_of(args)
    effort = _effort(args, model, workers)
    output = al.free_energy.entropy_of(model, accuracy=_TRANSITIONS, **effort)
    about = about_of(args, output, model.describe())
    if args.accuracy is None:
        found = al.free_energy.transitions(output, prior)
    else:
        found = al.free_energy.transitions(model, prior, accuracy=args.accuracy, **effort)
    lines = [f"{about['model']}; {prior.describe()}"]
    if found.weak is not None:
        lines.append(f"weak recovery: alpha = {pm(found.weak.value, found.weak.error)}")
    else:
        lines.append("weak recovery: at any alpha")
    for one in found.first_order:
        lines.append(f"information-theoretic: alpha = {pm(one.information.value, one.information.error)}")
        lines.append(f"algorithmic: alpha = {pm(one.algorithmic.value, one.algorithmic.error)}")
        lines.append(f"hard in between: q = {one.overlaps[0]:.4f} is found where q = {one.overlaps[1]:.4f} is best")
    if not found.first_order:
        lines.append("no first-order transition: no hard phase")
    if math.isfinite(found.recovery):
        lines.append(f"recovery is best from alpha = {found.recovery:.6g} on")
    key = found.first_order[-1].information if found.first_order else found.weak or found.perfect
    record = as_dict(found) | about
    record |= {
        "value": None if key is None else recorded(key.value, key.error),
        "error": 0.0 if key is None else key.error,
    }
    record |= {"how": output.how, "converged": True}
    return record, "\n".join([*lines, found.status]), found.reached


def line_of(point: "al.free_energy.StationaryPoint") -> str:
    """One line about a stationary point."""
    size, entries = len(point.overlap), overlap_entries(point.overlap, point.overlap_error)
    # The diagonal in its order, and other entries by their names.
    shown = [f"{'' if k < size else f'{name} = '}{pm(q, e or 0.0)}" for k, (name, q, e) in enumerate(entries)]
    overlaps = ", ".join(shown)
    value = point.free_entropy
    phi = pm(value.value, value.error) if math.isfinite(value.value) else str(value.value)
    return f"q = {overlaps}; {point.kind}, {'stable' if point.stable else 'unstable'}, Phi = {phi}"
