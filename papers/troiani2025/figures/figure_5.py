"""Figure 5: overlap of the first layer where that of the second is held, instead of learned.

`attnlimits figure troiani2025-5` draws from held_second_layer.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.figure_5` computes again (some minutes).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attnlimits.numerics.core.plots import save_figure
from attnlimits.numerics.core.progress import Bar
from attnlimits.numerics.core.results import load, save
from attnlimits.numerics.fixed_point.held import first_layer_given
from attnlimits.numerics.model.network import Network

__all__ = ["DATA", "compute", "draw", "make"]

DATA = Path(__file__).with_name("held_second_layer.json")
_ALPHAS = (0.8, 1.2)
# 1 - q_22, from coarse to close.
_HELD = 1 - np.concatenate([np.linspace(1.0, 0.1, 10), np.geomspace(0.08, 0.005, 14)])
_ACCURACY = 1e-2
_COLOURS = ("#1f4e9c", "#b3261e")


def compute(progress: Callable[[int, int], None] | None = None) -> Path:
    """Solve for q_11 at every held q_22 and write `DATA`."""
    model = Network()
    total, done = len(_ALPHAS) * len(_HELD), 0
    record: dict[str, Any] = {"model": model.describe(), "alpha": _ALPHAS, "q22": _HELD.tolist(), "how": "estimated"}
    record["q11"], record["error"] = [], []
    for alpha in _ALPHAS:
        found = []
        for q22 in _HELD:
            found.append(first_layer_given(model, alpha, float(q22), accuracy=_ACCURACY))
            done += 1
            if progress is not None:
                progress(done, total)
        record["q11"].append([one.value for one in found])
        record["error"].append([one.error for one in found])
    save(DATA, record)
    return DATA


def draw(record: dict[str, Any], *paths: Path) -> None:
    """Draw q_11 against q_22 with its errors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    held = np.array(record["q22"])
    for alpha, q11, error, colour in zip(record["alpha"], record["q11"], record["error"], _COLOURS, strict=True):
        axes.errorbar(held, q11, error, fmt="o-", ms=3, lw=1.2, capsize=2, color=colour, label=rf"$\alpha$ = {alpha:g}")
    axes.set_xlabel(r"held overlap of the second layer, $q_{22}$")
    axes.set_ylabel(r"overlap of the first layer, $q_{11}$")
    axes.set_title(record["model"], fontsize=8)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    for path in paths:
        save_figure(figure, path, dpi=160)
    plt.close(figure)


def make(out: Path, points: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Draw the stored overlaps.

    Parameters
    ----------
    out : Path
        Folder for troiani2025-5.json, .png and .pdf.
    points : int
        Not used: the points are those stored.
    progress : callable
        Called with (done, total).

    Returns
    -------
    dict
        Files, `value` (q_11 at the largest alpha and q_22), `error`, `how`, `summary` lines, `converged`, `status`.
    """
    record = load(DATA)
    files = {kind: out / f"troiani2025-5.{kind}" for kind in ("json", "png", "pdf")}
    save(files["json"], record)
    draw(record, files["png"], files["pdf"])
    progress(1, 1)
    lines = []
    for alpha, q11 in zip(record["alpha"], record["q11"], strict=True):
        unlearned = [q for q, one in zip(record["q22"], q11, strict=True) if one == 0]
        lines.append(f"alpha = {alpha:g}: layer 1 is not learned up to q_22 = {max(unlearned):.4f}")
    return {
        "files": {kind: str(path) for kind, path in files.items()},
        "value": f"{record['q11'][-1][-1]:.4f}",
        "error": record["error"][-1][-1],
        "how": record["how"],
        "converged": True,
        "status": f"drawn from {DATA.name}",
        "summary": [*lines, *(f"wrote {path}" for path in files.values())],
    }


if __name__ == "__main__":
    bar = Bar("held second layer", show=True)
    print(f"wrote {compute(progress=bar.to)}")
    bar.close()
    draw(load(DATA), DATA.with_suffix(".png"))
