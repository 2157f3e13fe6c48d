"""Weights from data by gradient descent."""

from typing import Any

from numpy.typing import ArrayLike

from attnlimits.numerics.learning.blocks import Source
from attnlimits.numerics.learning.descent import descend as descend_on
from attnlimits.numerics.learning.descent.results import DescentResult
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link

__all__ = ["descend"]


def descend(model: Model, X: ArrayLike | Source, Y: ArrayLike | None = None, **settings: Any) -> DescentResult:
    """Weights estimated from data by gradient descent on the square loss; arguments as of `gamp`.

    Parameters
    ----------
    model : Network or Link
    X, Y : as of `gamp`
    settings : optional
        `method` ("sgd", "gd" or "adam"), `rate`, `batch`, `reuse`, `epochs`, `start`, `teacher`, `rng`, ..
    """
    return descend_on(X, Y, model.slopes if isinstance(model, Link) else model, **settings)
