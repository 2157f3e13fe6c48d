"""What `attnlimits figure` and `attnlimits aim figure` do: figures of the papers, with their data."""

import argparse
import ast
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.cluster_pool import ClusterPool, workers_of
from ..core.destinations import FORMATS, output_folder
from ..core.pictures import plots
from ..core.progress import Bar
from .flags import check_points, dask_flag
from .verbs import Outcome, Verbs, add_verb, shown

__all__ = ["FIGURES", "add", "add_aim_figure", "aim_figures", "look_flags", "look_of", "run", "shows"]

_NUMBERS = (1, 2, 3, 4, 5)
_TROIANI = {
    **{str(n): f"figure_{n}" for n in _NUMBERS},
    "3-right": "figure_3_right",
    **{
        n: n
        for n in (
            "branches",
            "cost_per_digit",
            "examples",
            "free_energies",
            "phase_retrieval",
            "priors",
            "work_precision",
        )
    },
}
_MODULES = {
    "troiani2025": _TROIANI,
    "boncoraglio2025": {**{str(n): f"figure_{n}" for n in _NUMBERS}, "prediction": "prediction"},
    "chen2024": {name: name for name in ("hardness", "scaling")},
}
#: Figure name -> module, whose `FIGURE` is the figure and whose docstring says what it shows.
FIGURES = {
    f"{paper}-{name}": f"attnlimits.papers.{paper}.figures.{module}"
    for paper, modules in _MODULES.items()
    for name, module in modules.items()
}


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "figure",
        run,
        "make a figure and its data",
        "attnlimits figure troiani2025-5 --format svg --width column --out results",
    )
    parser.add_argument("name", nargs="?", choices=sorted(FIGURES), metavar="NAME", help="which one; --list shows all")
    parser.add_argument("--list", action="store_true", help="say what each figure shows, and make none")
    _drawing_flags(parser)


def add_aim_figure(verbs: Verbs) -> None:
    """Add `aim figure`: figures of boncoraglio2025 by their names."""
    parser = add_verb(
        verbs,
        "figure",
        aim_figures,
        "make the five figures of the paper and that of errors of prediction, or some of them",
        "attnlimits aim figure 2 prediction",
        nested=True,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="1 to 5, or prediction (default: all of them)")
    _drawing_flags(parser)


def _drawing_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder (default: %(default)s)")
    parser.add_argument(
        "--points", type=int, default=48, help="number of alphas, where they are computed (default: %(default)s)"
    )
    parser.add_argument("--stored", action="store_true", help="draw the stored data, and compute nothing")
    parser.add_argument("--workers", type=int, metavar="N", help="processes of --dask local (default: all cores)")
    dask_flag(parser, "to which the curves go")
    look_flags(parser)


def look_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of how a figure looks."""
    group = parser.add_argument_group("look")
    group.add_argument(
        "--format",
        action="append",
        choices=FORMATS,
        dest="formats",
        help="of the picture; may be given again (default: png and pdf)",
    )
    group.add_argument(
        "--width", metavar="W", help="column (3.375 inches), page (7), or inches (default: the figure's)"
    )
    group.add_argument(
        "--style", default="paper", help="paper, slides, or a style of matplotlib's by name or file (default: paper)"
    )


def look_of(args: argparse.Namespace) -> Any:
    """Look of the flags; a style or width that does not exist is refused."""
    scaffold, pictures = import_module("attnlimits.papers.figures"), plots()
    try:
        width = None if args.width is None else pictures.inches(args.width)
    except ValueError as error:
        raise ValueError(f"--width: {error}") from None
    try:
        with pictures.styled(args.style):
            pass
    except ValueError as error:
        raise ValueError(f"--style: {error}") from None
    formats = ("png", "pdf") if args.formats is None else tuple(dict.fromkeys(args.formats))
    return scaffold.Look(formats, width, args.style)


def shows(name: str) -> str:
    """What a figure shows: the first line of its module's docstring, read without loading it."""
    place = find_spec(FIGURES[name])
    assert place is not None and place.origin is not None
    text = ast.get_docstring(ast.parse(Path(place.origin).read_text(encoding="utf-8")))
    return (text or name).splitlines()[0]


def run(args: argparse.Namespace) -> Outcome:
    """Make one figure, or list all."""
    if args.list:
        for flag in ("--dask", "--workers"):
            if getattr(args, flag[2:]) is not None:
                raise ValueError(f"--list computes no curves; leave out {flag}")
        return _listed()
    if args.name is None:
        raise ValueError("the following arguments are required: name; --list shows what there is")
    with _pool(args, [args.name]) as pool:
        made = _make(args.name, args, pool)
    return made, "\n".join(made["summary"]), bool(made["converged"])


def _listed() -> Outcome:
    found = {name: shows(name) for name in FIGURES}
    width = max(map(len, found))
    record = {
        "value": str(len(found)),
        "error": 0.0,
        "how": "rigorous",
        "figures": found,
        "converged": True,
        "status": f"{len(found)} figures",
    }
    return record, "\n".join(f"{name:{width}}  {text}" for name, text in found.items()), True


def aim_figures(args: argparse.Namespace) -> Outcome:
    """Make figures of boncoraglio2025 by their names."""
    known = _MODULES["boncoraglio2025"]
    wrong = sorted(set(args.names) - set(known))
    if wrong:
        raise ValueError(f"figures of boncoraglio2025 are {', '.join(known)}, got {wrong[0]}; leave it out for all")
    names = [f"boncoraglio2025-{name}" for name in args.names or known]
    with _pool(args, names) as pool:
        made = [_make(name, args, pool) for name in names]
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


@contextmanager
def _pool(args: argparse.Namespace, names: list[str]) -> Iterator[ClusterPool | None]:
    """Refuse flags out of range, and give the workers of the cluster where there is one."""
    if args.points < 4:
        raise ValueError(f"--points must be >= 4 for a curve, got {args.points}")
    check_points(args.points)
    if args.workers is not None and (args.workers < 1 or args.dask is None):
        raise ValueError(f"--workers are the processes of --dask local, at least one; got {args.workers}")
    if args.dask is not None:
        _check_apart(args, names)
    output_folder(args.out)
    with workers_of(args.dask, args.workers) as workers:
        yield workers if isinstance(workers, ClusterPool) else None


def _check_apart(args: argparse.Namespace, names: list[str]) -> None:
    """Refuse a cluster for figures of which no curves are computed, or none that go apart."""
    for name in names:
        figure = import_module(FIGURES[name]).FIGURE
        if args.stored or figure.points is None:
            raise ValueError(f"{name} is drawn from stored data, and --dask computes curves; leave it out")
        if not figure.apart:
            raise ValueError(f"{name} is one curve whose points follow each other; leave out --dask")


def _make(name: str, args: argparse.Namespace, pool: ClusterPool | None) -> dict[str, Any]:
    look = look_of(args)
    bar = Bar(name, show=shown(args))
    figure = import_module(FIGURES[name]).FIGURE
    made: dict[str, Any] = figure.make(args.out, args.points, bar.to, look, stored=args.stored, pool=pool)
    bar.close()
    return made
