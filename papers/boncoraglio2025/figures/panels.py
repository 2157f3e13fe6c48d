"""What the five figures share: curves of the state evolution, dots of message passing, published marks, thresholds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.state_evolution import curve
from attnlimits.numerics.aim.thresholds import Threshold, perfect_recovery, weak_recovery
from attnlimits.numerics.core.cluster_pool import ClusterPool, mapped
from attnlimits.numerics.core.colours import BLUE, GREEN, PURPLE, RED
from attnlimits.numerics.core.plots import legend_below

from ... import figures
from ...figures import PAGE, SINGLE, Array, Headline, PaperFigure, Picture, Progress, Record, Steps, label_rows
from . import amp_runs
from .published import Marks

__all__ = [
    "COLOURS",
    "WIDTHS",
    "Curve",
    "Line",
    "Panel",
    "Spec",
    "compute",
    "data_path",
    "draw",
    "figure_of",
    "followed",
]

#: One colour per width.
COLOURS = {0.0: "black", 0.1: PURPLE, 0.5: RED, 1.0: BLUE, 2.0: GREEN}
#: Those of most panels.
WIDTHS = tuple(COLOURS)[1:]
POINTS = 48
# Marker and name of what the stored runs are by.
_METHODS = {"amp": ("o", "AMP"), "gd": ("^", "GD"), "agd": ("v", "averaged GD")}


@dataclass(frozen=True)
class Curve:
    """A curve of the state evolution: error against `scale` times alpha.

    Attributes
    ----------
    activation : str
    tokens : int
    rho : float
        0 for the limit of small width, where alpha stands for alpha/rho.
    label : str or None
    colour : str
    style : str
        Of the line.
    scale : float
    """

    activation: str
    tokens: int
    rho: float
    label: str | None
    colour: str
    style: str = "-"
    scale: float = 1.0


@dataclass(frozen=True)
class Line:
    """A threshold, as a vertical line; a short one stands on the axis."""

    at: float
    label: str | None
    colour: str
    style: str = ":"
    short: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    title, xlabel : str
    curves : tuple of Curve
    span : tuple of float
        Abscissae; on logarithmic axes also of the grid.
    bounds : tuple of float
        Ordinates.
    dimension : int, optional
        Of the dots of message passing on the curves.
    marks : tuple of (Marks, float, str)
        Published series, what their alpha is multiplied by, and their colour.
    lines : tuple of Line
    descent : bool
        Whether to draw the stored runs of gradient descent.
    logarithmic : bool
    """

    title: str
    xlabel: str
    curves: tuple[Curve, ...]
    span: tuple[float, float]
    bounds: tuple[float, float] = (-0.02, 1.05)
    dimension: int | None = None
    marks: tuple[tuple[Marks, float, str], ...] = ()
    lines: tuple[Line, ...] = ()
    descent: bool = False
    logarithmic: bool = False


@dataclass(frozen=True)
class Spec:
    """What a figure shows: its panels, and the number that stands for it.

    Attributes
    ----------
    number : int
    panels : tuple of Panel
    quantity : str
        What `value` is.
    value : callable
        Returns a `thresholds.Threshold`.
    """

    number: int
    panels: tuple[Panel, ...]
    quantity: str
    value: Callable[[], Threshold]


def _corners(line: Curve) -> list[float]:
    """Alpha where the curve has a kink."""
    output = channel(line.activation, line.tokens)
    if line.rho == 0:
        weak = float(weak_recovery(output).value)
        # S is recovered at twice that where functionals are fixed (43); else F(0) has an error, so a little below.
        return [(1 - 1e-9) * weak] if output.functionals is None else [weak, 2 * weak]
    return [] if output.functionals is None else [float(perfect_recovery(line.rho, output).value)]


def _alphas(line: Curve, panel: Panel, points: int) -> Array:
    """As many between every two kinks, on linear axes denser next to these, where the curve bends."""
    low, high = (end / line.scale for end in panel.span)
    ends = [low, *(a for a in _corners(line) if low < a < high), high]
    space = np.geomspace if panel.logarithmic else _between
    return np.unique(np.concatenate([space(*pair, points) for pair in pairwise(ends)]))


def _between(low: float, high: float, points: int) -> Array:
    share = np.sin(np.linspace(0, np.pi / 2, points)) ** 2
    return np.asarray((1 - share) * low + share * high)


def compute(spec: Spec, points: int, progress: Progress | None = None, *, pool: ClusterPool | None = None) -> Record:
    """Compute the curves of a figure and gather the dots that belong to it.

    Parameters
    ----------
    spec : Spec
    points : int
        Alphas between the kinks of a curve.
    progress : callable, optional
        Called with (done, total) after every curve.
    pool : ClusterPool, optional
        Workers of a cluster that compute the curves.
    """
    lines = [(line, panel) for panel in spec.panels for line in panel.curves]
    step = Steps(progress, len(lines))
    rows = [
        {"activation": line.activation, "tokens": line.tokens, "rho": line.rho, "alphas": _alphas(line, panel, points)}
        for line, panel in lines
    ]
    curves = iter(mapped(followed, rows, step, pool))
    panels = [
        {"title": panel.title, "curves": [next(curves) for _ in panel.curves], "runs": _runs(panel)}
        for panel in spec.panels
    ]
    return {"figure": f"boncoraglio2025-{spec.number}", "how": "estimated", "panels": panels}


