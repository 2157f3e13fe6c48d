"""Overlaps of one layer of other architectures: each leaves zero at its exact threshold.

State evolution from the uninformed start of one layer with three tokens (a), of rank two (b), with keys and queries of
their own (c), and with two heads (d). Every overlap leaves zero at the exact threshold (dotted) and reaches one where
the outputs hold as many numbers as the weights. Both columns of rank two are learned alike; the untied layer learns
its keys (q_11) faster than its queries (q_22), from one threshold on. Bars: one standard error, mostly below the size
of the marks. Lines are monotone interpolation between the computed points, thresholds and recovery; a point next to
recovery that did not converge is left out.

`attnlimits figure troiani2025-examples` draws examples.json beside this file, which `python -m
attnlimits.papers.troiani2025.figures.examples` computes again, in some minutes.
"""

from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import CYCLE
from attnlimits.numerics.core.plots import legend_below, mark_threshold, smooth
from attnlimits.numerics.core.results import EvolutionResult
from attnlimits.numerics.fixed_point.evolve import curve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.exact import single_layer

from ...figures import (
    PAGE,
    Array,
    Headline,
    PaperFigure,
    Picture,
    Progress,
    Record,
    Steps,
    label_rows,
    panels,
    with_points,
)

__all__ = ["CASES", "DATA", "FIGURE", "compute", "draw"]

DATA = Path(__file__).with_name("examples.json")
# Points below the threshold, from there to recovery, and beyond.
_POINTS, _SAMPLES = (2, 15, 2), 512
# Name, model of a head, heads, and alpha of perfect recovery: weights over the numbers that an output fixes. A head of
# H sees D/H coordinates.
CASES: dict[str, tuple[Network, int, float]] = {
    "three tokens": (Network(layers=1, tokens=3), 1, 1 / 3),
    "rank two, three tokens": (Network(layers=1, tokens=3, rank=2), 1, 2 / 5),
    "untied": (Network(1, 2, tied=False), 1, 1.0),
    "two heads": (Network(layers=1, tokens=2), 2, 1 / 4),
}


def compute(progress: Progress | None = None) -> Record:
    """Compute all curves from the uninformed start."""
    step = Steps(progress, len(CASES) * sum(_POINTS))
    record: Record = {}
    for name, (model, heads, recovery) in CASES.items():
        threshold = _threshold(model, heads)
        alphas = _grid(threshold, recovery)
        tried = [_settled(model, r) for r in curve(model, alphas * heads, samples=_SAMPLES, progress=step)]
        results = [r for r in tried if r.converged]
        record[name] = {
            "model": model.describe(),
            "heads": heads,
            "threshold": threshold,
            "recovery": recovery,
            "alpha": [r.alpha / heads for r in results],
            "left_out": [r.alpha / heads for r in tried if not r.converged],
            "overlap": [r.overlap.diagonal().tolist() for r in results],
            "overlap_error": [r.overlap_error.diagonal().tolist() for r in results],
            "converged": [r.converged for r in results],
            "how": results[-1].estimation_error.how,
        }
    return record


def _settled(model: Network, result: EvolutionResult) -> EvolutionResult:
    """The fixed point, with more samples if it has not converged."""
    # Samples are doubled so often where a point does not converge.
    doublings = 3
    for doubling in range(1, 1 + doublings):
        if not result.converged:
            (result,) = curve(model, [result.alpha], samples=_SAMPLES << doubling)
    return result


def _grid(threshold: float, recovery: float) -> Array:
    """Alphas on both sides of the threshold and of perfect recovery: there no iteration over samples decides."""
    below, between, beyond = _POINTS
    pieces = [
        np.linspace(0.3 * threshold, threshold, below, endpoint=False),
        np.linspace(threshold, recovery, between + 1, endpoint=False)[1:],
        np.linspace(recovery, 1.25 * recovery, beyond + 1)[1:],
    ]
    return np.concatenate(pieces)


def _threshold(model: Network, heads: int) -> float:
    found = single_layer(model.tokens, model.ranks[0], tied=model.tied, heads=heads)
    assert found is not None and found.value is not None
    return float(found.value)


def draw(record: Record, width: float) -> Picture:
    """Draw every case with its error bars and threshold."""
    figure, found = panels(list(record), width, most=2, sharey=True, aspect=0.78)
    for axes, case in zip(found, record.values(), strict=True):
        alpha, overlap, error = (np.array(case[key]) for key in ("alpha", "overlap", "overlap_error"))
        for index, style in zip(range(overlap.shape[1]), ("o-", "s--"), strict=False):
            colour, q = CYCLE[index], overlap[:, index]
            axes.errorbar(alpha, q, error[:, index], fmt=style[0], mfc="none", ms=3, color=colour)
            label = f"$q_{{{index + 1}{index + 1}}}$"
            exact = {case["threshold"]: 0.0, case["recovery"]: 1.0}
            lines = smooth(*with_points(alpha, q, exact), tuple(exact))
            axes.plot(*lines, style[1:], color=colour, lw=1.1, label=label)
        mark_threshold(axes, case["threshold"], "")
        axes.set_xlabel(r"samples per dimension $\alpha = N/D$")
        legend_below(axes, 2)
    label_rows(found, "overlap")
    return figure


def headline(record: Record) -> Headline:
    """The threshold of the untied layer, whose exact form is in the table of exact thresholds."""
    lines = [
        f"{name}: threshold {case['threshold']:.6f}, recovery from {case['recovery']:.6f} on"
        for name, case in record.items()
    ]
    value = record["untied"]["threshold"]
    converged = all(all(case["converged"]) for case in record.values())
    return Headline(f"{value:.12f}", float(np.spacing(value)) + 5e-13, lines, converged, how="rigorous")


FIGURE = PaperFigure("troiani2025-examples", DATA, draw, headline, compute, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
