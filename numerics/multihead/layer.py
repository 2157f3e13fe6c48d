"""The layer F(X) = sum_i softmax(X Theta_i X^T) X W_i, and its Jacobian."""

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array
from .batch import Batch

__all__ = ["attention", "jacobian", "multihead", "nmse"]


def attention(X: ArrayLike, theta: ArrayLike) -> Array:
    """Network matrices softmax(X Theta_i X^T), row-wise.

    Parameters
    ----------
    X : array_like, shape (n, k, d)
        Tokens in rows.
    theta : array_like, shape (m, d, d)

    Returns
    -------
    ndarray, shape (n, m, k, k)

    References
    ----------
    chen2024, the layer.
    """
    return np.ascontiguousarray(Batch(X).attention(_heads(theta)).transpose(3, 0, 1, 2))


def multihead(X: ArrayLike, theta: ArrayLike, w: ArrayLike) -> Array:
    """Outputs of the layer, sum_i softmax(X Theta_i X^T) X W_i.

    Parameters
    ----------
    X : array_like, shape (n, k, d)
    theta, w : array_like, shape (m, d, d)

    Returns
    -------
    ndarray, shape (n, k, d)

    References
    ----------
    chen2024, the layer.
    """
    batch = Batch(X)
    return batch.unpack(batch.predict(_heads(theta), _heads(w)))


def nmse(Y: ArrayLike, predicted: ArrayLike) -> float:
    """Normalised mean squared error |predicted - Y|^2 / |Y|^2."""
    wanted = np.asarray(Y, dtype=np.float64)
    off = np.asarray(predicted, dtype=np.float64) - wanted
    return float(np.vdot(off, off) / np.vdot(wanted, wanted))


def jacobian(X: ArrayLike, theta: ArrayLike, w: ArrayLike) -> Array:
    """Derivatives of all outputs in all entries of the Theta_i and the W_i.

    dF_r / dTheta_i[p, q] = x_r[p] (Cov_{A_r}(x) W_i)[q, :] and dF_r[c] / dW_i[a, c] = (A_i X)_r[a].

    Parameters
    ----------
    X : array_like, shape (n, k, d)
    theta, w : array_like, shape (m, d, d)

    Returns
    -------
    ndarray, shape (n k d, 2 m d^2)
        Rows as in `F(X).ravel()`; columns theta.ravel(), then w.ravel().

    Notes
    -----
    Its size grows as n k m d^3: for the normal equations see `refine.gram_blocks`, which never forms it.

    References
    ----------
    chen2024, derivatives of the layer.
    """
    tokens, parts, values = np.asarray(X, dtype=np.float64), _heads(theta), _heads(w)
    n, k, d = tokens.shape
    weights = attention(tokens, parts)
    m = len(parts)
    found = np.zeros((n, k, d, 2, m, d, d))
    found[:, :, :, 0] = np.einsum("nrp,nrmqc->nrcmpq", tokens, _spreads(tokens, weights, values))
    mixed = weights @ tokens[:, None]
    for c in range(d):
        found[:, :, c, 1, :, :, c] = mixed.transpose(0, 2, 1, 3)
    return found.reshape(n * k * d, 2 * m * d * d)


def _heads(matrices: ArrayLike) -> Array:
    return np.asarray(matrices, dtype=np.float64)


def _spreads(X: Array, weights: Array, w: Array) -> Array:
    """Cov_{A_r}(x) W_i, the covariance of tokens under the attention of every row r and head i: (n, k, m, d, d)."""
    values = np.einsum("njd,mdc->nmjc", X, w, optimize=True)
    mean = weights @ values
    tokens = weights[..., None] * X[:, None, None, :, :]
    # Cov = E[x v^T] - E[x] E[v]^T = E[x (v - E v)^T]: the second form does not cancel.
    found = np.swapaxes(tokens, -1, -2) @ (values[:, :, None] - mean[:, :, :, None])
    return np.ascontiguousarray(found.transpose(0, 2, 1, 3, 4))
