"""Cost of the last-layer threshold against the digits asked for: twice the digits take four to five times as long.

Least processor seconds of one core, of twelve runs in turns, for the threshold of the second layer at c = beta = 1
with 15 to 50 digits, all of them right. From 25 digits on the time is a power of the digits (line), whose factor per
doubling stands in the legend.

`attnlimits figure troiani2025-cost_per_digit` draws cost_per_digit.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.cost_per_digit` measures again, in a minute or two.
"""

import time
from pathlib import Path

import numpy as np
from matplotlib.ticker import NullLocator

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import legend_below
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.digits.threshold import precise_threshold

from ...figures import Headline, PaperFigure, Picture, Progress, Record, Steps, panels

__all__ = ["DATA", "DIGITS", "FIGURE", "draw", "growth", "measure"]

DATA = Path(__file__).with_suffix(".json")
DIGITS = (15, 20, 25, 30, 35, 40, 50)
_REPEATS = 12
# Digits from which the cost is a power of them.
_FROM = 25


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
    keep = digits >= _FROM
    slope = np.polyfit(np.log2(digits[keep]), np.log2(seconds[keep]), 1)[0]
    return float(2**slope)


def draw(record: Record, width: float) -> Picture:
    """Draw one record, with the power of the digits that fits it."""
    figure, (axes,) = panels([r"threshold of two layers, $c$ = $\beta$ = 1"], width)
    digits, seconds = np.array(record["digits"], dtype=float), np.array(record["seconds"])
    axes.loglog(digits, seconds, "o", color=BLUE, label="measured")
    beyond = digits[digits >= _FROM]
    slope = np.log2(growth(record))
    level = np.exp(np.mean(np.log(seconds[digits >= _FROM]) - slope * np.log(beyond)))
    axes.loglog(beyond, level * beyond**slope, color=RED, lw=1, label=f"times {2**slope:.1f} per doubling")
    axes.set_xticks(record["digits"], [str(d) for d in record["digits"]])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("digits, all of them right")
    axes.set_ylabel("processor seconds of one core")
    legend_below(axes, 2)
    return figure


def headline(record: Record) -> Headline:
    """The factor per doubling of the digits."""
    digits, seconds = np.array(record["digits"], dtype=float), np.array(record["seconds"])
    keep = digits >= _FROM
    rest = np.log(seconds[keep]) - np.polyval(
        np.polyfit(np.log(digits[keep]), np.log(seconds[keep]), 1), np.log(digits[keep])
    )
    lines = [record["model"], "value: factor of the seconds per doubling of the digits, from 25 digits on"]
    return Headline(f"{growth(record):.2f}", growth(record) * float(np.abs(rest).max()), lines, how="estimated")


FIGURE = PaperFigure("troiani2025-cost_per_digit", DATA, draw, headline, measure)

if __name__ == "__main__":
    FIGURE.remake()
