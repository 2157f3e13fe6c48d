"""What is known of the weights beside the samples: noisy ones, and some of them exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.validation import not_negative, numbers
from ..posterior.protocol import Model
from ..priors import Prior
from .blocks import Array, stream
from .data import check_weights
from .heads import weight_rows

__all__ = ["Side", "side_information", "side_of"]

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Side:
    """S = sqrt(lambda) W + Z with Z standard normal, and entries of W.

    Attributes
    ----------
    field : ndarray of shape (P, D), or 0.0
        sqrt(lambda) S.
    strength : float
        lambda.
    known : ndarray of shape (P, D), or None
        Weights, NaN where they are not known.
    """

    field: Array | float
    strength: float
    known: Array | None = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return self.strength > 0 or self.known is not None

    @property
    def settings(self) -> dict[str, object]:
        """Those of a result."""
        shares = {} if self.known is None else {"known": np.isfinite(self.known).mean(axis=1).tolist()}
        return {"side_strength": self.strength, **shares}

    def informed(self, weights: Array) -> Array:
        """Weights with those that are known in their places."""
        return weights if self.known is None else np.where(np.isnan(self.known), weights, self.known)

    def posterior(self, prior: Prior, precision: Array, pull: Array) -> tuple[Array, Array]:
        """Mean, shape (P, D), and mean covariance of W under its prior, exp(b.w - w^T A w/2) and what is known.

        Where entries of a coordinate are known, b - A w of these is the field of the others, whose law does not depend
        on them.
        """
        precision, pull = precision + self.strength * np.eye(len(precision)), pull + self.field
        if self.known is None:
            return prior.posterior(precision, pull)
        mean, covariance = self.known.copy(), np.zeros_like(precision)
        for columns, there, others in self._patterns():
            left = pull[np.ix_(others, columns)] - precision[np.ix_(others, there)] @ self.known[np.ix_(there, columns)]
            block = np.ix_(others, others)
            mean[np.ix_(others, columns)], spread = prior.posterior(precision[block], left)
            covariance[block] += len(columns) / pull.shape[1] * spread
        return mean, covariance

    def _patterns(self) -> Iterator[tuple[Places, Places, Places]]:
        """Columns in which the same entries are known, these, and the others, of which there are some."""
        assert self.known is not None
        unknown = np.isnan(self.known)
        patterns, which = np.unique(unknown, axis=1, return_inverse=True)
        for k, pattern in enumerate(patterns.T):
            if pattern.any():
                yield np.flatnonzero(which.ravel() == k), np.flatnonzero(~pattern), np.flatnonzero(pattern)


def side_of(
    information: ArrayLike | None, strength: float | None, known: ArrayLike | None, model: Model, dimension: int
) -> Side:
    """Side information as it was given.

    Raises
    ------
    ValueError
        S without its strength, another shape, numbers that are not finite, or no weight that is not known.
    """
    weights = None if known is None else _check_known(known, model, dimension)
    if (information is None) != (strength is None):
        raise ValueError(
            "side_information S and side_strength lambda belong together: S = sqrt(lambda) W + Z (troiani2025 (113)); "
            "give both or none"
        )
    if information is None or strength is None:
        return Side(0.0, 0.0, weights)
    value = not_negative("side_strength", strength, "(113)")
    seen = check_weights("side_information", information, model, dimension)
    return Side(math.sqrt(value) * seen, value, weights)


def side_information(
    weights: ArrayLike,
    *,
    known: ArrayLike = 0.0,
    strength: float | None = None,
    rng: np.random.Generator | int | None = None,
) -> dict[str, Any]:
    """Draw what is known of the weights of a teacher, as `gamp` takes it.

    Parameters
    ----------
    weights : array_like, shape (P, D)
    known : float or array_like of shape (P,), optional
        Share of each row, in [0, 1), that is known, at random places.
    strength : float, optional
        lambda of S = sqrt(lambda) W + Z.
    rng : Generator, int or None, optional

    Returns
    -------
    dict
        `known`, NaN where a weight is not known, and `side_information` with `side_strength`; those that there are.

    Raises
    ------
    ValueError
        A share or a strength out of range.

    Examples
    --------
    >>> found = side_information(np.ones((1, 8)), known=0.5, rng=0)
    >>> list(found), int(np.isnan(found["known"]).sum())
    (['known'], 4)
    """
    w, shares = numbers("weights", weights), np.atleast_1d(numbers("known", known))
    if not ((shares >= 0) & (shares < 1)).all() or shares.shape not in ((1,), w.shape[:1]):
        raise ValueError(
            f"known must be a share in [0, 1) of each row's weights, one number or one for each, got {known!r}"
        )
    generator, found = stream(rng, 4), dict[str, Any]()
    if shares.any():
        found["known"] = np.where(generator.random(w.shape) < np.reshape(shares, (-1, 1)), w, np.nan)
    if strength is not None:
        noise = generator.standard_normal(w.shape)
        found["side_information"] = math.sqrt(not_negative("strength", strength, "(113)")) * w + noise
        found["side_strength"] = strength
    return found


def _check_known(known: ArrayLike, model: Model, dimension: int) -> Array:
    array = numbers("known", known)
    p = weight_rows(model)
    if array.shape != (p, dimension):
        raise ValueError(
            f"known must have shape (P, D) = ({p}, {dimension}), NaN where a weight is not known (troiani2025 (1)), "
            f"got {array.shape}"
        )
    if np.isinf(array).any():
        raise ValueError("known must be finite, or NaN where a weight is not known, got infinity")
    if not np.isnan(array).any():
        raise ValueError("known has all weights: set those to NaN that are to be estimated")
    return array
