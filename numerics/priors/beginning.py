"""What a prior knows of the weights without samples."""

import numpy as np
from numpy.typing import NDArray

from .protocol import Prior

__all__ = ["covariance_of", "refuse_informed", "without_samples"]

Array = NDArray[np.float64]

_ROUNDING = 1e-9


def without_samples(prior: Prior, size: int) -> Array:
    """F(0), shape (P, P): zero but where part of the weights is known.

    Raises
    ------
    ValueError
        Rows that are not independent.

    Examples
    --------
    >>> from attnlimits.numerics.priors import Binary, Informed
    >>> without_samples(Binary(), 1), without_samples(Informed(known=0.5), 1)
    (array([[0.]]), array([[0.5]]))
    """
    if np.abs(covariance_of(prior, size) - np.eye(size)).max() > _ROUNDING:
        raise ValueError(
            f"{prior.describe()} are served with a link, as the link of independent rows (`Rows.whitened`); averages "
            "over the outputs of a network, and its posteriors, are of independent rows (9)"
        )
    return np.asarray(prior.overlap(np.zeros((size, size))))


def covariance_of(prior: Prior, size: int) -> Array:
    """E w w^T of a coordinate, shape (P, P).

    Examples
    --------
    >>> from attnlimits.numerics.priors import Rows
    >>> covariance_of(Rows([[1.0, 0.5], [0.5, 1.0]]), 2).round(12).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    zero = np.zeros((size, size))
    return np.asarray(prior.mmse(zero) + prior.overlap(zero))


def refuse_informed(prior: Prior, size: int, what: str) -> None:
    """Raise ValueError for what begins at zero overlap where part of the weights is known."""
    if without_samples(prior, size).any():
        raise ValueError(
            f"{what} from zero overlap (15), and the {prior.describe()} has an overlap without samples; take evolve, "
            "free_energy.answer or gamp at each alpha"
        )
