"""Readouts: what is observed of the tokens through weights of its own."""

from dataclasses import dataclass, replace

import sympy as sp

from ..architecture import Activation, Architecture
from ..attention import softmax_row
from ..straightline import Stage
from ..tape import Tape
from .mlp import activated
from .protocol import Place, State, Weightless

__all__ = ["Readout"]


@dataclass(frozen=True)
class Readout(Weightless):
    """Rows w of weights that read the tokens: w X^T/sqrt(D) of each, or of their mean.

    Parameters
    ----------
    reads : {"mlp", "linear", "softmax", "mean"}
        phi of every entry for every token; one number for each class from the mean of the tokens or one of them; the
        softmax of these; or the mean of the tokens itself, which needs no weights.
    width : int
        Rows of weights.
    activation : "linear" or callable
        phi.
    token : int, optional
        Which token is read, from 0; the mean of all by default.
    """

    reads: str
    width: int = 1
    activation: Activation = "linear"
    token: int | None = None

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        """Its weights."""
        return () if self.reads == "mean" else (("w", self.width),)

    def pooling(self, tokens: int) -> sp.Matrix:
        """Weights of the tokens, M x 1."""
        if self.token is None:
            return sp.ones(tokens, 1) / tokens
        return sp.Matrix(tokens, 1, lambda m, _: sp.S.One if m == self.token else sp.S.Zero)

    def apply(self, tape: Tape, place: Place) -> State:
        """What it shows.

        Raises
        ------
        ValueError
            The mean of tokens to which an mlp has added directions.
        """
        state, pooling = place.inputs[-1], self.pooling(place.tokens)
        if self.reads == "mean":
            if state.directions:
                raise ValueError("the mean of tokens shows what an mlp adds to them: read it out by weights instead")
            return replace(state, shown=(state.mixing.T * pooling).T, rows=())
        seen = place.seen(tape, "w", self.width)
        if self.reads == "mlp":
            return replace(state, shown=activated(tape, place, self.activation, seen), rows=(), scores=seen)
        pooled = (seen * pooling).T
        logits = sp.Matrix(1, self.width, lambda _, k: tape.put(f"z{place.number}_{k + 1}", pooled[k]))
        if self.reads == "linear":
            return replace(state, shown=logits, rows=())
        shown = sp.Matrix([softmax_row(tape, f"{place.number}_1", list(logits))])
        stage = Stage(place.number, state.mixing, (logits,), (shown,), None, Architecture(1, 2))
        return replace(state, shown=shown, rows=((logits, None),), stages=(*state.stages, stage))
