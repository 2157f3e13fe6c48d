"""Whether a large layer's Jacobian has a null direction, by LSMR: products with it alone, no matrix."""

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from ..learning.blocks import Array
from .batch import Batch

__all__ = ["Search", "find_null"]

# Random directions that are searched, steps for each, and the tolerance of these.
_DIRECTIONS, _STEPS, _TOL = 2, 600, 1e-12


class Search(NamedTuple):
    """What a search for null directions found.

    Attributes
    ----------
    null : ndarray, shape (2 m d^2,), or None
        A direction that changes no output, in units of the columns' norms.
    ratio : float
        |J v| / (|v| sigma_max) of what is left: an upper bound of sigma_min / sigma_max; NaN where nothing is left.
    checked : bool
        False where the search did not end.
    """

    null: Array | None
    ratio: float
    checked: bool


def find_null(batch: Batch, theta: Array, w: Array, scale: Array, limit: float) -> Search:
    """Search for a direction of parameters with |J v| <= limit sigma_max |v|.

    Parameters
    ----------
    batch : Batch
    theta, w : ndarray, shape (m, d, d)
    scale : ndarray, shape (2 m d^2,)
        By which the columns of J are divided.
    limit : float

    Notes
    -----
    Least squares |J x - J z| from x = 0, for random z, leaves of z - x nothing but its part in the null space, of
    which a single null direction has |z| / sqrt(P) on average; less than a hundredth of it in two tries has a
    probability below 1e-4. A Jacobian too ill-conditioned for the number of steps is not checked.
    """
    operator = _jacobian(batch, theta, w, scale)
    rng = np.random.default_rng(0)
    size = 2 * theta.size
    largest = _largest(operator, rng)
    ratio = np.nan
    for _ in range(_DIRECTIONS):
        z = rng.standard_normal(size)
        x = lsmr(operator, operator @ z, atol=_TOL, btol=_TOL, conlim=0, maxiter=_STEPS)[0]
        left = z - x
        norm = float(np.linalg.norm(left))
        # Of what a null direction has of a random one on average: what is left below it is no null direction.
        if norm <= 1e-2:  # |z| / sqrt(P) is one
            continue
        ratio = float(np.linalg.norm(operator @ left)) / (norm * largest)
        return Search(left / norm if ratio <= limit else None, ratio, ratio <= limit)
    return Search(None, ratio, True)


def _largest(operator: LinearOperator, rng: np.random.Generator) -> float:
    """The largest singular value, to a few per cent, by powers."""
    v = rng.standard_normal(operator.shape[1])
    value = 1.0
    for _ in range(10):
        v = operator.rmatvec(operator @ (v / np.linalg.norm(v)))
        value = float(np.sqrt(np.linalg.norm(v)))
    return value


def _jacobian(batch: Batch, theta: Array, w: Array, scale: Array) -> LinearOperator:
    weights = batch.attention(theta)
    half, shape = theta.size, theta.shape

    def forward(v: Array) -> Array:
        step = v.ravel() / scale
        return batch.along(weights, w, step[:half].reshape(shape), step[half:].reshape(shape)).ravel()

    def backward(u: Array) -> Array:
        d_theta, d_w = batch.slopes(weights, w, u.reshape(batch.rows.shape))
        return np.concatenate([d_theta.ravel(), d_w.ravel()]) / scale

    return LinearOperator((batch.rows.size, 2 * half), matvec=forward, rmatvec=backward, dtype=np.float64)
