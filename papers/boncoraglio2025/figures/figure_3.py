"""The linear channel at two tokens for several widths, with the thresholds of counting.

Error of estimation of S against samples where the scores themselves are observed: each curve falls to zero where the
scores are as many as the parameters (short lines at the axis), later for wider S. Message passing (dots) is on
the curves.

`attnlimits figure boncoraglio2025-3` computes the curves, in some seconds, and draws them with the stored runs;
`python -m attnlimits.papers.boncoraglio2025.figures.figure_3` does so beside this file.
"""

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import Threshold, perfect_recovery

from .panels import COLOURS, WIDTHS, Curve, Line, Panel, Spec, figure_of

__all__ = ["FIGURE", "SPEC"]


def _recovery(rho: float) -> Threshold:
    return perfect_recovery(rho, channel("linear"))


SPEC = Spec(
    3,
    (
        Panel(
            "linear, y = h, T = 2",
            r"samples per entry of $S$, $\alpha = n/d^2$",
            tuple(Curve("linear", 2, rho, rf"$\rho$ = {rho:g}", COLOURS[rho]) for rho in WIDTHS),
            (0.0, 0.18),
            dimension=100,
            lines=tuple(Line(float(_recovery(rho).value), None, COLOURS[rho], "-", True) for rho in (0.1, 0.5, 1.0)),
        ),
    ),
    "linear, T = 2, rho = 0.5",
    lambda: _recovery(0.5),
)
FIGURE = figure_of(SPEC)

if __name__ == "__main__":
    FIGURE.remake()
