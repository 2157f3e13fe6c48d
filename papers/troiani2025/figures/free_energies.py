"""Free entropies of all stationary points of two layers, for four skips: one maximum at a time.

Free entropy of every stationary point over that of q = 0, at four alphas below and above 1 (dotted) for each skip c;
beta = 1. Below alpha = 1 there is one maximum (circles) beside saddles (crosses), of which one is q = 0 and one lies,
up to alpha = 0.8, so close below the maximum that the marks coincide. Above alpha = 1 perfect recovery, where the free
entropy is infinite (triangles at the upper edge), has taken its place, and no other maximum is left: no gap between
what is possible and what is found.

Perfect recovery is the global maximum from alpha = 1 on: two entries of y for two indices, so that Phi diverges as
(1 - alpha) log V. A gap needs another maximum: a second one below alpha = 1, or one that is left above it.

`attnlimits figure troiani2025-free_energies` draws free_energies.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.free_energies` computes again, in some ten minutes; an interrupted run
goes on where it stopped.
"""

import math
from pathlib import Path

from matplotlib.lines import Line2D

from attnlimits.numerics.core.colours import BLUE, GREEN, PURPLE, RED
from attnlimits.numerics.core.plots import mark_threshold
from attnlimits.numerics.core.results import load, save
from attnlimits.numerics.free_energy import FreeEntropy, output_entropy
from attnlimits.numerics.free_energy.balance import GroupBalance
from attnlimits.numerics.free_energy.stationary import stationary_points
from attnlimits.numerics.model.network import Network

from ...figures import PAGE, Headline, PaperFigure, Picture, Progress, Record, Steps, label_rows, panels

__all__ = ["ALPHAS", "DATA", "FIGURE", "SKIPS", "compute", "draw"]

DATA = Path(__file__).with_name("free_energies.json")
SKIPS = (1.0, 5.0, 0.2, 0.05)
ALPHAS = (0.5, 0.8, 0.95, 1.02)
_LOOKS = {"maximum": ("o", RED), "saddle": ("x", BLUE), "minimum": ("v", PURPLE), "recovered": ("^", GREEN)}


def compute(progress: Progress | None = None) -> Record:
    """Find all stationary points at every skip and alpha, each written to `DATA` at once."""
    cases: list[Record] = load(DATA)["cases"] if DATA.is_file() else []
    record: Record = {"model": "tied softmax attention, L=2, M=2, rank 1, beta=1", "cases": cases}
    known = {(case["skip"], case["alpha"]) for case in cases}
    step = Steps(progress, len(SKIPS))
    accuracy, starts = 5e-3, 1
    # Distance to one of the largest overlap: closer averages take long at small skips, and at large ones q_22 is there.
    closest = (1e-3, 4e-5)
    for skip in SKIPS:
        output = output_entropy(Network(skip=skip), accuracy=accuracy)
        balance: GroupBalance | None = None
        for alpha in ALPHAS:
            if (skip, alpha) not in known:
                free = FreeEntropy(output, alpha)
                balance = GroupBalance(output, free.prior, closest[skip > 2]) if balance is None else balance
                points = stationary_points(free, starts=starts, balance=balance)
                cases.append(
                    {
                        "skip": skip,
                        "alpha": alpha,
                        "unresolved": balance.unresolved,
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
                save(DATA, record)
        step()
    return record


def draw(record: Record, width: float) -> Picture:
    """Draw the free entropies against alpha, one panel for each skip."""
    skips = sorted({case["skip"] for case in record["cases"]})
    figure, found = panels([f"c = {skip:g}" for skip in skips], width, most=2, aspect=0.62)
    for skip, axes in zip(skips, found, strict=True):
        for case in (c for c in record["cases"] if c["skip"] == skip):
            for point in case["points"]:
                mark, colour = _LOOKS[point["kind"]]
                infinite = point["phi"] is None
                axes.plot(
                    case["alpha"],
                    1.0 if infinite else point["phi"],
                    mark,
                    color=colour,
                    ms=6,
                    mfc="none",
                    transform=axes.get_xaxis_transform() if infinite else axes.transData,
                    clip_on=False,
                )
        mark_threshold(axes, 1.0, "")
        axes.set_xlim(0.45, 1.06)
        axes.set_xlabel(r"samples per dimension $\alpha = N/D$")
    label_rows(found, r"free entropy $\Phi(q) - \Phi(0)$")
    shown = {point["kind"] for case in record["cases"] for point in case["points"]}
    handles = [
        Line2D(
            [],
            [],
            ls="",
            marker=mark,
            color=colour,
            mfc="none",
            label=kind + r", $\Phi = \infty$" * (kind == "recovered"),
        )
        for kind, (mark, colour) in _LOOKS.items()
        if kind in shown
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def headline(record: Record) -> Headline:
    """How many maxima beside the best stationary point were found in all."""
    others = sum(point["stable"] for case in record["cases"] for point in case["points"][1:])
    lines = [f"{len(record['cases'])} pairs of skip and alpha; value: stable stationary points beside the best one"]
    unresolved = any(case["unresolved"] for case in record["cases"])
    return Headline(str(others), 0.0, lines, not unresolved, how="estimated")


FIGURE = PaperFigure("troiani2025-free_energies", DATA, draw, headline, compute, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
