"""Overlaps and prediction errors of two-layer attention against alpha: the second layer is learned first.

Overlaps q_22 of the second and q_11 of the first layer at the fixed point of the state evolution from the uninformed
start, and the mean squared error of a prediction, for c = beta = 1. Each overlap leaves zero at its threshold
(dotted), 0.18548 and 0.71964, and both reach one at alpha = 1. The error of the posterior mean does not move before
the first threshold and falls to zero at alpha = 1. Open squares and dots: published numbers, of which q_11 at alpha =
1.2 is of GAMP that had not converged. Lines are monotone interpolation between computed points; thresholds are among
them.

`attnlimits figure troiani2025-1` computes thresholds and curve, half a minute, and draws them; `attnlimits figure
troiani2025-1 --stored` draws figure_1.json beside this file, which `python -m
attnlimits.papers.troiani2025.figures.figure_1` computes again.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import label_curve, legend_below, mark_threshold, smooth
from attnlimits.numerics.core.results import EvolutionResult, as_dict
from attnlimits.numerics.fixed_point.evolve import curve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.first_layer import first_layer
from attnlimits.numerics.thresholds.last_layer import last_layer

from ...figures import Array, Headline, PaperFigure, Picture, Progress, Record, panels, table

__all__ = [
    "FIGURE",
    "PUBLISHED_THRESHOLDS",
    "compute",
    "draw",
    "grid",
    "published",
    "record_of",
]

DATA = Path(__file__).with_suffix(".json")
_PUBLISHED = table(DATA.with_name("published.csv"))


def published(method: str, layer: int) -> Array:
    """Rows alpha, overlap and its spread as published for a layer, of "state evolution" or "GAMP" at D = 1000."""
    rows = [row for row in _PUBLISHED if (row["method"], row["layer"]) == (method, str(layer))]
    return np.array([[float(row[name]) for name in ("alpha", "overlap", "spread")] for row in rows])


# Published thresholds at c = 1 of layers 2 and 1.
PUBLISHED_THRESHOLDS = {int(row["layer"]): float(row["alpha"]) for row in _PUBLISHED if row["method"] == "threshold"}

_RANGE, _POINTS = (0.0, 1.6), 48
# Two numbers an output for two weights a dimension: perfect recovery.
_RECOVERY = 1.0
_COLOURS = {2: RED, 1: BLUE}
# Of a point what is the same for all.
_COMMON = ("history", "versions", "origin", "kernel_hash", "seed")


def grid(points: int, thresholds: tuple[float, float]) -> Array:
    """About as many alphas: ends, both thresholds and recovery, and most points where overlaps grow."""
    kinks = (_RANGE[0], *thresholds, _RECOVERY, _RANGE[1])
    # Where nothing changes, an eighth of the points each.
    shares = (1, 3, 3, 1)
    pieces = [
        np.linspace(*ends, 1 + max(round(points * share / 8), 1))[:-1]
        for ends, share in zip(pairwise(kinks), shares, strict=True)
    ]
    return np.concatenate([*pieces, [_RANGE[1]]])


def record_of(points: int, progress: Progress) -> Record:
    """Thresholds and the curve with about as many points."""
    # Share of the progress bar given to the two thresholds, in points of the curve.
    threshold_steps = 8
    total = points + threshold_steps
    model = Network(layers=2, tokens=2, skip=1.0)
    progress(0, total)
    last = last_layer(model)
    progress(1, total)
    tries: list[float] = []

    def tick(q22: float) -> None:
        tries.append(q22)
        progress(min(1 + len(tries), threshold_steps), total)

    first = first_layer(model, progress=tick)
    alphas = grid(points, (float(last.value), float(first.value)))
    results: list[EvolutionResult] = []

    def record(result: EvolutionResult) -> None:
        results.append(result)
        progress(threshold_steps + points * len(results) // len(alphas), total)

    curve(model, alphas, progress=record)
    return {
        "model": model.describe(),
        "thresholds": [as_dict(last), as_dict(first)],
        "origin": as_dict(results[0].origin),
        "how": last.how,
        "curve": [{k: v for k, v in as_dict(r).items() if k not in _COMMON} for r in results],
    }


def compute(progress: Progress | None = None) -> Record:
    """Compute thresholds and curve with the stored number of points."""
    return record_of(_POINTS, progress or (lambda *_: None))


def draw(record: Record, width: float) -> Picture:
    """Draw the overlaps, the prediction errors and the published numbers."""
    figure, (axes,) = panels([""], width, aspect=0.82)
    points = record["curve"]
    alpha = np.array([point["alpha"] for point in points])
    last, first = (float(found["value"]) for found in record["thresholds"])
    kinks = (last, first, _RECOVERY)
    for layer, at in ((2, last), (1, first)):
        q, error = (
            np.array([p[name] for p in points])[:, layer - 1, layer - 1] for name in ("overlap", "overlap_error")
        )
        axes.plot(*smooth(alpha, q, kinks), color=_COLOURS[layer])
        axes.fill_between(alpha, q - error, q + error, color=_COLOURS[layer], alpha=0.25, lw=0)
        half = float(np.interp(0.6, q[: np.argmax(q) + 1], alpha[: np.argmax(q) + 1]))
        label_curve(axes, (half, 0.6), rf"$q_{{{layer}{layer}}}$", _COLOURS[layer], shift=(5, 0))
        mark_threshold(axes, at, f"layer {layer}: {at:.5f}", _COLOURS[layer], height=0.42)
    for name, style, label in (
        ("prediction_error", "-", "error of the posterior mean"),
        ("plugin_error", "--", "error of the plug-in prediction"),
    ):
        value = np.array([point[name]["value"] for point in points])
        axes.plot(*smooth(alpha, value, kinks), style, color="black", lw=1.0, label=label)
    _published(axes)
    axes.set_xlim(*_RANGE)
    axes.set_ylim(-0.02, 1.03)
    axes.set_xlabel(r"samples per dimension $\alpha = N/D$")
    axes.set_ylabel("overlap; mean squared error")
    legend_below(axes, 2)
    return figure


def _published(axes: Axes) -> None:
    alpha, q, _ = published("state evolution", 2).T
    axes.plot(alpha, q, "s", mfc="none", color=RED, label="published: state evolution")
    for layer, colour in _COLOURS.items():
        alpha, q, spread = published("GAMP", layer).T
        label = f"published: GAMP, $q_{{{layer}{layer}}}$"
        axes.errorbar(alpha, q, spread, fmt="o", color=colour, lw=0.8, label=label)


def headline(record: Record) -> Headline:
    """The threshold of the second layer."""
    last, first = record["thresholds"]
    points, low, high = record["curve"], *(f"{end:g}" for end in _RANGE)
    thresholds = {float(found["value"]) for found in record["thresholds"]}
    # A threshold is where an iteration no longer decides.
    converged = all(point["converged"] for point in points if point["alpha"] not in thresholds)
    worst = max(np.max(point["overlap_error"]) for point in points)
    lines = [
        record["model"],
        f"alpha(layer 2) = {last['value']}  ({last['how']}, error {last['error']:.1e}; published "
        f"{PUBLISHED_THRESHOLDS[2]})",
        f"alpha(layer 1) = {first['value']}  ({first['how']}, error {first['error']:.1e}, given layer 2; published "
        f"{PUBLISHED_THRESHOLDS[1]})",
        f"curve: {len(points)} alphas in [{low}, {high}], both thresholds among them; largest error of an overlap "
        f"{worst:.4f}",
    ]
    return Headline(
        last["value"],
        last["error"],
        lines,
        converged,
        None if converged else "some alphas did not converge; see the statuses in the data file",
        more={"thresholds": {"layer 2": last, "layer 1": first}},
    )


FIGURE = PaperFigure("troiani2025-1", DATA, draw, headline, compute, points=record_of)

if __name__ == "__main__":
    FIGURE.remake()
