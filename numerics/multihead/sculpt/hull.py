"""Step 4, paper: the proxy and the directions of the affine hull of the attention matrices."""

from dataclasses import dataclass

import numpy as np

from ...core.shown import few_lines
from ...learning.blocks import Array
from .body import Body

__all__ = ["Hull", "affine_hull", "span_residual"]


@few_lines
@dataclass(frozen=True)
class Hull:
    """The affine hull of m matrices as the body shows it.

    Attributes
    ----------
    proxy : ndarray, shape (d, d)
        The point of least norm among those that fit best, Theta*.
    directions : ndarray, shape (m - 1, d, d)
        Orthonormal, each with a sign that its entries fix.
    singular_values : ndarray, shape (d^2,)
        Of the weighted constraints, decreasing.
    basis : ndarray, shape (d^2, d^2)
        Right singular vectors in rows.
    gap : float
        Ratio of the least singular value off the hull to the largest on it; 1 for one head, which has none.
    """

    proxy: Array
    directions: Array
    singular_values: Array
    basis: Array
    gap: float


def affine_hull(body: Body, heads: int) -> Hull:
    """Find the directions in which the weighted constraints are weakest, and the least-norm fit on the others (paper).

    A soft version of the paper's point of least norm in the body: weighted least squares.

    Notes
    -----
    Weights are 1/slack^2 (heuristic), and equal for the d^2/2 constraints of least slack. What misses the hull are not
    independent errors of size slack, for which 1/slack would be best, but a bias that grows with it: 1/slack^2 brings
    the heads closer to the hull, up to three times where examples are few. The Gram matrix, d^2 x d^2, then has a
    condition number of about 1e3: nothing is lost by squaring, and it takes a tenth of the time of the singular value
    decomposition of the constraints.
    """
    d = body.query.shape[1]
    weight = np.maximum(body.slack, body.slack[min(d * d // 2, len(body) - 1)]) ** -2.0
    weight /= weight[0]
    weighted = body.rows * weight[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ weighted)
    singular = np.sqrt(np.maximum(values[::-1], 0.0))
    basis = np.ascontiguousarray(vectors[:, ::-1].T)
    # Which of +-v an eigensolver returns is a matter of rounding; the net is counted along v.
    basis *= np.where(basis @ np.cos(np.arange(d * d)) < 0, -1.0, 1.0)[:, None]
    kept = d * d - (heads - 1)
    on = basis[:kept]
    right = on @ (weighted.T @ (body.bound * weight))
    # Of singular values beside the largest, below which the Gram matrix does not show them: it has their squares, with
    # errors of 1e-16 of the largest, which leave of a fit along a direction of 1e-6 four digits.
    rank = 1e-6
    proxy = (right / np.maximum(singular[:kept], rank * singular[0]) ** 2) @ on
    gap = 1.0 if heads == 1 else float(singular[kept - 1] / max(singular[kept], np.finfo(float).tiny))
    return Hull(proxy.reshape(d, d), basis[kept:].reshape(heads - 1, d, d), singular, basis, gap)


def span_residual(hull: Hull, theta: Array) -> Array:
    """|Theta_i - projection on the span of proxy and directions| / |Theta_i|, shape (m,): zero for a perfect hull."""
    flat = theta.reshape(len(theta), -1)
    span = np.concatenate([hull.proxy[None], hull.directions]).reshape(len(hull.directions) + 1, -1)
    orthonormal = np.linalg.qr(span.T)[0]
    off = flat - flat @ orthonormal @ orthonormal.T
    return np.asarray(np.linalg.norm(off, axis=1) / np.linalg.norm(flat, axis=1))
