"""Figure 5: small width, against alpha/rho, with the thresholds of weak recovery.

The caption does not say of which activation: both are drawn. Thresholds are sharp in the limit rho -> 0 alone.
"""

from functools import partial

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import weak_recovery
from attnlimits.numerics.core.colours import ORANGE

from . import panels, published
from .panels import COLOURS, Curve, Figure, Line, Panel

__all__ = ["FIGURE", "make"]

_WIDTHS = {0.5: COLOURS[0.5], 0.1: COLOURS[0.1], 0.02: ORANGE}


def _panel(activation: str, end: float, published_line: tuple[Line, ...] = ()) -> Panel:
    weak = float(weak_recovery(channel(activation)).value)
    finite = (Curve(activation, 2, rho, rf"$\rho$ = {rho:g}", colour, scale=1 / rho) for rho, colour in _WIDTHS.items())
    return Panel(
        f"{activation}, T = 2",
        r"$\bar\alpha = n/(d r)$",
        (*finite, Curve(activation, 2, 0.0, r"$\rho \to 0$", COLOURS[0.0], "--")),
        (0.0, end),
        # Above what the curves need: room for the legend.
        (-0.02, 1.45),
        dimension=100,
        lines=(Line(weak, f"weak recovery {weak:.5g}", "0.4", "-"), *published_line),
    )


FIGURE = Figure(
    5,
    (
        _panel("softmax", 0.6),
        _panel("hardmax", 3.0, (Line(published.WEAK_RECOVERY, "published line 0.56345", "0.4", ":"),)),
    ),
    "softmax, T = 2",
    lambda: weak_recovery(channel("softmax")),
)
make = partial(panels.make, FIGURE)

if __name__ == "__main__":
    panels.main(FIGURE)
