"""Priors whose entries are mixtures of Gaussians and points: binary, and sparse."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .rows import Mixture
from .separable import Separable

__all__ = ["Binary", "GaussBernoulli"]

Array = NDArray[np.float64]


class _MixtureLaw:
    """Law of an entry: weights, means and variances of its components."""

    averaged: ClassVar[int] = 3
    # A posterior sums over 2^P components.
    coupled: ClassVar[int] = 10

    def __init__(self, weights: list[float], means: list[float], variances: list[float]) -> None:
        self._law = (weights, means, variances)

    @property
    def fourth_moment(self) -> float:
        """E w^4."""
        return sum(w * (m**4 + 6 * m * m * v + 3 * v * v) for w, m, v in zip(*self._law, strict=True))

    def rows(self, size: int) -> Mixture:
        """Law of so many entries."""
        return Mixture.of_entries(*self._law, size)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent entries."""
        weights, means, variances = (np.array(one) for one in self._law)
        which = rng.choice(len(weights), size=shape, p=weights)
        return np.asarray(means[which] + np.sqrt(variances[which]) * rng.standard_normal(shape))


class Binary(Separable):
    """Entries +1 or -1 with equal probability."""

    dimension = 0.0

    def __init__(self) -> None:
        super().__init__(_MixtureLaw([0.5, 0.5], [1.0, -1.0], [0.0, 0.0]))

    def describe(self) -> str:
        """One line."""
        return "binary prior"


class GaussBernoulli(Separable):
    """Entries N(0, 1/density) with probability `density`, else zero.

    Parameters
    ----------
    density : float
        In (0, 1).
    """

    def __init__(self, density: float) -> None:
        if isinstance(density, bool) or not isinstance(density, int | float) or not 0 < density < 1:
            raise ValueError(
                f"density must be a number in (0, 1), the probability of an entry that is not zero; got {density!r}"
            )
        self.density = self.dimension = float(density)
        super().__init__(_MixtureLaw([1 - self.density, self.density], [0.0, 0.0], [0.0, 1 / self.density]))

    def describe(self) -> str:
        """One line."""
        return f"Gauss-Bernoulli prior of density {self.density:g}"
