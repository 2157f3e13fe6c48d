"""The one scaffold of a figure: its stored data, its panels, its files, the record of what it shows.

A module of a figure has what is its own: `compute` returns the data, `draw` draws a record at a width, `headline`
returns the number that stands for it; `FIGURE` holds them together. ``python -m`` of the module computes and draws
again (`PaperFigure.remake`), `attnlimits figure` draws what is stored, or computes it where that takes a minute. A
picture beside its data says from which data it was drawn (`PaperFigure.stale`). The first line of the module's
docstring says what the figure shows, the paragraph after it is the caption.
"""

import csv
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from attnlimits.numerics.core.cluster_pool import ClusterPool
from attnlimits.numerics.core.files import replace_whole
from attnlimits.numerics.core.plots import WIDTHS, new_figure, save_figure, styled, titled
from attnlimits.numerics.core.progress import Bar
from attnlimits.numerics.core.results import load, save

__all__ = [
    "PAGE",
    "SINGLE",
    "Array",
    "Headline",
    "Look",
    "PaperFigure",
    "Picture",
    "Progress",
    "Record",
    "Steps",
    "add_missing",
    "label_rows",
    "panels",
    "recompute",
    "stored_runs",
    "table",
    "with_points",
]

Array: TypeAlias = NDArray[np.float64]
Picture: TypeAlias = matplotlib.figure.Figure
#: Called with (done, total).
Progress: TypeAlias = Callable[[int, int], None]
#: What a data file holds: JSON, whose shape is known to the module that wrote it.
Record: TypeAlias = dict[str, Any]

_Made = TypeVar("_Made")

#: Widths in inches of a figure with one panel, and of one with several.
SINGLE, PAGE = 5.0, WIDTHS["page"]
# The text of a .png that names its data.
_DRAWN_FROM = "data"


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
    how : str, optional
        Default: that of the record.
    more : dict, optional
        Further entries of the command's record, such as `quantity`.
    """

    value: str
    error: float
    lines: list[str]
    converged: bool = True
    status: str | None = None
    how: str | None = None
    more: Record | None = None


class Look(NamedTuple):
    """How a picture is to look.

    Attributes
    ----------
    formats : tuple of {"png", "pdf", "svg"}
    width : float, optional
        Inches. Default: the figure's own.
    style : str
        See `attnlimits.numerics.core.plots.styled`.
    """

    formats: tuple[str, ...] = ("png", "pdf")
    width: float | None = None
    style: str = "paper"


class Steps:
    """Counts what is done of `total` steps, and reports each one; what it is called with does not matter."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, *_: object) -> None:
        """Count one step."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper.

    Attributes
    ----------
    name : str
        As the command takes it.
    data : Path
        The stored record; the picture beside it has the same name.
    draw : callable
        Called with the record and the width in inches; returns a matplotlib figure.
    headline : callable
        Called with the record.
    compute : callable
        Called with `progress`, a `Progress`: computes the stored record again.
    points : callable, optional
        Called with a number of points and `Progress`: a record of as many. Without it the command draws what is stored.
    apart : bool
        Whether its curves do not need each other: `points` then takes the workers of a cluster as well.
    width : float
        The figure's own, in inches.
    others : tuple of Path
        Further data it is drawn from.
    """

    name: str
    data: Path
    draw: Callable[[Record, float], Picture]
    headline: Callable[[Record], Headline]
    compute: Callable[..., Record]
    points: Callable[..., Record] | None = None
    apart: bool = False
    width: float = SINGLE
    others: tuple[Path, ...] = ()

    @property
    def picture(self) -> Path:
        """The stored picture."""
        return self.data.with_suffix(".png")

    def stamp(self) -> str:
        """Hash of the stored data."""
        found = hashlib.sha256()
        for path in (self.data, *self.others):
            found.update(path.read_bytes())
        return found.hexdigest()[:16]

    def stale(self) -> bool:
        """Whether the stored picture is missing or was drawn from other data than are stored."""
        if not self.picture.is_file():
            return True
        with Image.open(self.picture) as picture:
            return picture.info.get(_DRAWN_FROM) != self.stamp()

    def render(self, record: Record, look: Look, *paths: Path) -> None:
        """Draw a record into files, in the formats of their suffixes."""
        with styled(look.style):
            picture = self.draw(record, look.width or self.width)
            for path in paths:
                save_figure(picture, path)

    def make(
        self,
        out: Path,
        points: int,
        progress: Progress,
        look: Look | None = None,
        *,
        stored: bool = False,
        pool: ClusterPool | None = None,
    ) -> dict[str, object]:
        """Draw the figure into a folder, with its data.

        Parameters
        ----------
        out : Path
            Folder for NAME.json and the pictures.
        points : int
            For a figure whose points are computed; others are drawn from what is stored.
        progress : callable
            Called with (done, total).
        look : Look, optional
        stored : bool, keyword-only
            Draw what is stored, whatever `points` is.
        pool : ClusterPool, keyword-only, optional
            Workers of a cluster that compute the curves, of a figure whose curves do not need each other.

        Returns
        -------
        dict
            `figure`, `files` by their kind, `value`, `error`, `how`, `converged`, `status`, `summary` lines.
        """
        look = look or Look()
        if self.points is None or stored:
            record, source = load(self.data), f"drawn from {self.data.name}"
            progress(1, 1)
        else:
            there = {"pool": pool} if self.apart else {}
            record, source = self.points(points, progress, **there), "converged"
        files = {kind: out / f"{self.name}.{kind}" for kind in ("json", *look.formats)}
        save(files["json"], record)
        self.render(record, look, *(files[kind] for kind in look.formats))
        made = self.headline(record)
        return {
            "figure": self.name,
            "files": {kind: str(path) for kind, path in files.items()},
            "value": made.value,
            "error": made.error,
            "how": made.how or record["how"],
            **(made.more or {}),
            "converged": made.converged,
            "status": made.status or source,
            "summary": [*made.lines, *(f"wrote {path}" for path in files.values())],
        }

    def store(self) -> None:
        """Draw the picture beside the data, in 256 colours."""
        self.render(load(self.data), Look(), self.picture)
        about = PngInfo()
        about.add_text(_DRAWN_FROM, self.stamp())
        with Image.open(self.picture) as picture, replace_whole(self.picture) as part:
            few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            few.save(part, format="png", pnginfo=about, optimize=True, dpi=picture.info["dpi"])
        print(f"wrote {self.picture}")

    def remake(self) -> Record:
        """Compute the data again, draw the picture beside them, and return the record."""
        save(self.data, recompute(self.name, self.compute))
        print(f"wrote {self.data}")
        self.store()
        return load(self.data)


