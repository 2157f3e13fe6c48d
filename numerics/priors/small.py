"""What a prior makes of small overlaps, and whether it is the usual one: asked of F, not of each class."""

import numpy as np

from .gaussian import Gaussian
from .protocol import OverlapMap

__all__ = ["gain", "is_standard"]


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
