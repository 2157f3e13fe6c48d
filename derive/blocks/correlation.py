"""Correlated tokens: X <- C^{1/2} X, of independent tokens those of covariance C."""

from dataclasses import dataclass, replace

import sympy as sp

from ..tape import Tape
from .protocol import Place, State, Weightless

__all__ = ["Correlation"]


@dataclass(frozen=True)
class Correlation(Weightless):
    """Tokens of covariance C, by the symmetric root of it: the first of the blocks.

    Parameters
    ----------
    tokens : int
        M.
    """

    tokens: int

    @property
    def constants(self) -> tuple[str, ...]:
        """Entries of the root, row by row up to the diagonal."""
        return tuple(f"root_{i + 1}_{j + 1}_" for i in range(self.tokens) for j in range(i + 1))

    def apply(self, tape: Tape, place: Place) -> State:
        """Tokens with that covariance."""
        state = place.inputs[-1]
        names = iter(self.constants)
        root = sp.zeros(self.tokens, self.tokens)
        for i in range(self.tokens):
            for j in range(i + 1):
                root[i, j] = root[j, i] = place.constant(next(names), real=True)
        return replace(state, mixing=root * state.mixing, added=root * state.added, shown=None, rows=())
