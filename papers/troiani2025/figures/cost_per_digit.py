"""Cost of the last-layer threshold against the digits asked for; data and figure stand beside this file.

`python -m attnlimits.papers.troiani2025.figures.cost_per_digit` measures and draws again (a minute or two).
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from attnlimits.numerics.core.plots import save_figure
from attnlimits.numerics.core.progress import Bar
from attnlimits.numerics.core.results import load, save
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.digits.threshold import precise_threshold

__all__ = ["DIGITS", "draw", "growth", "make", "measure"]

DIGITS = (15, 20, 25, 30, 35, 40, 50)
_REPEATS = 12


def measure(digits: tuple[int, ...] = DIGITS, repeats: int = _REPEATS) -> dict[str, Any]:
    """Least processor seconds of each threshold at c = beta = 1."""
    model = Network()
    precise_threshold(model, 15)
    least, values = dict.fromkeys(digits, float("inf")), {}
    bar = Bar("cost per digit", show=True)
    # In turns: what slows the machine down for a while meets all of them.
    for done in range(repeats):
        bar.to(done, repeats)
        for wanted in digits:
            start = time.process_time()
            values[wanted] = precise_threshold(model, wanted).value
            least[wanted] = min(least[wanted], time.process_time() - start)
    bar.close()
    return {
        "model": model.describe(),
        "digits": list(digits),
        "seconds": [round(least[wanted], 3) for wanted in digits],
        "values": [values[wanted] for wanted in digits],
    }


def growth(record: dict[str, Any]) -> float:
    """Factor per doubling of the digits, fitted from 25 digits on."""
    digits, seconds = np.array(record["digits"], dtype=float), np.array(record["seconds"])
    keep = digits >= 25
    slope = np.polyfit(np.log2(digits[keep]), np.log2(seconds[keep]), 1)[0]
    return float(2**slope)


def draw(record: dict[str, Any], path: Path) -> None:
    """Draw one record."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
    axes.loglog(record["digits"], record["seconds"], "o-", color="#1f4e9c", lw=1.4, ms=4)
    ticks = record["digits"]
    axes.set_xticks(ticks, [str(d) for d in ticks])
    axes.minorticks_off()
    axes.set_xlabel("digits, all right")
    axes.set_ylabel("processor seconds, one core")
    axes.set_title(f"{record['model']}: x{growth(record):.1f} per doubling from 25 digits", fontsize=7)
    axes.grid(alpha=0.3)
    save_figure(figure, path, dpi=160)
    plt.close(figure)


def make(out: Path) -> dict[str, Any]:
    """Measure, save and draw.

    Parameters
    ----------
    out : Path
        Folder for cost_per_digit.json and .png.

    Returns
    -------
    dict
        The record.
    """
    record = measure()
    save(out / "cost_per_digit.json", record)
    draw(load(out / "cost_per_digit.json"), out / "cost_per_digit.png")
    return record


if __name__ == "__main__":
    found = make(Path(__file__).parent)
    print(f"x{growth(found):.2f} per doubling;", dict(zip(found["digits"], found["seconds"], strict=True)))
