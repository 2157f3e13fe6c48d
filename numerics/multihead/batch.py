"""Examples with the sample axis last, where every step of the layer is one matrix product or one long inner loop."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array

__all__ = ["Batch"]


class Batch:
    """Tokens X of shape (n, k, d), and outputs Y of the same shape where known, stored as (d, k, n).

    Attributes
    ----------
    x : ndarray, shape (d, k, n)
    y : ndarray, shape (d, k n)
        Columns are (token, sample). All zero where no outputs were given.
    """

    def __init__(self, X: ArrayLike, Y: ArrayLike | None = None) -> None:
        tokens = np.asarray(X, dtype=np.float64)
        self.samples, self.tokens, self.dim = tokens.shape
        self.x = np.ascontiguousarray(tokens.transpose(2, 1, 0))
        self.rows = self.x.reshape(self.dim, -1)
        self.y = np.zeros_like(self.rows) if Y is None else _columns(np.asarray(Y, dtype=np.float64))

    @cached_property
    def size(self) -> float:
        """The sum of the squares of Y."""
        return float(np.vdot(self.y, self.y))

    def attention(self, theta: Array) -> Array:
        """Softmax of x_r^T Theta_i x_j over j, shape (m, k, k, n)."""
        scores = self.against(theta.transpose(0, 2, 1))
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=2, keepdims=True)
        return scores

    def against(self, maps: Array, columns: Array | None = None) -> Array:
        """x_j^T M_i c_r for every head i, row r and token j, shape (m, k, k, n); c_r is x_r by default.

        Parameters
        ----------
        maps : ndarray, shape (m, d, d)
        columns : ndarray, shape (d, k n), optional
        """
        seen = maps.reshape(-1, self.dim) @ (self.rows if columns is None else columns)
        return np.einsum("idrn,djn->irjn", seen.reshape(len(maps), *self.x.shape), self.x)

    def mixed(self, weights: Array) -> Array:
        """Sum over j of weights[i, r, j] x_j, shape (m d, k n); with attention: the regressors of the W_i."""
        return np.einsum("irjn,djn->idrn", weights, self.x).reshape(len(weights) * self.dim, -1)

    def predict(self, theta: Array, w: Array) -> Array:
        """The layer's outputs, shape (d, k n)."""
        return w.reshape(-1, self.dim).T @ self.mixed(self.attention(theta))

    def unpack(self, columns: Array) -> Array:
        """Outputs of shape (d, k n) as (n, k, d)."""
        return np.ascontiguousarray(columns.reshape(self.dim, self.tokens, self.samples).transpose(2, 1, 0))

    def squares(self, theta: Array, w: Array) -> Array:
        """Squared error |F(X) - Y|^2 of every example, shape (n,)."""
        off = self.predict(theta, w) - self.y
        return np.asarray((off**2).sum(axis=0).reshape(self.tokens, self.samples).sum(axis=0))

    def error(self, theta: Array, w: Array) -> float:
        """Normalised mean squared error |F - Y|^2 / |Y|^2."""
        off = self.predict(theta, w) - self.y
        return float(np.vdot(off, off)) / self.size

    def loss(self, theta: Array, w: Array) -> tuple[float, Array, Array]:
        """Half of the normalised squared error, and its gradients in Theta and W."""
        weights = self.attention(theta)
        mixed = self.mixed(weights)
        off = w.reshape(-1, self.dim).T @ mixed - self.y
        off /= self.size
        return 0.5 * self.size * float(np.vdot(off, off)), *self.slopes(weights, w, off, mixed)

    def slopes(self, weights: Array, w: Array, off: Array, mixed: Array | None = None) -> tuple[Array, Array]:
        """J^T off in Theta and in W, for `off` of shape (d, k n), at these attention weights."""
        mixed = self.mixed(weights) if mixed is None else mixed
        slope = self.against(w, off)
        slope -= np.einsum("irjn,irjn->irn", slope, weights)[:, :, None]
        slope *= weights
        d_theta = (self.mixed(slope) @ self.rows.T).reshape(w.shape).transpose(0, 2, 1)
        return d_theta, (mixed @ off.T).reshape(w.shape)

    def along(self, weights: Array, w: Array, d_theta: Array, d_w: Array) -> Array:
        """J (d_theta, d_w), shape (d, k n): the change of the outputs to first order, at these attention weights."""
        change = self.against(d_theta.transpose(0, 2, 1))
        change -= np.einsum("irjn,irjn->irn", change, weights)[:, :, None]
        change *= weights
        values = w.reshape(-1, self.dim).T @ self.mixed(change)
        return np.asarray(values + d_w.reshape(-1, self.dim).T @ self.mixed(weights))


def _columns(outputs: Array) -> Array:
    return np.ascontiguousarray(outputs.transpose(2, 1, 0)).reshape(outputs.shape[2], -1)
