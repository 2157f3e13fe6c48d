"""Which posterior serves the outputs of data: the only module that knows all of them."""

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import KernelNotFoundError
from ...model.attention import Attention
from ...model.links import LinkKernel
from ...posterior.fibres import LastLayer
from .channel import Model, Output, ReadoutOutput, check_outputs
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
    model : Attention, fibres.LastLayer or LinkKernel
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
    array = check_outputs(model, y)
    generator = np.random.default_rng(rng)
    if isinstance(model, LinkKernel):
        return LinkOutput(model, array, nodes, rng)
    if isinstance(model, LastLayer) or model.layers == 1:
        if isinstance(model, LastLayer) and not model.tied:
            return UntiedOutput(model, array)
        if model.indices > 1:
            return TiedOutput(LastLayer(model.tokens, model.indices, model.activation, True, model.beta), array)
        return ReadoutOutput(Attention(1, model.tokens, 1, 1.0, model.beta, model.activation), array, tol)
    if set(model.ranks) != {1}:
        raise KernelNotFoundError(f"no denoiser for {model.describe()}: at depth >= 2 there is one for rank 1 only")
    if model.layers == 2 and model.tokens == 2:
        return ReadoutOutput(model, array, tol)
    return DeepOutput(model, array, nodes or 1024, generator)