def panels(
    titles: list[str], width: float, *, aspect: float = 0.72, most: int = 3, sharey: bool = False
) -> tuple[Picture, list[Axes]]:
    """Return a new figure of this width in inches and its panels, as many beside each other as the width has room for.

    Parameters
    ----------
    titles : list of str
        One for each panel; several get letters.
    width : float
    aspect : float, keyword-only
        Height of a panel over its width, with labels and legend.
    most : int, keyword-only
        Panels beside each other.
    sharey : bool, keyword-only
        One vertical axis for all.
    """
    columns = max(1, min(most, len(titles), int(width / 2.2)))
    rows = -(-len(titles) // columns)
    if columns == 1:
        # A panel that has the whole width needs no more height than a figure of one; a narrow one, room for its legend.
        aspect = 0.95 if width < 4 else min(aspect, 0.85)
    figure = new_figure((width, rows * aspect * width / columns))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey).ravel().tolist()
    for spare in grid[len(titles) :]:
        spare.remove()
    found = grid[: len(titles)]
    titled(found, titles)
    return figure, found


def table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, of published numbers or of the cases of a figure, by the names of its columns."""
    return list(csv.DictReader(path.read_text().splitlines()))


def stored_runs(path: Path) -> list[Record]:
    """Return the runs that a data file of runs holds, none where there is no such file."""
    return list(load(path)["runs"]) if path.is_file() else []


def add_missing(
    path: Path, cases: Sequence[Record], run: Callable[[Record], Record], progress: Progress | None = None
) -> Path:
    """Run the cases that a data file of runs lacks, each written at once.

    Parameters
    ----------
    path : Path
        The data file.
    cases : sequence of dict
        Entries by which the run of a case is known.
    run : callable
        Called with the entries of a case: the record, which has them.
    progress : callable, optional
        Called with (done, total) cases.

    Returns
    -------
    Path
        The data file.
    """

    def lacks(case: Record) -> bool:
        return not any(all(r[name] == value for name, value in case.items()) for r in stored_runs(path))

    step = Steps(progress, len(cases))
    for case in cases:
        if lacks(case):
            made = run(case)
            # Read again after the run: another process may have added some meanwhile, or this very one.
            if lacks(case):
                save(path, {"runs": [*stored_runs(path), made]})
        step()
    return path


def recompute(title: str, compute: Callable[..., _Made]) -> _Made:
    """Compute with a progress bar."""
    with Bar(title, show=True) as bar:
        return compute(progress=bar.to)


def label_rows(panels_: list[Axes], text: str) -> None:
    """Name the vertical axis that the panels share, where a row begins."""
    for axes in panels_:
        place = axes.get_subplotspec()
        if place is not None and place.is_first_col():
            axes.set_ylabel(text)


def with_points(x: Array, y: Array, known: Mapping[float, float]) -> tuple[Array, Array]:
    """A curve in increasing x with further points of it, given as the y by their x."""
    at, values = np.append(x, list(known)), np.append(y, list(known.values()))
    order = np.argsort(at, kind="stable")
    return at[order], values[order]
