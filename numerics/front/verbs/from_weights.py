"""The network that given queries and keys are."""

from __future__ import annotations

from numpy.typing import ArrayLike

from attnlimits.numerics.core.validation import finite
from attnlimits.numerics.model.foreign.attention import attention_layer, by_heads, count_heads
from attnlimits.numerics.model.foreign.described import Described, describe

__all__ = ["from_weights"]


def from_weights(
    queries: ArrayLike,
    keys: ArrayLike,
    tokens: int,
    *,
    heads: int = 1,
    scale: float | None = None,
    skip: float | None = None,
    token_std: float = 1.0,
) -> Described:
    """Describe attention with these queries and keys, ``softmax(scale (W_q x_i)^T (W_k x_j))``, as a network.

    Parameters
    ----------
    queries, keys : array_like, shape (H d, D), (H, d, D) or (L, H, d, D)
        W_q and W_k, rows of every head; several layers have a fourth dimension.
    tokens : int
        M >= 2.
    heads : int
        H of an array of rows (H d, D).
    scale : float, optional
        Factor > 0 of the products, 1/sqrt(d) by default, as in PyTorch, JAX and Flax.
    skip : float, optional
        Strength c > 0 of the residual connections around the layers, 1 by default.
    token_std : float
        Standard deviation > 0 of a coordinate of the tokens, 1 after a normalisation.

    Returns
    -------
    Described
        `network`, `weights` in its normalisation, `betas` and `notes`.

    Raises
    ------
    ValueError
        A shape is wrong, an entry is not finite, or the layers are no network together.

    Notes
    -----
    With s_q and s_k the root mean squares of W_q and W_k, beta = scale s_q s_k D token_std^2. A network names by keys
    what other libraries name by queries: rows of its attention matrix belong to its keys. Of several layers the values
    are taken as the identity.

    References
    ----------
    troiani2025, (2)-(3), (19), (28).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = from_weights(rng.standard_normal((1, 64)), rng.standard_normal((1, 64)), tokens=3)
    >>> found.network.rank, found.network.tied, found.weights.shape
    (1, False, (2, 64))
    """
    count = count_heads(heads)
    both = [finite(name, value) for name, value in (("queries", queries), ("keys", keys))]
    deep = [one if one.ndim == 4 else one[None] for one in both]
    if both[0].ndim != both[1].ndim or len(deep[0]) != len(deep[1]):
        raise ValueError(f"queries and keys must have one shape, got {both[0].shape} and {both[1].shape}")
    layers = [
        attention_layer(by_heads("queries", q, count), by_heads("keys", k, count), scale, name=f"layer {number}")
        for number, (q, k) in enumerate(zip(*deep, strict=True), start=1)
    ]
    return describe(layers, tokens, skip=1.0 if skip is None else skip, token_std=token_std)
