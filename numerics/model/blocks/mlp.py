"""A multi-layer perceptron of finite width between other blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...core.shown import in_html
from ...core.validation import finite, flag, whole
from ..activations import Activation, activated
from .attention import function_of
from .protocol import Array, Tokens

__all__ = ["MLP"]


@in_html
@dataclass(frozen=True)
class MLP:
    """X <- X + phi(A X^T/sqrt(D))^T U/sqrt(D): k rows of A read each token, k rows of U are added to it.

    Parameters
    ----------
    width : int
        k >= 0.
    activation : str or sympy function
        phi, "linear" or a function of z such as "tanh(z)"; "tanh" and "relu" for short.
    overlaps : array_like, optional
        Planted overlaps t = w U^T/D, one row for each later row w of weights (in their order) and k columns. By default
        the weights are independent, the overlaps vanish as D^{-1/2}, and the block is invisible to all that follows.
    bare : bool
        Whether X itself is left out, for a residual that follows.
    """

    width: int = 1
    activation: Activation = "linear"
    overlaps: ArrayLike | None = None
    bare: bool = False
    kind: ClassVar[str] = "mlp"

    def __post_init__(self) -> None:
        """Validate and normalise the fields."""
        object.__setattr__(self, "width", whole("the width of an mlp", self.width, 0, "rows of A and of U"))
        object.__setattr__(self, "activation", function_of(self.activation, "an mlp"))
        flag("bare", self.bare, "X is left out", "it is not")
        if self.overlaps is not None:
            array = finite("overlaps", self.overlaps)
            if array.ndim != 2 or array.shape[1] != self.width:
                raise ValueError(
                    f"overlaps of an mlp must have shape (later rows, width) = (.., {self.width}), got {array.shape}"
                )
            planted = bool(array.any()) and self.width > 0
            kept = tuple(tuple(map(float, row)) for row in array) if planted else None
            object.__setattr__(self, "overlaps", kept)

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """The rows of A where they are seen."""
        return (("a", self.width),) if self.overlaps is not None else ()

    @property
    def name(self) -> str:
        """Name of the activation."""
        return self.activation if isinstance(self.activation, str) else str(getattr(self.activation, "__name__", ""))

    def request(self, tokens: int) -> dict[str, object]:
        """Its structure."""
        planted = self.overlaps is not None
        told = {"kind": self.kind, "width": self.width, "planted": planted, "bare": self.bare}
        return told | {"activation": self.name if planted else "linear"}

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """None of its own: the overlaps come last."""
        return ()

    def text(self) -> str:
        """Its words, without the overlaps."""
        return f"mlp({self.width}, {self.name}{', bare' if self.bare else ''})"

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """Tokens with what the block adds; of weights "a" and "u", shape (k, D) each."""
        x = inputs[-1].x
        kept = 0.0 if self.bare else 1.0
        if not self.width:
            return Tokens(kept * x)
        size = math.sqrt(x.shape[-1])
        values = activated(x @ weights["a"].T / size, self.activation, 1.0)
        return Tokens(kept * x + np.asarray(values @ weights["u"] / size))
