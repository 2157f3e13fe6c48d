"""Pictures of Phi over the overlaps, and of its stationary points."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.colours import BLUE, GREEN, PURPLE, RED
from ..core.pictures import plots
from .entropy import FreeEntropy
from .landscape import Landscape, landscape
from .points import StationaryPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

__all__ = ["draw", "draw_stationary"]

Groups = tuple[tuple[int, ...], ...]

_COLOURS = {"maximum": RED, "saddle": PURPLE, "minimum": BLUE, "recovered": GREEN}
_MARKS = {"maximum": "o", "saddle": "X", "minimum": "v", "recovered": "s"}
_PHI = r"free entropy $\Phi(q) - \Phi(0)$"
# Of the groups, in pictures of several.
_INDEX_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw(record: Landscape, stationary: tuple[StationaryPoint, ...], groups: Groups, title: str, path: Path) -> None:
    """Draw Phi with its stationary points; those beyond the grid stand at its edge.

    Parameters
    ----------
    record : dict
        Of `landscape`.
    stationary : tuple of StationaryPoint
    groups : tuple of tuple of int
        Indices of each axis.
    title : str
    path : Path
        .png, .pdf or .svg.
    """
    plots().save_figure(_over_overlaps(record, stationary, groups, title).figure, path)


def draw_stationary(free: FreeEntropy, stationary: tuple[StationaryPoint, ...], title: str) -> "Axes":
    """Draw stationary points at their overlaps and free entropies; over one overlap, Phi as well.

    Parameters
    ----------
    free : FreeEntropy
    stationary : tuple of StationaryPoint
    title : str

    Returns
    -------
    matplotlib axes
        Overlaps of several indices are joined by a line for every stationary point; an infinite free entropy stands at
        the edge.
    """
    groups = free.output.groups
    if len(groups) == 1:
        return _over_overlaps(landscape(free), stationary, groups, title)
    pictures, shown = plots(), set[str]()
    with pictures.on_axes(None) as axes:
        for point in stationary:
            q = [point.overlap[group[0], group[0]] for group in groups]
            height, across = _height(point, point.free_entropy.value, axes)
            colour = _COLOURS[point.kind]
            axes.plot(q, [height] * len(q), color=colour, transform=across, label=_once(point.kind, shown))
            for x, mark in zip(q, _INDEX_MARKS, strict=False):
                axes.plot(x, height, mark, color=colour, ms=5, transform=across, clip_on=False)
        for group, mark in zip(groups, _INDEX_MARKS, strict=False):
            axes.plot([], [], mark, color="0.35", label=f"$q_{{{group[0] + 1}{group[0] + 1}}}$")
        axes.set_xlim(-0.03, 1.03)
        axes.margins(y=0.15)
        axes.set_xlabel("overlap")
        axes.set_ylabel(_PHI)
        axes.set_title(title)
        pictures.legend_below(axes, 4)
        return axes


def _once(kind: str, shown: set[str]) -> str:
    """Entry of the legend, one for each kind."""
    label = "_" if kind in shown else kind
    shown.add(kind)
    return label


def _over_overlaps(record: Landscape, stationary: tuple[StationaryPoint, ...], groups: Groups, title: str) -> "Axes":
    """Phi over one overlap or two, with its stationary points."""
    pictures, shown = plots(), set[str]()
    fine, phi = np.asarray(record["overlaps"][0]), np.asarray(record["phi"])
    labels = [rf"overlap $q_{{{group[0] + 1}{group[0] + 1}}}$" for group in groups]
    with pictures.on_axes(None) as axes:
        if phi.ndim == 1:
            axes.plot(fine, phi, color="black")
            axes.set_ylabel(_PHI)
        else:
            # The largest part of the fall towards one says nothing.
            levels = np.linspace(float(np.quantile(phi, 0.1)), float(phi.max()), 25)
            filled = axes.contourf(fine, fine, phi, levels=levels, extend="min", cmap="viridis")
            axes.figure.colorbar(filled, ax=axes, label=_PHI)
            axes.set_ylabel(labels[1])
        for point in stationary:
            x = np.minimum([point.overlap[group[0], group[0]] for group in groups], fine[-1])
            height, across = float(x[-1]), axes.transData
            if phi.ndim == 1:
                height, across = _height(point, float(np.interp(x[0], fine, phi)), axes)
            look = {"marker": _MARKS[point.kind], "color": _COLOURS[point.kind], "transform": across}
            axes.plot(
                x[0], height, ls="", ms=7, mec="white", clip_on=False, zorder=5, label=_once(point.kind, shown), **look
            )
        axes.set_xlabel(labels[0])
        axes.set_title(title)
        pictures.legend_below(axes, 4)
        return axes


def _height(point: StationaryPoint, value: float, axes: "Axes") -> "tuple[float, Transform]":
    """Where a stationary point of this free entropy stands, and in which coordinates: infinite, at the edge."""
    if np.isinf(point.free_entropy.value):
        return float(point.free_entropy.value > 0), axes.get_xaxis_transform()
    return value, axes.transData
