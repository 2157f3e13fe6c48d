"""How many nodes the posterior of an output asks for: by a few of them, and by the indices that gave the output.

The weights w of a pilot sample have the effective size (sum w)^2/sum w^2. Where the sample has missed most of the
posterior it looks large; but the indices that gave the output are a draw from the posterior, and with them in the
sample it is small. The pilot's nodes are not those of the posterior, so that this choice leaves no bias in it.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .mixture import SQUARES, SUMS, Nodes, Prior, mixture_sums, weight_of

__all__ = ["Outputs", "scatter"]

Array = NDArray[np.float64]


class Outputs(NamedTuple):
    """Outputs and what gave them, in token modes (+, -).

    Attributes
    ----------
    readout : ndarray, shape (n, 2)
        v = B_2 h_3.
    omega, h : ndarray, shape (n, 3, 2)
    """

    readout: Array
    omega: Array
    h: Array


@njit(cache=True, nogil=True, error_model="numpy")
def scatter(outputs: Outputs, prior: Prior, pilot: Nodes, out: Array) -> None:
    """Nodes of an output over its effective size, at most the pilot's nodes, into out (n,)."""
    sums = np.empty((len(out), 2, SUMS))
    mixture_sums(outputs.readout, outputs.omega, prior, pilot, sums)
    count = pilot.draws.shape[3]
    for i in range(len(out)):
        own = weight_of(outputs.h[i], outputs.readout[i], outputs.omega[i], prior, (pilot.for_last, count))
        total = sums[i, 0, 0] + sums[i, 1, 0] + own
        squares = sums[i, 0, SQUARES] + sums[i, 1, SQUARES] + own * own
        share = squares / (total * total)
        out[i] = 2 * count * (share if math.isfinite(share) else 1.0)
