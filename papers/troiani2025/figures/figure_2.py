"""The layers are learned one after the other in time, by message passing and by gradient descent: the second first.

Cosine similarity of each layer's estimate with the teacher, mean and standard deviation over instances. (a) GAMP: the
second layer is found within five iterations, the first one only afterwards, as the state evolution (circles) predicts;
the bar at the right end is the published last value. (b) SGD with each batch used once stops with the second layer
partly known in some instances and the first in none. (c) With more data and batches used several times SGD and Adam
learn both, the second layer first; full-batch descent is still learning the first layer when it is stopped.

`attnlimits figure troiani2025-2` draws from figure_2.json beside this file, which `python -m
attnlimits.papers.troiani2025.figures.figure_2` computes again (some minutes on one core). The paper's rate, decay,
batches and reuse are not known; those below are ours.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import legend_below
from attnlimits.numerics.learning.blocks import Floats
from attnlimits.numerics.learning.descent import cosines, descend
from attnlimits.numerics.learning.gamp import gamp, informed_start, make_data, predicted_overlaps, teacher
from attnlimits.numerics.model.network import Network

from ...figures import PAGE, Array, Headline, PaperFigure, Picture, Progress, Record, Steps, label_rows, panels
from .figure_1 import published

__all__ = ["DATA", "DESCENTS", "FIGURE", "compute", "draw", "headline"]

DATA = Path(__file__).with_suffix(".json")
_MODEL = Network()
# GAMP, without damping, from a start with this overlap.
_ALPHA, _DIMENSION, _INSTANCES, _ITERATIONS, _START = 1.2, 4000, 12, 30, 0.02
# Descents: D, instances, and for each panel alpha, epochs and settings.
_DESCENT_DIMENSION, _DESCENT_INSTANCES = 1000, 8
DESCENTS: dict[str, Record] = {
    "sgd, few samples": {
        "alpha": 1.2,
        "epochs": 150,
        "method": "sgd",
        "rate": 0.4,
        "batch": 200,
        "reuse": 1,
        "weight_decay": 0.1,
    },
    "sgd": {
        "alpha": 10.0,
        "epochs": 40,
        "method": "sgd",
        "rate": 0.22,
        "batch": 200,
        "reuse": 5,
        "weight_decay": 1e-3,
    },
    "adam": {
        "alpha": 10.0,
        "epochs": 40,
        "method": "adam",
        "rate": 0.03,
        "batch": 100,
        "reuse": 3,
        "weight_decay": 0.01,
    },
    "gd": {"alpha": 10.0, "epochs": 40, "method": "gd", "rate": 2.0},
}
_COLOURS = (BLUE, RED)
_METHODS = {"sgd": "SGD", "adam": "Adam", "gd": "GD"}


def _instances(alpha: float, dimension: int, count: int) -> Iterator[tuple[int, Array, Floats, Array]]:
    for seed in range(count):
        weights = teacher(_MODEL, dimension, seed)
        yield seed, weights, *make_data(_MODEL, weights, alpha, seed)


def _summary(runs: list[Array]) -> Record:
    """Mean and standard deviation of cosine similarities over instances."""
    values = np.array(runs)
    mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    return {"mean": mean.round(5).tolist(), "deviation": deviation.round(5).tolist()}


def _gamp(tick: Callable[[], None]) -> Record:
    runs = []
    for seed, weights, x, y in _instances(_ALPHA, _DIMENSION, _INSTANCES):
        start = informed_start(weights, _START, seed)
        settings: Record = {"damping": 0.0, "max_iter": _ITERATIONS, "tol": 0.0, "workers": 1}
        run = gamp(x, y, _MODEL, start=start, teacher=weights, rng=seed, **settings)
        assert run.history is not None
        runs.append(cosines(_MODEL, run.history, run.self_history, weights @ weights.T / _DIMENSION))
        tick()
    # Where the weights are recovered a run ends before the others.
    return _summary([np.concatenate([run, np.repeat(run[-1:], _ITERATIONS + 1 - len(run), axis=0)]) for run in runs])


def _descents(settings: Record, tick: Callable[[], None]) -> Record:
    keywords = {name: value for name, value in settings.items() if name != "alpha"}
    runs = []
    for seed, weights, x, y in _instances(settings["alpha"], _DESCENT_DIMENSION, _DESCENT_INSTANCES):
        run = descend(x, y, _MODEL, teacher=weights, rng=seed, tol=0.0, workers=1, **keywords)
        assert run.cosines is not None and run.n_epochs == settings["epochs"], run.status
        runs.append(run.cosines)
        tick()
    return settings | _summary(runs)


def compute(progress: Progress | None = None) -> Record:
    """Run all instances and the state evolution."""
    step = Steps(progress, _INSTANCES + len(DESCENTS) * _DESCENT_INSTANCES)
    predicted = predicted_overlaps(_MODEL, _ALPHA, n_iter=_ITERATIONS, start=_START)
    q = predicted.overlap.diagonal(axis1=1, axis2=2)
    # Of an estimate that is a posterior mean, cos^2 = q.
    slope = 0.5 / np.sqrt(q)
    record: Record = {
        "model": _MODEL.describe(),
        "how": "monte-carlo",
        "gamp": {"alpha": _ALPHA, "dimension": _DIMENSION, "instances": _INSTANCES, "start": _START, **_gamp(step)},
        "state_evolution": {
            "cosine": np.sqrt(q).tolist(),
            "error": (slope * predicted.overlap_error.diagonal(axis1=1, axis2=2)).tolist(),
        },
        "descent": {
            "dimension": _DESCENT_DIMENSION,
            "instances": _DESCENT_INSTANCES,
            "runs": {name: _descents(settings, step) for name, settings in DESCENTS.items()},
        },
    }
    return record


def _band(axes: Axes, run: Record, style: str, width: float, *, named: bool = False) -> None:
    mean, deviation = np.array(run["mean"]), np.array(run["deviation"])
    steps = np.arange(len(mean))
    for layer, colour in enumerate(_COLOURS):
        axes.plot(steps, mean[:, layer], style, color=colour, lw=width, label=f"layer {layer + 1}" if named else None)
        if width > 1:
            low, high = mean[:, layer] - deviation[:, layer], mean[:, layer] + deviation[:, layer]
            axes.fill_between(steps, np.maximum(low, 0), np.minimum(high, 1), color=colour, alpha=0.2, lw=0)


def draw(record: Record, width: float) -> Picture:
    """Draw cosine similarities against iterations and epochs."""
    run, descent = record["gamp"], record["descent"]
    runs, few = descent["runs"], descent["runs"]["sgd, few samples"]
    titles = [
        rf"GAMP, $\alpha$ = {run['alpha']:g}, D = {run['dimension']}",
        *(rf"descent, $\alpha$ = {one['alpha']:g}, D = {descent['dimension']}" for one in (few, runs["sgd"])),
    ]
    figure, found = panels(titles, width, sharey=True, aspect=1.15)
    left, middle, right = found
    _band(left, run, "-", 1.3, named=True)
    expected = np.array(record["state_evolution"]["cosine"])
    for layer, colour in enumerate(_COLOURS):
        label = "state evolution" if layer else None
        left.plot(expected[:, layer], "o", ms=2.5, mfc="none", mew=0.7, color=colour, label=label)
    ((_, q, error),) = published("GAMP", 1)  # q_11 where it ends, and its scatter
    bar = error / (2 * math.sqrt(q))
    left.errorbar([len(expected)], [math.sqrt(q)], [bar], fmt="s", color="0.3", label="published, layer 1")
    left.set_xlabel(f"iteration ({run['instances']} instances)")
    _band(middle, few, "-", 1.3, named=True)
    for style, (name, method) in zip(("-", "--", ":"), _METHODS.items(), strict=True):
        _band(right, runs[name], style, 1.3 if name == "sgd" else 1.0)
        right.plot([], [], style, color="0.3", lw=1.0, label=method)
    for axes in (middle, right):
        axes.set_xlabel(f"epoch ({descent['instances']} instances)")
    for axes in found:
        axes.set_ylim(-0.02, 1.03)
    for axes, columns in zip(found, (2, 2, 3), strict=True):
        legend_below(axes, columns)
    label_rows(found, "cosine similarity")
    return figure


def _onsets(run: Record, unit: str) -> str:
    """When the mean cosine similarity of each layer passes one half."""
    mean = np.array(run["mean"])
    said = []
    for layer in (1, 0):
        beyond = np.flatnonzero(mean[:, layer] > 0.5)
        when = f"passes 1/2 at {unit} {beyond[0]}" if len(beyond) else f"ends at {mean[-1, layer]:.2f}"
        said.append(f"layer {layer + 1} {when}")
    return ", ".join(said)


def headline(record: Record) -> Headline:
    """The cosine similarity of GAMP's first layer at the end, with its standard error over instances."""
    run = record["gamp"]
    lines = [f"GAMP, alpha = {run['alpha']:g}: {_onsets(run, 'iteration')}"]
    for name, one in record["descent"]["runs"].items():
        lines.append(f"{name}, alpha = {one['alpha']:g}: {_onsets(one, 'epoch')}")
    # Rounding of what is stored, where all instances agree.
    error = 5e-6 + run["deviation"][-1][0] / math.sqrt(run["instances"])
    return Headline(f"{run['mean'][-1][0]:.4f}", error, [record["model"], *lines])


FIGURE = PaperFigure("troiani2025-2", DATA, draw, headline, compute, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
