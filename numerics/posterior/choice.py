"""The posterior of a model given its outputs, by the route of the model."""

from importlib import import_module

import numpy as np
from numpy.typing import ArrayLike

from ..model.routes import require
from .data.outputs import check_outputs
from .protocol import Model, Posterior, Settings

__all__ = ["posterior"]


def posterior(
    model: Model, y: ArrayLike, *, tol: float = 1e-5, nodes: int | None = None, rng: np.random.Generator | int = 0
) -> Posterior:
    """Prepare the outputs of a data set.

    Parameters
    ----------
    model : Network or LinkKernel
    y : array_like
        Outputs: shape (N, M, M) of attention, (N, K) of a link with K outputs, or (N,) if K = 1.
    tol : float, optional
        Of the posterior moments, where a rule has one.
    nodes : int, optional
        Nodes of each posterior that is sampled; default 1024, and 256 for each output of a link.
    rng : Generator or int, optional
        Of these nodes.

    Returns
    -------
    Posterior
        Called with (omega, V, rows) it gives the scores g_out and their slopes.

    Raises
    ------
    ValueError
        y has another shape, or is not finite.
    UnreachableOutputError
        An output that no indices give; the message has its number.
    KernelNotFoundError
        No denoiser for this model.

    References
    ----------
    troiani2025, (12), (163)-(170).
    """
    module, name = require("gamp", model).posterior.rsplit(".", 1)
    made: Posterior = getattr(import_module(f"..{module}", __name__), name)(
        model, check_outputs(model, y), Settings(tol, nodes, np.random.default_rng(rng))
    )
    return made
