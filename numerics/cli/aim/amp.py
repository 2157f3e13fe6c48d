"""The verb `aim amp`: S estimated from data by approximate message passing."""

import argparse
from typing import Any

import numpy as np

import attnlimits as al

from ...core.decimals import pm, recorded
from ...core.progress import Bar
from ...core.results import Estimate, as_dict
from ..asked import said
from ..data import Data, read_data
from ..flags import damping
from ..verbs import Outcome, Verbs, add_verb, shown
from .data import check_data, data_channel, data_flags, finished, summary_of, take_whole_sizes, width_of_data
from .flags import head_of, heads_flag, heads_of, name_of, predicted, said_of, width_of

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "amp",
        run,
        "S estimated from data by approximate message passing, of a random teacher or of your own",
        "attnlimits aim amp --rho 0.5 --alpha 0.1 --dimension 60 --seeds 2",
        nested=True,
    )
    data_flags(parser)
    heads_flag(parser)
    parser.add_argument("--float32", action="store_true", help="tokens in single precision, half of the memory")
    parser.add_argument("--damping", type=damping, default="adaptive", help="in [0, 1), or adaptive (default)")
    parser.add_argument(
        "--covariance", choices=("gram", "scalar"), default="gram", help="of each sample, or its limit (default: gram)"
    )
    parser.add_argument("--max-iter", type=int, default=200, help="iterations (default: %(default)s)")
    parser.add_argument("--tol", type=float, default=1e-5, help="on the step ||dS||^2/d (default: %(default)s)")


def run(args: argparse.Namespace) -> Outcome:
    """Run instances of a teacher, or estimate S from files."""
    own = check_data(args)
    output = data_channel(args, own)
    settings = {
        "damping": args.damping,
        "covariance": args.covariance,
        "max_iter": args.max_iter,
        "tol": args.tol,
    }
    if own:
        return _own(args, output, settings)
    return _instances(args, output, settings)


def _own(args: argparse.Namespace, output: "al.aim.Channel", settings: dict[str, Any]) -> Outcome:
    x, y = read_data(args)
    tokens: Data | al.aim.Single = x
    outputs = y
    if args.float32:
        if isinstance(x, al.learning.RowFiles) or y is None:
            raise ValueError(f"--float32 is for one file of tokens, and the blocks of {args.x} are taken as they are")
        tokens, outputs = al.aim.Single(x, y, output), None
    width = width_of_data(args, x, y, output, covariance=args.covariance)
    name = name_of(args, f"{args.rho:.6g}")
    bar = Bar("aim amp", show=shown(args))

    def tick(step: "al.aim.AMPStep") -> None:
        bar.to(step.iteration, args.max_iter)

    found = al.aim.amp(tokens, outputs, output, width_of(args), callback=tick, **settings)
    bar.close()
    own, errors, head = "not known", None, None
    if found.predicted_error is not None:
        own = pm(found.predicted, found.predicted_error)
        stated = Estimate(min(found.predicted, 1 + width_of(args)), found.predicted_error, "estimated")
        errors = al.aim.prediction_errors(stated, width_of(args), output)
        head = head_of(args, Estimate(found.predicted, found.predicted_error, "estimated"))
    record = as_dict(found) | {
        "value": recorded(found.predicted, found.predicted_error),
        "quantity": "error ||S - Shat||^2/d that the algorithm states of itself",
        "error": found.predicted_error,
        "model": name,
        **predicted(errors),
    }
    lines = [
        name,
        f"alpha = {found.alpha:g}, d = {len(found.estimate)}",
        f"error ||S - Shat||^2/d that the algorithm states of itself: {own}",
        f"V = {found.V:.6g}",
        found.status,
    ]
    if heads_of(args) > 1:
        record |= {"heads": heads_of(args), "rho": args.rho, "head": as_dict(head)}
        lines[2] = f"error ||S - Shat||^2/d of S = L^(-1/2) sum_l S_l, that the algorithm states of itself: {own}"
        if head is not None:
            lines.insert(3, f"error of each head, by what it shares with the others: {pm(head.value, head.error)}")
    if errors is not None:
        lines.insert(-2, f"on fresh samples, as that implies: {said_of(errors)}")
    return finished(args, record, lines, found, width)


def _instances(args: argparse.Namespace, output: "al.aim.Channel", settings: dict[str, Any]) -> Outcome:
    take_whole_sizes(args, scalar=args.covariance == "scalar")
    name = name_of(args, said(args, "rho"))
    heads, width = heads_of(args), width_of(args)
    expected = al.aim.evolve(args.alpha, width, output)
    bar = Bar("aim amp", show=shown(args))
    found = al.aim.amp_instances(
        args.alpha,
        args.rho,
        args.dimension,
        output,
        count=args.seeds,
        heads=heads,
        seed=args.seed,
        dtype=np.float32 if args.float32 else np.float64,
        progress=bar.to,
        **settings,
    )
    bar.close()
    theory = al.aim.prediction_errors(expected.mmse, width, output)
    errors = [r.mmse for r in found.results]
    summary = summary_of(args, [r.converged for r in found.results], "raise --max-iter or --tol")
    record = {
        "value": recorded(found.error, found.error_of_error),
        "error": found.error_of_error,
        "how": "monte-carlo",
        "mmse": found.error,
        "state_evolution": as_dict(expected.mmse),
        **predicted(found.prediction),
        "prediction_by_state_evolution": predicted(theory),
        "errors": errors,
        "predicted": [r.predicted for r in found.results],
        "predicted_error": [r.predicted_error for r in found.results],
        "n_iter": [r.n_iter for r in found.results],
        **summary,
        "model": name,
        "versions": found.results[0].versions,
    }
    lines = [
        name,
        f"alpha = {said(args)}, d = {args.dimension}, {args.seeds} instances",
        f"error: {pm(found.error, found.error_of_error)} (state evolution: {expected.mmse.value:.4g})",
        f"on fresh samples: {said_of(found.prediction)}; state evolution: {theory.posterior_mean.value:.4g}, "
        f"{theory.plug_in.value:.4g}",
        str(summary["status"]),
    ]
    if found.head is not None:
        limit, error = head_of(args, expected.mmse), found.head.error if len(errors) > 1 else None
        lines[2] = lines[2].replace("error:", "error of the sum:", 1)
        lines.insert(3, f"error of each head: {pm(found.head.value, error)} (state evolution: {limit.value:.4g})")
        record |= {"heads": heads, "head": as_dict(found.head), "head_by_state_evolution": as_dict(limit)}
    return record, "\n".join(lines), bool(summary["converged"])
