"""A multi-layer perceptron of finite width between other blocks: X <- X + phi(A X^T / sqrt(D))^T U / sqrt(D)."""

from dataclasses import dataclass, replace

import sympy as sp

from ..architecture import Activation, Architecture
from ..attention import entry
from ..tape import Tape
from .protocol import Direction, Place, State, Weightless

__all__ = ["MLP", "activated"]


def activated(tape: Tape, place: Place, activation: Activation, seen: sp.Matrix) -> sp.Matrix:
    """Return an activation of every entry, in names."""
    model = Architecture(1, 2, activation=activation, beta=sp.S.One)
    return sp.Matrix(*seen.shape, lambda k, m: entry(model, tape, f"phi{place.number}_{k + 1}_{m + 1}", seen[k, m]))


@dataclass(frozen=True)
class MLP(Weightless):
    """Finite width: a row of A reads each token, its activation adds a row of U / sqrt(D) to it.

    Parameters
    ----------
    width : int
        Rows of A and of U; with none the block is the identity.
    activation : "linear" or callable
        phi, of one number.
    planted : bool
        Whether later rows of weights have overlaps t = w U^T/D with U; else these vanish as D^{-1/2}, and nothing of
        the block is seen.
    bare : bool
        Whether X itself is left out, for a residual that follows.
    """

    width: int = 1
    activation: Activation = "linear"
    planted: bool = False
    bare: bool = False

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        """The rows of A."""
        return (("a", self.width),) if self.width and self.planted else ()

    def apply(self, tape: Tape, place: Place) -> State:
        """Tokens with the directions that it adds."""
        state = place.inputs[-1]
        kept = 0 if self.bare else 1
        out = replace(state, mixing=kept * state.mixing, added=kept * state.added, shown=None, rows=(), scores=None)
        if not self.roles:
            return out
        new = activated(tape, place, self.activation, place.seen(tape, "a", self.width)).T
        own = (Direction(place.number, j + 1) for j in range(self.width))
        return replace(out, added=sp.Matrix.hstack(out.added, new), directions=(*state.directions, *own))
