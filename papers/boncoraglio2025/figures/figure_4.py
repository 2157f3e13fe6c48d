"""Softmax at four and five tokens, with message passing at d = 120.

Error of estimation of S against samples at rho = 1/2. More tokens give more functionals of a sample, so that fewer
samples recover S perfectly (short lines at the axis). Message passing (dots) lies slightly above the curves, the more
the fewer the samples: a bias of finite d (hollow: most of 16 instances had not settled). Open squares: public runs at
four tokens.

`attnlimits figure boncoraglio2025-4` computes the curves, in some seconds, and draws them with the stored runs;
`python -m attnlimits.papers.boncoraglio2025.figures.figure_4` does so beside this file.
"""

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import Threshold, perfect_recovery
from attnlimits.numerics.core.colours import BLUE, RED

from . import published
from .panels import Curve, Line, Panel, Spec, figure_of

__all__ = ["FIGURE", "SPEC"]

_COLOURS = {4: RED, 5: BLUE}


def _recovery(tokens: int) -> Threshold:
    return perfect_recovery(0.5, channel("softmax", tokens))


SPEC = Spec(
    4,
    (
        Panel(
            r"softmax, $\rho$ = 0.5",
            r"samples per entry of $S$, $\alpha = n/d^2$",
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
FIGURE = figure_of(SPEC)

if __name__ == "__main__":
    FIGURE.remake()
