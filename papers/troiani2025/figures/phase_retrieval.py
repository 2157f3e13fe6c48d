"""Phase retrieval, y = h^2: fixed points, their free entropies, and the hard phase between both transitions.

Overlaps (a) and free entropies (b) of all stationary points against alpha. Weak recovery sets in at alpha = 1/2
(dotted): the stable branch (full) leaves zero, which is unstable from there on (dashed). At alpha = 1 perfect recovery
becomes the global maximum, with infinite free entropy; the stable branch goes on to its fold at 1.1285, where it meets
the unstable one. In between (shaded) recovery is possible, and an iteration from no knowledge ends at the lower
branch: the hard phase. Lines are monotone interpolation of alpha and of the free entropy over q between computed
points.

`attnlimits figure troiani2025-phase_retrieval` draws phase_retrieval.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.phase_retrieval` computes again, in some seconds.
"""

import math
from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, GREEN, RED, YELLOW
from attnlimits.numerics.core.plots import legend_below, mark_threshold, smooth
from attnlimits.numerics.fixed_point.continuation.link_curve import curve_link
from attnlimits.numerics.free_energy import FreeEntropy, output_entropy, stationary_points
from attnlimits.numerics.free_energy.balance import GroupBalance
from attnlimits.numerics.free_energy.thresholds import transitions
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.link_kernels import kernel_of

from ...figures import PAGE, Array, Headline, PaperFigure, Picture, Progress, Record, Steps, panels

__all__ = ["DATA", "FIGURE", "compute", "draw"]

DATA = Path(__file__).with_name("phase_retrieval.json")
_LINK = "h[1]**2"


def compute(progress: Progress | None = None) -> Record:
    """Find all stationary points at every alpha, and the transitions."""
    output = output_entropy(kernel_of(_LINK))
    found = transitions(output)
    (only,) = found.first_order
    record: Record = {
        "model": output.describe(),
        "weak": found.weak,
        "information": only.information,
        "algorithmic": only.algorithmic,
        "how": output.how,
        "fold": _fold(only.algorithmic.value),
        "points": [],
    }
    at_fold = FreeEntropy(output, only.algorithmic.value)(np.array([[record["fold"]]]))
    record["fold_phi"] = at_fold.value
    balance: GroupBalance | None = None
    alphas = np.concatenate([np.linspace(0.3, 0.98, 35), np.linspace(1.0, 1.128, 33), np.linspace(1.13, 1.4, 10)])
    step = Steps(progress, len(alphas))
    for alpha in alphas:
        free = FreeEntropy(output, float(alpha))
        balance = GroupBalance(output, free.prior) if balance is None else balance
        for point in stationary_points(free, balance=balance):
            value = point.free_entropy
            record["points"].append(
                {
                    "alpha": alpha,
                    "q": point.overlap[0, 0],
                    "q_error": point.overlap_error[0, 0],
                    "phi": value.value if math.isfinite(value.value) else None,
                    "phi_error": value.error,
                    "kind": point.kind,
                    "stable": point.stable,
                }
            )
        step()
    return record


def _fold(alpha: float) -> float:
    """Overlap at which the stable branch ends: where the uninformed start jumps."""
    (jump,) = curve_link(Link(_LINK), [0.95 * alpha, 1.02 * alpha]).jumps
    return float(jump.before[0, 0])


def _branch(record: Record) -> Array:
    """The branch that leaves zero, over its overlap, with its ends and its fold: rows q, alpha, Phi."""
    rows = [
        (p["q"], p["alpha"], p["phi"])
        for p in record["points"]
        if p["q"] > 0 and p["kind"] != "recovered" and p["phi"] is not None
    ]
    fold, weak = record["algorithmic"]["value"], record["weak"]["value"]
    return np.array([(0.0, weak, 0.0), (record["fold"], fold, record["fold_phi"]), *rows])[
        np.argsort([0.0, record["fold"], *(row[0] for row in rows)])
    ]


def draw(record: Record, width: float) -> Picture:
    """Draw overlaps and free entropies of all stationary points against alpha."""
    figure, (above, below) = panels(["overlaps", "free entropies"], width, most=2, aspect=0.85)
    hard, weak = (record["information"]["value"], record["algorithmic"]["value"]), record["weak"]["value"]
    q, alpha, phi = _branch(record).T
    fold = int(np.argmax(alpha))
    dense, along = smooth(q, alpha)
    _, height = smooth(q, phi)
    first, last = record["points"][0]["alpha"], record["points"][-1]["alpha"]
    turn = int(np.searchsorted(dense, q[fold]))
    for axes, y, top in ((above, dense, 1.0), (below, height, None)):
        axes.axvspan(*hard, color=YELLOW, alpha=0.35, lw=0, label="hard phase")
        for at in (weak, *hard):
            mark_threshold(axes, at, "")
        axes.plot([first, weak], [0, 0], color=RED)
        axes.plot(along[: turn + 1], y[: turn + 1], color=RED, label="maximum, stable")
        axes.plot([weak, last], [0, 0], "--", color=BLUE)
        axes.plot(along[turn:], y[turn:], "--", color=BLUE, label="minimum, unstable")
        if top is not None:
            axes.plot([hard[0], last], [top, top], color=GREEN, lw=2, label=r"recovered, $\Phi = \infty$")
        axes.set_xlabel(r"samples per dimension $\alpha = N/D$")
    above.set_ylabel("overlap $q$")
    below.set_ylabel(r"free entropy $\Phi(q) - \Phi(0)$")
    below.set_ylim(-0.08, 0.06)
    legend_below(above, 2)
    return figure


def headline(record: Record) -> Headline:
    """The spinodal, where an iteration from no knowledge finds everything."""
    found = record["algorithmic"]
    lines = [
        record["model"],
        f"weak recovery at alpha = {record['weak']['value']:g}, information-theoretic transition at "
        f"{record['information']['value']:g}, algorithmic one at {found['value']:.6f}",
    ]
    return Headline(f"{found['value']:.6f}", found["error"], lines)


FIGURE = PaperFigure("troiani2025-phase_retrieval", DATA, draw, headline, compute, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
