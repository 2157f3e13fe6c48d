"""Figure 1: errors of hardmax at two tokens, correct and as published, and their limit of small width.

Solid curves and dots are the state evolution (8)-(9) and message passing with the derivative of Phi2, (34); dashed
curves have the bivariate density in its place, as the public code has. See the errata in README.md.
"""

from functools import partial

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import weak_recovery

from . import panels, published
from .panels import COLOURS, Curve, Figure, Line, Panel

__all__ = ["FIGURE", "make"]

_WEAK = weak_recovery(channel("hardmax"))
_ABAR = r"$\bar\alpha = n/(d r)$"


def _pair(rho: float, name: str, variant: str | None = None) -> tuple[Curve, Curve]:
    """Return the curve of the model, and that of the published variant."""
    return (
        Curve("hardmax", 2, rho, name, COLOURS[rho]),
        Curve("hardmax_published", 2, rho, variant, COLOURS[rho], "--"),
    )


FIGURE = Figure(
    1,
    (
        Panel(
            "hardmax, T = 2; dashed: the published variant, not Bayes-optimal",
            r"$\alpha = n/d^2$",
            tuple(line for rho in (0.1, 0.5, 1.0, 2.0) for line in _pair(rho, rf"$\rho$ = {rho:g}")),
            (1e-2, 20.0),
            (1e-5, 1.5),
            dimension=100,
            marks=((published.HARDMAX_AMP, 1.0, COLOURS[0.5]), (published.HARDMAX_EVOLUTION, 1.0, COLOURS[0.5])),
            logarithmic=True,
            place="lower left",
        ),
        Panel(
            r"hardmax, T = 2, small width $\rho \to 0$",
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
make = partial(panels.make, FIGURE)

if __name__ == "__main__":
    panels.main(FIGURE)
