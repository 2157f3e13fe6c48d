"""The residual connection."""

from dataclasses import dataclass
from typing import ClassVar

from ...core.shown import in_html
from ...core.validation import positive, whole
from .protocol import Array, Tokens

__all__ = ["Residual"]


@in_html
@dataclass(frozen=True)
class Residual:
    """X <- c X' + X, X' the tokens that entered the latest blocks.

    Parameters
    ----------
    strength : float
        c > 0.
    over : int
        How many blocks it leads around: 1, or 2 for a norm and what follows it.

    References
    ----------
    troiani2025, (3).
    """

    strength: float = 1.0
    over: int = 1
    kind: ClassVar[str] = "residual"

    def __post_init__(self) -> None:
        """Validate the fields."""
        object.__setattr__(self, "strength", positive("the strength of a residual", self.strength, "(3)"))
        object.__setattr__(self, "over", whole("over", self.over, 1, "(3)"))

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """None."""
        return ()

    def request(self, tokens: int) -> dict[str, object]:
        """Around how many blocks it leads."""
        return {"kind": self.kind, "over": self.over}

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """Its strength."""
        return (self.strength,)

    def text(self) -> str:
        """Its words."""
        words = [f"{self.strength:g}"] if self.strength != 1 else []
        words += [f"over={self.over}"] if self.over != 1 else []
        return f"residual({', '.join(words)})" if words else "residual"

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """Both summed."""
        return Tokens(self.strength * inputs[-1 - self.over].x + inputs[-1].x)
