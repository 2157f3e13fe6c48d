"""Alpha along the branch of fixed points of two layers, for many skips: where it turns back the two starts differ.

`python -m attnlimits.papers.troiani2025.figures.branches` computes branches.json and branches.png beside this file
again, in some minutes.
"""

import math
from pathlib import Path

import matplotlib
import numpy as np

from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.core.results import save
from attnlimits.numerics.model.network import Network

from ...figures import Array, Progress, Record, Steps, canvas, remake, write

__all__ = ["DATA", "SKIPS", "compute", "draw", "fixed_point", "turns"]

DATA = Path(__file__).with_name("branches.json")
SKIPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Overlaps along the branch, of the second layer while the first is not learned, and of the first.
_SECOND = 1 - np.geomspace(0.97, 0.003, 40)
_FIRST = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.96)
_ACCURACY = 3e-3
# Agreement of the layers' alphas, relative, and evaluations that reach it.
_AGREE, _TRIES = 1e-4, 12


def compute(skips: tuple[float, ...] = SKIPS, progress: Progress | None = None) -> Path:
    """Follow the branch for every skip and write `DATA`."""
    record: Record = {"skip": [], "q11": [], "q22": [], "alpha": [], "error": [], "how": "estimated"}
    step = Steps(progress, len(skips))
    for skip in skips:
        rows = _branch(Network(skip=skip))
        record["skip"].append(skip)
        for name, values in zip(("q11", "q22", "alpha", "error"), rows.T.tolist(), strict=True):
            record[name].append(values)
        step()
    save(DATA, record)
    return DATA


def _branch(model: Network) -> Array:
    """Rows q_11, q_22, alpha and its error, shape (n, 4)."""
    averages = TwoLayerQuadrature(model, _ACCURACY)
    rows = []
    for q2 in _SECOND:
        values = averages.refinements(np.diag([0.0, q2]))
        alpha = q2 / ((1 - q2) * values[:, 1])
        if alpha[0] * values[0, 2] > 1:  # from here on the first layer is learned, too
            break
        rows.append((0.0, q2, alpha[0], 2 * abs(alpha[0] - alpha[1])))
    t2 = math.log(q2 / (1 - q2))
    for q1 in _FIRST:
        t2, alphas = _agreeing(averages, q1, t2)
        rows.append((q1, 1 / (1 + math.exp(-t2)), alphas[0], 2 * abs(alphas[0] - alphas[1])))
    return np.array(rows)


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
    for _ in range(_TRIES):
        if abs(f) < _AGREE:
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


def draw(record: Record, *paths: Path) -> None:
    """Draw 1 - q_11 and 1 - q_22 against alpha for every skip."""
    figure, axes = canvas(6.4, 4.2)
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(record["skip"])))
    for k, skip in enumerate(record["skip"]):
        alpha = record["alpha"][k]
        axes.plot(alpha, record["q22"][k], "-", lw=1.2, color=colours[k], label=f"c = {skip:g}")
        axes.plot(alpha, record["q11"][k], "--", lw=1.2, color=colours[k])
    axes.set_xlabel(r"$\alpha = N/D$ of the fixed point")
    axes.set_ylabel("overlap (full: layer 2, dashed: layer 1)")
    axes.set_title("two layers of softmax attention, two tokens, beta = 1", fontsize=8)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    write(figure, paths)


if __name__ == "__main__":
    found = remake("branches", compute, draw)
    for skip, alpha, error in zip(found["skip"], found["alpha"], found["error"], strict=True):
        print(f"c = {skip:g}: alpha {'turns back' if turns(alpha, error) else 'rises all along the branch'}")
