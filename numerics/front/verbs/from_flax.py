"""The network that an attention layer of Flax is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlimits.numerics.model.foreign.described import Described, describe
from attnlimits.numerics.model.foreign.flax_params import flax_layers

if TYPE_CHECKING:
    from typing import Any

__all__ = ["from_flax"]


def from_flax(
    params: Any,
    tokens: int,
    *,
    layer: int | None = None,
    heads: int | None = None,
    skip: float | None = None,
    token_std: float = 1.0,
) -> Described:
    """Describe parameters of Flax, those of an attention layer or of a stack of them, as a network.

    Parameters
    ----------
    params : mapping, flax.nnx.Module or flax.nnx.State
        Parameters of linen, nested by names, or a module of nnx, with `query` and `key` of a
        MultiHeadDotProductAttention or MultiHeadAttention anywhere in it. Flax is not imported.
    tokens : int
        M >= 2.
    layer : int, optional
        Number, from 1, of the attention layer to take alone; by default all are one network. They are in the order of
        their names, layers_10 after layers_9.
    heads : int, optional
        Number of heads of Dense layers, whose kernels have shape (D, H d).
    skip : float, optional
        Strength c > 0 of the residual connections, which parameters do not show; 1 by default.
    token_std : float
        Standard deviation > 0 of a coordinate of the tokens that enter, 1 after a normalisation.

    Returns
    -------
    Described
        `network`, `weights` in its normalisation, `betas`, and in `notes` what the layers have and a network has not.

    Raises
    ------
    ValueError
        There is no attention that can be read, or the layers are no network together; the message names what.

    Notes
    -----
    At initialisation a layer with heads of d coordinates has beta = 1/sqrt(d), at any D.

    References
    ----------
    troiani2025, (2)-(3), (19), (28)-(30).

    Examples
    --------
    >>> import numpy as np
    >>> query, key = np.random.default_rng(0).standard_normal((2, 32, 4, 8))
    >>> found = from_flax({"params": {"query": {"kernel": query}, "key": {"kernel": key}}}, tokens=3)
    >>> found.network.rank, found.heads, found.weights.shape
    (8, 4, (4, 16, 32))
    """
    return describe(flax_layers(params, heads), tokens, layer=layer, skip=skip, token_std=token_std)
