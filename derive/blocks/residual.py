"""The residual: what blocks were given, times its strength, is added to what they give."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ..tape import Tape
from .protocol import Place, State, Weightless

__all__ = ["Residual"]


@dataclass(frozen=True)
class Residual(Weightless):
    """X <- c X' + X, X' the tokens that entered the latest `over` blocks.

    Parameters
    ----------
    over : int
        How many blocks it leads around: 1, or 2 for a norm and what follows it.

    References
    ----------
    troiani2025, (3), where it leads around attention.
    """

    over: int = 1
    joins: ClassVar[bool] = True

    @property
    def constants(self) -> tuple[str, ...]:
        """Its strength."""
        return ("c",)

    def apply(self, tape: Tape, place: Place) -> State:
        """Both summed; directions that the blocks added come last."""
        state, before = place.inputs[-1], place.inputs[-1 - self.over]
        strength = place.constant("c")
        added = state.added.copy()
        for row in range(before.added.rows):
            for column in range(before.added.cols):
                added[row, column] += strength * before.added[row, column]
        return replace(
            state, mixing=strength * before.mixing + state.mixing, added=added, shown=None, rows=(), scores=None
        )
