"""What noise makes of the outputs of a rule: densities of what is seen, given the output of each fibre."""

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from .nodes import counted

__all__ = ["MOST", "GaussianMixing", "LabelMixing", "Mixing", "gaussian_mixing"]

Array = NDArray[np.float64]

# Standard deviations of the noise beyond which it counts as zero.
_REACH = 7.6
#: Outputs that noise mixes.
MOST = 20_000


class Mixing(Protocol):
    """What is seen."""

    def blocks(self, most: int) -> Iterator[tuple[slice, Array, Array]]:
        """At most so many values at once: fibres that give them, densities of shape (values, fibres), and measures."""


class LabelMixing(NamedTuple):
    """Labels that are replaced by others.

    Attributes
    ----------
    probability : ndarray, shape (K, fibres)
        Of each label, given that of each fibre.
    """

    probability: Array

    def blocks(self, most: int) -> Iterator[tuple[slice, Array, Array]]:
        """All fibres give each label; labels are counted."""
        for begin in range(0, len(self.probability), most):
            part = self.probability[begin : begin + most]
            yield slice(None), part, np.ones(len(part))


class GaussianMixing(NamedTuple):
    """Outputs with Gaussian noise.

    Attributes
    ----------
    without : ndarray, shape (fibres,)
        Output of each fibre without its noise, ascending.
    output : ndarray, shape (n,)
        Even values of the output, ascending, of which some may be left out.
    measure : ndarray, shape (n,)
        Of these values: the distance of even ones, or twice as much where one stands for its negative too.
    sigma : float
        Standard deviation of the noise.
    """

    without: Array
    output: Array
    measure: Array
    sigma: float

    def blocks(self, most: int) -> Iterator[tuple[slice, Array, Array]]:
        """Fibres that reach some neighbouring outputs, and the density of these for each."""
        far = _REACH * self.sigma
        for begin in range(0, len(self.output), most):
            output = self.output[begin : begin + most]
            low, high = np.searchsorted(self.without, [output[0] - far, output[-1] + far])
            z = (output[:, None] - self.without[low:high]) / self.sigma
            density = np.exp(-0.5 * z * z) / (self.sigma * math.sqrt(2 * math.pi))
            yield slice(low, high), density, self.measure[begin : begin + most]


def gaussian_mixing(without: Array, step: float, sigma: float, half: bool = False) -> GaussianMixing:
    """Mixing of fibres by ascending output, by steps in standard deviations of the noise.

    `half`: values above zero stand for those below.
    """
    if np.isnan(without).any():
        raise NotServedError("outputs with noise belong together")
    # Outputs that lie far apart from all others need no values between them.
    number = np.unique(np.round(without / (step * sigma)).astype(np.int64))
    reach = math.ceil(_REACH / step) + 1
    near = np.unique(number[:, None] + np.arange(-reach, reach + 1))
    if len(near) > MOST or len(without) > MOST:
        raise NotServedError(f"noise of standard deviation {sigma:.2g} takes more than {MOST} outputs")
    times = counted(near, half)
    kept = times > 0
    return GaussianMixing(without, step * sigma * near[kept], step * sigma * times[kept], sigma)
