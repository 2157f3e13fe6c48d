"""Figure 3: overlaps of three layers of attention against alpha, and the layers of a classifier in training.

`attnlimits figure troiani2025-3` draws from the data of `figure_3_right`, and from three_layers.json beside this file,
which `python -m attnlimits.papers.troiani2025.figures.figure_3` computes again (23 minutes on two cores).
"""

import time
from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, GREEN, RED
from attnlimits.numerics.core.results import as_dict, load, save
from attnlimits.numerics.fixed_point.evolve import curve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer

from ...figures import Headline, Progress, Record, Steps, drawing, panels, remake, write
from . import figure_3_right

__all__ = ["DATA", "compute", "draw", "headline", "make"]

DATA = Path(__file__).with_name("three_layers.json")
_RANGE, _POINTS = (0.05, 1.6), 48
# Of each overlap, absolute.
_ACCURACY = 1e-2
# Randomisations of the onsets.
_SEEDS = 4
_COLOURS = (BLUE, GREEN, RED)


def compute(points: int = _POINTS, progress: Progress | None = None) -> Path:
    """Compute the curve from the uninformed start and write it to `DATA`."""
    model = Network(layers=3)
    last = last_layer(model)
    began = time.perf_counter(), time.process_time()
    results = curve(
        model, np.linspace(*_RANGE, points), accuracy=_ACCURACY, max_iter=60, progress=Steps(progress, points)
    )
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    onsets = {}
    for layer in range(model.layers - 1):
        first = next((i for i, r in enumerate(results) if r.overlap[layer, layer] > 0), 0)
        if first:
            value, error = _onset(model, layer, results[first - 1].alpha, results[first].alpha)
            onsets[str(layer + 1)] = {"value": value, "error": error}
    record: Record = {
        "model": model.describe(),
        "threshold": {"value": last.value, "error": last.error},
        "onsets": onsets,
        "alpha": [r.alpha for r in results],
        "overlap": [r.overlap.diagonal().tolist() for r in results],
        "overlap_error": [r.overlap_error.diagonal().tolist() for r in results],
        "growth": [[None if np.isnan(rate) else float(rate) for rate in r.stability] for r in results],
        "converged": [r.converged for r in results],
        "prediction_error": [as_dict(r.prediction_error) for r in results],
        # Sums where hidden layers are hardly known, samples beyond.
        "how": "monte-carlo",
        "accuracy": _ACCURACY,
        "seconds": seconds[0],
        "cpu_seconds": seconds[1],
        "seed": results[0].seed,
    }
    save(DATA, record)
    return DATA


def _onset(model: Network, layer: int, low: float, high: float) -> tuple[float, float]:
    """Alpha at which a small overlap of a layer starts to grow, by its growth rate below; with its error.

    The rate is followed from below, where the overlap is zero, and extrapolated over the last step.
    """
    alphas = low - np.array([3.0, 2.0, 1.0, 0.0]) * (high - low)
    ends = []
    for seed in range(_SEEDS):
        results = curve(model, alphas, accuracy=_ACCURACY, max_iter=60, rng=seed)
        rates = np.array([r.stability[layer] for r in results])
        # The samples of a seed may let it grow a little earlier.
        known = np.isfinite(rates)
        # alpha as a parabola and as a line in the rate, at a rate of one.
        ends.append([float(np.polyval(np.polyfit(rates[known], alphas[known], k), 1.0)) for k in (2, 1)])
    curved, straight = np.mean(ends, axis=0)
    scatter = float(np.std(ends, axis=0, ddof=1)[0] / np.sqrt(_SEEDS))
    return float(curved), scatter + 0.5 * abs(float(straight - curved))


def draw(record: Record, *paths: Path) -> None:
    """Draw the overlaps with their error bands, and beside them the panel of `figure_3_right`."""
    alpha = np.array(record["alpha"])
    overlap, error = np.array(record["overlap"]), np.array(record["overlap_error"])
    figure, ((axes, other),) = panels(1, 2, (11.2, 4.2))
    for layer, colour in enumerate(_COLOURS):
        axes.plot(alpha, overlap[:, layer], color=colour, lw=1.5, label=f"layer {layer + 1}")
        low, high = overlap[:, layer] - 2 * error[:, layer], overlap[:, layer] + 2 * error[:, layer]
        axes.fill_between(alpha, np.maximum(low, 0), np.minimum(high, 1), color=colour, alpha=0.2, lw=0)
    threshold = float(record["threshold"]["value"])
    axes.axvline(threshold, color=_COLOURS[2], lw=0.8, ls=":", label=f"layer 3: threshold {threshold:.6g}")
    for layer, onset in record["onsets"].items():
        label = f"layer {layer}: threshold {onset['value']:.4f} $\\pm$ {onset['error']:.4f}"
        axes.axvline(onset["value"], color=_COLOURS[int(layer) - 1], lw=0.8, ls=":", label=label)
    missed = ~np.array(record["converged"])
    if missed.any():
        axes.plot(alpha[missed], overlap[missed].max(axis=1), "x", color="0.3", label="not converged")
    axes.set_xlabel(r"$\alpha = N/D$")
    axes.set_ylabel("overlap")
    axes.set_title(f"{record['model']}; bands: twice the error", fontsize=8)
    # Between the curves.
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0.36, 0.45))
    axes.grid(alpha=0.3)
    figure_3_right.draw_panel(other, load(figure_3_right.DATA))
    write(figure, paths)


def headline(record: Record) -> Headline:
    """The last layer's threshold."""
    converged = all(record["converged"])
    worst = float(np.max(record["overlap_error"]))
    lines = [
        record["model"],
        f"curve: {len(record['alpha'])} alphas, largest error of an overlap {worst:.4f} (stored; "
        f"{sum(record['converged'])} converged)",
    ]
    status = "converged" if converged else "some alphas did not converge; they are marked"
    return Headline(record["threshold"]["value"], record["threshold"]["error"], lines, converged, status)


make = drawing("troiani2025-3", DATA, draw, headline)

if __name__ == "__main__":
    remake("three layers", compute, draw)
