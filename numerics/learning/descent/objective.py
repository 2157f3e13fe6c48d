"""The square loss of a data set and its gradient in the weights, by passes over all samples or over one batch."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from ...posterior.data.outputs import check_outputs
from ...posterior.protocol import Model
from ..blocks import Array, Floats, Source
from ..heads import to_blocks, to_indices
from ..passes import Samples
from .gradient import Loss, square_loss

__all__ = ["Objective"]


class _Residuals:
    """Outputs of a block, in the form in which passes over data want them: the score is minus the slope of the loss."""

    def __init__(self, loss: Loss, y: Array) -> None:
        self.rows, self.y = len(y), y
        self.losses = np.zeros(len(y))
        self._loss = loss

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        self.losses[part], slopes = self._loss(omega, self.y[part])
        return -slopes, np.zeros_like(V)


class Objective:
    """l(W) = mean of ||y - g(W x / sqrt(D))||^2 / 2 over samples.

    Gradients are D times dl/dW: they are of the size of W, whatever D. Of H heads D is D/H, and W and x are those of
    the blocks of coordinates (`heads`).

    Parameters
    ----------
    x, y, model, workers
        As in `gamp`.
    """

    def __init__(self, x: ArrayLike | Source, y: ArrayLike | None, model: Model, workers: int | None = None) -> None:
        self._loss = square_loss(model)
        self.model = model
        # Of each block of the data.
        self._outputs: list[_Residuals] = []
        self._samples = Samples(x, y, model, self._prepare, workers)
        self.dimension = self._samples.dimension

    def _prepare(self, y: ArrayLike) -> _Residuals:
        self._outputs.append(_Residuals(self._loss, check_outputs(self.model, y)))
        return self._outputs[-1]

    @property
    def rows(self) -> int:
        """Number of samples."""
        return self._samples.rows

    @property
    def blocks(self) -> int:
        """Number of blocks that the data come in."""
        return len(self._outputs)

    def whole(self, weights: Array) -> tuple[float, Array]:
        """Loss of all samples, and its gradient, of the shape of the weights."""
        pull, _ = self._samples.sweep(weights, np.eye(len(weights)))
        losses = np.concatenate([output.losses for output in self._outputs])
        return float(losses.mean()), -pull * (self.dimension / len(losses))

    def spread(self) -> float:
        """Half of the mean squared distance of the outputs from their mean: the loss of the best constant."""
        y = np.concatenate([output.y.reshape(output.rows, -1) for output in self._outputs])
        return 0.5 * float(y.var(axis=0).sum())

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[tuple[Floats, Array]]:
        """Yield all samples once, as (x, y) of so many each, in random order within each block of the data."""
        for (x, _), output in zip(self._samples.each(), self._outputs, strict=True):
            order = rng.permutation(len(x))
            for start in range(0, len(x), size or len(x)):
                # In the order of the file.
                rows = np.sort(order[start : start + (size or len(x))])
                yield np.asarray(x[rows]), output.y[rows]

    def gradient(self, x: Floats, y: Array, weights: Array) -> Array:
        """Gradient of the loss of one batch."""
        n, m, dimension = x.shape
        tokens = x.reshape(n * m, dimension)
        h = (tokens @ weights.T.astype(x.dtype)).astype(np.float64).reshape(n, m, -1).swapaxes(1, 2)
        _, slopes = self._loss(to_indices(h / np.sqrt(dimension), self.model), y)
        slopes = to_blocks(slopes, self.model)
        pull = np.ascontiguousarray(slopes.swapaxes(1, 2).reshape(n * m, -1).T, dtype=x.dtype) @ tokens
        return np.asarray(pull * (np.sqrt(dimension) / n), np.float64)
