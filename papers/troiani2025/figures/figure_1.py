"""Figure 1, left: overlaps and prediction error of two-layer attention against alpha, with its thresholds.

`attnlimits figure troiani2025-1` computes the two thresholds and a state-evolution curve from the uninformed start and
draws them with the few published numbers as marks.
"""

from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import phase_curve
from attnlimits.numerics.core.results import EvolutionResult, as_dict
from attnlimits.numerics.fixed_point.evolve import curve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.first_layer import first_layer
from attnlimits.numerics.thresholds.last_layer import last_layer

from ...figures import Progress, canvas, publish, write

__all__ = ["PUBLISHED_CURVE", "PUBLISHED_GAMP", "PUBLISHED_THRESHOLDS", "make"]

# Published state-evolution curve, second layer: (alpha, q_22), +-0.01 Monte Carlo.
PUBLISHED_CURVE = ((0.2333, 0.0736), (0.3, 0.218), (0.4, 0.499), (0.5, 0.773), (0.6333, 0.945))
# Published GAMP at D = 1000: (alpha, overlap, spread), second and first layer.
PUBLISHED_GAMP = {2: ((0.3, 0.219, 0.031), (0.5, 0.773, 0.036)), 1: ((1.2, 0.826, 0.061),)}
# Published thresholds at c = 1 of layers 2 and 1.
PUBLISHED_THRESHOLDS = {2: 0.14358, 1: 0.79365}

_RANGE = (0.0, 1.6)
# Share of the progress bar given to the two thresholds, in points of the curve.
_THRESHOLD_STEPS = 8


def make(out: Path, points: int, progress: Progress) -> dict[str, object]:
    """Compute, save and draw the figure.

    Parameters
    ----------
    out : Path
        Folder for troiani2025-1.json, .png and .pdf.
    points : int
        Number of alphas in [0, 1.6].
    progress : callable
        Called with (done, total).

    Returns
    -------
    dict
        Files, thresholds, `summary` lines, `converged`, `status`.
    """
    total = points + _THRESHOLD_STEPS
    model = Network(layers=2, tokens=2, skip=1.0)
    progress(0, total)
    last = last_layer(model)
    progress(1, total)
    tries: list[float] = []

    def tick(q22: float) -> None:
        tries.append(q22)
        progress(min(1 + len(tries), _THRESHOLD_STEPS), total)

    first = first_layer(model, progress=tick)
    results: list[EvolutionResult] = []

    def record(result: EvolutionResult) -> None:
        results.append(result)
        progress(_THRESHOLD_STEPS + len(results), total)

    curve(model, np.linspace(*_RANGE, points), progress=record)
    converged = all(r.converged for r in results)
    stored = {
        "model": model.describe(),
        "thresholds": [as_dict(last), as_dict(first)],
        "curve": [{k: v for k, v in as_dict(r).items() if k != "history"} for r in results],
    }
    thresholds = [("layer 2", float(last.value)), ("layer 1", float(first.value))]
    files, written = publish("troiani2025-1", out, stored, lambda *paths: _draw(results, thresholds, *paths))
    worst = max(float(r.overlap_error.max()) for r in results)
    summary = [
        model.describe(),
        f"alpha(layer 2) = {last.value}  ({last.how}, error {last.error:.1e}; published {PUBLISHED_THRESHOLDS[2]})",
        f"alpha(layer 1) = {first.value}  ({first.how}, error {first.error:.1e}, given layer 2; "
        f"published {PUBLISHED_THRESHOLDS[1]})",
        f"curve: {len(results)} alphas in [{_RANGE[0]}, {_RANGE[1]}], {sum(r.converged for r in results)} converged, "
        f"largest error of an overlap {worst:.4f}",
        *written,
    ]
    return {
        "files": files,
        "value": last.value,
        "error": last.error,
        "how": last.how,
        "thresholds": {"layer 2": as_dict(last), "layer 1": as_dict(first)},
        "converged": converged,
        "status": "converged" if converged else "some alphas did not converge; see the statuses in the data file",
        "summary": summary,
    }


def _draw(results: list[EvolutionResult], thresholds: list[tuple[str, float]], *paths: Path) -> None:
    figure, axes = canvas(6.4, 4.2)
    phase_curve(axes, results, thresholds)
    alpha, q = np.array(PUBLISHED_CURVE).T
    axes.plot(
        alpha,
        q,
        "s",
        ms=5,
        mfc="none",
        color=RED,
        label="state evolution, published (troiani2025, fig. 1)",
    )
    for layer, colour in ((2, RED), (1, BLUE)):
        alpha, q, spread = np.array(PUBLISHED_GAMP[layer]).T
        axes.errorbar(
            alpha,
            q,
            spread,
            fmt="o",
            ms=4,
            color=colour,
            capsize=2,
            lw=1,
            label=f"GAMP at D = 1000, layer {layer}, published",
        )
    axes.legend(fontsize=7, loc="center right", framealpha=0.9)
    write(figure, paths)
