"""The network that attention layers are: its numbers, its weights in our normalisation, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ...core.shown import few_lines
from ...core.typing import Array
from ...core.validation import finite, positive, whole
from ..network import Network
from ..networks import forward
from .attention import AttentionLayer, unlike

__all__ = ["Described", "describe"]

# Two arrays are equal up to the rounding of this many operations in float64.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@few_lines
@dataclass(frozen=True)
class Described:
    """An attention layer, or a stack of them, as a network of this package.

    Attributes
    ----------
    network : Network
        Of one head where each head sees all coordinates: then every head of the layer is this network on its own.
    weights : ndarray, shape (weight_rows, D/H)
        Of the network, in the order of its rows and with a mean square of one; (H, weight_rows, D), one array for
        each head, where `separate`.
    betas : ndarray, shape (L, H)
        Inverse temperature of every layer and head at weights of mean square one. `network.beta` is their mean, and
        the rest is in the size of `weights`.
    notes : tuple of str
        What the layer has and the network has not, and what else to know before its numbers are used.
    token_std : float
        Standard deviation of a coordinate of the tokens; the network takes tokens divided by it.
    layers : tuple of AttentionLayer
        What was read.
    """

    network: Network
    weights: Array
    betas: Array
    notes: tuple[str, ...]
    token_std: float = 1.0
    layers: tuple[AttentionLayer, ...] = field(default=(), repr=False)

    @property
    def separate(self) -> bool:
        """Whether the heads are independent networks on the same tokens."""
        return self.weights.ndim == 3

    @property
    def heads(self) -> int:
        """Number of heads of a layer."""
        return int(self.betas.shape[1])

    @property
    def dimension(self) -> int:
        """Coordinates D of a token, of which alpha = N/D counts."""
        return self.layers[0].dimension

    def lines(self) -> Iterator[str]:
        """The network, the shape of the weights, and the first of the notes."""
        yield self.network.describe()
        each = f"each of {self.heads} heads is this network, " if self.separate else ""
        share = max(layer.rank for layer in self.layers) / self.dimension
        yield f"{each}D = {self.dimension}, rank/D = {share:.3g}, weights of shape {self.weights.shape}"
        if self.notes:
            first = self.notes[0] if len(self.notes[0]) <= 100 else self.notes[0][:97] + ".."
            yield f"notes ({len(self.notes)}): {first}"

    def attention(self, X: ArrayLike) -> Array:
        """Attention matrices of the last layer, by the network and its weights.

        Parameters
        ----------
        X : array_like, shape (..., M, D)
            Sequences of tokens as the layer takes them, tokens as rows.

        Returns
        -------
        ndarray, shape (..., H, M, M)
            Rows sum to one; entry (i, j) is what token i takes of token j.

        Raises
        ------
        ValueError
            If the shape is wrong or an entry is not finite.
        """
        x = finite("X", X)
        wanted = (self.network.tokens, self.dimension)
        if x.shape[-2:] != wanted:
            raise ValueError(f"X must have shape (..., M, D) = (..., {wanted[0]}, {wanted[1]}), got {x.shape}")
        columns = np.swapaxes(x, -1, -2) / self.token_std
        if self.separate:
            return np.stack([forward(columns, rows, self.network) for rows in self.weights], axis=-3)
        found = forward(columns, self.weights, self.network)
        return found.reshape(*x.shape[:-2], self.heads, *found.shape[-1:] * 2)

    def circuits(self, layer: int = 1) -> tuple[Array, Array]:
        """Matrices Theta and W of the layer ``F(X) = sum_a softmax(X Theta_a X^T) X W_a``, as `al.multihead` has them.

        Parameters
        ----------
        layer : int
            From 1.

        Returns
        -------
        theta, w : ndarray, shape (H, D, D)

        Raises
        ------
        ValueError
            If there is no such layer, or its values or output projection are not known.

        References
        ----------
        chen2024, the layer.
        """
        found = self.layers[_number(layer, len(self.layers)) - 1]
        moves = found.moves
        if moves is None:
            raise ValueError(
                f"the values and the output projection of layer {layer} are not known: only its scores are"
            )
        return found.theta, np.swapaxes(moves, 1, 2)


def describe(
    layers: Sequence[AttentionLayer],
    tokens: int,
    *,
    layer: int | None = None,
    skip: float | None = None,
    token_std: float = 1.0,
) -> Described:
    """Find the network of attention layers that follow each other.

    Parameters
    ----------
    layers : sequence of AttentionLayer
    tokens : int
        M >= 2.
    layer : int, optional
        Number, from 1, of the one to take alone.
    skip : float, optional
        Strength c > 0 of the residual connections; by default what the layers show, and 1 where they do not.
    token_std : float
        Standard deviation > 0 of a coordinate of the tokens, 1 after a normalisation.

    Raises
    ------
    ValueError
        If there is no layer, or several that are no network together.

    References
    ----------
    troiani2025, (2)-(3), (19), (28)-(30).
    """
    if not layers:
        raise ValueError("no attention layer was found")
    if layer is not None:
        layers = [layers[_number(layer, len(layers)) - 1]]
    std, differs = positive("token_std", token_std, "(1)"), unlike(layers)
    if differs:
        raise ValueError(f"layers of a network must have the same heads and D, got {differs}; take one: layer=1")
    heads, blocks = layers[0].heads, all(one.on_blocks for one in layers)
    if len(layers) > 1 and heads > 1 and not blocks:
        raise ValueError(
            f"{len(layers)} layers of {heads} heads that all see the {layers[0].dimension} coordinates are no network "
            f"together: heads of a network have D/H each (27). Take one layer, whose heads are networks: layer=1"
        )
    separate = heads > 1 and not blocks
    betas = np.array([[_beta(one, a, blocks) for a in range(heads)] for one in layers]) * std**2
    if not betas.any():
        raise ValueError("keys or queries of every head are zero: all scores are equal, and there is nothing to learn")
    network, notes = _network(layers, tokens, 1 if separate else heads, float(betas.mean()), skip)
    rows = [
        _rows(one, head, blocks, beta / network.beta, network.tied)
        for one, of_heads in zip(layers, betas, strict=True)
        for head, beta in enumerate(of_heads)
    ]
    weights = np.array(rows) if separate else np.concatenate(rows)
    if np.ptp(betas) > _ROUNDING * betas.max():
        notes.append(
            f"Inverse temperatures of the heads are from {betas.min():.4g} to {betas.max():.4g}: a network has one, "
            "their mean, and the rest is in the size of the weights."
        )
    return Described(network, weights, betas, tuple(notes), std, tuple(layers))


def _number(layer: object, count: int) -> int:
    number = whole("layer", layer, 1, "(2)")
    if number > count:
        raise ValueError(f"layer must be at most {count}, the number of attention layers, got {number}")
    return number


def _network(
    layers: Sequence[AttentionLayer], tokens: int, heads: int, beta: float, skip: float | None
) -> tuple[Network, list[str]]:
    """The network, and what it leaves out."""
    deep, notes = len(layers) > 1, []
    for number, one in enumerate(layers, start=1):
        notes += [_of(number, deep, text) for text in one.before]
    readouts = []
    for number, one in enumerate(layers[:-1], start=1):
        readout, off = _readout(one, heads)
        readouts.append(readout)
        notes += [_of(number, deep, text) for text in (*off, *one.after)]
    strength, off = _skip(layers[:-1]) if skip is None else (skip, ())
    network = Network(
        layers=len(layers),
        tokens=tokens,
        rank=tuple(one.rank for one in layers),
        skip=strength,
        beta=beta,
        tied=all(map(_tied, layers)),
        heads=heads,
        readouts=readouts if heads > 1 else None,
    )
    notes += off
    if not deep and (layers[0].values is not None or layers[0].after):
        notes.append(
            "The output is the attention matrix: values, output projection and what follows the layer do not enter it."
        )
    return network, notes


def _skip(hidden: Sequence[AttentionLayer]) -> tuple[float, tuple[str, ...]]:
    """Strength of the residual connections around the hidden layers, with a note where it is not seen."""
    seen = sorted({one.skip for one in hidden if one.skip is not None})
    if len(seen) > 1:
        raise ValueError(f"residual connections of a network have one strength c, got {seen}; give skip=c")
    strength = seen[0] if seen else 1.0
    if all(one.skip is not None for one in hidden):
        return strength, ()
    text = f"No residual connection is seen around the layers: c = {strength:g} is assumed, and c = 0 is no network."
    return strength, (text,)


def _of(number: int, deep: bool, text: str) -> str:
    return f"Layer {number}: {text}" if deep else text[0].upper() + text[1:]


def _tied(layer: AttentionLayer) -> bool:
    """Whether the keys of every head are its queries times a positive number, up to rounding."""
    for queries, keys in zip(layer.queries, layer.keys, strict=True):
        product, size = float(np.vdot(queries, keys)), float(np.vdot(queries, queries))
        if not product > 0:
            return False
        if np.linalg.norm(keys - product / size * queries) > _ROUNDING * np.linalg.norm(keys):
            return False
    return True


def _rms(rows: Array) -> float:
    return float(np.sqrt(np.mean(rows * rows)))


def _seen(layer: AttentionLayer, head: int, blocks: bool) -> tuple[Array, Array]:
    """Queries and keys of a head on the coordinates that it sees."""
    width = layer.dimension // layer.heads
    part = slice(head * width, (head + 1) * width) if blocks else slice(None)
    return layer.queries[head][:, part], layer.keys[head][:, part]


def _beta(layer: AttentionLayer, head: int, blocks: bool) -> float:
    """Inverse temperature at weights of mean square one: scale rms(W_q) rms(W_k) times the coordinates of the head."""
    queries, keys = _seen(layer, head, blocks)
    return layer.scale * _rms(queries) * _rms(keys) * queries.shape[1]


def _rows(layer: AttentionLayer, head: int, blocks: bool, share: float, tied: bool) -> Array:
    """Rows of a head's weights: what a row of the attention matrix belongs to, the queries elsewhere, comes first."""
    size = float(np.sqrt(share))
    rows = [size * one / (_rms(one) or 1.0) for one in _seen(layer, head, blocks)]
    return rows[0] if tied else np.concatenate(rows)


def _readout(layer: AttentionLayer, heads: int) -> tuple[Array, tuple[str, ...]]:
    """Numbers o of (30), with what tells W_o W_v from o times the identity on each block."""
    moves = layer.moves
    if moves is None:
        return np.eye(heads), ()
    width = layer.dimension // heads
    o, off = np.zeros((heads, heads)), 0.0
    for a in range(heads):
        left = moves[a].copy()
        for b in range(heads if heads > 1 else 0):
            block = left[b * width : (b + 1) * width, a * width : (a + 1) * width]
            o[b, a] = np.trace(block) / width
            block -= o[b, a] * np.eye(width)
        if heads == 1:
            left -= np.eye(width)
        off += float(np.vdot(left, left))
    relative = float(np.sqrt(off / layer.dimension))
    if relative <= _ROUNDING * layer.dimension:
        return (o if heads > 1 else np.eye(1)), ()
    text = f"values and output projection are not the identity of a network: |W_o W_v - I|/|I| = {relative:.3g}."
    return np.eye(heads), (text,)
