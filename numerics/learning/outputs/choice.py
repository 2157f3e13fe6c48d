"""Choice of the posterior for the outputs of data; the only module that imports all of them."""

import numpy as np
from numpy.typing import ArrayLike

from ...model.links import LinkKernel
from .channel import Model, Output, ReadoutOutput, check_model, check_outputs
from .deep import DeepOutput
from .fibre import TiedOutput, UntiedOutput
from .link import LinkOutput

__all__ = ["output_channel"]


def output_channel(
    model: Model, y: ArrayLike, *, tol: float = 1e-5, nodes: int | None = None, rng: np.random.Generator | int = 0
) -> Output:
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
    Output
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
    check_model(model)
    array = check_outputs(model, y)
    generator = np.random.default_rng(rng)
    if isinstance(model, LinkKernel):
        return LinkOutput(model, array, nodes, rng)
    if not model.tied:
        return UntiedOutput(model, array)
    if model.layers == 1 and model.indices > 1:
        return TiedOutput(model, array)
    if model.layers == 1 or model.layers == model.tokens == 2:
        return ReadoutOutput(model, array, tol)
    return DeepOutput(model, array, nodes or 1024, generator)
