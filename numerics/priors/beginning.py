"""What a prior knows of the weights without samples."""

import numpy as np
from numpy.typing import NDArray

from .protocol import Prior

__all__ = ["refuse_informed", "without_samples"]

Array = NDArray[np.float64]


def without_samples(prior: Prior, size: int) -> Array:
    """F(0), shape (P, P): zero but where part of the weights is known.

    Examples
    --------
    >>> from attnlimits.numerics.priors import Binary, Informed
    >>> without_samples(Binary(), 1), without_samples(Informed(known=0.5), 1)
    (array([[0.]]), array([[0.5]]))
    """
    return np.asarray(prior.overlap(np.zeros((size, size))))


def refuse_informed(prior: Prior, size: int, what: str) -> None:
    """Raise ValueError for what begins at zero overlap where part of the weights is known."""
    if without_samples(prior, size).any():
        raise ValueError(
            f"{what} from zero overlap (15), and the {prior.describe()} has an overlap without samples; take evolve, "
            "free_energy.answer or gamp at each alpha"
        )
