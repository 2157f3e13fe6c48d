"""Hardness: error on a hidden parity against the number of heads, by method, dimension and start.

`attnlimits multihead figure hardness` draws from hardness.json beside this file, which
`python -m attnlimits.papers.chen2024.figures.hardness` computes again (about ten minutes on one core).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlimits.numerics.multihead.hardness import hardness
from attnlimits.numerics.progress import Bar
from attnlimits.numerics.results import as_dict, load, save

__all__ = ["DATA", "TABLES", "compute", "draw"]

DATA = Path(__file__).with_suffix(".json")
_SIZES = (1, 2, 3, 4, 5, 6, 7)
#: Runs, by name.
TABLES: dict[str, dict[str, Any]] = {
    "d = 10": {"dim": 10, "methods": ("adam", "lbfgs", "lm", "sculpt"), "starts": 3},
    "d = 20": {"dim": 20, "methods": ("adam", "sculpt"), "starts": 2},
    "d = 30": {"dim": 30, "methods": ("adam", "sculpt"), "starts": 2},
    "d = 10, saturated start": {"dim": 10, "methods": ("adam", "lbfgs"), "starts": 2, "start_scale": 14.0},
}
_SEED = 0
_NAMES = {"adam": "Adam", "lbfgs": "L-BFGS", "lm": "Levenberg-Marquardt", "sculpt": "sculpting (refuses)"}
_COLOURS = {"adam": "#1f4e9c", "lbfgs": "#2c7a3f", "lm": "#b3261e", "sculpt": "0.5"}


def compute(progress: Callable[[int, int], None] | None = None) -> Path:
    """Run all tables, and write `DATA`."""
    total, done = sum(len(_SIZES) * len(one["methods"]) for one in TABLES.values()), 0
    record: dict[str, Any] = {"seed": _SEED, "how": "monte-carlo", "tables": {}}

    def tick(_done: int, _total: int) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    for name, settings in TABLES.items():
        found = hardness(_SIZES, **settings, rng=_SEED, progress=tick)
        record["tables"][name] = as_dict(found)
    save(DATA, record)
    return DATA


def draw(record: dict[str, Any], *paths: Path) -> None:
    """Draw errors on the hidden bit: all methods at d = 10, and Adam at all dimensions."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.7), sharey=True, layout="constrained")
    for method, colour in _COLOURS.items():
        for name, style in (("d = 10", "-"), ("d = 10, saturated start", ":")):
            label = _NAMES[method] if name == "d = 10" else f"{_NAMES[method]}, saturated start"
            _curve(left, record["tables"][name], method, style, colour, label)
    for (name, table), colour in zip(record["tables"].items(), ("#9ab7e0", "#4d7fc4", "#123a7a"), strict=False):
        _curve(right, table, "adam", "-", colour, name)
    left.set_title("d = 10", fontsize=9)
    right.set_title("Adam", fontsize=9)
    left.set_ylabel("mean squared error on the hidden bit")
    for axes in (left, right):
        axes.axhline(1.0, color="0.7", lw=0.8)
        axes.set_xlabel("hidden coordinates n (heads: n, or n + 1 if even)")
        axes.set_ylim(-0.05, 1.9)
        axes.legend(fontsize=7, loc="upper left", ncols=2)
        axes.grid(alpha=0.3)
    for path in paths:
        figure.savefig(path, dpi=110)
    plt.close(figure)


def _curve(axes: Any, table: dict[str, Any], method: str, style: str, colour: str, label: str) -> None:
    points = [point for point in table["points"] if point["method"] == method]
    if points:
        axes.errorbar(
            [point["n"] for point in points],
            [point["error"] for point in points],
            yerr=[point["deviation"] for point in points],
            fmt=f"o{style}",
            color=colour,
            ms=4,
            lw=1.2,
            label=label,
        )


if __name__ == "__main__":
    bar = Bar("hidden parities", show=True)
    print(f"wrote {compute(progress=bar.to)}")
    bar.close()
    draw(load(DATA), DATA.with_suffix(".png"))
