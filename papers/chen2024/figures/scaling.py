"""Scaling: samples and CPU time that learning takes against heads m, tokens k, dimension d; fitted exponents.

The least N on a grid of ratio sqrt(2) at which three of five Gaussian layers are learned to one per cent, without
noise (a to c), and the median CPU time there (d to f), by restarts and by sculpting; lines: fitted powers, with
exponents and standard errors of the fit in the legends. Samples grow as the square of the dimension, fall with the
number of tokens and hardly depend on the number of heads; sculpting needs up to twice the samples of restarts and more
time.

`attnlimits figure chen2024-scaling` draws from scaling.json beside this file, to which `python -m
attnlimits.papers.chen2024.figures.scaling` adds the places it lacks (some minutes for all on one core).

Samples: from N = 2 m d / k on, with as many outputs as unknowns. Validation examples come on top. CPU time: the median
of those that succeeded there.
"""

import itertools
import math
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.ticker import NullLocator, ScalarFormatter
from threadpoolctl import threadpool_limits

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import legend_below
from attnlimits.numerics.core.results import load, save
from attnlimits.numerics.multihead.errors import LearnError
from attnlimits.numerics.multihead.holdout import hold_out
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.restarts import RestartResult, restarts
from attnlimits.numerics.multihead.sculpt import SculptResult, sculpt
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher

from ...figures import PAGE, Headline, PaperFigure, Picture, Progress, Record, Steps, label_rows, panels

__all__ = ["DATA", "FIGURE", "METHODS", "SWEEPS", "compute", "draw", "exponent", "headline"]

DATA = Path(__file__).with_suffix(".json")
METHODS = ("restarts", "sculpt")
#: Places (m, k, d) of each sweep.
SWEEPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "m": tuple((heads, 2, 8) for heads in (1, 2, 3, 4, 6)),
    "k": tuple((2, tokens, 8) for tokens in range(2, 6)),
    "d": tuple((2, 2, dimension) for dimension in (6, 8, 10, 12, 16)),
}
_SEEDS, _WANTED = tuple(range(3000, 3005)), 3
_GOOD, _RATIO, _MOST = 1e-2, math.sqrt(2), 60_000
_COLOURS = {"restarts": BLUE, "sculpt": RED}
_WORDS = {"m": "heads $m$", "k": "tokens $k$", "d": "dimension $d$"}
_FIXED = {"m": "k = 2, d = 8", "k": "m = 2, d = 8", "d": "m = k = 2"}
_LOOKS = {"restarts": ("o", "-"), "sculpt": ("s", "--")}


def _learned(method: str, place: tuple[int, int, int], samples: int, seed: int) -> float | None:
    """CPU seconds of one run, or None where it did not find the teacher."""
    m, k, d = place
    theta, w = make_teacher("gauss", m, d, rng=seed)
    made = make_examples(theta, w, samples=samples, tokens=k, rng=seed + 10_000)
    # Held-out examples, beside the N.
    validation = 1000
    held = make_examples(theta, w, samples=validation, tokens=k, rng=seed + 20_000)
    begin = time.process_time()
    found: SculptResult | RestartResult
    try:
        if method == "sculpt":
            found = sculpt(made.X, made.Y, m, noise_std=0.0, X_val=held.X, Y_val=held.Y, rng=seed)
        else:
            generator = np.random.default_rng(seed)
            found = restarts(hold_out(made.X, made.Y, held.X, held.Y, generator), m, rng=generator)
    except LearnError:
        return None
    seconds = time.process_time() - begin
    return seconds if parameter_error(found.theta, found.w, theta, w) < _GOOD else None


