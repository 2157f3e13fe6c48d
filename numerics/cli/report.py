"""The verb `report`: a page about a model, with every number that is served of it."""

import argparse
import sys
from pathlib import Path

import attnlimits as al

from ..core.results import as_dict
from ..report.effort import EFFORTS
from .flags import check_link, described, link_flags, link_of, model_flags
from .verbs import Outcome, Verbs, add_verb

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "report",
        run,
        "one page about a model: derivation, thresholds, curves, free entropy, message passing, what is served",
        "attnlimits report --layers 2 --untied --out report/",
    )
    model_flags(parser)
    link_flags(parser)
    out = parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="folder for index.html, report.json, numbers.csv and curve.csv; finished steps in it are taken up",
    )
    parser.needs(out)
    parser.check = check_link
    parser.add_argument(
        "--effort",
        choices=tuple(EFFORTS),
        default="usual",
        help="points, samples and instances: up to a minute, minutes, or up to hours (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Make the report of what the flags describe."""
    check_link(args)
    model = link_of(args) if args.link is not None else described(args, args.heads)
    found = al.report(model, args.out, effort=args.effort, progress=None if args.json or args.quiet else _line)
    record = {
        "page": str(found.page),
        "folder": str(found.folder),
        "model": found.record["model"],
        "effort": args.effort,
        "complete": found.complete,
        "status": found.status,
        "parts": found.record["parts"],
        "served": found.record["served"],
    }
    return as_dict(record), f"{found.record['model']}\n{found.status}\nwrote {found.page}", found.complete


def _line(part: str, name: str, state: str, seconds: float | None) -> None:
    """One line on stderr for every step."""
    spent = "kept" if seconds is None else f"{seconds:.1f} s"
    print(f"{part}: {name}: {state} ({spent})", file=sys.stderr, flush=True)
