"""A model of sequences as a multi-index model of flattened inputs (55)-(58): M times the indices, one token."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...core.validation import numbers
from ...posterior.protocol import Model
from ..blocks import Array, Floats
from ..data import check_samples, check_weights

__all__ = ["Flattened", "flat_samples", "flat_weights", "flatten"]


@dataclass(frozen=True)
class Flattened:
    """The view of a model with one token; `flatten` makes it.

    Attributes
    ----------
    model : Network or LinkKernel
    """

    model: Model

    @property
    def indices(self) -> int:
        """Number of indices, P M: token by token."""
        return self.model.indices * self.model.tokens

    @property
    def tokens(self) -> int:
        """One."""
        return 1

    def link(self, h: ArrayLike) -> Array:
        """Outputs of flattened indices, g~(vec h) = g(h).

        Parameters
        ----------
        h : array_like, shape (..., P M, 1)

        Returns
        -------
        ndarray
            As of the model's link.
        """
        array = numbers("h", h)
        p, m = self.model.indices, self.model.tokens
        if array.ndim < 2 or array.shape[-2:] != (p * m, 1):
            raise ValueError(
                f"h must have shape (..., P M, 1) = (..., {p * m}, 1) (troiani2025 (58)), got {array.shape}"
            )
        return np.asarray(self.model.link(np.swapaxes(array.reshape(*array.shape[:-2], m, p), -1, -2)))

    def forward(self, X: ArrayLike, weights: ArrayLike) -> Array:
        """Outputs of samples by flattened inputs and weights, g~(W~ x~ / sqrt(D)) (58).

        Parameters
        ----------
        X : array_like, shape (N, M, D)
            As in `gamp`.
        weights : array_like, shape (P, D)
            Of the model.
        """
        flat = flat_samples(X, self.model)
        tilde = flat_weights(self.model, weights)
        given, dimension = (array.shape[-1] // self.model.tokens for array in (tilde, flat))
        if given != dimension:
            raise ValueError(
                f"weights must have shape (P, D) with D of X (troiani2025 (57)), got {given} for {dimension}"
            )
        h = np.swapaxes(flat.astype(np.float64) @ tilde.T, 1, 2) / math.sqrt(dimension)
        return self.link(h)


def flatten(model: Model) -> Flattened:
    """Return the multi-index model that a sequence multi-index model is, on inputs of dimension M D.

    Its weights are tied, I_M (x) W: a learner of multi-index models that does not know this has M times as many
    to learn, M P rows of M D entries, from alpha / M samples per dimension.

    References
    ----------
    troiani2025, (55)-(58).
    """
    return Flattened(model)


def flat_samples(X: ArrayLike, model: Model) -> Floats:
    """Flatten samples, x~ = (x_1; ..; x_M): from shape (N, M, D) to (N, 1, M D), one token.

    Raises
    ------
    ValueError
        As `gamp` on such data.

    References
    ----------
    troiani2025, (55), (57).
    """
    array = check_samples(X, model)
    return array.reshape(len(array), 1, -1)


def flat_weights(model: Model, weights: ArrayLike) -> Array:
    """Weights of the flattened model, I_M (x) W: from shape (P, D) to (P M, M D).

    References
    ----------
    troiani2025, (56).
    """
    return np.asarray(np.kron(np.eye(model.tokens), check_weights("weights", weights, model)))