def _need(method: str, place: tuple[int, int, int]) -> Record:
    """Least number of samples at a place, and the CPU time there."""
    m, k, d = place
    exact = 2 * m * d / k
    while exact <= _MOST:
        samples, bad = max(2, round(exact)), 0
        good: list[float] = []
        for seed in _SEEDS:
            seconds = _learned(method, place, samples, seed)
            good, bad = (good, bad + 1) if seconds is None else ([*good, seconds], bad)
            if len(good) == _WANTED or bad > len(_SEEDS) - _WANTED:
                break
        if len(good) == _WANTED:
            return {"samples": samples, "seconds": statistics.median(good)}
        exact *= _RATIO
    raise RuntimeError(f"{method} did not learn (m, k, d) = {place} from {_MOST} samples")


def exponent(x: list[float], y: list[float]) -> tuple[float, float]:
    """Slope of log y against log x by least squares, and its standard error from the scatter.

    Parameters
    ----------
    x, y : list of float
        At least three values > 0.
    """
    a, b = np.log(x), np.log(y)
    centred = a - a.mean()
    slope = float(centred @ b / (centred @ centred))
    rest = b - b.mean() - slope * centred
    return slope, float(np.sqrt(rest @ rest / (len(a) - 2) / (centred @ centred)))


def compute(progress: Progress | None = None) -> Record:
    """Find the numbers of samples that `DATA` lacks, fit exponents, and write it."""
    places = sorted({place for sweep in SWEEPS.values() for place in sweep})
    record: Record = {"how": "monte-carlo", "seeds": _SEEDS, "ratio": _RATIO}
    record["points"] = load(DATA)["points"] if DATA.exists() else {}
    step = Steps(progress, len(METHODS) * len(places))
    with threadpool_limits(1, "blas"):
        for method, place in itertools.product(METHODS, places):
            found = record["points"].setdefault(method, {})
            if _key(place) not in found:
                found[_key(place)] = _need(method, place)
                save(DATA, record)
            step()
    record["sweeps"] = {}
    for name, sweep in SWEEPS.items():
        axis = [float(place["mkd".index(name)]) for place in sweep]
        for method in METHODS:
            points = [record["points"][method][_key(place)] for place in sweep]
            fits = {what: exponent(axis, [point[what] for point in points]) for what in ("samples", "seconds")}
            record["sweeps"].setdefault(name, {})[method] = {"places": sweep, "exponents": fits}
    return record


def headline(record: Record) -> Headline:
    """The number that says most: how the samples that restarts need grow with d."""
    slope, error = record["sweeps"]["d"]["restarts"]["exponents"]["samples"]
    quantity = "exponent of d in the samples that restarts need, m = k = 2"
    return Headline(f"{slope:.6g}", error, [quantity], more={"quantity": quantity})


def _key(place: Iterable[int]) -> str:
    return " ".join(map(str, place))


def draw(record: Record, width: float) -> Picture:
    """Draw samples and CPU time against m, k and d, with the fitted powers."""
    cases = [(what, name) for what in ("samples", "seconds") for name in record["sweeps"]]
    titles = [_FIXED[name] for _, name in cases]
    figure, found = panels(titles, width, aspect=1.05)
    for axes, (what, name) in zip(found, cases, strict=True):
        for method, table in record["sweeps"][name].items():
            x = np.array([place["mkd".index(name)] for place in table["places"]], dtype=float)
            y = np.array([record["points"][method][_key(place)][what] for place in table["places"]])
            slope, error = table["exponents"][what]
            fit = np.exp(np.log(y).mean() + slope * (np.log(x) - np.log(x).mean()))
            (mark, line), colour = _LOOKS[method], _COLOURS[method]
            axes.plot(x, y, mark, color=colour, ms=4)
            axes.plot(x, fit, line, color=colour, lw=1, label=rf"{method}, exponent {slope:.1f} $\pm$ {error:.1f}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(x)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(*((7, 400) if what == "samples" else (3e-3, 20)))
        axes.set_xlabel(_WORDS[name])
        legend_below(axes, 1)
    half = len(found) // 2
    label_rows(found[:half], "samples $N$")
    label_rows(found[half:], "CPU seconds at this $N$")
    return figure


FIGURE = PaperFigure("chen2024-scaling", DATA, draw, headline, compute, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
