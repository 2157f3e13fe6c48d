"""Base class of the results of learning from data."""

from collections.abc import Iterator

from ..core.results import Result
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
            yield "overlap " + ", ".join(f"{x:.6g}" for x in self.overlap.diagonal()[:4])
        yield self.status
