"""Overlaps of two layers along the branch of fixed points, for seven skips: alpha rises all along it.

Overlap of the second layer (full) and of the first (dashed) along the one branch of fixed points, against the alpha
at which they are at rest; beta = 1. Each branch begins at the threshold of the second layer, and bends where the first
layer leaves zero. The weaker the skip, the later both layers are learned. Alpha rises along every branch as far as it
was followed, to q_11 = 0.96: no curve turns back, so that both starts end at the same overlaps. Lines are monotone
interpolation of alpha between 23 to 51 computed points.

`attnlimits figure troiani2025-branches` draws branches.json beside this file, which `python -m
attnlimits.papers.troiani2025.figures.branches` computes again, in some minutes.
"""

import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.colors import to_hex
from scipy.optimize import brentq

from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.core.plots import label_curve, legend_below, smooth
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer

from ...figures import Array, Headline, PaperFigure, Picture, Progress, Record, Steps, panels

__all__ = ["DATA", "FIGURE", "SKIPS", "compute", "draw", "fixed_point", "turns"]

DATA = Path(__file__).with_name("branches.json")
SKIPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def compute(skips: tuple[float, ...] = SKIPS, progress: Progress | None = None) -> Record:
    """Follow the branch for every skip."""
    record: Record = {"skip": [], "q11": [], "q22": [], "alpha": [], "error": [], "how": "estimated"}
    step = Steps(progress, len(skips))
    for skip in skips:
        rows = _branch(Network(skip=skip))
        record["skip"].append(skip)
        for name, values in zip(("q11", "q22", "alpha", "error"), rows.T.tolist(), strict=True):
            record[name].append(values)
        step()
    return record


def _branch(model: Network) -> Array:
    """Rows q_11, q_22, alpha and its error, shape (n, 4): from the threshold of one layer over that of the other."""
    accuracy = 3e-3
    averages = TwoLayerQuadrature(model, accuracy)
    threshold = last_layer(model, digits=8)
    rows = [(0.0, 0.0, float(threshold.value), threshold.error)]
    # Overlaps along the branch, of the second layer while the first is not learned, and of the first.
    second = 1 - np.append(np.geomspace(0.97, 0.003, 40), 0.001)
    for q2 in second:
        alpha, growth = _given_none(averages, float(q2))
        if growth[0] > 1:  # from here on the first layer is learned, too
            break
        rows.append((0.0, q2, alpha[0], 2 * abs(alpha[0] - alpha[1])))
    rows.append(_onset(averages, rows[-1][1], float(q2)))
    t2 = math.log(q2 / (1 - q2))
    first = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.96)
    for q1 in first:
        t2, alphas = _agreeing(averages, q1, t2)
        rows.append((q1, 1 / (1 + math.exp(-t2)), alphas[0], 2 * abs(alphas[0] - alphas[1])))
    return np.array(rows)


def _given_none(averages: TwoLayerQuadrature, q2: float) -> tuple[Array, Array]:
    """Alpha of a q_22 without the first layer, and how a small q_11 grows there, both by two rules."""
    values = averages.refinements(np.diag([0.0, q2]))
    alpha = q2 / ((1 - q2) * values[:, 1])
    return alpha, alpha * values[:, 2]


def _onset(averages: TwoLayerQuadrature, low: float, high: float) -> tuple[float, float, float, float]:
    """Row at which the first layer leaves zero, between two q_22."""

    def excess(t: float) -> float:
        return float(_given_none(averages, 1 / (1 + math.exp(-t)))[1][0] - 1)

    t = brentq(excess, math.log(low / (1 - low)), math.log(high / (1 - high)), xtol=1e-6)
    q2 = 1 / (1 + math.exp(-t))
    alpha, growth = _given_none(averages, q2)
    # Relative errors of alpha and of the growth, which both depend on the averages.
    return 0.0, q2, float(alpha[0]), 2 * abs(float(alpha[0] - alpha[1])) + float(alpha[0] * abs(growth[1] - growth[0]))


