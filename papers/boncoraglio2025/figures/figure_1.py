"""Hardmax at two tokens, correct and as published: the published evolution is not Bayes-optimal.

Error of estimation of S against samples, (a) for four widths and (b) in the limit of small width. Full curves: the
state evolution (8)-(9) with the derivative of Phi2, (34); dashed: with the bivariate density in its place, as in the
public code, which needs many times the samples for the same error. Message passing (dots, means over 16 instances with
standard errors) lies on the full curves and far below the dashed ones, on which the public data (open marks) lie; at
rho = 0.1 and alpha >= 1 finite d leaves an error above the curve. (b) Weak recovery sets in at 0.40341, not at the
published 0.56345.

`attnlimits figure boncoraglio2025-1` computes the curves, in some seconds, and draws them with the stored runs;
`python -m attnlimits.papers.boncoraglio2025.figures.figure_1` does so beside this file. See the errata in README.md.
"""

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import weak_recovery

from . import published
from .panels import COLOURS, WIDTHS, Curve, Line, Panel, Spec, figure_of

__all__ = ["FIGURE", "SPEC"]

_WEAK = weak_recovery(channel("hardmax"))
_ABAR = r"samples per dimension and width, $\bar\alpha = n/(dr)$"


def _pair(rho: float, name: str, variant: str | None = None) -> tuple[Curve, Curve]:
    """Return the curve of the model, and that of the published variant."""
    return (
        Curve("hardmax", 2, rho, name, COLOURS[rho]),
        Curve("hardmax_published", 2, rho, variant, COLOURS[rho], "--"),
    )


SPEC = Spec(
    1,
    (
        Panel(
            "hardmax, T = 2",
            r"samples per entry of $S$, $\alpha = n/d^2$",
            tuple(line for rho in WIDTHS for line in _pair(rho, rf"$\rho$ = {rho:g}")),
            (1e-2, 20.0),
            (1e-5, 1.5),
            dimension=100,
            marks=((published.HARDMAX_AMP, 1.0, COLOURS[0.5]), (published.HARDMAX_EVOLUTION, 1.0, COLOURS[0.5])),
            logarithmic=True,
        ),
        Panel(
            r"hardmax, T = 2, $\rho \to 0$",
            _ABAR,
            _pair(0.0, "state evolution", "published variant"),
            (0.0, 3.0),
            lines=(
                Line(float(_WEAK.value), f"weak recovery {float(_WEAK.value):.5f}", "0.4", "-"),
                Line(published.WEAK_RECOVERY, f"published line {published.WEAK_RECOVERY:.5f}", "0.4", ":"),
            ),
        ),
    ),
    "hardmax, T = 2",
    lambda: _WEAK,
)
FIGURE = figure_of(SPEC)

if __name__ == "__main__":
    FIGURE.remake()
