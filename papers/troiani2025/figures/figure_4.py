"""Phase diagram of two-layer attention: where each layer is learned, against the skip strength c.

Threshold of the second layer (lower curves) and of the first layer given the second at its own fixed point (upper
curves), for three inverse temperatures. The weaker the skip, the more samples the second layer needs; for strong skips
it needs 1/6 (grey), as one layer alone. The first layer needs four times as many and hardly depends on c. Sharper
attention (larger beta) makes both harder. Crosses: published thresholds at c = beta = 1, both off (errata 1 and 2).
Lines are monotone interpolation between the computed points (dots), whose errors are thinner than the lines.

`attnlimits figure troiani2025-4` draws from phase_diagram.json beside this file, which `python -m
attnlimits.papers.troiani2025.figures.figure_4` computes again (resumable, some ten minutes on two cores) by the sweep
`papers/troiani2025/sweeps/phase_diagram.toml`.
"""

from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import label_curve, legend_below, smooth
from attnlimits.numerics.sweeps import open_sweep, sweep

from ...figures import Headline, PaperFigure, Picture, Progress, Record, panels
from .figure_1 import PUBLISHED_THRESHOLDS

__all__ = ["DATA", "FIGURE", "compute", "draw", "headline"]

DATA = Path(__file__).with_name("phase_diagram.json")
_GRID = "troiani2025-phase_diagram"
# Points of an interrupted run stay there.
_STORE = Path("results/phase_diagram")


def compute(store: Path = _STORE, workers: int | None = None, progress: Progress | None = None) -> Record:
    """Thresholds of the sweep.

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
    return record


def draw(record: Record, width: float) -> Picture:
    """Draw the thresholds and the published numbers."""
    figure, (axes,) = panels(["two layers of softmax attention, two tokens"], width, aspect=0.82)
    skip, value = np.array(record["skip"]), np.array(record["value"])
    styles = dict(zip(sorted(record["beta"]), ("--", "-", ":"), strict=False))
    colours = {2: RED, 1: BLUE}
    names = {2: "layer 2", 1: "layer 1, given layer 2 at its fixed point"}
    for i, layer in enumerate(record["layer"]):
        for j, beta in enumerate(record["beta"]):
            logs, curve = smooth(np.log(skip), value[i, j])
            axes.plot(np.exp(logs), curve, styles.get(beta, "-."), color=colours[layer])
            axes.plot(skip, value[i, j], ".", ms=2.5, color=colours[layer])
        label_curve(axes, (0.013, {1: 0.60, 2: 0.33}[layer]), names[layer], colours[layer])
    for beta, style in styles.items():
        axes.plot([], [], style, color="0.3", label=rf"$\beta$ = {beta:g}")
    # Given layer 2 exactly, layer 1 is learned at 1/(M (M + 1)), whatever c and beta, (187).
    given_perfect = 1 / 6
    axes.axhline(given_perfect, color="0.6", lw=0.8, zorder=1)
    label_curve(axes, (0.013, 0.135), "1/6: layer 2 at large $c$; layer 1 given layer 2 exactly", "0.45")
    for layer, published in PUBLISHED_THRESHOLDS.items():
        axes.plot(1, published, "x", ms=6, color=colours[layer], label=f"published, layer {layer}")
    axes.set_xscale("log")
    axes.set_xlim(skip[0], skip[-1])
    axes.set_ylim(0, 0.85)
    axes.set_xlabel("skip strength $c$")
    axes.set_ylabel(r"threshold, $\alpha = N/D$")
    legend_below(axes, 5)
    return figure


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


FIGURE = PaperFigure("troiani2025-4", DATA, draw, headline, compute)

if __name__ == "__main__":
    FIGURE.remake()
