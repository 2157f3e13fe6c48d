"""The plots of a report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .drawing import INK, drawing, series
from .markup import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["as_asked", "depth_plot", "entropy_plot", "evolution_plot", "instances_plot", "overlap_name"]

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_LABELS = {"uninformed": "posterior mean", "informed": "from full overlap"}


def as_asked(point: Record) -> bool:
    """Whether a fixed point is converged and as accurate as asked; or converged, where a record kept no more."""
    return bool(point.get("reached", point["converged"]))


def overlap_name(i: int) -> str:
    """Name of a diagonal overlap, counted from 0."""
    return f"q{str(i + 1) * 2}".translate(_SUBSCRIPTS) if i < 9 else f"q_{i + 1},{i + 1}"


def evolution_plot(points: Sequence[Record], marks: Sequence[tuple[str, float]]) -> str:
    """Overlaps and prediction errors against alpha, from both starts, with the marks as lettered lines."""
    dashes = {"uninformed": "-", "informed": (0, (4, 2))}
    with drawing("evolution", "overlaps and prediction errors against alpha, from both starts", 5.2) as made:
        above, below = made.figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for start, dash in dashes.items():
            found = [point for point in points if point["start"] == start]
            if not found:
                continue
            alpha = [point["alpha"] for point in found]
            size = len(found[0]["overlap"])
            for i in range(size):
                q, error = (np.array([p[name][i][i] for p in found], float) for name in ("overlap", "overlap_error"))
                label = overlap_name(i) if start == "uninformed" else None
                above.plot(alpha, q, color=series(i), ls=dash, marker=".", ms=3, lw=1.2, label=label)
                above.fill_between(
                    alpha, np.maximum(q - error, 0), np.minimum(q + error, 1), color=series(i), alpha=0.2, lw=0
                )
                open_ = [(p["alpha"], p["overlap"][i][i]) for p in found if not as_asked(p)]
                if open_:
                    above.plot(*zip(*open_, strict=True), "o", mfc="none", mec=series(i), ms=6)
            value = np.array([p["prediction_error"]["value"] for p in found], float)
            sigma = np.array([p["prediction_error"]["error"] for p in found], float)
            below.errorbar(alpha, value, sigma, color=INK, ls=dash, marker=".", ms=3, lw=1.2, label=_LABELS[start])
            if start == "uninformed":
                plug = np.array([p["plugin_error"]["value"] for p in found], float)
                below.plot(alpha, plug, color=series(4), ls=":", lw=1.2, label="plug-in")
        above.set(ylabel="overlap", ylim=(-0.03, 1.03))
        below.set(xlabel="α = N/D, samples per dimension", ylabel="prediction error")
        below.set_ylim(bottom=0)
        for axes in (above, below):
            _mark(axes, marks, letters=axes is above)
        made.figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return made.svg


def _mark(axes: "Axes", marks: Sequence[tuple[str, float]], *, letters: bool) -> None:
    """Vertical lines, and above them their letters."""
    low, high = axes.get_xlim()
    row, before = 0, -np.inf
    # Marks nearer than this share of the axis have their letters in two rows.
    near = 0.05
    for k, (_, at) in sorted(enumerate(marks), key=lambda mark: mark[1][1]):
        axes.axvline(at, color=INK, lw=0.8, ls=":")
        row = 1 - row if at - before < near * (high - low) else 0
        before = at
        if letters:
            across = axes.get_xaxis_transform()
            axes.text(at, 1.02 + 0.07 * row, chr(ord("a") + k), transform=across, fontsize=8, ha="center", va="bottom")
    axes.set_xlim(low, high)


def entropy_plot(data: Record) -> str:
    """Free entropy against the overlap, one curve an alpha."""
    with drawing("entropy", "free entropy against the overlap at several alphas", 3.3) as made:
        axes = made.figure.subplots()
        q = np.array(data["overlap"], float)
        for k, curve in enumerate(data["curves"]):
            value, error = (np.array(curve[name], float) for name in ("value", "error"))
            axes.plot(q, value, color=series(k), lw=1.3, label=f"α = {curve['alpha']:.5g}")
            axes.fill_between(q, value - error, value + error, color=series(k), alpha=0.2, lw=0)
        axes.set(xlabel="overlap q", ylabel="Φ(q) − Φ(0)")
        made.figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return made.svg


def instances_plot(runs: Record, theory: Record | None, name: str) -> str:
    """Overlaps of each instance over the iterations, and the fixed point of the state evolution."""
    with drawing(name, f"overlaps over the iterations of message passing at alpha = {runs['alpha']:g}", 3.0) as made:
        axes = made.figure.subplots()
        for number, history in enumerate(runs["history"]):
            q = np.abs(np.array(history, float))
            for i in range(q.shape[1]):
                label = overlap_name(i) if number == 0 else None
                axes.plot(q[:, i], color=series(i), lw=0.9, alpha=0.8, label=label)
        if theory is not None:
            for i, row in enumerate(theory["overlap"]):
                label = "state evolution" if i == 0 else None
                axes.axhline(row[i], color=series(i), lw=1.6, ls=(0, (4, 2)), label=label)
        axes.set(xlabel="iteration", ylabel="overlap with the teacher", ylim=(-0.03, 1.03))
        made.figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return made.svg


def depth_plot(points: Sequence[Record], limit: float | None) -> str:
    """Threshold against the skip strength, and its limit."""
    with drawing("depth", "threshold of the last layer against the skip strength", 2.8) as made:
        axes = made.figure.subplots()
        skip, alpha = ([point[name] for point in points] for name in ("skip", "alpha"))
        axes.semilogx(skip, alpha, color=series(1), marker="o", ms=4, lw=1.2, label="threshold of the last layer")
        if limit is not None:
            axes.axhline(limit, color=INK, ls=":", lw=1, label="limit, one layer")
        axes.set(xlabel="skip strength c", ylabel="α = N/D")
        axes.set_xticks(skip, [f"{c:g}" for c in skip])
        axes.minorticks_off()
        made.figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return made.svg
