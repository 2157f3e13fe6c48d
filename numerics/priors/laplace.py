"""The double exponential prior: what a new prior of one density takes."""

import math

import numpy as np
from numpy.typing import NDArray

from .density import DensityLaw
from .separable import Separable

__all__ = ["Laplace"]

Array = NDArray[np.float64]


def _density(w: Array) -> Array:
    return np.asarray(np.exp(-math.sqrt(2) * np.abs(w)))


class Laplace(Separable):
    """Independent entries of density exp(-sqrt(2) |w|)/sqrt(2), which has variance 1.

    Examples
    --------
    >>> print(f"{Laplace().overlap(np.eye(1))[0, 0]:.6f}, E w^4 = {Laplace().fourth_moment:.6g}")
    0.520840, E w^4 = 6
    """

    dimension = 1.0

    def __init__(self) -> None:
        super().__init__(DensityLaw.of(_density, [0.0], "exp(-sqrt(2)*abs(w))"))

    def describe(self) -> str:
        """One line."""
        return "Laplace prior"
