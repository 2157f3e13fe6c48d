"""The network that an attention layer of PyTorch is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlimits.numerics.model.foreign.described import Described, describe
from attnlimits.numerics.model.foreign.torch_modules import torch_layers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["from_torch"]


def from_torch(
    module: Any | Sequence[Any],
    tokens: int,
    *,
    layer: int | None = None,
    heads: int | None = None,
    skip: float | None = None,
    token_std: float = 1.0,
) -> Described:
    """Describe a module of PyTorch, an attention layer or a stack of them, as a network.

    Parameters
    ----------
    module : torch.nn.Module, or a sequence of them
        `MultiheadAttention`, `TransformerEncoderLayer`, `TransformerEncoder`, modules that hold these, or modules with
        linear maps named such as `q_proj` and `k_proj`. It is read by its attributes; PyTorch is not imported.
    tokens : int
        M >= 2.
    layer : int, optional
        Number, from 1, of the attention layer to take alone; by default all are one network.
    heads : int, optional
        Number of heads of linear maps whose module does not have it.
    skip : float, optional
        Strength c > 0 of the residual connections; by default 1, as encoder layers have it.
    token_std : float
        Standard deviation > 0 of a coordinate of the tokens that enter, 1 after a normalisation.

    Returns
    -------
    Described
        `network`, `weights` in its normalisation, `betas`, and in `notes` what the module has and a network has not.

    Raises
    ------
    ValueError
        The module has no attention that can be read, or its layers are no network together; the message names what.

    Notes
    -----
    At initialisation a `MultiheadAttention` with heads of d coordinates has beta = 1/(2 sqrt(d)), at any D.

    References
    ----------
    troiani2025, (2)-(3), (19), (28)-(30).

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> rows = np.random.default_rng(0).standard_normal((96, 32))
    >>> found = from_torch(SimpleNamespace(in_proj_weight=rows, embed_dim=32, num_heads=4), tokens=3)
    >>> found.network.rank, found.heads, found.weights.shape
    (8, 4, (4, 16, 32))
    """
    return describe(torch_layers(module, heads), tokens, layer=layer, skip=skip, token_std=token_std)
