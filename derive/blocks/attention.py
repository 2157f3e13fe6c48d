"""Attention: X <- S X, S = sigma(beta K^T Q), keys and queries seen through the tokens, each row through its mask."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ..architecture import Activation, Architecture
from ..attention import Mask, attention
from ..straightline import Stage
from ..tape import Tape
from .protocol import Place, State

__all__ = ["Attention"]


@dataclass(frozen=True)
class Attention:
    """Attention of one head.

    Parameters
    ----------
    rank : int
        Rows of its weights; of keys and of queries each if untied.
    tied : bool
        Whether keys are queries, (2).
    activation : {"softmax", "linear"} or callable
        As of `Architecture`.
    mask : tuple of tuple of bool, optional
        Which tokens each row sees, M x M; all by default.

    References
    ----------
    troiani2025, (2)-(3), (19); masks are derived here.
    """

    rank: int = 1
    tied: bool = True
    activation: Activation = "softmax"
    mask: Mask | None = None
    joins: ClassVar[bool] = False

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        """Tied weights, or keys and queries."""
        return (("h", self.rank),) if self.tied else (("k", self.rank), ("q", self.rank))

    @property
    def constants(self) -> tuple[str, ...]:
        """The inverse temperature."""
        return ("beta",)

    def alone(self, place: Place) -> Architecture:
        """It as a network of its own, with its inverse temperature."""
        return Architecture(
            1, place.tokens, self.rank, activation=self.activation, tied=self.tied, beta=place.constant("beta")
        )

    def apply(self, tape: Tape, place: Place) -> State:
        """Tokens weighted by the attention, which is shown."""
        state, model = place.inputs[-1], self.alone(place)
        keys, queries = (place.seen(tape, *role) for role in (self.roles[0], self.roles[-1]))
        scores, weights = attention(model, tape, f"{place.number}", keys, queries, self.mask)
        mixing, added = weights * state.mixing, weights * state.added
        stage = Stage(place.number, state.mixing, (scores,), (weights,), None, model, self.mask)
        return replace(
            state,
            mixing=mixing,
            added=added,
            shown=weights,
            rows=((scores, self.mask),) if self.activation == "softmax" else (),
            stages=(*state.stages, stage),
            scores=scores,
        )
