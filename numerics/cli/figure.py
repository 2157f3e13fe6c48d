"""What `attnlimits figure` and `attnlimits aim figure` do: figures of the papers, with their data."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from ..core.destinations import output_folder
from ..core.progress import Bar
from .flags import check_points

__all__ = ["FIGURES", "aim_figure_flags", "aim_figures", "figure", "figure_flags"]

Outcome = tuple[dict[str, Any], str, bool]
_NUMBERS = (1, 2, 3, 4, 5)
#: Figure name -> module with `make(out, alphas, progress) -> dict`.
FIGURES = {
    f"{paper}-{n}": f"attnlimits.papers.{paper}.figures.figure_{n}"
    for paper in ("troiani2025", "boncoraglio2025")
    for n in _NUMBERS
}


def figure_flags(parser: argparse.ArgumentParser) -> None:
    """Add the name of a figure, and where and how finely to draw it."""
    parser.add_argument("name", choices=sorted(FIGURES))
    _drawing_flags(parser)


def aim_figure_flags(parser: argparse.ArgumentParser) -> None:
    """Add the numbers of figures of boncoraglio2025, none for all, and the same."""
    parser.add_argument("numbers", type=int, nargs="*", metavar="N", help="1 to 5 (default: all of them)")
    _drawing_flags(parser)


def _drawing_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder (default: %(default)s)")
    parser.add_argument("--points", type=int, default=48, help="number of alphas (default: %(default)s)")


def figure(args: argparse.Namespace) -> Outcome:
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
    bar = Bar(name, show=True)
    made: dict[str, Any] = import_module(FIGURES[name]).make(args.out, args.points, bar.to)
    bar.close()
    return made
