"""Figure 4: errors of softmax at four and five tokens, with message passing at d = 120."""

from functools import partial

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import Threshold, perfect_recovery
from attnlimits.numerics.core.colours import BLUE, RED

from . import panels, published
from .panels import Curve, Figure, Line, Panel

__all__ = ["FIGURE", "make"]

_COLOURS = {4: RED, 5: BLUE}


def _recovery(tokens: int) -> Threshold:
    return perfect_recovery(0.5, channel("softmax", tokens))


FIGURE = Figure(
    4,
    (
        Panel(
            r"softmax, $\rho$ = 0.5; short lines: perfect recovery",
            r"$\alpha = n/d^2$",
            tuple(Curve("softmax", t, 0.5, f"T = {t}", colour) for t, colour in _COLOURS.items()),
            (0.0, 0.048),
            dimension=120,
            marks=((published.SOFTMAX_AMP[4], 1.0, _COLOURS[4]),),
            lines=tuple(Line(float(_recovery(t).value), None, colour, "-", True) for t, colour in _COLOURS.items()),
        ),
    ),
    "softmax, T = 4, rho = 0.5",
    lambda: _recovery(4),
)
make = partial(panels.make, FIGURE)

if __name__ == "__main__":
    panels.main(FIGURE)
