"""What follows from F alone, asked of it and not of each class: its slopes at zero and at an overlap."""

import numpy as np
from numpy.typing import NDArray

from .gaussian import Gaussian
from .protocol import OverlapMap

__all__ = ["gain", "is_standard", "responses"]

Array = NDArray[np.float64]


def is_standard(prior: OverlapMap) -> bool:
    """Whether entries are standard normal on white inputs, so that log qhat is logit q.

    Rotations that leave a law what it is (`isotropic`) are another thing: inputs with a spectrum have both kinds.
    """
    return isinstance(prior, Gaussian)


def gain(prior: OverlapMap) -> float:
    """Factor by which F multiplies a small qhat: one where rows have the covariance I, E lambda^2 of a spectrum.

    Examples
    --------
    >>> from attnlimits.numerics.priors import GAUSSIAN, as_spectrum
    >>> gain(GAUSSIAN), gain(as_spectrum("mp:1"))
    (1.0, 2.0)
    """
    return float(prior.slope(np.zeros((1, 1)), np.ones((1, 1)))[0, 0]) if prior.isotropic else 1.0


def responses(prior: OverlapMap, q: Array) -> Array:
    """Derivatives of the diagonal entries of qhat by those of a diagonal q, shape (P,).

    Examples
    --------
    >>> from attnlimits.numerics.priors import GAUSSIAN
    >>> responses(GAUSSIAN, np.diag([0.5, 0.75])).tolist()
    [4.0, 16.0]
    """
    qhat, size = prior.inverse(q), len(q)
    rises = []
    for k in range(size):
        unit = np.zeros((size, size))
        unit[k, k] = 1.0
        rises.append(prior.slope(qhat, unit)[k, k])
    return 1 / np.array(rises)
