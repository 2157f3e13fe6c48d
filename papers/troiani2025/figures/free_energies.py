"""Free entropies of all stationary points of two layers, for many skips: where the thresholds could differ.

Perfect recovery is the global maximum from alpha = 1 on: two entries of y for two indices, so that Phi diverges as
(1 - alpha) log V. A gap needs another maximum: a second one below alpha = 1, or one that is left above it.

`python -m attnlimits.papers.troiani2025.figures.free_energies` computes free_energies.json and .png beside this file
again, in some ten minutes; an interrupted run goes on where it stopped.
"""

import math
from pathlib import Path

from attnlimits.numerics.core.colours import BLUE, GREEN, PURPLE, RED
from attnlimits.numerics.core.results import load, save
from attnlimits.numerics.free_energy import FreeEntropy, output_entropy
from attnlimits.numerics.free_energy.rest import Rest
from attnlimits.numerics.free_energy.stationary import stationary_points
from attnlimits.numerics.model.network import Network

from ...figures import Progress, Record, Steps, panels, remake, write

__all__ = ["ALPHAS", "DATA", "SKIPS", "compute", "draw"]

DATA = Path(__file__).with_name("free_energies.json")
SKIPS = (1.0, 5.0, 0.2, 0.05)
ALPHAS = (0.5, 0.8, 0.95, 1.02)
_ACCURACY, _STARTS = 5e-3, 1
# Distance to one of the largest overlap: closer averages take long at small skips, and at large ones q_22 is there.
_CLOSEST = (1e-3, 4e-5)
_COLOURS = {"maximum": RED, "saddle": BLUE, "minimum": PURPLE, "recovered": GREEN}


def compute(progress: Progress | None = None) -> Path:
    """Find all stationary points at every skip and alpha, and write `DATA`."""
    cases: list[Record] = load(DATA)["cases"] if DATA.is_file() else []
    known = {(case["skip"], case["alpha"]) for case in cases}
    step = Steps(progress, len(SKIPS))
    for skip in SKIPS:
        output = output_entropy(Network(skip=skip), accuracy=_ACCURACY)
        rest: Rest | None = None
        for alpha in ALPHAS:
            if (skip, alpha) not in known:
                free = FreeEntropy(output, alpha)
                rest = Rest(output, free.prior, _CLOSEST[skip > 2]) if rest is None else rest
                points = stationary_points(free, starts=_STARTS, rest=rest)
                cases.append(
                    {
                        "skip": skip,
                        "alpha": alpha,
                        "unresolved": rest.unresolved,
                        "points": [
                            {
                                "q": point.overlap.diagonal(),
                                "q_error": point.overlap_error.diagonal(),
                                "phi": point.free_entropy.value if math.isfinite(point.free_entropy.value) else None,
                                "phi_error": point.free_entropy.error,
                                "kind": point.kind,
                                "stable": point.stable,
                                "eigenvalues": point.eigenvalues,
                            }
                            for point in points
                        ],
                    }
                )
                save(DATA, {"model": "tied softmax attention, L=2, M=2, rank 1, beta=1", "cases": cases})
        step()
    return DATA


def draw(record: Record, *paths: Path) -> None:
    """Draw the free entropies against alpha, one panel for each skip."""
    skips = sorted({case["skip"] for case in record["cases"]})
    figure, (grid,) = panels(1, len(skips), (2.6 * len(skips) + 1, 3.4), sharex=True)
    for skip, axes in zip(skips, grid, strict=True):
        for case in (c for c in record["cases"] if c["skip"] == skip):
            # The best on top.
            for point in reversed(case["points"]):
                colour = _COLOURS[point["kind"]]
                if point["phi"] is None:
                    above = axes.get_xaxis_transform()
                    axes.plot(case["alpha"], 1.0, "^", color=colour, ms=7, transform=above, clip_on=False)
                else:
                    axes.plot(case["alpha"], point["phi"], "o" if point["stable"] else "x", color=colour, ms=6)
        axes.axvline(1.0, color="grey", lw=1, ls=":")
        axes.set_title(f"c = {skip:g}", fontsize=9)
        axes.set_xlabel(r"$\alpha = N/D$")
        axes.grid(alpha=0.3)
    grid[0].set_ylabel(r"$\Phi(q) - \Phi(0)$")
    marks = {"maximum": "o", "saddle": "x", "recovered": "^"}
    for kind, mark in marks.items():
        infinite = r", $\Phi = \infty$" if kind == "recovered" else ""
        grid[0].plot([], [], mark, color=_COLOURS[kind], label=kind + infinite)
    grid[0].legend(fontsize=7, loc="center left")
    write(figure, paths)


if __name__ == "__main__":
    remake("free energies", compute, draw)
