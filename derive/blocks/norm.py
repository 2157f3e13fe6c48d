"""Norm: every token divided by its root mean square, which is a function of the indices as D grows."""

from dataclasses import dataclass, replace

import sympy as sp

from ..tape import Tape
from .protocol import Place, State, Weightless

__all__ = ["Norm"]


@dataclass(frozen=True)
class Norm(Weightless):
    """x_m <- x_m / sqrt(|x_m|^2 / D), with |x_m|^2/D = (B B^T)_mm as D goes to infinity.

    The tokens that enter are orthonormal in that limit, up to D^{-1/2}. A layer norm takes off the mean of a token's
    entries, which vanishes likewise: it is the same block.
    """

    def apply(self, tape: Tape, place: Place) -> State:
        """Rows of B and E, scaled.

        Raises
        ------
        ValueError
            Nothing is left of the tokens that enter.
        """
        state = place.inputs[-1]
        if state.mixing.is_zero_matrix:
            raise ValueError("a norm right behind a bare mlp divides by what vanishes: put a residual between them")
        scale = []
        for m in range(place.tokens):
            square = tape.put(f"n{place.number}_{m + 1}", sp.Add(*[x**2 for x in state.mixing[m, :]]))
            scale.append(tape.put(f"r{place.number}_{m + 1}", 1 / sp.sqrt(square)))
        scaled = sp.diag(*scale)
        return replace(state, mixing=scaled * state.mixing, added=scaled * state.added, shown=None, rows=())
