"""Base class of the results of learning from data."""

import math
from collections.abc import Iterator

import numpy as np

from ..core.results import Result
from ..core.shown import overlaps
from .blocks import Array

__all__ = ["LearnedWeights"]


class LearnedWeights(Result):
    """An estimate of the weights of a sequence multi-index model."""

    weights: Array
    overlap: Array | None
    alpha: float
    model: str
    status: str

    def lines(self) -> Iterator[str]:
        """Sizes, overlap with the teacher where there is one, and the status."""
        yield f"{self.model}, alpha = {self.alpha:g}: weights {' x '.join(map(str, self.weights.shape))}"
        if self.overlap is not None:
            # Of rows that have nothing to do with each other entries are of the order of 1/sqrt(D).
            chance = 3 / math.sqrt(self.weights.shape[1])
            known = np.abs(self.overlap) > chance
            np.fill_diagonal(known, True)
            yield f"overlap {overlaps(np.where(known, self.overlap, 0.0))}"
        yield self.status
