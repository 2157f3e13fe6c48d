"""The verb `landscape`: the free entropy over the overlaps."""

import argparse
import math
from pathlib import Path

import attnlimits as al

from ..core.cluster_pool import Workers, workers_of
from ..core.decimals import recorded
from ..core.destinations import output_file
from ..core.progress import Bar
from ..core.results import as_dict, save
from .flags import check_points, sampling_flags
from .free_energy import about_of, answer_of, check, inference_flags, line_of
from .verbs import Outcome, Verbs, add_verb, shown

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "landscape",
        run,
        "the free entropy over the overlaps, as a picture and as values",
        "attnlimits landscape --alpha 0.9 --out results/landscape.png",
    )
    inference_flags(parser)
    group = parser.add_argument_group("landscape")
    parser.needs(group.add_argument("--out", type=Path, metavar="F.png", help="picture; the values go to F.json"))
    parser.check = check
    group.add_argument("--points", type=int, default=9, help="evaluations along each axis (default: %(default)s)")
    group.add_argument("--top", type=float, default=0.99, help="largest overlap (default: %(default)s)")
    sampling_flags(parser, samples=None, exact=1024)


def run(args: argparse.Namespace) -> Outcome:
    """Values and picture of Phi over the overlaps."""
    check(args)
    check_points(args.points)
    if args.out.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"--out must end in .png, .pdf or .svg, got {args.out.name}")
    for suffix in (None, ".json"):
        output_file(args.out, suffix, make=True)
    with workers_of(args.dask, args.workers) as workers:
        return _drawn(args, workers)


def _drawn(args: argparse.Namespace, workers: Workers) -> Outcome:
    answer, name = answer_of(args, workers)
    output, prior = answer.free.output, answer.free.prior
    bar = Bar("landscape", show=shown(args))
    try:
        record, answer = al.free_energy.accurate_landscape(
            answer, args.accuracy, points=args.points, top=args.top, progress=bar.to
        )
    finally:
        bar.close()
    points = answer.points
    ended = {"stationary": points, "converged": answer.converged, "reached": answer.reached, "status": answer.status}
    about = about_of(args, output, name) | {"alpha": args.alpha}
    path = args.out.with_suffix(".json")
    save(path, about | record | ended)
    al.free_energy.draw(record, points, output.groups, f"{name}; {prior.describe()}; alpha = {args.alpha:g}", args.out)
    best = points[0].free_entropy
    summary = about | {
        "value": recorded(best.value, best.error) if math.isfinite(best.value) else None,
        "error": best.error,
        "how": best.how,
        "grid_error": record["error"],
        "files": [str(args.out), str(path)],
    }
    summary |= ended
    lines = [f"{name}; {prior.describe()}", f"alpha = {args.alpha:g}", *(line_of(p) for p in points)]
    sure = answer.converged and answer.reached
    return as_dict(summary), "\n".join([*lines, answer.status, f"wrote {args.out}", f"wrote {path}"]), sure
