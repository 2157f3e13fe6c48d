"""What noise makes of the outputs of a rule: densities of what is seen, given the output of each fibre."""

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError

__all__ = ["MOST", "GaussianMixing", "LabelMixing", "Mixing", "gaussian_mixing"]

Array = NDArray[np.float64]

# Standard deviations of the noise beyond which it counts as zero.
_REACH = 7.6
#: Outputs that noise mixes.
MOST = 20_000


class Mixing(Protocol):
    """What is seen, by values of equal measure `step`."""

    @property
    def step(self) -> float:
        """Measure of each value that is seen."""

    def blocks(self, most: int) -> Iterator[tuple[slice, Array]]:
        """At most so many values at once: the fibres that give them, and their densities, shape (values, fibres)."""


class LabelMixing(NamedTuple):
    """Labels that are replaced by others.

    Attributes
    ----------
    probability : ndarray, shape (K, fibres)
        Of each label, given that of each fibre.
    """

    probability: Array

    @property
    def step(self) -> float:
        """One: labels are counted."""
        return 1.0

    def blocks(self, most: int) -> Iterator[tuple[slice, Array]]:
        """All fibres give each label."""
        for begin in range(0, len(self.probability), most):
            yield slice(None), self.probability[begin : begin + most]


class GaussianMixing(NamedTuple):
    """Outputs with Gaussian noise.

    Attributes
    ----------
    without : ndarray, shape (fibres,)
        Output of each fibre without its noise, ascending.
    output : ndarray, shape (n,)
        Even values of the output, ascending, of which some may be left out.
    step : float
        Between these values.
    sigma : float
        Standard deviation of the noise.
    """

    without: Array
    output: Array
    step: float
    sigma: float

    def blocks(self, most: int) -> Iterator[tuple[slice, Array]]:
        """Fibres that reach some neighbouring outputs, and the density of these for each."""
        far = _REACH * self.sigma
        for begin in range(0, len(self.output), most):
            output = self.output[begin : begin + most]
            low, high = np.searchsorted(self.without, [output[0] - far, output[-1] + far])
            z = (output[:, None] - self.without[low:high]) / self.sigma
            yield slice(low, high), np.exp(-0.5 * z * z) / (self.sigma * math.sqrt(2 * math.pi))


def gaussian_mixing(without: Array, step: float, sigma: float) -> GaussianMixing:
    """Mixing of fibres by ascending output, by steps in standard deviations of the noise."""
    if np.isnan(without).any():
        raise NotServedError("outputs with noise belong together")
    # Outputs that lie far apart from all others need no values between them.
    number = np.unique(np.round(without / (step * sigma)).astype(np.int64))
    reach = math.ceil(_REACH / step) + 1
    near = np.unique(number[:, None] + np.arange(-reach, reach + 1))
    if len(near) > MOST or len(without) > MOST:
        raise NotServedError(f"noise of standard deviation {sigma:.2g} takes more than {MOST} outputs")
    return GaussianMixing(without, step * sigma * near, step * sigma, sigma)
