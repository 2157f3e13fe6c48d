"""How pictures look: style and width, smooth curves through computed points, letters and legends outside the data.

It loads matplotlib, which takes a second: what can do without pictures reaches it by `pictures.plots`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import matplotlib
import matplotlib.style
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import ScaledTranslation
from scipy.interpolate import PchipInterpolator

from .colours import CYCLE
from .files import replace_whole
from .typing import Array

__all__ = [
    "STYLES",
    "WIDTHS",
    "drawn",
    "inches",
    "label_curve",
    "legend_below",
    "mark_threshold",
    "new_figure",
    "on_axes",
    "save_figure",
    "smooth",
    "styled",
    "titled",
]

#: Widths in inches: a column and the full width of a page of two columns.
WIDTHS = {"column": 3.375, "page": 7.0}
# Beside matplotlib's own values, for every picture.
_PAPER: dict[str, object] = {
    "axes.prop_cycle": cycler(color=CYCLE),
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.2,
    "legend.labelspacing": 0.3,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "errorbar.capsize": 1.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "attnlimits",
}
#: Named styles: those of print, and larger type and lines for slides.
STYLES: dict[str, dict[str, object]] = {
    "paper": {},
    "slides": {
        "font.size": 12,
        "axes.titlesize": 12,
        "axes.labelsize": 12,
        "xtick.labelsize": 11,
        "ytick.labelsize": 11,
        "legend.fontsize": 11,
        "lines.linewidth": 2.2,
        "lines.markersize": 5.5,
    },
}
# Dates are left out of the files, so that a picture of the same data is the same file.
_UNDATED: dict[str, dict[str, object]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}


def inches(text: str) -> float:
    """Width of a picture in inches from "column", "page" or a number.

    Raises
    ------
    ValueError
        It is none of them, or not in [2, 40].
    """
    try:
        width = WIDTHS[text] if text in WIDTHS else float(text)
    except ValueError:
        width = float("nan")
    if not 2 <= width <= 40:
        raise ValueError(f"a width is {', '.join(WIDTHS)} or inches in [2, 40], got {text!r}")
    return width


@contextmanager
def styled(style: str = "paper") -> Iterator[None]:
    """Draw in a style: one of `STYLES`, the name of one of matplotlib's, or a file with its settings.

    Raises
    ------
    ValueError
        There is no such style.
    """
    with matplotlib.rc_context():
        matplotlib.style.use(_PAPER)
        try:
            matplotlib.style.use(STYLES.get(style, style))
        except OSError:
            raise ValueError(
                f"no style {style!r}: {', '.join(STYLES)}, a file of matplotlib's settings, or one of "
                f"{', '.join(matplotlib.style.available)}"
            ) from None
        yield


def new_figure(figsize: tuple[float, float] | None = None) -> Figure:
    """A figure that no window shows."""
    return Figure(figsize=figsize, layout="constrained")


@contextmanager
def on_axes(axes: Axes | None, width: float = 4.6, height: float = 3.2) -> Iterator[Axes]:
    """Give these axes, or those of a new figure of this size in inches, to be drawn on in the usual style."""
    with styled():
        yield new_figure((width, height)).subplots() if axes is None else axes


def save_figure(figure: Figure, path: Path, dpi: int = 200) -> None:
    """Write a picture whole or not at all, in the format of its suffix.

    Parameters
    ----------
    figure : matplotlib figure
    path : Path
        .png, .pdf or .svg; a missing folder is made.
    dpi : int, optional
        Pixels per inch of a .png.
    """
    kind = path.suffix.removeprefix(".")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_whole(path) as part:
        figure.savefig(part, dpi=dpi, format=kind, metadata=_UNDATED[kind])


@contextmanager
def drawn(path: Path, columns: int, size: tuple[float, float]) -> Iterator[list[Axes]]:
    """Give the axes, side by side, of a new figure of this size, which is written to `path` at the end."""
    with styled():
        figure = new_figure(size)
        yield figure.subplots(1, columns, squeeze=False)[0].tolist()
        save_figure(figure, path)


def smooth(x: Sequence[float] | Array, y: Sequence[float] | Array, kinks: Sequence[float] = ()) -> list[Array]:
    """A curve through computed points: monotone cubic interpolation (PCHIP), with corners where asked for.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        Points in increasing x.
    kinks : sequence of float, optional
        Values of x where the slope may jump; those that are not among the points do nothing.

    Returns
    -------
    list of ndarray
        Denser x and y: between two points that are both largest or smallest, the curve does not leave them.
    """
    at, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    corners: list[int] = [int(k) for k in np.flatnonzero(np.isin(at, kinks)) if 0 < k < len(at) - 1]
    ends = [0, *corners, len(at) - 1]
    fine_x, fine_y = [at[:1]], [values[:1]]
    # Points of a smooth curve between two computed ones.
    fine = 16
    for first, last in pairwise(ends):
        if last == first:
            continue
        piece = slice(first, last + 1)
        share = np.arange(1, fine + 1) / fine
        dense = (at[first:last, None] + np.diff(at[piece])[:, None] * share).ravel()
        fine_x.append(dense)
        fine_y.append(PchipInterpolator(at[piece], values[piece])(dense))
    return [np.concatenate(fine_x), np.concatenate(fine_y)]


def _point_size() -> float:
    return float(matplotlib.rcParams["font.size"])


def titled(panels: Sequence[Axes], titles: Sequence[str]) -> None:
    """Give panels their titles, with a bold letter before each where there are several."""
    for k, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        letter = rf"$\bf{{{chr(ord('a') + k)}}}$   " if len(panels) > 1 else ""
        axes.set_title(letter + title)


def legend_below(axes: Axes, columns: int = 1) -> None:
    """Put the legend below the axis label, outside the data, in at most so many columns as the panel has room for."""
    figure, place = axes.get_figure(root=True), axes.get_subplotspec()
    assert figure is not None
    # Room for the numbers and the label of the axis.
    down = ScaledTranslation(0, -4.2 * _point_size() / 72, figure.dpi_scale_trans)
    room = figure.bbox.width / (1 if place is None else place.get_gridspec().ncols)
    for number in range(columns, 0, -1):
        legend = axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=axes.transAxes + down,
            ncols=number,
            borderaxespad=0.0,
        )
        if legend.get_window_extent().width < 0.8 * room:
            return


def label_curve(
    axes: Axes,
    place: tuple[float, float],
    text: str,
    colour: str,
    *,
    shift: tuple[float, float] = (0, 0),
    ha: str = "left",
) -> None:
    """Write a label beside a curve, in its colour.

    Parameters
    ----------
    axes : matplotlib axes
    place : tuple of float
        A point on the curve.
    text, colour : str
    shift : tuple of float, keyword-only
        Of the text from the point, in points of type.
    ha : {"left", "center", "right"}, keyword-only
        Which end of the text is there.
    """
    axes.annotate(
        text,
        place,
        shift,
        textcoords="offset points",
        ha=ha,
        va="center",
        color=colour,
        fontsize=0.9 * _point_size(),
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )


def mark_threshold(axes: Axes, at: float, text: str, colour: str = "0.35", *, height: float | None = None) -> None:
    """Draw a threshold as a dotted vertical line, named above the frame or along the line.

    Parameters
    ----------
    axes : matplotlib axes
    at : float
    text, colour : str
    height : float, optional, keyword-only
        Where along the line the name begins, as a share of the frame. Default: above the frame.
    """
    axes.axvline(at, color=colour, lw=0.9, ls=":", zorder=1)
    if text:
        above = height is None
        axes.annotate(
            text,
            (at, 1.0 if height is None else height),
            (0, 2) if above else (-2, 0),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            rotation=0 if above else 90,
            ha="center" if above else "right",
            va="bottom",
            color=colour,
            fontsize=0.85 * _point_size(),
            path_effects=[withStroke(linewidth=2.0, foreground="white")],
        )
