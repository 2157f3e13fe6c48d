"""Whether the precision of a Gaussian posterior is one."""

import math

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError

__all__ = ["positive"]

Array = NDArray[np.float64]


def positive(precision: Array) -> Array:
    """The same matrix, I + A in units of the prior, if it is positive definite.

    Raises
    ------
    ConvergenceError
        It is not.
    """
    least = float(np.linalg.eigvalsh(precision)[0]) if np.isfinite(precision).all() else math.nan
    if not least > 0:
        raise ConvergenceError(f"the posterior precision I + A has the eigenvalue {least:.3g}")
    return precision
