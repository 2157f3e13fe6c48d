"""Overlap of the first layer where that of the second is held: nothing is learned of it until the second is known.

Overlap q_11 of the first layer at rest while q_22 is held at what the horizontal axis says, as 1 - q_22 on a
logarithmic axis that runs from perfect knowledge of the second layer on the left to none on the right; c = beta = 1.
Below the dotted lines, at q_22 = 0.967 for alpha = 0.8 and 0.930 for alpha = 1.2, the first layer is not learned at
all; from there on q_11 rises steadily with log 1/(1 - q_22). Bars: estimated errors. Lines are monotone interpolation
between the computed points.

`attnlimits figure troiani2025-5` draws from held_second_layer.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.figure_5` computes again (some minutes).
"""

from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import legend_below, mark_threshold, smooth
from attnlimits.numerics.fixed_point.held import first_layer_given
from attnlimits.numerics.model.network import Network

from ...figures import Headline, PaperFigure, Picture, Progress, Record, Steps, panels, with_points

__all__ = ["DATA", "FIGURE", "compute", "draw", "headline"]

DATA = Path(__file__).with_name("held_second_layer.json")
_COLOURS = (BLUE, RED)


def compute(progress: Progress | None = None) -> Record:
    """Solve for q_11 at every held q_22."""
    model = Network()
    alphas = (0.8, 1.2)
    # 1 - q_22, from none to close.
    held = 1 - np.concatenate([np.linspace(1.0, 0.1, 10), np.geomspace(0.08, 0.005, 14)])
    step = Steps(progress, len(alphas) * len(held))
    record: Record = {"model": model.describe(), "alpha": alphas, "q22": held.tolist(), "how": "estimated"}
    record |= {"q11": [], "error": [], "onset": []}
    accuracy = 1e-2
    for alpha in alphas:
        found = []
        for q22 in held:
            found.append(first_layer_given(model, alpha, float(q22), accuracy=accuracy))
            step()
        record["q11"].append([one.value for one in found])
        record["error"].append([one.error for one in found])
        record["onset"].append(_onset(model, alpha))
    return record


def _onset(model: Network, alpha: float) -> float:
    """Held q_22 from which on a small q_11 grows at this alpha."""
    accuracy = 1e-3
    averages = TwoLayerQuadrature(model, accuracy)

    def excess(log_rest: float) -> float:
        return alpha * float(averages.refinements(np.diag([0.0, -np.expm1(log_rest)]))[0, 2]) - 1

    return float(-np.expm1(brentq(excess, np.log(0.2), np.log(0.005), xtol=1e-6)))


def draw(record: Record, width: float) -> Picture:
    """Draw q_11 against 1 - q_22 with its errors and onsets."""
    figure, (axes,) = panels([r"two layers, $c$ = $\beta$ = 1, the second one held"], width)
    rest = 1 - np.array(record["q22"])
    columns = (record[name] for name in ("alpha", "q11", "error", "onset"))
    for (alpha, q11, error, onset), colour, mark in zip(zip(*columns, strict=True), _COLOURS, "os", strict=True):
        axes.errorbar(rest, q11, error, fmt=mark, mfc="none", color=colour, label=rf"$\alpha$ = {alpha:g}")
        begin = float(np.log1p(-onset))
        dense, curve = smooth(*with_points(np.log(rest), q11, {begin: 0.0}), (begin,))
        axes.plot(np.exp(dense), curve, color=colour)
        mark_threshold(axes, 1 - onset, rf"$q_{{22}}$ = {onset:.4f}", colour, height=0.5)
    axes.set_xscale("log")
    axes.set_xlabel("what is missing of the second layer, $1 - q_{22}$")
    axes.set_ylabel("overlap of the first layer, $q_{11}$")
    legend_below(axes, 2)
    return figure


def headline(record: Record) -> Headline:
    """The overlap q_11 at the largest alpha and q_22."""
    lines = [
        f"alpha = {alpha:g}: layer 1 is not learned up to q_22 = {onset:.4f}"
        for alpha, onset in zip(record["alpha"], record["onset"], strict=True)
    ]
    return Headline(f"{record['q11'][-1][-1]:.4f}", record["error"][-1][-1], lines)


FIGURE = PaperFigure("troiani2025-5", DATA, draw, headline, compute)

if __name__ == "__main__":
    FIGURE.remake()
