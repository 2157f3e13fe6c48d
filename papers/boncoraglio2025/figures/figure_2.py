"""Figure 2: errors of softmax at two tokens for several widths, and against the samples scaled by the functionals."""

from functools import partial

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import Threshold, perfect_recovery
from attnlimits.numerics.core.colours import BLUE, RED

from . import panels, published
from .panels import COLOURS, Curve, Figure, Line, Panel

__all__ = ["FIGURE", "make"]

_WIDTHS = (0.1, 0.5, 1.0, 2.0)


def _recovery(rho: float) -> Threshold:
    return perfect_recovery(rho, channel("softmax"))


FIGURE = Figure(
    2,
    (
        Panel(
            "softmax, T = 2; short lines: perfect recovery by counting",
            r"$\alpha = n/d^2$",
            (
                *(Curve("softmax", 2, rho, rf"$\rho$ = {rho:g}", COLOURS[rho]) for rho in _WIDTHS),
                # Wide enough that its error differs by 1e-6 from 1 - 2 K alpha, the limit.
                Curve("softmax", 2, 1e6, r"$\rho \to \infty$", "0.4", "--"),
            ),
            (0.0, 0.27),
            dimension=100,
            lines=tuple(Line(float(_recovery(rho).value), None, COLOURS[rho], "-", True) for rho in (0.1, 0.5, 1.0)),
        ),
        Panel(
            r"softmax, $\rho$ = 0.5: one curve for all T",
            r"$\alpha\,(T^2 + T - 2)$",
            (
                Curve("softmax", 2, 0.5, "state evolution, T = 2", RED, "-", 4.0),
                Curve("softmax", 3, 0.5, "state evolution, T = 3", BLUE, "--", 10.0),
            ),
            (0.0, 0.9),
            (-0.02, 2.05),
            dimension=100,
            marks=(
                (published.SOFTMAX_AMP[2], 4.0, RED),
                (published.SOFTMAX_AMP[3], 10.0, BLUE),
                (published.DESCENT["gd"], 4.0, "0.4"),
                (published.DESCENT["agd"], 4.0, "0.4"),
            ),
            descent=True,
        ),
    ),
    "softmax, T = 2, rho = 0.5",
    lambda: _recovery(0.5),
)
make = partial(panels.make, FIGURE)

if __name__ == "__main__":
    panels.main(FIGURE)
