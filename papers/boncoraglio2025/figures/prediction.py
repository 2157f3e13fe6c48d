"""Errors of prediction of softmax at two temperatures and of hardmax: posterior mean and plug-in.

Error of outputs for tokens not seen yet at rho = 1/2, E sum_ab (y_ab - prediction)^2 over its least value without data,
(a) of softmax at two inverse temperatures, (b) of hardmax, both T = 2. Full curves: the posterior mean E[y | data], the
least error there is; dashed: the output at the estimated indices (plug-in). Both are by quadrature over the law of
indices that the state evolution gives, (55)-(56). Message passing on fresh samples (dots and open dots, means over
eight instances with their errors) lies on the curves or slightly above, a bias of finite d; at alpha = 0.025 the steps
of most instances had not become small.

`attnlimits figure boncoraglio2025-prediction` computes the curves, in some seconds, and draws them with the stored
runs; `python -m attnlimits.papers.boncoraglio2025.figures.prediction` does so beside this file. Not in the paper.
"""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.prediction import prediction_errors
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.aim.thresholds import perfect_recovery
from attnlimits.numerics.core.cluster_pool import ClusterPool, mapped
from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.decimals import pm, recorded
from attnlimits.numerics.core.plots import legend_below

from ... import figures
from ...figures import PAGE, Headline, PaperFigure, Picture, Progress, Record, Steps, label_rows
from . import prediction_runs
from .prediction_runs import RHO

__all__ = ["DATA", "FIGURE", "KINDS", "compute", "errors_along", "scale"]

DATA = Path(__file__).with_suffix(".json")
#: Predictions, with their names, styles of curves and faces of dots.
KINDS = {"posterior_mean": ("posterior mean", "-", None), "plug_in": ("plug-in", "--", "white")}
# Activation, inverse temperature, colour; and up to where alpha goes.
_CURVES = (("softmax", 1.0, RED), ("softmax", 4.0, BLUE), ("hardmax", 1.0, RED))
_POINTS = 48


def scale(activation: str, beta: float) -> float:
    """Error of the posterior mean without data, where S is known from its prior alone: V = 1."""
    return prediction_errors(1.0, RHO, channel(activation, 2, beta)).posterior_mean.value


def compute(points: int = _POINTS, progress: Progress | None = None, *, pool: ClusterPool | None = None) -> Record:
    """Curves of both errors along alpha, softmax with its point of perfect recovery.

    Parameters
    ----------
    points : int
    progress : callable, optional
    pool : ClusterPool, optional
        Workers of a cluster that compute the curves.
    """
    rows = [{"activation": activation, "beta": beta, "points": points} for activation, beta, _ in _CURVES]
    return {
        "figure": "boncoraglio2025-prediction",
        "how": "estimated",
        "curves": mapped(errors_along, rows, Steps(progress, len(rows)), pool),
        "runs": prediction_runs.stored(),
    }


def errors_along(activation: str, beta: float, points: int) -> Record:
    """One pair of curves."""
    ends = {"softmax": (0.005, 0.2), "hardmax": (0.02, 2.0)}
    output, (low, high) = channel(activation, 2, beta), ends[activation]
    if activation == "hardmax":
        alphas = np.geomspace(low, high, points)
    else:
        corner = float(perfect_recovery(RHO, output).value)
        # Denser where the curves bend.
        alphas = np.append(corner - (corner - low) * np.cos(np.linspace(0, np.pi / 2, points)), high)
    at = [evolve(float(alpha), RHO, output) for alpha in alphas]
    errors = [prediction_errors(point.mmse, RHO, output) for point in at]
    return {
        "activation": activation,
        "beta": beta,
        "scale": scale(activation, beta),
        "alpha": alphas.tolist(),
        **{kind: [getattr(e, kind).value for e in errors] for kind in KINDS},
        **{f"{kind}_error": [getattr(e, kind).error for e in errors] for kind in KINDS},
        "converged": all(point.converged for point in at),
    }


def _draw(record: Record, width: float) -> Picture:
    picture, row = figures.panels([r"softmax, $\rho$ = 0.5", r"hardmax, $\rho$ = 0.5"], width, most=2, aspect=1.05)
    for axes, name in zip(row, ("softmax", "hardmax"), strict=True):
        for curve, (activation, beta, colour) in zip(record["curves"], _CURVES, strict=True):
            if activation == name:
                _draw_curve(axes, curve, colour, rf"$\beta$ = {beta:g}, " if name == "softmax" else "")
                _draw_runs(axes, curve, record["runs"], colour)
        axes.errorbar([], [], [], fmt="o", ms=4, capsize=2, lw=1, color="0.4", label="AMP, d = 100")
        axes.set_xlabel(r"samples per entry of $S$, $\alpha = n/d^2$")
        axes.set_ylim(-0.02, 1.6)
        legend_below(axes, 2)
    row[1].set_xscale("log")
    label_rows(row, "error of prediction, over that without data")
    return picture


def _draw_curve(axes: Axes, curve: Record, colour: str, name: str) -> None:
    for kind, (said, style, _) in KINDS.items():
        axes.plot(curve["alpha"], np.array(curve[kind]) / curve["scale"], style, color=colour, label=f"{name}{said}")


def _draw_runs(axes: Axes, curve: Record, runs: list[Record], colour: str) -> None:
    for run in runs:
        if (run["activation"], run["beta"]) == (curve["activation"], curve["beta"]):
            for kind, (_, _, face) in KINDS.items():
                value, error = (number / curve["scale"] for number in run[kind])
                axes.errorbar(
                    run["alpha"], value, error, fmt="o", ms=4, capsize=2, lw=1, color=colour, mfc=face, zorder=3
                )


def _headline(record: Record) -> Headline:
    """The error of softmax at alpha = 0.1."""
    output = channel("softmax", 2)
    found = prediction_errors(evolve(0.1, RHO, output).mmse, RHO, output).posterior_mean
    worst = max(max(curve[f"{kind}_error"]) for curve in record["curves"] for kind in KINDS)
    lines = [
        f"{record['figure']}: softmax, T = 2, rho = 0.5",
        f"error of prediction at alpha = 0.1, posterior mean: {pm(found.value, found.error)}",
        f"{len(record['curves'])} pairs of curves, largest error {worst:.1e}; {len(record['runs'])} stored runs",
    ]
    converged = all(curve["converged"] for curve in record["curves"])
    status = None if converged else "a curve has points that did not converge; see the data file"
    about = {"quantity": "error of prediction of softmax at alpha = 0.1, rho = 0.5, by the posterior mean"}
    return Headline(recorded(found.value, found.error), found.error, lines, converged, status, found.how, about)


FIGURE = PaperFigure(
    "boncoraglio2025-prediction",
    DATA,
    _draw,
    _headline,
    partial(compute, _POINTS),
    points=compute,
    apart=True,
    width=PAGE,
)

if __name__ == "__main__":
    FIGURE.remake()
