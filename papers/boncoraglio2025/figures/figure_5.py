"""Small width against alpha/rho: a threshold of weak recovery forms as rho goes to zero.

Error of estimation of S, softmax (a) and hardmax (b), for widths 0.5, 0.1, 0.02 and in the limit of small width
(dashed): only in the limit is there a sharp threshold (grey line), 1/4 for softmax and 0.40341 for hardmax, where the
published line is the dotted one. At finite width any number of samples reduces the error. Message passing (dots, means
over 16 instances with standard errors; hollow: most had not settled) lies on the curves or slightly above.

The caption of the paper does not say of which activation its figure is: both are drawn. `attnlimits figure
boncoraglio2025-5` computes the curves, in some seconds, and draws them with the stored runs; `python -m
attnlimits.papers.boncoraglio2025.figures.figure_5` does so beside this file.
"""

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import weak_recovery
from attnlimits.numerics.core.colours import ORANGE

from . import published
from .panels import COLOURS, Curve, Line, Panel, Spec, figure_of

__all__ = ["FIGURE", "SPEC"]


def _panel(activation: str, end: float, published_line: tuple[Line, ...] = ()) -> Panel:
    weak = float(weak_recovery(channel(activation)).value)
    widths = {0.5: COLOURS[0.5], 0.1: COLOURS[0.1], 0.02: ORANGE}
    finite = (Curve(activation, 2, rho, rf"$\rho$ = {rho:g}", colour, scale=1 / rho) for rho, colour in widths.items())
    return Panel(
        f"{activation}, T = 2",
        r"samples per dimension and width, $\bar\alpha = n/(dr)$",
        (*finite, Curve(activation, 2, 0.0, r"$\rho \to 0$", COLOURS[0.0], "--")),
        (0.0, end),
        (-0.02, 1.05),
        dimension=100,
        lines=(Line(weak, f"threshold {weak:.5g}", "0.4", "-"), *published_line),
    )


SPEC = Spec(
    5,
    (
        _panel("softmax", 0.6),
        _panel("hardmax", 3.0, (Line(published.WEAK_RECOVERY, "published 0.56345", "0.4", ":"),)),
    ),
    "softmax, T = 2",
    lambda: weak_recovery(channel("softmax")),
)
FIGURE = figure_of(SPEC)

if __name__ == "__main__":
    FIGURE.remake()
