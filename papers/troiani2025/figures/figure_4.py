"""Phase diagram of two-layer attention: where each layer is learned, against the skip strength c.

`attnlimits figure troiani2025-4` draws from phase_diagram.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.figure_4` computes again (resumable, a few minutes on two cores) by the
sweep `papers/troiani2025/sweeps/phase_diagram.toml`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attnlimits.numerics.core.plots import save_figure
from attnlimits.numerics.core.progress import Bar
from attnlimits.numerics.core.results import load, save
from attnlimits.numerics.sweeps import open_sweep, sweep

from .figure_1 import PUBLISHED_THRESHOLDS

__all__ = ["DATA", "compute", "draw", "make"]

DATA = Path(__file__).with_name("phase_diagram.json")
_GRID = "troiani2025-phase_diagram"
# Given layer 2 exactly, layer 1 is learned at 1/(M (M + 1)), whatever c and beta, (187).
_GIVEN_PERFECT = 1 / 6
_COLOURS = {2: "#b3261e", 1: "#1f4e9c"}


def compute(store: Path, workers: int | None = None, progress: Callable[[int, int], None] | None = None) -> Path:
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
    record: dict[str, Any] = {name: found[name].values.tolist() for name in ("layer", "beta", "skip")}
    for name in ("value", "error"):
        record[name] = found[name].transpose("layer", "beta", "skip").values.tolist()
    record["how"] = "estimated"
    record["grid"] = _GRID
    save(DATA, record)
    return DATA


def draw(record: dict[str, Any], *paths: Path) -> None:
    """Draw the thresholds with their error bars and the published numbers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    skip, betas = np.array(record["skip"]), record["beta"]
    value, error = np.array(record["value"]), np.array(record["error"])
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
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
    for path in paths:
        save_figure(figure, path, dpi=160)
    plt.close(figure)


def make(out: Path, points: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Draw the figure from the stored data.

    Parameters
    ----------
    out : Path
        Folder for troiani2025-4.json, .png and .pdf.
    points : int
        Not used: the stored grid is drawn.
    progress : callable
        Called with (done, total).

    Returns
    -------
    dict
        Files, `summary` lines, `value`, `error`, `how`, `converged`, `status`.
    """
    record = load(DATA)
    files = {kind: out / f"troiani2025-4.{kind}" for kind in ("json", "png", "pdf")}
    save(files["json"], record)
    draw(record, files["png"], files["pdf"])
    progress(1, 1)
    value, error = (np.array(record[name]) for name in ("value", "error"))
    first = record["layer"].index(1)
    lines = []
    for j, beta in enumerate(record["beta"]):
        least, most = value[first, j].min(), value[first, j].max()
        lines.append(f"beta = {beta:g}: layer 1 is learned between alpha = {least:.5f} and {most:.5f} over c")
    j, k = record["beta"].index(1.0), int(np.argmin(np.abs(np.log(record["skip"]))))
    return {
        "files": {kind: str(path) for kind, path in files.items()},
        "value": f"{value[first, j, k]:.5f}",
        "error": float(error[first, j, k]),
        "how": record["how"],
        "converged": True,
        "status": f"drawn from {DATA.name}",
        "summary": [*lines, *(f"wrote {path}" for path in files.values())],
    }


if __name__ == "__main__":
    bar = Bar("phase diagram", show=True)
    print(compute(Path("results/phase_diagram"), progress=bar.to))
    bar.close()
    draw(load(DATA), DATA.with_suffix(".png"))
