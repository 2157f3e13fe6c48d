"""Phase diagram of two-layer attention: where each layer is learned, against the skip strength c.

`attnlimits figure troiani2025-4` draws from phase_diagram.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.figure_4` computes again (resumable, a few minutes on two cores) by the
sweep `papers/troiani2025/sweeps/phase_diagram.toml`.
"""

from functools import partial
from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.results import save
from attnlimits.numerics.sweeps import open_sweep, sweep

from ...figures import Headline, Progress, Record, canvas, drawing, remake, write
from .figure_1 import PUBLISHED_THRESHOLDS

__all__ = ["DATA", "compute", "draw", "headline", "make"]

DATA = Path(__file__).with_name("phase_diagram.json")
_GRID = "troiani2025-phase_diagram"
# Given layer 2 exactly, layer 1 is learned at 1/(M (M + 1)), whatever c and beta, (187).
_GIVEN_PERFECT = 1 / 6
_COLOURS = {2: RED, 1: BLUE}


def compute(store: Path, workers: int | None = None, progress: Progress | None = None) -> Path:
    """Run the sweep and write its thresholds to `DATA`.

    Raises
    ------
    RuntimeError
        Some points failed; the store says why.
    """
    report = sweep(_GRID, store, workers=workers, progress=progress)
    if not report.ok:
        raise RuntimeError(f"the phase diagram is not complete: {report.status}")
    found = open_sweep(store)
    record: Record = {name: found[name].values.tolist() for name in ("layer", "beta", "skip")}
    for name in ("value", "error"):
        record[name] = found[name].transpose("layer", "beta", "skip").values.tolist()
    record["how"] = "estimated"
    record["grid"] = _GRID
    save(DATA, record)
    return DATA


def draw(record: Record, *paths: Path) -> None:
    """Draw the thresholds with their error bars and the published numbers."""
    skip, betas = np.array(record["skip"]), record["beta"]
    value, error = np.array(record["value"]), np.array(record["error"])
    figure, axes = canvas(6.4, 4.4)
    styles = dict(zip(sorted(betas), ("--", "-", ":"), strict=False))
    for i, layer in enumerate(record["layer"]):
        for j, beta in enumerate(betas):
            given = " given layer 2 at its fixed point" if layer == 1 else ""
            axes.errorbar(
                skip,
                value[i, j],
                error[i, j],
                ls=styles.get(beta, "-."),
                lw=1.4,
                color=_COLOURS[layer],
                label=f"layer {layer}{given}, $\\beta$ = {beta:g}",
            )
    axes.axhline(_GIVEN_PERFECT, color="grey", lw=0.8)
    axes.annotate("1/6: layer 1 given layer 2 exactly; layer 2 at large $c$", (0.011, 0.135), fontsize=7, color="grey")
    for layer, published in PUBLISHED_THRESHOLDS.items():
        axes.plot(1, published, "x", ms=7, color=_COLOURS[layer], label=f"layer {layer}, published (troiani2025)")
    axes.set_xscale("log")
    axes.set_xlim(skip[0], skip[-1])
    axes.set_ylim(0, 0.85)
    axes.set_xlabel("skip strength $c$")
    axes.set_ylabel(r"threshold $\alpha = N/D$")
    axes.set_title("two layers of softmax attention, two tokens", fontsize=9)
    axes.legend(fontsize=7, loc="center", bbox_to_anchor=(0.35, 0.59))
    write(figure, paths)


def headline(record: Record) -> Headline:
    """The threshold of the first layer at c = beta = 1."""
    value, error = (np.array(record[name]) for name in ("value", "error"))
    first = record["layer"].index(1)
    lines = []
    for j, beta in enumerate(record["beta"]):
        least, most = value[first, j].min(), value[first, j].max()
        lines.append(f"beta = {beta:g}: layer 1 is learned between alpha = {least:.5f} and {most:.5f} over c")
    j, k = record["beta"].index(1.0), int(np.argmin(np.abs(np.log(record["skip"]))))
    return Headline(f"{value[first, j, k]:.5f}", float(error[first, j, k]), lines)


make = drawing("troiani2025-4", DATA, draw, headline)

if __name__ == "__main__":
    remake("phase diagram", partial(compute, Path("results/phase_diagram")), draw)
