"""Plots of state-evolution curves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .colours import BLUE, GREEN, PURPLE, RED
from .files import replace_whole
from .results import EvolutionResult, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["drawn", "phase_curve", "save_figure"]

_COLOURS = (RED, BLUE, GREEN, PURPLE)


def save_figure(figure: "Figure", path: Path, dpi: int = 160) -> None:
    """Write a picture whole or not at all.

    Parameters
    ----------
    figure : matplotlib figure
    path : Path
        .png, .pdf or .svg.
    dpi : int, optional
    """
    with replace_whole(path) as part:
        figure.savefig(part, dpi=dpi, format=path.suffix.removeprefix("."))


@contextmanager
def drawn(path: Path, rows: int, columns: int, *, figsize: tuple[float, float], dpi: int = 160) -> Iterator[Any]:
    """Give the axes of a new figure, which is written to `path` at the end."""
    figure = new_figure(figsize=figsize)
    yield figure.subplots(rows, columns)
    save_figure(figure, path, dpi=dpi)


def phase_curve(axes: "Axes", results: Sequence[EvolutionResult], thresholds: Sequence[tuple[str, float]]) -> None:
    """Draw the diagonal overlaps and both prediction errors against alpha, with one-sigma bands.

    Parameters
    ----------
    axes : matplotlib axes
    results : sequence of EvolutionResult
        In increasing alpha.
    thresholds : sequence of (label, alpha)
        Drawn as vertical lines.
    """
    alpha = np.array([r.alpha for r in results])
    layers = results[0].overlap.shape[0]
    for k in reversed(range(layers)):
        q = np.array([r.overlap[k, k] for r in results])
        error = np.array([r.overlap_error[k, k] for r in results])
        label = f"overlap $q_{{{k + 1}{k + 1}}}$ of layer {k + 1}"
        axes.plot(alpha, q, color=_COLOURS[layers - 1 - k], lw=1.8, label=label)
        axes.fill_between(
            alpha,
            np.clip(q - error, 0, 1),
            np.clip(q + error, 0, 1),
            color=_COLOURS[layers - 1 - k],
            alpha=0.25,
            lw=0,
        )
    for name, label, style in (
        ("prediction_error", "prediction error, posterior mean", "-"),
        ("plugin_error", "prediction error, plug-in", "--"),
    ):
        value = np.array([getattr(r, name).value for r in results])
        sigma = np.array([getattr(r, name).error for r in results])
        axes.plot(alpha, value, color="black", lw=1.5, ls=style, label=label)
        axes.fill_between(alpha, value - sigma, value + sigma, color="black", alpha=0.2, lw=0)
    for k, (label, position) in enumerate(thresholds):
        axes.axvline(position, color=_COLOURS[k % len(_COLOURS)], lw=1, ls=":")
        axes.annotate(
            label,
            (position, 1.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
            fontsize=8,
            color=_COLOURS[k % len(_COLOURS)],
        )
    axes.set_xlim(alpha[0], alpha[-1])
    axes.set_ylim(-0.02, 1.05)
    axes.set_xlabel(r"sample complexity $\alpha = N/D$")
