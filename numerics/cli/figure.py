"""What `attnlimits figure` and `attnlimits aim figure` do: figures of the papers, with their data."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from ..core.destinations import output_folder
from ..core.progress import Bar
from .flags import check_points
from .verbs import Outcome, Verbs, add_verb, shown

__all__ = ["FIGURES", "add", "add_aim_figure", "aim_figures", "run"]

_NUMBERS = (1, 2, 3, 4, 5)
#: Figure name -> module with `make(out, alphas, progress) -> dict`.
FIGURES = {
    f"{paper}-{n}": f"attnlimits.papers.{paper}.figures.figure_{n}"
    for paper in ("troiani2025", "boncoraglio2025")
    for n in _NUMBERS
}


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "figure",
        run,
        "make a figure and its data",
        "attnlimits figure troiani2025-1 --out results",
    )
    parser.add_argument("name", choices=sorted(FIGURES))
    _drawing_flags(parser)


def add_aim_figure(verbs: Verbs) -> None:
    """Add `aim figure`: figures of boncoraglio2025 by their numbers."""
    parser = add_verb(
        verbs,
        "figure",
        aim_figures,
        "make the five figures of the paper, or some of them",
        "attnlimits aim figure 2 4",
        nested=True,
    )
    parser.add_argument("numbers", type=int, nargs="*", metavar="N", help="1 to 5 (default: all of them)")
    _drawing_flags(parser)


def _drawing_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder (default: %(default)s)")
    parser.add_argument("--points", type=int, default=48, help="number of alphas (default: %(default)s)")


def run(args: argparse.Namespace) -> Outcome:
    """Make one figure."""
    made = _make(args.name, args)
    return made, "\n".join(made["summary"]), bool(made["converged"])


def aim_figures(args: argparse.Namespace) -> Outcome:
    """Make figures of boncoraglio2025 by their numbers."""
    wrong = sorted(set(args.numbers) - set(_NUMBERS))
    if wrong:
        raise ValueError(f"figures of boncoraglio2025 have numbers from 1 to 5, got {wrong[0]}; leave it out for all")
    made = [_make(f"boncoraglio2025-{n}", args) for n in args.numbers or _NUMBERS]
    first = made[0]
    wanting = [m["figure"] for m in made if not m["converged"]]
    record = {
        "value": first["value"],
        "error": first["error"],
        "how": first["how"],
        "quantity": first["quantity"],
        "figures": made,
        "converged": not wanting,
        "status": f"not converged: {', '.join(wanting)}" if wanting else "converged",
    }
    return record, "\n".join(line for m in made for line in m["summary"]), not wanting


def _make(name: str, args: argparse.Namespace) -> dict[str, Any]:
    if args.points < 4:
        raise ValueError(f"--points must be >= 4 for a curve, got {args.points}")
    check_points(args.points)
    output_folder(args.out)
    bar = Bar(name, show=shown(args))
    made: dict[str, Any] = import_module(FIGURES[name]).make(args.out, args.points, bar.to)
    bar.close()
    return made
