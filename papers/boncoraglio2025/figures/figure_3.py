"""Figure 3: errors of the linear channel at two tokens for several widths, with the thresholds of counting."""

from functools import partial

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import Threshold, perfect_recovery

from . import panels
from .panels import COLOURS, Curve, Figure, Line, Panel

__all__ = ["FIGURE", "make"]

_WIDTHS = (0.1, 0.5, 1.0, 2.0)


def _recovery(rho: float) -> Threshold:
    return perfect_recovery(rho, channel("linear"))


FIGURE = Figure(
    3,
    (
        Panel(
            "linear, y = h, T = 2; short lines: counting",
            r"$\alpha = n/d^2$",
            tuple(Curve("linear", 2, rho, rf"$\rho$ = {rho:g}", COLOURS[rho]) for rho in _WIDTHS),
            (0.0, 0.18),
            dimension=100,
            lines=tuple(Line(float(_recovery(rho).value), None, COLOURS[rho], "-", True) for rho in (0.1, 0.5, 1.0)),
        ),
    ),
    "linear, T = 2, rho = 0.5",
    lambda: _recovery(0.5),
)
make = partial(panels.make, FIGURE)

if __name__ == "__main__":
    panels.main(FIGURE)
