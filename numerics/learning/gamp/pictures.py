"""Overlaps of runs of GAMP over the iterations, beside the state evolution."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...core.colours import CYCLE
from ...core.pictures import plots
from ...core.results import EvolutionResult
from ..blocks import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_runs"]


class Run(Protocol):
    """What is drawn of a result of GAMP."""

    @property
    def history(self) -> Array | None:
        """Overlaps with the teacher."""
        ...

    @property
    def self_history(self) -> Array:
        """Overlaps of the estimate with itself."""
        ...

    @property
    def model(self) -> str:
        """Its name."""
        ...

    @property
    def alpha(self) -> float:
        """Samples per dimension."""
        ...


def draw_runs(runs: Sequence[Run], theory: EvolutionResult | None = None, axes: "Axes | None" = None) -> "Axes":
    """Draw the diagonal overlaps of runs over the iterations; returns the matplotlib axes.

    Parameters
    ----------
    runs : sequence of GAMPResult
        Overlaps with the teacher where it is known, in absolute value; the estimate's own, What What^T / D, elsewhere.
    theory : EvolutionResult, optional
        Its overlaps are drawn as dashed lines.
    axes : matplotlib axes, optional
        Default: those of a new figure.
    """
    pictures = plots()
    with pictures.on_axes(axes) as axes:
        for number, run in enumerate(runs):
            known = run.history is not None
            history = np.abs(run.history if run.history is not None else run.self_history)
            for i in range(history.shape[1]):
                name = f"${'q' if known else 'Q'}_{{{i + 1}{i + 1}}}$"
                label = None if number else f"{name} of {len(runs)} instances" if len(runs) > 1 else name
                colour, thick = CYCLE[i % len(CYCLE)], 1.3 if len(runs) == 1 else 0.8
                axes.plot(history[:, i, i], "-", label=label, color=colour, lw=thick)
        if theory is not None:
            for i, q in enumerate(theory.overlap.diagonal()):
                label = f"$q_{{{i + 1}{i + 1}}}$, state evolution"
                axes.axhline(q, color=CYCLE[i % len(CYCLE)], ls="--", lw=1.0, label=label)
        axes.set_xlabel("iteration")
        axes.set_ylabel("overlap" if runs[0].history is not None else "overlap of the estimate with itself")
        axes.set_title(f"{runs[0].model}, $\\alpha$ = {runs[0].alpha:g}")
        pictures.legend_below(axes, 2)
        return axes
