"""The verb `sweep` of the command."""

import argparse
import sys
from dataclasses import fields
from pathlib import Path

import attnlimits as al

from ..core.destinations import output_folder
from ..core.progress import Bar
from .flags import dask_flag
from .verbs import Outcome, Verbs, add_verb, shown

__all__ = ["add", "run"]

_SHOWN_FAILURES = 5


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "sweep",
        run,
        "one computation at every point of a grid, in parallel and resumable",
        "attnlimits sweep troiani2025-skip --out results/skip",
    )
    grid = parser.add_argument(
        "grid", complete="file", help="TOML file with task, [fixed] and [axes], or the name of a shipped grid"
    )
    out = parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results; made or continued")
    parser.needs(grid, out)
    parser.check = _check
    parser.add_argument("--workers", type=int, metavar="N", help="points computed at a time (default: all cores)")
    dask_flag(parser, "to which the points go")
    parser.add_argument("--retry-failed", action="store_true", help="also compute again what failed")
    parser.add_argument("--limit", type=int, metavar="N", help="compute at most N points now")


def _check(args: argparse.Namespace) -> None:
    """Refuse bad flags before anything is made; the libraries take a second to load."""
    for name in ("workers", "limit"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be >= 1, got {value}")


def run(args: argparse.Namespace) -> Outcome:
    """Compute the missing points of a grid."""
    _check(args)
    output_folder(args.out)
    bar = Bar("sweep", show=shown(args))
    try:
        report = al.sweep(
            args.grid,
            args.out,
            workers=args.workers,
            client=args.dask,
            retry_failed=args.retry_failed,
            limit=args.limit,
            progress=bar.to,
            say=(lambda _: None) if args.quiet else lambda line: print(f"attnlimits: {line}", file=sys.stderr),
        )
    finally:
        bar.close()
    record = {field.name: getattr(report, field.name) for field in fields(report)}
    record |= {"folder": str(report.folder), "value": str(report.done), "error": 0.0, "how": "rigorous"}
    record["status"] = report.status
    lines = [f"{report.grid}: {report.points} points", f"{report.computed} computed now; {report.status}"]
    lines += [
        f"failed: {', '.join(f'{k}={v}' for k, v in entry['parameters'].items())}: {entry['reason']}"
        for entry in report.failures[:_SHOWN_FAILURES]
    ]
    if len(report.failures) > _SHOWN_FAILURES:
        lines.append(f"and {len(report.failures) - _SHOWN_FAILURES} more that failed (--json lists them)")
    lines.append(f"results in {report.folder}")
    return record, "\n".join(lines), report.ok
