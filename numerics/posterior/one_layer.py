"""Posterior of the indices of one tied layer of rank 1 given its readout row v, up to its sign: h = +-v."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.network import Network
from .protocol import Moments
from .rounding import two_points_rounding

__all__ = ["Batch", "one_layer", "two_points"]

Array = NDArray[np.float64]


class Batch(NamedTuple):
    """What n posteriors of rank 1 depend on.

    Attributes
    ----------
    v : ndarray, shape (n, M)
        Readout rows, up to their signs.
    inexact : ndarray, shape (n,)
        Bound of the error of the entries of v.
    omega : ndarray, shape (n, P, M)
    V : ndarray, shape (n, P, P)
    """

    v: Array
    inexact: Array
    omega: Array
    V: Array


def one_layer(model: Network, batch: Batch) -> Moments:
    """Posterior of one layer with the rounding of float64; not finite where it overflows."""
    v, inexact, omega, V = batch
    with np.errstate(all="ignore"):
        log_z, g, dg = two_points(model, v, omega, V)
    return Moments(log_z, g, dg, *two_points_rounding(v, omega, V, inexact))


def two_points(model: Network, v: Array, omega: Array, V: Array) -> tuple[Array, Array, Array]:
    """Posterior h = +-v of one layer, in closed form: log Z, g_out and d g_out.

    v has shape (n, M), omega (n, 1, M) and V (n, 1, 1). Element-wise operations of numpy only, which `jax` can run.
    """
    variance = V[:, 0, 0]
    sd = np.sqrt(variance)[:, None]
    row = v / sd
    field = (omega[:, 0, :] * v).sum(axis=1) / variance
    # sech^2 without overflow.
    decay = np.exp(-2 * np.abs(field))
    spread = 4 * decay / (1 + decay) ** 2
    g = ((np.tanh(field)[:, None] * v - omega[:, 0, :]) / variance[:, None])[:, None, :]
    dg = spread[:, None, None] * row[:, :, None] * row[:, None, :] - np.eye(model.tokens)
    dg = dg / variance[:, None, None]
    # The nearer of both points: |v|^2 + |omega|^2 - 2 |v.omega| without cancellation.
    residual = (v - np.where(field < 0, -1.0, 1.0)[:, None] * omega[:, 0, :]) / sd
    log_z = -0.5 * (residual**2).sum(axis=1) + np.log1p(decay)
    log_z -= 0.5 * model.tokens * (math.log(2 * math.pi) + np.log(variance))
    return log_z, g, dg[:, None, :, None, :]
