"""Weights from data by message passing."""

from typing import Any

from numpy.typing import ArrayLike

from attnlimits.numerics.learning.blocks import Source
from attnlimits.numerics.learning.gamp import gamp as gamp_on
from attnlimits.numerics.learning.gamp.results import GAMPResult
from attnlimits.numerics.model.described import Model, kernel_or_network

__all__ = ["gamp"]


def gamp(model: Model, X: ArrayLike | Source, Y: ArrayLike | None = None, **settings: Any) -> GAMPResult:
    """Weights estimated from data by generalised approximate message passing (Algorithm 1).

    Parameters
    ----------
    model : Network or Link
    X : array_like of shape (N, M, D), or callable
        Samples of M tokens; or a function that gives pairs of blocks (X, Y).
    Y : array_like, shape (N, M, M) or of the outputs of the link
    settings : optional
        `damping`, `max_iter`, `tol`, `start`, `teacher`, `rng`, `workers`, ..
    """
    return gamp_on(X, Y, kernel_or_network(model), **settings)
