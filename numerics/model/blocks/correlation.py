"""Correlated tokens."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...core.shown import in_html
from ...core.validation import finite
from .protocol import Array, Tokens

__all__ = ["Correlation", "token_covariance"]


def token_covariance(given: str | ArrayLike, tokens: int) -> Array:
    """Covariance C of the tokens as it was given, scaled to the trace M.

    Parameters
    ----------
    given : "ar1:rho" or array_like, shape (M, M)
        Of an autoregressive sequence C_mn = rho^|m - n|; or any symmetric positive definite matrix.
    tokens : int

    Raises
    ------
    ValueError
        Another name or shape; rho outside (-1, 1); a matrix that is not finite, symmetric and positive definite.

    Examples
    --------
    >>> token_covariance("ar1:0.5", 2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    if isinstance(given, str):
        kind, _, text = given.partition(":")
        try:
            rho = float(text)
        except ValueError:
            rho = float("nan")
        if kind != "ar1" or not -1 < rho < 1:
            raise ValueError(f'the token covariance must be "ar1:rho" with -1 < rho < 1, or a matrix, got {given!r}')
        places = np.arange(tokens)
        return np.asarray(np.float64(rho) ** np.abs(places[:, None] - places))
    matrix = finite("token_covariance", given)
    if matrix.shape != (tokens, tokens):
        raise ValueError(f"the token covariance must have shape (M, M) = ({tokens}, {tokens}), got {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0) or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError("the token covariance must be symmetric and positive definite")
    return np.asarray(matrix * (tokens / np.trace(matrix)))


@in_html
@dataclass(frozen=True)
class Correlation:
    """X <- C^{1/2} X: tokens of covariance C from independent ones, before all other blocks.

    Parameters
    ----------
    covariance : tuple of tuple of float
        C, symmetric and positive definite.
    """

    covariance: tuple[tuple[float, ...], ...]
    kind: ClassVar[str] = "correlation"

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """None."""
        return ()

    @property
    def root(self) -> Array:
        """Symmetric root of C."""
        values, vectors = np.linalg.eigh(np.array(self.covariance))
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T)

    def request(self, tokens: int) -> dict[str, object]:
        """The number of tokens."""
        return {"kind": self.kind, "tokens": tokens}

    def numbers(self, tokens: int) -> tuple[float, ...]:
        """Entries of the root, row by row up to the diagonal."""
        root = self.root
        return tuple(float(root[i, j]) for i in range(tokens) for j in range(i + 1))

    def text(self) -> str:
        """Nothing: a flag of its own has it."""
        return ""

    def forward(self, inputs: list[Tokens], weights: dict[str, Array]) -> Tokens:
        """Tokens of that covariance."""
        return Tokens(self.root @ inputs[-1].x)
