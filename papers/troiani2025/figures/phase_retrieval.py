"""Phase retrieval, y = h^2 at M = 1: fixed points, their free entropies, and the hard phase between both thresholds.

`python -m attnlimits.papers.troiani2025.figures.phase_retrieval` computes phase_retrieval.json and .png beside this
file again, in some seconds.
"""

import math
from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE, GREEN, RED, YELLOW
from attnlimits.numerics.core.results import save
from attnlimits.numerics.free_energy import FreeEntropy, output_entropy, stationary_points
from attnlimits.numerics.free_energy.rest import Rest
from attnlimits.numerics.free_energy.thresholds import transitions
from attnlimits.numerics.model.link_kernels import kernel_of

from ...figures import Progress, Record, Steps, panels, remake, write

__all__ = ["DATA", "compute", "draw"]

DATA = Path(__file__).with_name("phase_retrieval.json")
_ALPHAS = np.concatenate([np.linspace(0.3, 0.98, 35), np.linspace(1.0, 1.128, 33), np.linspace(1.13, 1.4, 10)])
_LINK = "h[1]**2"
_COLOURS = {"maximum": RED, "minimum": BLUE, "recovered": GREEN}
_LABELS = {
    "maximum": "maximum of $\\Phi$: stable",
    "minimum": "minimum of $\\Phi$: unstable",
    "recovered": "recovered, $\\Phi = \\infty$",
}


def compute(progress: Progress | None = None) -> Path:
    """Find all stationary points at every alpha and the transitions, and write `DATA`."""
    output = output_entropy(kernel_of(_LINK))
    found = transitions(output)
    (only,) = found.first_order
    record: Record = {
        "model": output.describe(),
        "weak": found.weak,
        "information": only.information,
        "algorithmic": only.algorithmic,
        "how": output.how,
        "points": [],
    }
    rest: Rest | None = None
    step = Steps(progress, len(_ALPHAS))
    for alpha in _ALPHAS:
        free = FreeEntropy(output, float(alpha))
        rest = Rest(output, free.prior) if rest is None else rest
        for point in stationary_points(free, rest=rest):
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
    save(DATA, record)
    return DATA


def draw(record: Record, *paths: Path) -> None:
    """Draw overlaps and free entropies of all stationary points against alpha."""
    figure, ((above,), (below,)) = panels(2, 1, (5.8, 6.0), sharex=True)
    hard = record["information"]["value"], record["algorithmic"]["value"]
    for axes in (above, below):
        axes.axvspan(*hard, color=YELLOW, alpha=0.25, lw=0, label="hard phase")
        axes.axvline(record["weak"]["value"], color="grey", lw=1, ls=":")
        axes.grid(alpha=0.3)
    for kind, label in _LABELS.items():
        some = [p for p in record["points"] if p["kind"] == kind]
        style: Record = {"color": _COLOURS[kind], "marker": ".", "ls": "", "ms": 4}
        above.plot([p["alpha"] for p in some], [p["q"] for p in some], label=label, **style)
        finite = [p for p in some if p["phi"] is not None]
        below.plot([p["alpha"] for p in finite], [p["phi"] for p in finite], **style)
    above.set_ylabel("overlap $q$")
    above.legend(fontsize=8, loc="center left")
    below.set_ylabel(r"$\Phi(q) - \Phi(0)$")
    below.set_ylim(-0.08, 0.06)
    below.set_xlabel(r"sample complexity $\alpha = N/D$")
    above.set_title(
        rf"{record['model']}: $\alpha_{{\rm IT}}$ = {hard[0]:g}, $\alpha_{{\rm alg}}$ = {hard[1]:.6f}", fontsize=9
    )
    write(figure, paths)


if __name__ == "__main__":
    remake("phase retrieval", compute, draw)
