"""Figure 5: overlap of the first layer where that of the second is held, instead of learned.

`attnlimits figure troiani2025-5` draws from held_second_layer.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.figure_5` computes again (some minutes).
"""

from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.results import save
from attnlimits.numerics.fixed_point.held import first_layer_given
from attnlimits.numerics.model.network import Network

from ...figures import Headline, Progress, Record, Steps, canvas, drawing, remake, write

__all__ = ["DATA", "compute", "draw", "headline", "make"]

DATA = Path(__file__).with_name("held_second_layer.json")
_ALPHAS = (0.8, 1.2)
# 1 - q_22, from coarse to close.
_HELD = 1 - np.concatenate([np.linspace(1.0, 0.1, 10), np.geomspace(0.08, 0.005, 14)])
_ACCURACY = 1e-2
_COLOURS = (BLUE, RED)


def compute(progress: Progress | None = None) -> Path:
    """Solve for q_11 at every held q_22 and write `DATA`."""
    model = Network()
    step = Steps(progress, len(_ALPHAS) * len(_HELD))
    record: Record = {"model": model.describe(), "alpha": _ALPHAS, "q22": _HELD.tolist(), "how": "estimated"}
    record["q11"], record["error"] = [], []
    for alpha in _ALPHAS:
        found = []
        for q22 in _HELD:
            found.append(first_layer_given(model, alpha, float(q22), accuracy=_ACCURACY))
            step()
        record["q11"].append([one.value for one in found])
        record["error"].append([one.error for one in found])
    save(DATA, record)
    return DATA


def draw(record: Record, *paths: Path) -> None:
    """Draw q_11 against q_22 with its errors."""
    figure, axes = canvas(5.6, 3.8)
    held = np.array(record["q22"])
    for alpha, q11, error, colour in zip(record["alpha"], record["q11"], record["error"], _COLOURS, strict=True):
        axes.errorbar(held, q11, error, fmt="o-", ms=3, lw=1.2, capsize=2, color=colour, label=rf"$\alpha$ = {alpha:g}")
    axes.set_xlabel(r"held overlap of the second layer, $q_{22}$")
    axes.set_ylabel(r"overlap of the first layer, $q_{11}$")
    axes.set_title(record["model"], fontsize=8)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    write(figure, paths)


def headline(record: Record) -> Headline:
    """The overlap q_11 at the largest alpha and q_22."""
    lines = []
    for alpha, q11 in zip(record["alpha"], record["q11"], strict=True):
        unlearned = [q for q, one in zip(record["q22"], q11, strict=True) if one == 0]
        lines.append(f"alpha = {alpha:g}: layer 1 is not learned up to q_22 = {max(unlearned):.4f}")
    return Headline(f"{record['q11'][-1][-1]:.4f}", record["error"][-1][-1], lines)


make = drawing("troiani2025-5", DATA, draw, headline)

if __name__ == "__main__":
    remake("held second layer", compute, draw)
