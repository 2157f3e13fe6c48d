"""Numbers of the public code and data of the paper (refs.bib: boncoraglio2025code), to mark in the figures.

Facts read from its CSV files and scripts, all at rho = 0.5; errors are ||S - Shat||^2/d.
"""

from dataclasses import dataclass
from pathlib import Path

from ...figures import table

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


_ROWS = table(Path(__file__).with_suffix(".csv"))


def _marks(series: str, label: str, marker: str) -> Marks:
    points = tuple((float(row["alpha"]), float(row["error"])) for row in _ROWS if row["series"] == series)
    return Marks(label, points, marker)


#: State evolution and message passing of hardmax, T = 2: both by the variant that is not Bayes-optimal.
HARDMAX_EVOLUTION = _marks("hardmax evolution", "state evolution", "D")
HARDMAX_AMP = _marks("hardmax AMP", "AMP, d = 100", "s")
#: Message passing, softmax, by T.
SOFTMAX_AMP = {
    tokens: _marks(f"softmax AMP T={tokens}", f"AMP, T = {tokens}", marker)
    for tokens, marker in enumerate(("s", "D", "s"), 2)
}
#: Adam on one student and the mean of 32 of them, softmax, T = 2, d = 200.
DESCENT = {
    "gd": _marks("softmax gd", "GD, d = 200", "^"),
    "agd": _marks("softmax agd", "averaged GD, d = 200", "v"),
}
#: alpha/rho of weak recovery, hardmax at small width, as the public figure draws it: of the variant.
WEAK_RECOVERY = 0.5634517524
