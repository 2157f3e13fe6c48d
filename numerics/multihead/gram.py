"""The normal equations of a layer's Jacobian, from as many examples as fix them."""

import numpy as np

from ..learning.blocks import Array
from .batch import Batch
from .refine import gram_blocks, spreads

__all__ = ["column_norms", "gram", "rows"]

# Samples whose spreads are in memory at a time.
_BLOCK = 256


def rows(X: Array, theta: Array) -> int:
    """Samples with 32 output entries for each unknown."""
    # Output entries per unknown that spectra are computed from: with few of them, inverses come out too large.
    per_unknown = 32
    return max(1, -(-per_unknown * 2 * theta.size // (X.shape[1] * X.shape[2])))


def gram(X: Array, theta: Array, w: Array) -> Array:
    """J^T J in the order theta.ravel(), w.ravel()."""
    batch = Batch(X)
    mixed = batch.mixed(batch.attention(theta))
    outer, cross, _ = gram_blocks(batch, theta, w, mixed, np.zeros_like(batch.rows))
    size = theta.size
    found = np.empty((2 * size, 2 * size))
    found[:size, :size] = outer
    found[:size, size:] = cross.reshape(size, size)
    found[size:, :size] = found[:size, size:].T
    found[size:, size:] = np.kron(mixed @ mixed.T, np.eye(batch.dim))
    return found


def column_norms(X: Array, theta: Array, w: Array) -> Array:
    """Norms of the columns of J, in the order of `gram`, without the matrix."""
    heads, dim = len(theta), X.shape[2]
    squares = np.zeros((dim, heads * dim))
    values = np.zeros(heads * dim)
    for begin in range(0, len(X), _BLOCK):
        batch = Batch(X[begin : begin + _BLOCK])
        weights = batch.attention(theta)
        squares += batch.rows**2 @ (spreads(batch, weights, w) ** 2).sum(axis=2)
        values += (batch.mixed(weights) ** 2).sum(axis=1)
    thetas = squares.reshape(dim, heads, dim).transpose(1, 0, 2).ravel()
    return np.sqrt(np.concatenate([thetas, np.repeat(values, dim)]))
