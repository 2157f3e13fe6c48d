"""Every attention network at finite dimension, and its link on the indices: two routes to the same output.

`forward` runs the network by its definition, on embeddings of dimension D; `link` needs the indices alone, which
`indices` computes.  That both agree is what makes the network a sequence multi-index model.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.validation import finite, whole
from .activations import activated, finite_output
from .network import Network

__all__ = ["apply_mixing", "forward", "indices", "link", "mixing", "random_weights"]

Array = NDArray[np.float64]


def _inputs(x: ArrayLike, weights: ArrayLike, network: Network) -> tuple[Array, Array]:
    sample, rows = finite("x", x), finite("weights", weights)
    if sample.ndim < 2 or sample.shape[-1] != network.tokens:
        raise ValueError(f"x must have shape (..., D, M) with M = {network.tokens} tokens (1), got {sample.shape}")
    dimension = sample.shape[-2]
    if dimension % network.heads or dimension == 0:
        raise ValueError(f"D must be a positive multiple of the {network.heads} heads (27), got {dimension}")
    wanted = (network.weight_rows, dimension // network.heads)
    if rows.shape != wanted:
        raise ValueError(f"weights must have shape (rows, D/H) = {wanted} (2), (19), (28), got {rows.shape}")
    return sample, rows


def random_weights(network: Network, dimension: int, rng: np.random.Generator | int | None = None) -> Array:
    """Draw standard Gaussian weights of all layers.

    Parameters
    ----------
    network : Network
    dimension : int
        Embedding dimension D, a multiple of the number of heads.
    rng : numpy.random.Generator, int or None
        Source of randomness, or its seed.

    Returns
    -------
    ndarray, shape (weight_rows, D/H)
        Layer by layer, head by head, keys before queries, as `Network.weight_rows`.
    """
    dimension = whole("dimension", dimension, 1, "(1)")
    if dimension % network.heads:
        raise ValueError(f"D must be a multiple of the {network.heads} heads (27), got {dimension}")
    return np.random.default_rng(rng).standard_normal((network.weight_rows, dimension // network.heads))


def _parts(rows: Array, network: Network, layer: int) -> list[tuple[Array, Array]]:
    """Keys and queries of every head of a layer, from an array whose rows are those of the weights."""
    start = network.heads * network.kinds * sum(network.ranks[:layer])
    rank = network.ranks[layer]
    parts = []
    for _ in range(network.heads):
        keys = rows[..., start : start + rank, :]
        start += (network.kinds - 1) * rank
        parts.append((keys, rows[..., start : start + rank, :]))
        start += rank
    return parts


def forward(x: ArrayLike, weights: ArrayLike, network: Network, *, directions: Sequence[ArrayLike] = ()) -> Array:
    """Run the network on embeddings of finite dimension, by its definition.

    Parameters
    ----------
    x : array_like, shape (..., D, M)
        Samples, tokens as columns.
    weights : array_like, shape (weight_rows, D/H)
        As `random_weights`.
    network : Network
    directions : sequence of array_like, optional
        Of a list of blocks, for every mlp: U, shape (k, D), or A above U, shape (2 k, D), where its overlaps are not
        planted.

    Returns
    -------
    ndarray
        Attention matrices of the last layer, those of the heads one below the other, shape (..., HM, M); or the
        tokens after L layers, shape (..., D, M), for a sequence output.

    Raises
    ------
    ValueError
        If a shape is wrong or an entry is not finite.
    OverflowError
        If the output exceeds float64, which only unbounded activations reach.

    References
    ----------
    troiani2025, (2)-(3), (19), (25), (28)-(30).
    """
    sample, rows = _inputs(x, weights, network)
    if network.chain is not None:
        told = network.chain.forward(sample, rows, [finite("directions", part) for part in directions])
        return finite_output(told, network.layers)
    width = sample.shape[-2] // network.heads
    # Tokens as rows, one array per block of coordinates.
    state = [np.swapaxes(sample[..., a * width : (a + 1) * width, :], -1, -2) for a in range(network.heads)]
    attention: list[Array] = []
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in range(network.layers):
            attention = []
            for tokens, (key, query) in zip(state, _parts(rows, network, layer), strict=True):
                scores = (tokens @ key.T) @ np.swapaxes(tokens @ query.T, -1, -2) / width
                attention.append(activated(scores, network.activation, network.beta))
            if layer == network.layers - 1 and network.output == "last":
                return finite_output(np.concatenate(attention, axis=-2), network.layers)
            moved = [s @ tokens for s, tokens in zip(attention, state, strict=True)]
            if network.heads > 1:
                assert network.readouts is not None
                o = np.asarray(network.readouts[layer])
                moved = [
                    sum((o[a, b] * moved[b] for b in range(1, network.heads)), o[a, 0] * moved[0])
                    for a in range(network.heads)
                ]
            state = [network.skip * tokens + change for tokens, change in zip(state, moved, strict=True)]
        return finite_output(np.swapaxes(np.concatenate(state, axis=-1), -1, -2), network.layers)


def indices(x: ArrayLike, weights: ArrayLike, network: Network) -> Array:
    """Project the samples on the weights: ``h = w X^(b) sqrt(H/D)`` for every weight row and block of coordinates.

    Parameters
    ----------
    x : array_like, shape (..., D, M)
    weights : array_like, shape (weight_rows, D/H)
    network : Network

    Returns
    -------
    ndarray, shape (..., P, M)
        Layer by layer, head by head, keys before queries, block by block, each block with all its rows.

    References
    ----------
    troiani2025, (4), (20), (33)-(43).
    """
    sample, rows = _inputs(x, weights, network)
    if network.chain is not None:
        return np.asarray(rows @ sample / math.sqrt(sample.shape[-2]))
    width = sample.shape[-2] // network.heads
    parts = []
    for layer in range(network.layers):
        for pair in _parts(rows, network, layer):
            for weight in pair[: network.kinds]:
                for block in range(network.heads):
                    parts.append(weight @ sample[..., block * width : (block + 1) * width, :])
    return np.concatenate(parts, axis=-2) / math.sqrt(width)


def link(h: ArrayLike, network: Network) -> Array:
    """Output of the indices, `Network.link`."""
    return network.link(h)


def mixing(h: ArrayLike, network: Network) -> Array:
    """Mixing matrix of the indices, `Network.mixing`."""
    return network.mixing(h)


def apply_mixing(x: ArrayLike, mixing: ArrayLike, network: Network) -> Array:
    """Return the tokens ``X_l^(a) = sum_b B^{(ab)} X_0^(b)`` that a mixing matrix makes of the samples.

    Parameters
    ----------
    x : array_like, shape (..., D, M)
    mixing : array_like, shape (..., HM, HM)
    network : Network

    Returns
    -------
    ndarray, shape (..., D, M)

    References
    ----------
    troiani2025, (4), (31).
    """
    sample, matrix = finite("x", x), finite("mixing", mixing)
    size, heads = network.mixing_size, network.heads
    if sample.ndim < 2 or sample.shape[-1] != network.tokens or sample.shape[-2] % heads:
        raise ValueError(
            f"x must have shape (..., D, M) with M = {network.tokens} and D a multiple of {heads} heads (1), (27), "
            f"got {sample.shape}"
        )
    if matrix.shape[-2:] != (size, size):
        raise ValueError(f"mixing must have shape (..., HM, HM) = (..., {size}, {size}) (5), got {matrix.shape}")
    try:
        np.broadcast_shapes(matrix.shape[:-2], sample.shape[:-2])
    except ValueError:
        raise ValueError(
            f"mixing and x must have leading shapes that fit, got {matrix.shape[:-2]} and {sample.shape[:-2]}"
        ) from None
    blocks = matrix.reshape(*matrix.shape[:-2], heads, network.tokens, heads, network.tokens)
    parts = sample.reshape(*sample.shape[:-2], heads, sample.shape[-2] // heads, network.tokens)
    made = np.einsum("...ambn,...bdn->...adm", blocks, parts)
    return finite_output(made.reshape(*made.shape[:-3], sample.shape[-2], network.tokens), network.layers)