def _agreeing(averages: TwoLayerQuadrature, q1: float, t2: float) -> tuple[float, Array]:
    """Logit of q_22 at which both layers are at rest at one alpha, and that alpha by two rules."""

    def says(t: float, refined: bool = False) -> Array:
        q2 = 1 / (1 + math.exp(-t))
        q = np.diag([q1, q2])
        g = averages.refinements(q)[:, :2] if refined else averages.rough(q).g[:1].diagonal(axis1=1, axis2=2)
        return np.array([q1 / (1 - q1), q2 / (1 - q2)]) / g

    def excess(t: float) -> float:
        one, two = says(t)[0]
        return math.log(two / one)

    before, at = t2, t2 + 0.3
    f_before, f = excess(before), excess(at)
    # Agreement of the layers' alphas, relative, and evaluations that reach it.
    agree, tries = 1e-4, 12
    for _ in range(tries):
        if abs(f) < agree:
            break
        step = float(np.clip(-f * (at - before) / (f - f_before), -0.7, 0.7))
        before, f_before = at, f
        at += step
        f = excess(at)
    else:
        raise RuntimeError(f"the layers' alphas differ by {f:.1e} at q_11 = {q1:g}, {averages.model.describe()}")
    both = says(at, refined=True)
    # Where they differ a little, between them.
    return at, np.exp(np.log(both).mean(axis=1))


def fixed_point(model: Network, q11: float, q22: float, accuracy: float) -> tuple[float, float, float]:
    """Fixed point of a given q_11: its q_22, searched from one nearby, its alpha and the error of that."""
    t2, alphas = _agreeing(TwoLayerQuadrature(model, accuracy), q11, math.log(q22 / (1 - q22)))
    return 1 / (1 + math.exp(-t2)), float(alphas[0]), 2 * abs(float(alphas[0] - alphas[1]))


def turns(alpha: list[float], error: list[float]) -> bool:
    """Whether alpha falls along the branch by more than its errors."""
    steps = np.diff(alpha)
    return bool((steps < -(np.array(error)[1:] + np.array(error)[:-1])).any())


def draw(record: Record, width: float) -> Picture:
    """Draw q_11 and q_22 against alpha for every skip."""
    figure, (axes,) = panels(["two layers of softmax attention, two tokens, $\\beta$ = 1"], width, aspect=0.72)
    colours = [to_hex(c) for c in matplotlib.colormaps["viridis"](np.linspace(0, 0.88, len(record["skip"])))]
    for k, (skip, colour) in enumerate(zip(record["skip"], colours, strict=True)):
        alpha, first, second = (np.array(record[name][k]) for name in ("alpha", "q11", "q22"))
        onset = int(np.flatnonzero(first == 0)[-1])
        # As functions of the overlaps, which grow along the branch whatever alpha does.
        overlap, along = smooth(second, alpha, (second[onset],))
        axes.plot(along, overlap, color=colour, label=f"c = {skip:g}")
        overlap, along = smooth(first[onset:], alpha[onset:])
        axes.plot(np.append(alpha[0], along), np.append(0.0, overlap), "--", color=colour)
    axes.set_xlabel(r"samples per dimension $\alpha = N/D$ of the fixed point")
    axes.set_ylabel("overlap")
    label_curve(axes, (0.42, 0.93), "layer 2, full", "0.25", ha="right")
    label_curve(axes, (0.79, 0.08), "layer 1, dashed", "0.25")
    legend_below(axes, 7)
    return figure


def headline(record: Record) -> Headline:
    """How much alpha rises along the branch at the least, over the error, from one point to the next."""
    worst, lines = 1.0, ["value: least rise of alpha from one point of a branch to the next"]
    for skip, alpha, error in zip(record["skip"], record["alpha"], record["error"], strict=True):
        worst = min(worst, float(np.diff(alpha).min()))
        lines.append(f"c = {skip:g}: alpha {'turns back' if turns(alpha, error) else 'rises all along the branch'}")
    return Headline(f"{worst:.6f}", max(map(max, record["error"])), lines, how="estimated")


FIGURE = PaperFigure("troiani2025-branches", DATA, draw, headline, compute)

if __name__ == "__main__":
    FIGURE.remake()
