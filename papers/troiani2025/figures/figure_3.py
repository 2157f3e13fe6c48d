"""Figure 3, left: overlaps of three layers of attention against alpha.

`attnlimits figure troiani2025-3` draws from three_layers.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.figure_3` computes again (a quarter of an hour on two cores).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attnlimits.numerics.models import Attention
from attnlimits.numerics.progress import Bar
from attnlimits.numerics.results import as_dict, load, save
from attnlimits.numerics.state_evolution import curve
from attnlimits.numerics.thresholds import last_layer

__all__ = ["DATA", "compute", "draw", "make"]

DATA = Path(__file__).with_name("three_layers.json")
_RANGE, _POINTS = (0.05, 1.6), 48
# Points per randomisation: for errors of about 0.01.
_SAMPLES = 512
_COLOURS = ("#1f4e9c", "#2b7a4b", "#b3261e")


def compute(points: int = _POINTS, progress: Callable[[int, int], None] | None = None) -> Path:
    """Compute the curve from the uninformed start and write it to `DATA`."""
    model = Attention(layers=3)
    last = last_layer(model)
    done = 0

    def tick(_: object) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, points)

    results = curve(model, np.linspace(*_RANGE, points), samples=_SAMPLES, tol=1e-3, max_iter=60, progress=tick)
    record: dict[str, Any] = {
        "model": model.describe(),
        "threshold": {"value": last.value, "error": last.error},
        "alpha": [r.alpha for r in results],
        "overlap": [r.overlap.diagonal().tolist() for r in results],
        "overlap_error": [r.overlap_error.diagonal().tolist() for r in results],
        "converged": [r.converged for r in results],
        "prediction_error": [as_dict(r.prediction_error) for r in results],
        "how": "monte-carlo",
        "samples": _SAMPLES,
        "seed": results[0].seed,
    }
    save(DATA, record)
    return DATA


def draw(record: dict[str, Any], *paths: Path) -> None:
    """Draw the overlaps with their error bands."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    alpha = np.array(record["alpha"])
    overlap, error = np.array(record["overlap"]), np.array(record["overlap_error"])
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for layer, colour in enumerate(_COLOURS):
        axes.plot(alpha, overlap[:, layer], color=colour, lw=1.5, label=f"layer {layer + 1}")
        low, high = overlap[:, layer] - 2 * error[:, layer], overlap[:, layer] + 2 * error[:, layer]
        axes.fill_between(alpha, np.maximum(low, 0), np.minimum(high, 1), color=colour, alpha=0.2, lw=0)
    threshold = float(record["threshold"]["value"])
    axes.axvline(threshold, color=_COLOURS[2], lw=0.8, ls=":", label=f"last layer's threshold {threshold:.6g}")
    missed = ~np.array(record["converged"])
    if missed.any():
        axes.plot(alpha[missed], overlap[missed].max(axis=1), "x", color="0.3", label="not converged")
    axes.set_xlabel(r"$\alpha = N/D$")
    axes.set_ylabel("overlap")
    axes.set_title(f"{record['model']}; bands: two standard errors", fontsize=8)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    for path in paths:
        figure.savefig(path, dpi=160)
    plt.close(figure)


def make(out: Path, points: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Draw the stored curve.

    Parameters
    ----------
    out : Path
        Folder for troiani2025-3.json, .png and .pdf.
    points : int
        Not used: the points are those stored.
    progress : callable
        Called with (done, total).

    Returns
    -------
    dict
        Files, `value` (the last layer's threshold), `summary` lines, `converged`, `status`.
    """
    record: dict[str, Any] = load(DATA)
    files = {kind: out / f"troiani2025-3.{kind}" for kind in ("json", "png", "pdf")}
    save(files["json"], record)
    draw(record, files["png"], files["pdf"])
    progress(1, 1)
    converged = all(record["converged"])
    worst = float(np.max(record["overlap_error"]))
    return {
        "files": {kind: str(path) for kind, path in files.items()},
        "value": record["threshold"]["value"],
        "error": record["threshold"]["error"],
        "how": record["how"],
        "converged": converged,
        "status": "converged" if converged else "some alphas did not converge; they are marked",
        "summary": [
            record["model"],
            f"curve: {len(record['alpha'])} alphas, largest standard error of an overlap {worst:.3f} (stored; "
            f"{sum(record['converged'])} converged)",
            *(f"wrote {path}" for path in files.values()),
        ],
    }


if __name__ == "__main__":
    bar = Bar("three layers", show=True)
    print(f"wrote {compute(progress=bar.to)}")
    bar.close()
    draw(load(DATA), DATA.with_suffix(".png"))
