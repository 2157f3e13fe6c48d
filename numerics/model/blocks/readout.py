"""What is observed of the tokens: through weights of a readout, or they themselves."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.shown import in_html
from ...core.validation import choice, whole
from ..activations import Activation, activated
from .attention import function_of
from .protocol import Array, Shown, Tokens

__all__ = ["Output", "Readout"]


@in_html
@dataclass(frozen=True)
class Readout:
    """Rows of weights that read the tokens, or their mean.

    Parameters
    ----------
    reads : {"mlp", "linear", "softmax", "mean"}
        phi(w x_m/sqrt(D)) of every row and token; w x/sqrt(D) for the mean x of the tokens, one number for each class;
        the softmax of these over the classes; or the mean B^T 1/M of the tokens itself, without weights.
    width : int
        Rows of weights.
    activation : str or sympy function
        phi.
    token : int, optional
        Which token is read in place of the mean, counted from 1.
    """

    reads: str = "linear"
    width: int = 1
    activation: Activation = "linear"
    token: int | None = None
    kind: ClassVar[str] = "readout"

    def __post_init__(self) -> None:
        """Validate and normalise the fields."""
        choice("readout", self.reads, ("mlp", "linear", "softmax", "mean"), "what is read of the tokens")
        least = 2 if self.reads == "softmax" else 1
        object.__setattr__(self, "width", whole("the width of a readout", self.width, least, "classes, or rows"))
        object.__setattr__(self, "activation", function_of(self.activation, "a readout"))
        if self.token is not None:
            object.__setattr__(self, "token", whole("token", self.token, 1, "counted from 1"))
        if self.reads != "mlp" and self.activation != "linear":
            raise ValueError(f"a readout ({self.reads}) has no activation: give readout(mlp, width, activation)")
        if self.reads in ("mlp", "mean") and self.token is not None:
            raise ValueError(f"a readout ({self.reads}) reads all tokens: leave token out")

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """Its weights."""
        return () if self.reads == "mean" else (("w", self.width),)

    @property
    def name(self) -> str:
        """Name of the activation."""
        return self.activation if isinstance(self.activation, str) else str(getattr(self.activation, "__name__", ""))

    def request(self, tokens: int) -> dict[str, object]:
        """Its structure."""
        told = {"kind": self.kind, "reads": self.reads, "width": self.width, "activation": self.name}
        return told | {"token": None if self.token is None else self.token - 1}

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """None."""
        return ()

    def text(self) -> str:
        """Its words."""
        words = [self.reads] + ([] if self.reads == "mean" else [f"{self.width}"])
        words += [self.name] if self.reads == "mlp" else []
        words += [] if self.token is None else [f"token={self.token}"]
        return f"readout({', '.join(words)})"

    def shown(self, tokens: int) -> Shown:
        """What is read."""
        _refuse_token(self, tokens)
        if self.reads == "mean":
            return Shown((1, tokens), "linear", charted=False, tokens=True)
        if self.reads == "mlp":
            return Shown((self.width, tokens), self.activation, read="values")
        shares = self.reads == "softmax"
        return Shown((1, self.width), "softmax" if shares else "linear", read="shares" if shares else "linear")

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """What is read; of a mean of tokens the mean itself, shape (n, 1, D)."""
        x = inputs[-1].x
        pooled = x.mean(axis=-2, keepdims=True) if self.token is None else x[..., self.token - 1 : self.token, :]
        if self.reads == "mean":
            return Tokens(x, pooled)
        size = math.sqrt(x.shape[-1])
        if self.reads == "mlp":
            return Tokens(x, activated(weights["w"] @ np.swapaxes(x, -1, -2) / size, self.activation, 1.0))
        logits = pooled @ weights["w"].T / size
        return Tokens(x, activated(logits, "softmax" if self.reads == "softmax" else "linear", 1.0))


@in_html
@dataclass(frozen=True)
class Output:
    """The tokens that leave the network, B X_0 with X_0 known, or one of them.

    Parameters
    ----------
    token : int, optional
        Which of them, counted from 1.

    References
    ----------
    troiani2025, (25).
    """

    token: int | None = None
    kind: ClassVar[str] = "output"

    def __post_init__(self) -> None:
        """Validate the field."""
        if self.token is not None:
            object.__setattr__(self, "token", whole("token", self.token, 1, "counted from 1"))

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """None."""
        return ()

    def request(self, tokens: int) -> dict[str, object]:
        """Which token."""
        return {"kind": self.kind, "token": None if self.token is None else self.token - 1}

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """None."""
        return ()

    def text(self) -> str:
        """Its words."""
        return "output(sequence)" if self.token is None else f"output(token={self.token})"

    def shown(self, tokens: int) -> Shown:
        """Rows of B."""
        _refuse_token(self, tokens)
        return Shown((tokens if self.token is None else 1, tokens), "linear", charted=False, tokens=True)

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """The tokens themselves, shape (n, M, D) or (n, 1, D)."""
        x = inputs[-1].x
        return Tokens(x, x if self.token is None else x[..., self.token - 1 : self.token, :])


def _refuse_token(block: Readout | Output, tokens: int) -> None:
    """Raise ValueError for a token that is not there."""
    if (block.token or 1) > tokens:
        raise ValueError(f"{block.text()}: there are {tokens} tokens")
