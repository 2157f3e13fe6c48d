"""The flag --plot of the verbs whose results can be looked at."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.destinations import FORMATS, picture_file
from ..core.pictures import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_plot", "plot_flag", "plotted"]


def plot_flag(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --plot; `what` says what the picture shows."""
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help=f"draw {what} there, in the format of its name: .{', .'.join(FORMATS)}",
    )


def check_plot(args: argparse.Namespace) -> None:
    """Refuse a picture that cannot be written, before anything is computed."""
    picture_file(args.plot, "--plot")


def plotted(args: argparse.Namespace, draw: "Callable[[], Axes]", text: str) -> str:
    """Draw and write the picture that is asked for; return the text of the verb, with a line that says so."""
    if args.plot is None:
        return text
    plots().save_figure(draw().figure, args.plot)
    return f"{text}\nwrote {args.plot}"