def followed(activation: str, tokens: int, rho: float, alphas: Array) -> Record:
    """One curve of the state evolution, each point from the one before."""
    found = curve(alphas, rho, channel(activation, tokens))
    return {
        "activation": activation,
        "tokens": tokens,
        "rho": rho,
        "alpha": [p.alpha for p in found],
        "mmse": [p.mmse.value for p in found],
        "error": [p.mmse.error for p in found],
        "converged": all(p.converged for p in found),
    }


def _runs(panel: Panel) -> list[Record]:
    """Stored runs of message passing, and of descent where wanted, that lie on the panel."""
    found = []
    for line in panel.curves:
        place = {"activation": line.activation, "tokens": line.tokens, "rho": line.rho, "dimension": panel.dimension}
        for method in _METHODS if panel.descent else ("amp",):
            found += amp_runs.stored(place | {"method": method})
    return [r for r in found if panel.span[0] <= r["alpha"] * _curve_of(panel, r).scale <= panel.span[1]]


def _curve_of(panel: Panel, run: Record) -> Curve:
    names = ("activation", "tokens", "rho")
    return next(line for line in panel.curves if all(getattr(line, name) == run[name] for name in names))


def draw(spec: Spec, record: Record, width: float) -> Picture:
    """Draw a figure from its record."""
    picture, row = figures.panels(
        [panel.title for panel in spec.panels], width, most=2, aspect=1.05 if len(spec.panels) > 1 else 0.85
    )
    for axes, panel, stored in zip(row, spec.panels, record["panels"], strict=True):
        _draw_panel(axes, panel, stored)
    label_rows(row, r"mean squared error, $\|S - \hat S\|_F^2/d$")
    return picture


def _draw_panel(axes: Axes, panel: Panel, stored: Record) -> None:
    for line, found in zip(panel.curves, stored["curves"], strict=True):
        x = line.scale * np.array(found["alpha"])
        axes.plot(x, found["mmse"], line.style, color=line.colour, label=line.label)
    for mark in panel.lines:
        top = 0.045 if mark.short else 1.0
        axes.axvline(
            mark.at, ymax=top, color=mark.colour, ls=mark.style, lw=1.6 if mark.short else 1.0, label=mark.label
        )
    for marks, scale, colour in panel.marks:
        x, y = np.array(marks.points).T
        axes.plot(x * scale, y, marks.marker, ms=5, mfc="none", color=colour, label=f"public: {marks.label}")
    _draw_runs(axes, panel, stored["runs"])
    if panel.logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlim(*panel.span)
    axes.set_ylim(*panel.bounds)
    axes.set_xlabel(panel.xlabel)
    legend_below(axes, 2)


def _draw_runs(axes: Axes, panel: Panel, runs: Sequence[Record]) -> None:
    for run in runs:
        line = _curve_of(panel, run)
        face: Record = {"mfc": "white"} if _unsettled(run) else {}
        x = line.scale * run["alpha"]
        axes.errorbar(x, run["mmse"], run["error"], color=line.colour, **_style(run["method"]), **face)
    for method in dict.fromkeys(run["method"] for run in runs):
        # In grey, for the dots have the colours of their curves.
        axes.errorbar(
            [], [], [], color="0.4", label=f"{_METHODS[method][1]}, d = {runs[0]['dimension']}", **_style(method)
        )


def _unsettled(run: Record) -> bool:
    """Whether fewer than half of the instances reached the tolerance."""
    return "converged" in run and bool(2 * run["converged"] < run["seeds"])


def _style(method: str) -> Record:
    return {"fmt": _METHODS[method][0], "ms": 4, "capsize": 2, "lw": 1, "zorder": 3}


def data_path(spec: Spec) -> Path:
    """Where the record of a figure is stored."""
    return Path(__file__).with_name(f"figure_{spec.number}.json")


def headline(spec: Spec, record: Record) -> Headline:
    """The threshold that stands for a figure."""
    curves = [c for panel in record["panels"] for c in panel["curves"]]
    runs = [r for panel in record["panels"] for r in panel["runs"]]
    converged, found = all(c["converged"] for c in curves), spec.value()
    lines = [
        f"{record['figure']}: {spec.quantity}",
        f"{found.quantity}: {found.value}",
        f"{len(curves)} curves, largest error {max(max(c['error']) for c in curves):.1e}; {len(runs)} stored runs of "
        "algorithms",
    ]
    status = None if converged else "a curve has points that did not converge; see the data file"
    about = {"quantity": f"{spec.quantity}: {found.quantity}"}
    return Headline(found.value, found.error, lines, converged, status, found.how, about)


def figure_of(spec: Spec) -> PaperFigure:
    """The figure of a specification: its curves are computed in seconds, the runs of algorithms are stored."""
    return PaperFigure(
        f"boncoraglio2025-{spec.number}",
        data_path(spec),
        partial(draw, spec),
        partial(headline, spec),
        partial(compute, spec, POINTS),
        points=partial(compute, spec),
        apart=True,
        width=PAGE if len(spec.panels) > 1 else SINGLE,
    )
