"""Cost of the last-layer threshold against the digits asked for; data and figure stand beside this file.

`python -m attnlimits.papers.troiani2025.figures.cost_per_digit` measures and draws again (a minute or two).
"""

import time
from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import BLUE
from attnlimits.numerics.core.results import save
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.digits.threshold import precise_threshold

from ...figures import Progress, Record, Steps, canvas, remake, write

__all__ = ["DATA", "DIGITS", "compute", "draw", "growth", "measure"]

DATA = Path(__file__).with_suffix(".json")
DIGITS = (15, 20, 25, 30, 35, 40, 50)
_REPEATS = 12


def measure(digits: tuple[int, ...] = DIGITS, repeats: int = _REPEATS, progress: Progress | None = None) -> Record:
    """Least processor seconds of each threshold at c = beta = 1."""
    model = Network()
    precise_threshold(model, 15)
    least, values = dict.fromkeys(digits, float("inf")), {}
    step = Steps(progress, repeats)
    # In turns: what slows the machine down for a while meets all of them.
    for _ in range(repeats):
        for wanted in digits:
            start = time.process_time()
            values[wanted] = precise_threshold(model, wanted).value
            least[wanted] = min(least[wanted], time.process_time() - start)
        step()
    return {
        "model": model.describe(),
        "digits": list(digits),
        "seconds": [round(least[wanted], 3) for wanted in digits],
        "values": [values[wanted] for wanted in digits],
    }


def growth(record: Record) -> float:
    """Factor per doubling of the digits, fitted from 25 digits on."""
    digits, seconds = np.array(record["digits"], dtype=float), np.array(record["seconds"])
    keep = digits >= 25
    slope = np.polyfit(np.log2(digits[keep]), np.log2(seconds[keep]), 1)[0]
    return float(2**slope)


def compute(progress: Progress | None = None) -> Path:
    """Measure and write `DATA`."""
    save(DATA, measure(progress=progress))
    return DATA


def draw(record: Record, *paths: Path) -> None:
    """Draw one record."""
    figure, axes = canvas(5.2, 3.6)
    axes.loglog(record["digits"], record["seconds"], "o-", color=BLUE, lw=1.4, ms=4)
    ticks = record["digits"]
    axes.set_xticks(ticks, [str(d) for d in ticks])
    axes.minorticks_off()
    axes.set_xlabel("digits, all right")
    axes.set_ylabel("processor seconds, one core")
    axes.set_title(f"{record['model']}: x{growth(record):.1f} per doubling from 25 digits", fontsize=7)
    axes.grid(alpha=0.3)
    write(figure, paths)


if __name__ == "__main__":
    found = remake("cost per digit", compute, draw)
    print(f"x{growth(found):.2f} per doubling;", dict(zip(found["digits"], found["seconds"], strict=True)))
