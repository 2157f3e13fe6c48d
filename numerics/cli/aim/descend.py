"""The verb `aim descend`: S estimated by gradient descent on the weights of students, and by the mean of several."""

import argparse
import math
from typing import Any

import numpy as np

import attnlimits as al

from ...core.decimals import pm, recorded
from ...core.progress import Bar
from ...core.results import as_dict
from ..asked import said
from ..data import read_data, rows_in
from ..verbs import Outcome, Verbs, add_verb, shown
from .data import check_data, data_channel, data_flags, finished, summary_of, take_whole_sizes, width_of_data
from .flags import head_of, heads_flag, heads_of, name_of, width_of

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "descend",
        run,
        "S estimated from data by gradient descent (Adam) on students, and by the mean over their starts",
        "attnlimits aim descend --rho 0.5 --alpha 0.3 --dimension 20 --seeds 4 --students 2",
        nested=True,
    )
    data_flags(parser)
    heads_flag(parser)
    parser.add_argument("--students", type=int, default=4, help="starts of each instance (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=0.1, help="of Adam (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="at most, of each student (default: %(default)s)")


def run(args: argparse.Namespace) -> Outcome:
    """Descend on instances of a teacher, or on files."""
    own = check_data(args)
    for flag in ("students", "steps"):
        if getattr(args, flag) < 1:
            raise ValueError(f"--{flag} must be >= 1, got {getattr(args, flag)}")
    if not (math.isfinite(args.rate) and args.rate > 0):
        raise ValueError(f"--rate must be finite and > 0, got {args.rate:g}")
    if heads_of(args) > 1 and args.activation != "softmax":
        raise ValueError(
            f"--heads of descend is for --activation softmax, got {args.activation}: linear scores of L heads are "
            "those of one of width L rho times L^(1/2), and students do not descend through other outputs"
        )
    output = data_channel(args, own)
    settings = {"students": args.students, "rate": args.rate, "steps": args.steps}
    return _own(args, output, settings) if own else _instances(args, output, settings)


def _own(args: argparse.Namespace, output: "al.aim.Channel", settings: dict[str, Any]) -> Outcome:
    x, y = read_data(args)
    width = width_of_data(args, x, y, output)
    name = name_of(args, f"{args.rho:.6g}")
    bar = Bar("aim descend", show=shown(args))

    def tick(student: int, step: int) -> None:
        bar.to(student * args.steps + step, args.students * args.steps)

    found = al.aim.descend(x, y, output, args.rho, heads=heads_of(args), rng=args.seed, callback=tick, **settings)
    bar.close()
    loss, spread = float(found.loss.mean()), float(found.loss.max() - found.loss.min())
    d = len(found.estimate)
    alpha = rows_in(x) / d**2
    record = as_dict(found) | {
        "value": recorded(loss, spread),
        "quantity": "mean last loss of the students, sum ||y - yhat||^2/d; its error is their range",
        "error": spread,
        "how": "estimated",
        "alpha": alpha,
        "model": name,
    }
    lines = [
        name,
        f"alpha = {alpha:g}, d = {d}, {found.students} students",
        f"last loss, sum ||y - yhat||^2/d: {loss:.4g}, from {found.loss.min():.4g} to {found.loss.max():.4g}",
        found.status,
    ]
    if heads_of(args) > 1:
        record |= {"heads": heads_of(args), "rho": args.rho}
        lines.insert(2, "the estimate is of S = L^(-1/2) sum_l S_l")
    return finished(args, record, lines, found, width)


def _instances(args: argparse.Namespace, output: "al.aim.Channel", settings: dict[str, Any]) -> Outcome:
    take_whole_sizes(args, scalar=True)
    name = name_of(args, said(args, "rho"))
    heads, width = heads_of(args), width_of(args)
    expected = al.aim.evolve(args.alpha, width, output)
    bar = Bar("aim descend", show=shown(args))
    found = al.aim.descent_instances(
        args.alpha,
        args.rho,
        args.dimension,
        output,
        count=args.seeds,
        heads=heads,
        seed=args.seed,
        progress=bar.to,
        **settings,
    )
    bar.close()
    theory = al.aim.prediction_errors(expected.mmse, width, output).posterior_mean
    summary = summary_of(args, [r.converged for r in found.results], "raise --steps, or lower --rate")
    record = {
        "value": recorded(found.averaged, found.error_of_averaged),
        "error": found.error_of_averaged,
        "how": "monte-carlo",
        "quantity": "error ||S - Shat||^2/d of the mean over students",
        "mmse": found.averaged,
        "single": found.single,
        "single_error": found.error_of_single,
        "plugin_error": as_dict(found.prediction),
        "state_evolution": as_dict(expected.mmse),
        "prediction_by_state_evolution": as_dict(theory),
        "students": args.students,
        "loss": float(np.mean([r.loss for r in found.results])),
        "errors": [r.mmse for r in found.results],
        "n_iter": [r.n_iter for r in found.results],
        **summary,
        "model": name,
        "versions": found.results[0].versions,
    }
    lines = [
        name,
        f"alpha = {said(args)}, d = {args.dimension}, {args.seeds} instances of {args.students} students",
        f"error of one student: {pm(found.single, found.error_of_single)}",
        f"error of their mean: {pm(found.averaged, found.error_of_averaged)} (Bayes-optimal: "
        f"{expected.mmse.value:.4g})",
        f"on fresh samples: prediction error {pm(found.prediction.value, found.prediction.error)} (Bayes-optimal: "
        f"{theory.value:.4g})",
        str(summary["status"]),
    ]
    if found.head is not None:
        limit, error = head_of(args, expected.mmse), found.head.error if args.seeds > 1 else None
        lines[2:4] = [line.replace(":", ", of the sum of the heads:", 1) for line in lines[2:4]]
        lines.insert(4, f"error of each head: {pm(found.head.value, error)} (Bayes-optimal: {limit.value:.4g})")
        record |= {"heads": heads, "head": as_dict(found.head), "head_by_state_evolution": as_dict(limit)}
    return record, "\n".join(lines), bool(summary["converged"])
