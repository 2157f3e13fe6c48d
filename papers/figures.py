"""The one scaffold of a figure: panels to draw on, its files, its data stored beside it, the record of what it shows.

A module of a figure has what is its own: `compute` writes the data, `draw` draws a record, `headline` returns the
number that stands for it. ``python -m`` of the module computes and draws again (`remake`), `attnlimits figure` draws
what is stored (`drawing`).
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnlimits.numerics.core.plots import save_figure
from attnlimits.numerics.core.progress import Bar
from attnlimits.numerics.core.results import load, save

__all__ = [
    "Array",
    "Compute",
    "Draw",
    "Headline",
    "Make",
    "Panels",
    "Progress",
    "Record",
    "Steps",
    "canvas",
    "drawing",
    "panels",
    "publish",
    "recompute",
    "remake",
    "write",
]

Array: TypeAlias = NDArray[np.float64]
#: Axes of a figure, row by row.
Panels: TypeAlias = list[list[Axes]]
#: Draws a record, if it takes one, into files.
Draw: TypeAlias = Callable[..., None]
#: Called with (done, total).
Progress: TypeAlias = Callable[[int, int], None]
#: Called with the folder, the number of points and `Progress`.
Make: TypeAlias = Callable[[Path, int, Progress], dict[str, object]]
#: What a data file holds: JSON, whose shape is known to the module that wrote it.
Record: TypeAlias = dict[str, Any]


class Compute(Protocol):
    """Computes the data of a figure and returns the file it wrote."""

    def __call__(self, *, progress: Progress | None = None) -> Path:
        """Compute and write."""


class Headline(NamedTuple):
    """The number that stands for a figure, and lines that describe what it shows.

    Attributes
    ----------
    value : str
    error : float
    lines : list of str
    converged : bool
    status : str, optional
        Default: from which file the figure is drawn.
    """

    value: str
    error: float
    lines: list[str]
    converged: bool = True
    status: str | None = None


class Steps:
    """Counts what is done of `total` steps, and reports each one; what it is called with does not matter."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, *_: object) -> None:
        """Count one step."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of this size in inches, and its only axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def panels(
    rows: int, columns: int, size: tuple[float, float], *, sharex: bool = False, sharey: bool | Literal["row"] = False
) -> tuple[Figure, Panels]:
    """Return a figure of this size in inches, and its axes row by row.

    Parameters
    ----------
    rows, columns : int
    size : tuple of float
        Width and height.
    sharex, sharey
        As `matplotlib.figure.Figure.subplots` takes them.
    """
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).tolist()


def write(figure: Figure, paths: Iterable[Path], dpi: int = 160) -> None:
    """Write a picture to every path, in the format of its suffix."""
    for path in paths:
        save_figure(figure, path, dpi=dpi)


def publish(name: str, out: Path, record: Record, draw: Draw) -> tuple[dict[str, str], list[str]]:
    """Write a record and its picture.

    Parameters
    ----------
    name : str
        Of the files.
    out : Path
        Folder for NAME.json, NAME.png and NAME.pdf.
    record : dict
    draw : callable
        Called with the paths of the pictures.

    Returns
    -------
    files : dict of str to str
        Paths by kind.
    lines : list of str
        Which files were written.
    """
    files = {kind: out / f"{name}.{kind}" for kind in ("json", "png", "pdf")}
    save(files["json"], record)
    draw(files["png"], files["pdf"])
    return {kind: str(path) for kind, path in files.items()}, [f"wrote {path}" for path in files.values()]


def drawing(name: str, data: Path, draw: Draw, headline: Callable[[Record], Headline]) -> Make:
    """Return `make(out, points, progress)` of a figure that is drawn from what is stored, whatever `points` is.

    Parameters
    ----------
    name : str
        Of the files: NAME.json, NAME.png and NAME.pdf.
    data : Path
        The stored record.
    draw : callable
        Called with the record and the paths of the pictures.
    headline : callable
        Called with the record.

    Returns
    -------
    callable
        It returns files, `value`, `error`, `how`, `converged`, `status` and `summary` lines.
    """

    def make(out: Path, points: int, progress: Progress) -> dict[str, object]:
        record = load(data)
        files, written = publish(name, out, record, partial(draw, record))
        progress(1, 1)
        made = headline(record)
        return {
            "files": files,
            "value": made.value,
            "error": made.error,
            "how": record["how"],
            "converged": made.converged,
            "status": made.status or f"drawn from {data.name}",
            "summary": [*made.lines, *written],
        }

    return make


def recompute(title: str, compute: Compute) -> Path:
    """Compute with a progress bar, print which file was written, and return it."""
    with Bar(title, show=True) as bar:
        path = compute(progress=bar.to)
    print(f"wrote {path}")
    return path


def remake(title: str, compute: Compute, draw: Draw) -> Record:
    """Compute the data of a figure again, draw it beside them, and return the record."""
    path = recompute(title, compute)
    record = load(path)
    draw(record, path.with_suffix(".png"))
    return record
