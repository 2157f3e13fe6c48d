"""Hardness: error on a hidden parity against the number of heads, by method, dimension and start.

Mean squared error on the hidden bit after training on 20000 examples with the true number of heads, best of 2 or 3
starts with the deviation over them; 1 (grey) is the trivial predictor. (a) d = 10: Adam learns most of all parities,
L-BFGS and Levenberg-Marquardt fewer, and starts whose attention is saturated (dotted) are worse; sculpting refuses
all. (b) Small starts at d = 10: range over two seeds (bands) beside an earlier program (crosses), with the same order
of methods. (c) Adam, 3000 steps: at d = 20 and 30 nothing is learned of five hidden coordinates or more.

`attnlimits figure chen2024-hardness` draws from hardness.json beside this file, to which `python -m
attnlimits.papers.chen2024.figures.hardness` adds the tables it lacks (some ten minutes for all).
"""

from pathlib import Path

from matplotlib.axes import Axes

from attnlimits.numerics.core.colours import BLUE, GREEN, RED
from attnlimits.numerics.core.plots import legend_below
from attnlimits.numerics.core.results import as_dict, load, save
from attnlimits.numerics.multihead.hardness import hardness

from ...figures import PAGE, Headline, PaperFigure, Picture, Progress, Record, Steps, label_rows, panels, table

__all__ = ["DATA", "FIGURE", "PROTOTYPE", "SMALL", "TABLES", "compute", "draw", "headline"]

DATA = Path(__file__).with_suffix(".json")
_SIZES = tuple(range(1, 8))
#: Runs, by name.
TABLES: dict[str, Record] = {
    "d = 10": {"dim": 10, "methods": ("adam", "lbfgs", "lm", "sculpt"), "starts": 3},
    "d = 20": {"dim": 20, "methods": ("adam", "sculpt"), "starts": 2},
    "d = 30": {"dim": 30, "methods": ("adam", "sculpt"), "starts": 2},
    "d = 10, saturated start": {"dim": 10, "methods": ("adam", "lbfgs"), "starts": 2, "start_scale": 14.0},
}
_SMALL: Record = {"dim": 10, "methods": ("adam", "lbfgs", "lm"), "starts": 3, "start_scale": 1.0}
#: Small starts, whose range over seeds is compared with `PROTOTYPE`.
SMALL: dict[str, Record] = {f"d = 10, small start, seed {seed}": _SMALL | {"rng": seed} for seed in (0, 1)}
#: What an earlier program found at d = 10 for n = 1 to 7, from one seed, best of up to 3 starts, with other shifts b_i.
_PUBLISHED = table(DATA.with_name("hardness_prototype.csv"))
PROTOTYPE = {method: tuple(float(row[method]) for row in _PUBLISHED) for method in ("adam", "lbfgs", "lm")}
_NAMES = {"adam": "Adam", "lbfgs": "L-BFGS", "lm": "Levenberg-Marquardt", "sculpt": "sculpting"}
_COLOURS = {"adam": BLUE, "lbfgs": GREEN, "lm": RED, "sculpt": "0.35"}


def compute(progress: Progress | None = None) -> Record:
    """Run the tables that `DATA` lacks, and write it."""
    seed = 0
    record: Record = load(DATA) if DATA.exists() else {"seed": seed, "how": "monte-carlo", "tables": {}}
    missing = {name: one for name, one in (TABLES | SMALL).items() if name not in record["tables"]}
    step = Steps(progress, sum(len(_SIZES) * len(one["methods"]) for one in missing.values()))
    for name, one in missing.items():
        settings: Record = {"rng": seed} | one
        found = hardness(_SIZES, **settings, progress=step)
        record["tables"][name] = as_dict(found)
        save(DATA, record)
    return record


def headline(record: Record) -> Headline:
    """The number that says most: the error of Adam on seven bits of 29."""
    (last,) = (p for p in record["tables"]["d = 30"]["points"] if (p["n"], p["method"]) == (_SIZES[-1], "adam"))
    quantity = "mean squared error of Adam on the parity of 7 of 29 bits; 1 of the trivial predictor"
    return Headline(f"{last['error']:.6g}", last["deviation"], [quantity], more={"quantity": quantity})


def draw(record: Record, width: float) -> Picture:
    """Draw errors on the hidden bit: all methods at d = 10, and Adam at all dimensions."""
    titles = ["d = 10", "d = 10, small starts", "Adam"]
    figure, found = panels(titles, width, sharey=True, aspect=1.25)
    left, middle, right = found
    for method, colour in _COLOURS.items():
        for name, style in (("d = 10", "-"), ("d = 10, saturated start", ":")):
            label = _NAMES[method] if name == "d = 10" else None
            _curve(left, record["tables"][name], method, style, colour, label)
    left.plot([], [], ":", color="0.35", label="saturated start")
    for method, errors in PROTOTYPE.items():
        colour = _COLOURS[method]
        middle.fill_between(_SIZES, *_range(record, method), color=colour, alpha=0.3, lw=0.8, label=_NAMES[method])
        middle.plot(_SIZES, errors, "x", color=colour, ms=4)
    middle.plot([], [], "x", color="0.35", ms=4, label="earlier program")
    shades = (("#9ab7e0", ":"), ("#4d7fc4", "--"), ("#123a7a", "-"))
    for name, (colour, style) in zip(("d = 10", "d = 20", "d = 30"), shades, strict=True):
        _curve(right, record["tables"][name], "adam", style, colour, name)
    for axes in found:
        axes.axhline(1.0, color="0.7", lw=0.8, zorder=1)
        axes.set_xlabel("hidden coordinates $n$")
        axes.set_xticks(_SIZES)
        axes.set_ylim(-0.1, 2.8)
        legend_below(axes, 1)
    label_rows(found, "error on the hidden bit")
    return figure


def _range(record: Record, method: str) -> tuple[list[float], list[float]]:
    """Least and largest error over the seeds of the small starts, by size."""
    errors = [
        [
            point["error"]
            for name in SMALL
            for point in record["tables"][name]["points"]
            if (point["n"], point["method"]) == (n, method)
        ]
        for n in _SIZES
    ]
    return [min(one) for one in errors], [max(one) for one in errors]


def _curve(axes: Axes, table: Record, method: str, style: str, colour: str, label: str | None) -> None:
    points = [point for point in table["points"] if point["method"] == method]
    if points:
        axes.errorbar(
            [point["n"] for point in points],
            [point["error"] for point in points],
            yerr=[point["deviation"] for point in points],
            fmt=f"o{style}",
            color=colour,
            lw=1.1,
            label=label,
        )


FIGURE = PaperFigure("chen2024-hardness", DATA, draw, headline, compute, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
