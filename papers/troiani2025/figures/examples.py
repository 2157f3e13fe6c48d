"""State evolution of one layer of other architectures: three tokens, rank two, untied, two heads.

`python -m attnlimits.papers.troiani2025.figures.examples` computes examples.json and examples.png beside this file
again, in a minute or two.
"""

from itertools import chain
from pathlib import Path

import numpy as np

from attnlimits.numerics.core.results import save
from attnlimits.numerics.fixed_point.evolve import curve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.exact import single_layer

from ...figures import Progress, Record, Steps, panels, remake, write

__all__ = ["CASES", "DATA", "compute", "draw"]

DATA = Path(__file__).with_name("examples.json")
_POINTS, _SAMPLES = 20, 512
# Name, model of a head, heads, largest alpha. A head of H sees D/H coordinates.
CASES: dict[str, tuple[Network, int, float]] = {
    "three tokens": (Network(layers=1, tokens=3), 1, 0.5),
    "rank two, three tokens": (Network(layers=1, tokens=3, rank=2), 1, 0.9),
    "untied": (Network(1, 2, tied=False), 1, 1.2),
    "two heads": (Network(layers=1, tokens=2), 2, 0.5),
}


def compute(progress: Progress | None = None) -> Path:
    """Compute all curves from the uninformed start and write them to `DATA`."""
    step = Steps(progress, len(CASES) * _POINTS)
    record: Record = {}
    for name, (model, heads, top) in CASES.items():
        alphas = np.linspace(0.02, 1, _POINTS) * top
        results = curve(model, alphas * heads, samples=_SAMPLES, progress=step)
        record[name] = {
            "model": model.describe(),
            "heads": heads,
            "threshold": _threshold(model, heads),
            "alpha": alphas.tolist(),
            "overlap": [r.overlap.diagonal().tolist() for r in results],
            "overlap_error": [r.overlap_error.diagonal().tolist() for r in results],
            "converged": [r.converged for r in results],
            "how": results[-1].estimation_error.how,
        }
    save(DATA, record)
    return DATA


def _threshold(model: Network, heads: int) -> float:
    found = single_layer(model.tokens, model.ranks[0], tied=model.tied, heads=heads)
    assert found is not None and found.value is not None
    return float(found.value)


def draw(record: Record, *paths: Path) -> None:
    """Draw every case with its error bars and threshold."""
    figure, grid = panels(2, 2, (7.6, 5.4), sharey=True)
    for axes, (name, case) in zip(chain(*grid), record.items(), strict=True):
        alpha, overlap = np.array(case["alpha"]), np.array(case["overlap"])
        error = np.array(case["overlap_error"])
        for index, style in zip(range(overlap.shape[1]), ("o-", "s--", "^:"), strict=False):
            label = f"$q_{{{index + 1}{index + 1}}}$"
            axes.errorbar(alpha, overlap[:, index], error[:, index], fmt=style, ms=3, lw=1.1, capsize=2, label=label)
        axes.axvline(case["threshold"], color="0.4", lw=0.8, ls=":")
        heads = f", {case['heads']} heads" if case["heads"] > 1 else ""
        axes.set_title(f"{name}\n{case['model']}{heads}", fontsize=7)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    for axes in grid[1]:
        axes.set_xlabel(r"$\alpha = N/D$")
    for axes in (row[0] for row in grid):
        axes.set_ylabel("overlap")
    write(figure, paths)


if __name__ == "__main__":
    remake("examples", compute, draw)
