"""Errors of predicting a new output, by quadrature; with label noise those of the label that is seen."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.label_noise import LabelNoise

__all__ = ["Predicted", "seen"]

Array = NDArray[np.float64]


class Predicted(NamedTuple):
    """Errors of the posterior mean and of the plug-in prediction, shape (2,), and what they may be off by.

    `coarse` are the same errors by the first rule.
    """

    value: Array
    off: Array
    coarse: Array

    def seen(self, noise: LabelNoise | None) -> "Predicted":
        """Of the labels that are seen, where these are averages that `LabelNoise.prediction` takes."""
        if noise is None:
            return self
        return Predicted(noise.seen(self.value), noise.prediction[0] @ self.off, noise.seen(self.coarse))


def seen(errors: Array, noise: LabelNoise | None) -> Array:
    """The same of errors alone."""
    return errors if noise is None else noise.seen(errors)
