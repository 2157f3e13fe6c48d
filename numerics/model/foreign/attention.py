"""One self-attention layer as other libraries have it: projections of every head, and what stands beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.shown import few_lines
from ...core.typing import Array
from ...core.validation import finite, positive, whole

__all__ = ["AttentionLayer", "attention_layer", "by_heads", "count_heads", "tensor", "unlike", "unlike_keys"]


@few_lines
@dataclass(frozen=True)
class AttentionLayer:
    """Self-attention of H heads on tokens of D coordinates, ``softmax(scale (W_q x_i + b_q)^T (W_k x_j))`` over j.

    Attributes
    ----------
    queries, keys : ndarray, shape (H, d, D)
        W_q and W_k of every head. The bias of the keys shifts a row of scores by a constant and drops out of it.
    scale : float
        Factor of the products, 1/sqrt(d) in most libraries.
    values : ndarray, shape (H, v, D), or None
        W_v of every head, where they are known.
    output : ndarray, shape (H, D, v), or None
        Columns of the output projection that belong to each head.
    name : str
        Where the layer is in its module or tree of parameters.
    skip : float or None
        Strength of the residual connection around the layer; None where it cannot be seen.
    before : tuple of str
        What acts on the scores or the tokens of the layer and is no part of a network.
    after : tuple of str
        What acts on the tokens that leave it and is no part of a network.
    """

    queries: Array
    keys: Array
    scale: float
    values: Array | None = None
    output: Array | None = None
    name: str = ""
    skip: float | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def heads(self) -> int:
        """Number H of heads."""
        return len(self.queries)

    @property
    def rank(self) -> int:
        """Coordinates d of the queries and keys of a head."""
        return int(self.queries.shape[1])

    @property
    def dimension(self) -> int:
        """Coordinates D of a token."""
        return int(self.queries.shape[2])

    @property
    def theta(self) -> Array:
        """Matrices of the scores x_i^T Theta x_j, shape (H, D, D): the "QK circuit", with the scale."""
        return self.scale * np.swapaxes(self.queries, 1, 2) @ self.keys

    @property
    def moves(self) -> Array | None:
        """What a head adds to a token, W_o W_v, shape (H, D, D): the "OV circuit"; None where it is not known."""
        if self.values is None or self.output is None:
            return None
        return self.output @ self.values

    @property
    def on_blocks(self) -> bool:
        """Whether head a sees only the a-th of H blocks of coordinates, as heads of a network do."""
        if self.dimension % self.heads:
            return False
        width = self.dimension // self.heads
        for a in range(self.heads):
            for rows in (self.queries[a], self.keys[a]):
                if rows[:, : a * width].any() or rows[:, (a + 1) * width :].any():
                    return False
        return True


def tensor(name: str, value: Any) -> Array:
    """Return the numbers of a tensor of any library as float64, or raise ValueError.

    A tensor of PyTorch is detached and copied to the host; one of Flax may be in a box.
    """
    found = value
    if hasattr(found, "unbox"):
        found = found.unbox()
    try:
        for step in ("detach", "cpu", "double"):
            if hasattr(found, step):
                found = getattr(found, step)()
        array = np.asarray(found)
        if array.dtype.kind not in "iufO":
            # The narrow floats of JAX are of no kind that NumPy knows.
            array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__}: {error}") from None
    return finite(name, array)


def count_heads(heads: object) -> int:
    """Return a number of heads >= 1, or raise ValueError."""
    return whole("heads", heads, 1, "(27)")


def by_heads(name: str, value: Any, heads: int) -> Array:
    """Rows of a projection, head by head.

    Parameters
    ----------
    name : str
        For messages.
    value : array_like, shape (H d, D) or (H, d, D)
    heads : int
        H of an array of rows.

    Returns
    -------
    ndarray, shape (H, d, D)
    """
    array = tensor(name, value)
    if array.ndim == 3 and array.size:
        return array
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{name} must have shape (H d, D) or (H, d, D), got {array.shape}")
    if len(array) % heads:
        raise ValueError(f"{name} must have as many rows for each of {heads} heads, got {len(array)} rows")
    return array.reshape(heads, -1, array.shape[1])


def attention_layer(queries: Array, keys: Array, scale: float | None = None, **more: Any) -> AttentionLayer:
    """Check the shapes of queries and keys, and make a layer of them.

    Parameters
    ----------
    queries, keys : ndarray, shape (H, d, D)
    scale : float, optional
        1/sqrt(d) by default.
    more : optional
        Other attributes of the layer.

    Raises
    ------
    ValueError
        If keys and queries do not fit each other.
    """
    where = f" of {more['name']}" if more.get("name") else ""
    if queries.shape[2] != keys.shape[2]:
        raise ValueError(
            f"queries and keys{where} must act on tokens of one dimension D, got {queries.shape[2]} and "
            f"{keys.shape[2]}: attention to other tokens (cross-attention) is no network of one sequence"
        )
    if queries.shape != keys.shape:
        raise unlike_keys(str(more.get("name", "")), queries.shape, keys.shape)
    factor = 1 / math.sqrt(queries.shape[1]) if scale is None else positive("scale", scale, "(3)")
    return AttentionLayer(queries, keys, factor, **more)


def unlike_keys(name: str, queries: tuple[int, ...], keys: tuple[int, ...]) -> ValueError:
    """The error for keys of another shape than the queries."""
    where = f" of {name}" if name else ""
    return ValueError(
        f"queries and keys{where} must have one shape, got {queries} and {keys}; of heads that share their keys give "
        "one at a time to al.from_weights"
    )


def unlike(layers: Sequence[AttentionLayer]) -> str:
    """What differs between layers that must have the same heads and dimension; "" if nothing does."""
    for what, of in (("heads", [layer.heads for layer in layers]), ("D", [layer.dimension for layer in layers])):
        if len(set(of)) > 1:
            return f"{what} = {', '.join(map(str, of))}"
    return ""
