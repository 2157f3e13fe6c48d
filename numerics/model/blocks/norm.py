"""Norms of tokens."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.shown import in_html
from ...core.validation import choice
from .protocol import Array, Tokens

__all__ = ["Norm"]


@in_html
@dataclass(frozen=True)
class Norm:
    """Every token divided by its root mean square, without a constant and without weights.

    Parameters
    ----------
    by : {"rms", "layer"}
        Of a layer norm the mean of the entries of a token is taken off before; it vanishes as D^{-1/2}, so that both
        are one block to the theory.
    """

    by: str = "rms"
    kind: ClassVar[str] = "norm"

    def __post_init__(self) -> None:
        """Validate the field."""
        choice("norm", self.by, ("rms", "layer"), "by the root mean square, or less the mean")

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """None."""
        return ()

    def request(self, tokens: int) -> dict[str, object]:
        """Nothing but its name."""
        return {"kind": self.kind}

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """None."""
        return ()

    def text(self) -> str:
        """Its words."""
        return "norm" if self.by == "rms" else f"norm({self.by})"

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """Tokens of mean square one."""
        x = inputs[-1].x
        if self.by == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        return Tokens(x / np.sqrt((x**2).mean(axis=-1, keepdims=True)))
