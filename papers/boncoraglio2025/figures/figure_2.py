"""Softmax at two tokens for several widths, and one curve for all numbers of tokens.

(a) Error of estimation of S against samples for four widths and for width to infinity: each curve falls to zero at the
number of samples at which the functionals of the outputs are as many as the parameters (short lines). (b) Against the
samples times the functionals of a sample, two and three tokens lie on one curve. Message passing (dots, means over 16
instances with standard errors; hollow: most had not settled) is on the curves. Gradient descent, of one student and
averaged over students, is above them, ours (filled, four instances) as the public data (open).

`attnlimits figure boncoraglio2025-2` computes the curves, in some seconds, and draws them with the stored runs;
`python -m attnlimits.papers.boncoraglio2025.figures.figure_2` does so beside this file.
"""

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.thresholds import Threshold, perfect_recovery
from attnlimits.numerics.core.colours import BLUE, RED

from . import published
from .panels import COLOURS, WIDTHS, Curve, Line, Panel, Spec, figure_of

__all__ = ["FIGURE", "SPEC"]


def _recovery(rho: float) -> Threshold:
    return perfect_recovery(rho, channel("softmax"))


SPEC = Spec(
    2,
    (
        Panel(
            "softmax, T = 2",
            r"samples per entry of $S$, $\alpha = n/d^2$",
            (
                *(Curve("softmax", 2, rho, rf"$\rho$ = {rho:g}", COLOURS[rho]) for rho in WIDTHS),
                # Wide enough that its error differs by 1e-6 from 1 - 2 K alpha, the limit.
                Curve("softmax", 2, 1e6, r"$\rho \to \infty$", "0.4", "--"),
            ),
            (0.0, 0.27),
            dimension=100,
            lines=tuple(Line(float(_recovery(rho).value), None, COLOURS[rho], "-", True) for rho in (0.1, 0.5, 1.0)),
        ),
        Panel(
            r"softmax, $\rho$ = 0.5, all T",
            r"functionals of all samples, $\alpha\,(T^2 + T - 2)$",
            (
                Curve("softmax", 2, 0.5, "evolution, T = 2", RED, "-", 4.0),
                Curve("softmax", 3, 0.5, "evolution, T = 3", BLUE, "--", 10.0),
            ),
            (0.0, 0.9),
            (-0.02, 1.55),
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
FIGURE = figure_of(SPEC)

if __name__ == "__main__":
    FIGURE.remake()
