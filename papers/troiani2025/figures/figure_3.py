"""Overlaps of three layers of attention against alpha, and when the layers of a classifier are learned.

(a) State evolution of three layers, c = beta = 1, from the uninformed start; bands of twice the error are mostly as
thin as the lines. The last layer is learned first, at 0.2072, then the first at 0.981 and the second at 1.126
(dotted), and both rise ever more steeply up to perfect recovery at alpha = 3/2. (b) Two layers of a classifier of
questions made from templates come near what they end as together, half-way after 4.5 and 4.3 epochs: the range over
seeds (bands) is wider than the difference. Lines in (a) are monotone interpolation between computed points and
thresholds.

`attnlimits figure troiani2025-3` draws from the data of `figure_3_right`, and from three_layers.json beside this file,
which `python -m attnlimits.papers.troiani2025.figures.figure_3` computes again (some ten minutes of processor time).
"""

import time
from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, GREEN, RED
from attnlimits.numerics.core.plots import label_curve, legend_below, mark_threshold, smooth
from attnlimits.numerics.core.results import as_dict, load
from attnlimits.numerics.fixed_point.evolve import curve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer

from ...figures import PAGE, Headline, PaperFigure, Picture, Progress, Record, Steps, panels, with_points
from . import figure_3_right

__all__ = ["DATA", "FIGURE", "compute", "draw", "headline"]

DATA = Path(__file__).with_name("three_layers.json")
_RANGE, _POINTS = (0.05, 1.6), 48
# Of each overlap, absolute.
_ACCURACY = 1e-2
_COLOURS = (BLUE, GREEN, RED)


def compute(points: int = _POINTS, progress: Progress | None = None) -> Record:
    """Compute the curve from the uninformed start."""
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
    return record


def _onset(model: Network, layer: int, low: float, high: float) -> tuple[float, float]:
    """Alpha at which a small overlap of a layer starts to grow, by its growth rate below; with its error.

    The rate is followed from below, where the overlap is zero, and extrapolated over the last step.
    """
    alphas = low - np.array([3.0, 2.0, 1.0, 0.0]) * (high - low)
    ends = []
    # Randomisations of the onsets.
    seeds = 4
    for seed in range(seeds):
        results = curve(model, alphas, accuracy=_ACCURACY, max_iter=60, rng=seed)
        rates = np.array([r.stability[layer] for r in results])
        # The samples of a seed may let it grow a little earlier.
        known = np.isfinite(rates)
        # alpha as a parabola and as a line in the rate, at a rate of one.
        ends.append([float(np.polyval(np.polyfit(rates[known], alphas[known], k), 1.0)) for k in (2, 1)])
    curved, straight = np.mean(ends, axis=0)
    scatter = float(np.std(ends, axis=0, ddof=1)[0] / np.sqrt(seeds))
    return float(curved), scatter + 0.5 * abs(float(straight - curved))


def draw(record: Record, width: float) -> Picture:
    """Draw the overlaps with their error bands, and beside them the panel of `figure_3_right`."""
    figure, (axes, other) = panels(["three layers", "layers of a classifier in training"], width, aspect=0.85)
    onsets = {2: record["threshold"], **{int(layer) - 1: onset for layer, onset in record["onsets"].items()}}
    # Two numbers an output for three weights a dimension.
    recovery = 1.5
    for layer, colour in enumerate(_COLOURS):
        onset = float(onsets[layer]["value"])
        known = {onset: 0.0, recovery: 1.0}
        q, errors = (np.array(record[name])[:, layer] for name in ("overlap", "overlap_error"))
        alpha, overlap = with_points(record["alpha"], q, known)
        _, error = with_points(record["alpha"], errors, dict.fromkeys(known, 0.0))
        axes.plot(*smooth(alpha, overlap, (onset, recovery)), color=colour)
        axes.fill_between(alpha, overlap - 2 * error, overlap + 2 * error, color=colour, alpha=0.25, lw=0)
        mark_threshold(axes, onset, f"layer {layer + 1}: {onset:.4g}", colour, height=0.35)
        place, side = {0: ((1.31, 0.46), "right"), 1: ((1.33, 0.39), "left"), 2: ((0.49, 0.63), "left")}[layer]
        label_curve(
            axes, place, f"$q_{{{layer + 1}{layer + 1}}}$", colour, shift=(4 if side == "left" else -4, 0), ha=side
        )
    missed = ~np.array(record["converged"])
    if missed.any():
        found = np.array(record["overlap"])[missed].max(axis=1)
        axes.plot(np.array(record["alpha"])[missed], found, "x", color="0.3", label="not converged")
        legend_below(axes)
    axes.set_ylim(-0.02, 1.03)
    axes.set_xlabel(r"samples per dimension $\alpha = N/D$")
    axes.set_ylabel("overlap")
    figure_3_right.draw_panel(other, load(figure_3_right.DATA))
    return figure


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


FIGURE = PaperFigure("troiani2025-3", DATA, draw, headline, compute, width=PAGE, others=(figure_3_right.DATA,))

if __name__ == "__main__":
    FIGURE.remake()
