"""Numbers of the public code and data of the paper (refs.bib: boncoraglio2025code), to mark in the figures.

Facts read from its CSV files and scripts, all at rho = 0.5; errors are ||S - Shat||^2/d.
"""

from dataclasses import dataclass

__all__ = ["DESCENT", "HARDMAX_AMP", "HARDMAX_EVOLUTION", "SOFTMAX_AMP", "WEAK_RECOVERY", "Marks"]


@dataclass(frozen=True)
class Marks:
    """Points of one published series.

    Attributes
    ----------
    label : str
    points : tuple of (float, float)
        alpha = n/d^2 and error.
    marker : str
        Of matplotlib.
    """

    label: str
    points: tuple[tuple[float, float], ...]
    marker: str


#: State evolution and message passing of hardmax, T = 2: both by the variant that is not Bayes-optimal.
HARDMAX_EVOLUTION = Marks("state evolution", ((1.0026943807, 0.3145479907), (10.0, 0.0473341228)), "D")
HARDMAX_AMP = Marks("AMP, d = 100", ((0.261, 0.652), (0.769, 0.385)), "s")
#: Message passing, softmax, by T.
SOFTMAX_AMP = {
    2: Marks("AMP, T = 2", ((0.0806, 0.541), (0.1024, 0.414), (0.1300, 0.235), (0.1465, 0.161)), "s"),
    3: Marks("AMP, T = 3", ((0.03, 0.572), (0.04, 0.401), (0.05, 0.257), (0.06, 0.136)), "D"),
    4: Marks("AMP, T = 4", ((0.02, 0.480), (0.03, 0.218)), "s"),
}
#: Adam on one student and the mean of 32 of them, softmax, T = 2, d = 200.
DESCENT = {
    "gd": Marks("GD, d = 200", ((0.0423, 1.378), (0.0862, 0.997), (0.1231, 0.611), (0.1758, 0.187)), "^"),
    "agd": Marks("averaged GD, d = 200", ((0.0423, 0.831), (0.0862, 0.544), (0.1231, 0.310), (0.1758, 0.082)), "v"),
}
#: alpha/rho of weak recovery, hardmax at small width, as the public figure draws it: of the variant.
WEAK_RECOVERY = 0.5634517524
