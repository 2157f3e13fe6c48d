"""What `attnlimits curve` does."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import attnlimits as al

from ..core.decimals import pm
from ..core.destinations import output_file
from ..core.progress import Bar
from ..core.results import as_dict, save
from ..core.shown import overlap_entries
from .flags import (
    check_accuracy,
    check_link,
    check_model,
    check_output,
    check_points,
    check_sampling,
    dask_flag,
    link_flags,
    model_flags,
    model_of,
    sampling_flags,
)
from .plot import check_plot, plot_flag, plotted
from .prior_flags import check_prior, prior_flags, prior_of
from .verbs import Outcome, Verbs, add_verb, shown

if TYPE_CHECKING:
    from ..fixed_point.continuation import CurvePoint, CurveResult

__all__ = ["add", "run"]

# Points per randomisation where the posterior of each one is exact.
_EXACT = 4096


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "curve",
        run,
        "fixed points along alpha, skip strength or inverse temperature: thresholds, jumps, hysteresis",
        "attnlimits curve --layers 1 --tokens 3 --from 0 --to 0.4 --points 9 --start both",
    )
    model_flags(parser)
    link_flags(parser)
    group = parser.add_argument_group("curve")
    group.add_argument(
        "--along", choices=["alpha", "skip", "beta"], default="alpha", help="what varies (default: %(default)s)"
    )
    parser.needs(
        group.add_argument("--from", dest="first", type=float, metavar="X", help="first value"),
        group.add_argument("--to", dest="last", type=float, metavar="X", help="last value"),
    )
    parser.check = _check_given
    group.add_argument("--points", type=int, default=48, help="number of values (default: %(default)s)")
    group.add_argument("--alpha", "-a", type=float, help="samples per dimension N/D, where skip or beta varies")
    group.add_argument("--start", choices=["uninformed", "informed", "both"], default="uninformed")
    prior_flags(group)
    group.add_argument("--tol", type=float, default=1e-5, help="on max |F(q) - q| (default: %(default)s)")
    group.add_argument(
        "--accuracy",
        type=float,
        help="of every overlap, absolute; relative for two layers over two tokens: by as fine rules or as many samples "
        "as it takes, and status 1 where it is not reached",
    )
    group.add_argument(
        "--closest",
        type=float,
        help="distance to one at which an overlap counts as recovered (default: what the averages resolve)",
    )
    group.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the JSON object there, too; an interrupted run keeps its points there and goes on from them",
    )
    group.add_argument(
        "--nodes", type=int, default=2048, help="of each sampled posterior, a power of two (default: %(default)s)"
    )
    plot_flag(parser, "the overlaps along the curve")
    sampling_flags(parser, samples=None)
    dask_flag(parser, "to which the parts of each average go that do not need each other")


def run(args: argparse.Namespace) -> Outcome:
    """Follow the fixed points."""
    check_sampling(args)
    check_output(args)
    _check(args)
    output_file(args.out, make=True)
    check_plot(args)
    check_link(args)
    check_prior(args)
    if args.link is not None and args.along != "alpha":
        raise ValueError(f"--along {args.along} varies a model, and --link stands instead of one")
    model = model_of(args, "curve")
    name = model.describe()
    step = (args.last - args.first) / max(args.points - 1, 1)
    values = [args.first + k * step for k in range(args.points - 1)] + [args.last]
    bar = Bar("curve", show=shown(args))
    try:
        result = al.curve(
            model,
            values,
            start=args.start,
            along=args.along,
            alpha=args.alpha,
            tol=args.tol,
            accuracy=args.accuracy,
            closest=args.closest,
            replicas=args.replicas,
            rng=args.seed,
            client=args.dask,
            workers=args.workers,
            progress=bar.to,
            keep=args.out,
            prior=prior_of(args),
            **_points(args),
        )
    finally:
        bar.close()
    points = [point for found in result.points.values() for point in found]
    record = as_dict(result) | {"model": name}
    record |= {"value": str(sum(p.converged for p in points)), "error": 0.0}
    text = _text(result, name)
    if args.out is not None:
        save(args.out, record)
        text += f"\nwrote {args.out}"
    return record, plotted(args, result.plot, text), result.converged and result.reached


def _points(args: argparse.Namespace) -> dict[str, int | None]:
    """Effort of averages over random samples."""
    if args.link is not None:
        return {"samples": _EXACT if args.samples is None else args.samples}
    return {"samples": args.samples, "exact": _EXACT, "nodes": args.nodes}


def _check_given(args: argparse.Namespace) -> None:
    check_model("curve")(args)
    _check_ranges(args)


def _check_ranges(args: argparse.Namespace) -> None:
    least = 0.0 if args.along == "alpha" else 1e-12
    for flag, value in (("from", args.first), ("to", args.last)):
        if value is not None and not (math.isfinite(value) and value >= least):
            raise ValueError(f"--{flag} must be finite and >= {least:g}, got {value:g}")


def _check(args: argparse.Namespace) -> None:
    _check_ranges(args)
    if args.points < 1 or (args.points == 1) != (args.first == args.last) or args.first > args.last:
        raise ValueError(
            f"--points {args.points} from {args.first:g} to {args.last:g}: needs --from < --to and at least 2 points"
        )
    check_points(args.points)
    if not (math.isfinite(args.tol) and args.tol >= 1e-12):
        raise ValueError(f"--tol must be finite and >= 1e-12, got {args.tol:g}")
    check_accuracy(args)
    if args.along == "alpha" and args.alpha is not None:
        raise ValueError("--alpha belongs to --along skip or --along beta; here --from and --to give the alphas")
    if args.along != "alpha" and (args.alpha is None or not (math.isfinite(args.alpha) and args.alpha > 0)):
        raise ValueError(f"--along {args.along} needs --alpha, finite and > 0; got {args.alpha}")


def _text(result: "CurveResult", name: str) -> str:
    lines = [name]
    for start, points in result.points.items():
        lines.append(f"{start} start:")
        lines += [_line(point, result.along) for point in points]
    for one in result.onsets:
        lines.append(f"{one.name} from {result.along} = {pm(one.value, one.error)}")
    for jump in result.jumps:
        lines.append(
            f"jump {jump.direction} at {result.along} = {pm(jump.value, jump.error)}, "
            f"from {_diagonal(jump.before)} to {_diagonal(jump.after)}"
        )
    return "\n".join([*lines, result.status])


def _line(point: "CurvePoint", along: str) -> str:
    parts = [f"{along} = {point.parameter:.6g}:"]
    for i, (name, value, error) in enumerate(overlap_entries(point.overlap, point.overlap_error)):
        mark = " (recovered)" if i in point.recovered else ""
        parts.append(f"{name} = {pm(value, error or 0.0)}{mark}")
    if not point.converged:
        parts.append(point.status)
    return " ".join(parts)


def _diagonal(q: NDArray[np.float64]) -> str:
    return "(" + ", ".join(f"{x:.4f}" for x in q.diagonal()) + ")"
