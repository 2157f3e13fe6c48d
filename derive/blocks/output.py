"""What is observed, where that is not what the last block shows: all tokens that leave it, or one of them."""

from dataclasses import dataclass, replace

from ..tape import Tape
from .protocol import Place, State, Weightless

__all__ = ["Output"]


@dataclass(frozen=True)
class Output(Weightless):
    """Rows of B: the tokens B X_0 that leave the network, X_0 being known.

    Parameters
    ----------
    token : int, optional
        Which of them, from 0; all by default.

    References
    ----------
    troiani2025, (25).
    """

    token: int | None = None

    def apply(self, tape: Tape, place: Place) -> State:
        """The same tokens, shown.

        Raises
        ------
        ValueError
            Directions that blocks have added are seen with them, and belong to no index.
        """
        state = place.inputs[-1]
        if state.directions:
            raise ValueError(
                "tokens that leave a network show what its mlp adds to them, the weights U themselves: observe the "
                "attention or a readout behind an mlp instead"
            )
        kept = range(place.tokens) if self.token is None else (self.token,)
        return replace(state, shown=state.mixing.extract(list(kept), list(range(place.tokens))), rows=())
