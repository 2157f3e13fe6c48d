"""Weights from data by gradient descent."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from attnlimits.numerics.learning.blocks import Source
from attnlimits.numerics.learning.descent import descend as descend_on
from attnlimits.numerics.learning.descent.results import DescentResult
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link

__all__ = ["descend"]


def descend(model: Model, X: ArrayLike | Source, Y: ArrayLike | None = None, **settings: Any) -> DescentResult:
    """Weights estimated from data by gradient descent on the square loss.

    Parameters
    ----------
    model : Network or Link
    X : array_like of shape (N, M, D), or callable
        Samples, or a function that gives pairs of blocks (X, Y), as of `gamp`.
    Y : array_like, shape (N, M, M), or (N, K) of a link
        Outputs.
    settings : optional
        `method` ("sgd", "gd" or "adam"), `rate`, `weight_decay`, `batch`, `reuse` (steps on each batch), `epochs`,
        `tol`, `start`, `teacher` (to measure overlaps), `callback`, `rng`, `workers`, `throw`.

    Returns
    -------
    DescentResult
        With `weights` of shape (P, D), and the loss and the similarity with the teacher, epoch by epoch.

    Raises
    ------
    ValueError
        Data or an argument that does not fit; the message states what to do.
    ConvergenceError
        `throw`, and no convergence.

    Examples
    --------
    >>> import attnlimits as al
    >>> model = al.Network(layers=1, tokens=2)
    >>> X, Y = al.make_data(model, al.teacher(model, 40, rng=1), alpha=2.0, rng=1)
    >>> descend(model, X, Y, method="gd", epochs=2).weights.shape
    (1, 40)
    """
    return descend_on(X, Y, model.slopes if isinstance(model, Link) else model, **settings)
