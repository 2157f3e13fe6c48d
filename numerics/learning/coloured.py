"""Passes over inputs with a covariance as over white ones: message passing estimates what the indices are made of."""

from .blocks import Array
from .colour import Colour
from .passes import Passes

__all__ = ["Coloured"]


class Coloured:
    """Passes over inputs with a covariance, as over white ones.

    Parameters
    ----------
    passes : Passes
    colour : Colour
    """

    def __init__(self, passes: Passes, colour: Colour) -> None:
        self._passes, self._colour = passes, colour
        self.dimension = passes.dimension

    @property
    def rows(self) -> int:
        """Number of samples passed over so far."""
        return self._passes.rows

    def sweep(self, weights: Array, V: Array) -> tuple[Array, Array]:
        """Run one pass with the W of a U."""
        pull, curvature = self._passes.sweep(self._colour.weights(weights), V)
        return self._colour.pulled(pull), curvature

    def remember(self, newest: Array, old: float) -> None:
        """Set the term of Onsager of the next pass."""
        self._passes.remember(newest, old)

    @property
    def scores(self) -> list[Array]:
        """Scores of the latest pass."""
        return self._passes.scores

    @property
    def terms(self) -> list[Array]:
        """Terms of Onsager."""
        return self._passes.terms

    def recall(self, terms: list[Array]) -> None:
        """Set the terms of Onsager."""
        self._passes.recall(terms)

    def noise(self) -> Array | None:
        """Products of the errors of sampled scores."""
        return self._passes.noise()
