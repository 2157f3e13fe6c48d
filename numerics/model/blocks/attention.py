"""Attention of one head, with any mask."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...core.shown import in_html
from ...core.validation import flag, positive, whole
from ..activations import ACTIVATIONS, Activation, ScoreFunction, activated, read_activation
from .masks import as_mask, described
from .protocol import Array, Shown, Tokens

__all__ = ["Attention", "function_of"]


def function_of(given: Activation, where: str, *, names: tuple[str, ...] = ("linear",)) -> str | ScoreFunction:
    """An activation as blocks keep it: a name, or a function in the grammar of links.

    Raises
    ------
    ValueError
        It is neither.
    """
    short = {"relu": "Max(z,0)", "identity": "linear"}
    if isinstance(given, str) and given not in names:
        given = short.get(given, given)
        given = f"{given}(z)" if given.isidentifier() and given not in names else given
    found = read_activation(given)
    if found not in names and not isinstance(found, ScoreFunction):
        raise ValueError(
            f"the activation of {where} must be {', '.join(names)} or a function of z such as 'tanh(z)', got {given!r}"
        )
    return found


@in_html
@dataclass(frozen=True)
class Attention:
    """X <- S X with S = sigma(beta K^T Q) over the tokens that each row sees; keys are queries if tied.

    Parameters
    ----------
    rank : int
        Rows of its weights; of keys and of queries each if untied.
    tied : bool
        Whether keys are queries.
    beta : float
        Inverse temperature > 0.
    activation : {"softmax", "linear"}, str or sympy function
        As of `Network`; one of the user's own has a name in the grammar of links, such as "tanh(z)".
    mask : {"full", "causal", "window:k"} or array_like, optional
        Which tokens each row sees (`masks.as_mask`). What a row does not see has weight zero, and a softmax is over
        what it sees.

    References
    ----------
    troiani2025, (2)-(3), (19).
    """

    rank: int = 1
    tied: bool = True
    beta: float = 1.0
    activation: Activation = "softmax"
    mask: str | ArrayLike | None = None
    kind: ClassVar[str] = "attention"

    def __post_init__(self) -> None:
        """Validate and normalise the fields."""
        object.__setattr__(self, "rank", whole("rank", self.rank, 1, "(2)"))
        object.__setattr__(self, "tied", flag("tied", self.tied, "keys equal queries, (2)", "(19)"))
        object.__setattr__(self, "beta", positive("beta", self.beta, "(3)"))
        object.__setattr__(self, "activation", function_of(self.activation, "attention", names=ACTIVATIONS))
        if self.mask is not None and not isinstance(self.mask, str):
            array = np.asarray(self.mask)
            object.__setattr__(self, "mask", as_mask(array, len(array) if array.ndim else 0) or "full")

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """Tied weights, or keys and queries."""
        return (("h", self.rank),) if self.tied else (("k", self.rank), ("q", self.rank))

    @property
    def name(self) -> str:
        """Name of the activation."""
        return self.activation if isinstance(self.activation, str) else str(self.activation.__name__)

    def request(self, tokens: int) -> dict[str, object]:
        """Its structure."""
        mask = as_mask(self.mask, tokens)
        return {"kind": self.kind, "rank": self.rank, "tied": self.tied, "activation": self.name, "mask": mask}

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """The inverse temperature."""
        return (self.beta,)

    def text(self) -> str:
        """Its words."""
        words = []
        if isinstance(self.mask, str):
            words += [self.mask] if self.mask != "full" else []
        elif self.mask is not None:
            words.append(described(np.asarray(self.mask).tolist()))
        words += [f"rank={self.rank}"] if self.rank != 1 else []
        words += [] if self.tied else ["untied"]
        words += [f"beta={self.beta:g}"] if self.beta != 1 else []
        words += [f"activation={self.name}"] if self.activation != "softmax" else []
        return f"attention({', '.join(words)})" if words else "attention"

    def shown(self, tokens: int) -> Shown:
        """Its weights; through a mask those of tied softmax or linear layers of rank 1 have coordinates."""
        mask = as_mask(self.mask, tokens)
        plain = self.tied and self.rank == 1 and self.activation in ACTIVATIONS
        return Shown((tokens, tokens), self.activation, mask, charted=mask is None or plain)

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """Scores of the tokens, what the activation makes of them, and the tokens weighted by it."""
        x = inputs[-1].x
        keys, queries = (weights[role] for role, _ in (self.rows[0], self.rows[-1]))
        dimension = x.shape[-1]
        left, right = (x @ rows.T / math.sqrt(dimension) for rows in (keys, queries))
        scores = left @ np.swapaxes(right, -1, -2)
        mask = as_mask(self.mask, x.shape[-2])
        if mask is None:
            attention = activated(scores, self.activation, self.beta)
        elif self.activation == "softmax":
            kept = np.where(mask, scores, -np.inf)
            attention = activated(kept, self.activation, self.beta)
        else:
            attention = np.where(mask, activated(scores, self.activation, self.beta), 0.0)
        return Tokens(attention @ x, attention)
