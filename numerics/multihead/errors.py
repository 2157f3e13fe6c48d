"""Why a multi-head layer was not learned: one class per reason, each with a sentence."""

from ..core.errors import ConvergenceError

__all__ = [
    "Degenerate",
    "DegenerateSum",
    "InsufficientCertifiedRows",
    "LearnError",
    "LearnWarning",
    "LinearProgramFailure",
    "NoConsistentModel",
    "NotIdentifiable",
]


class LearnError(ConvergenceError):
    """A multi-head layer was not learned from these examples.

    Parameters
    ----------
    argument : str
        The argument, or the quantity made of it, that the reason is about.
    found, needed : str
        What it is, and what it would have to be.
    remedy : str
        What to try.
    instead : str
        How to have what was found all the same; empty where nothing was.
    """

    def __init__(self, argument: str, found: str, needed: str, remedy: str, instead: str = "") -> None:
        super().__init__(argument, found, needed, remedy, instead)
        self.argument, self.found, self.needed = argument, found, needed
        self.remedy, self.instead = remedy, instead

    @property
    def sentence(self) -> str:
        """The reason with its remedy."""
        return f"{type(self).__name__}: {self.argument} is {self.found}, but {self.needed} is needed; {self.remedy}"

    def __str__(self) -> str:
        return f"{self.sentence}; {self.instead}" if self.instead else self.sentence


class NotIdentifiable(LearnError):
    """Other parameters give the same layer: one token, equal heads, a head without values, sign flips at k = 2."""


class Degenerate(LearnError):
    """Too few dimensions, d < m (k - 1): attention patterns of the heads cannot be told from one output row."""


class DegenerateSum(LearnError):
    """The sum of the W_i has too small a rank for the regression that certifies rows."""


class InsufficientCertifiedRows(LearnError):
    """Too few rows with all attention weights inside the simplex to fix d^2 unknowns."""


class NoConsistentModel(LearnError):
    """No layer with this number of heads explains held-out examples to within the noise."""


class LinearProgramFailure(LearnError):
    """HiGHS found no optimum of a linear program over the convex body, or not in time."""


class LearnWarning(UserWarning):
    """What would have been a `LearnError` in strict mode."""
