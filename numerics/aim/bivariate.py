r"""The bivariate normal law in its tails: log Phi2 and the slopes of it, to relative accuracy.

Conditioned on the first variable,

Phi2(k1, k2; r) = phi(k1) int_0^inf e^{k1 t - t^2/2} Phi((k2 - r k1 + r t)/(1 - r^2)^{1/2}) dt,
P1 = dPhi2/dk1  = phi(k1) Phi((k2 - r k1)/(1 - r^2)^{1/2}).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import log_ndtr

from ..learning.blocks import Array

__all__ = ["Slopes", "log_phi2", "slopes"]

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = leggauss(44)


class Slopes(NamedTuple):
    """log Phi2 and the ratios P1/Phi2, P2/Phi2."""

    log_z: Array
    first: Array
    second: Array


def log_phi2(k1: Array, k2: Array, r: Array) -> Array:
    """Logarithm of the bivariate normal distribution function, to about 1e-13.

    Parameters
    ----------
    k1, k2 : ndarray, shape (...)
        Upper limits.
    r : ndarray, shape (...)
        Correlation, |r| <= 0.9.

    Notes
    -----
    Gauss-Legendre in t over the smaller of the two arguments, for which the integrand falls the faster.
    """
    k1, k2, r = (np.array(a, np.float64) for a in np.broadcast_arrays(k1, k2, r))
    out = np.empty(k1.size)
    flat = [a.ravel() for a in (np.minimum(k1, k2), np.maximum(k1, k2), r)]
    # Samples at a time: what the nodes need stays in the cache.
    rows = 2048
    for start in range(0, out.size, rows):
        part = slice(start, start + rows)
        out[part] = _log_phi2(*(a[part] for a in flat))
    return out.reshape(k1.shape)


def _log_phi2(low: Array, high: Array, r: Array) -> Array:
    # Where both arguments are above it Phi2 is one, to 1e-20.
    certain = 9.5
    low = np.minimum(low, certain)
    root = np.sqrt(1 - r * r)
    # The integrand is below e^-40 of its largest beyond it: at r > 0 it falls at the rate |k|/(1 + r) at least.
    rate = np.where(low < 0, low / (1 + np.abs(r)), low)
    reach = rate + np.sqrt(rate * rate + 80)
    t = 0.5 * reach[:, None] * (1 + _NODES)
    exponent = t * (low[:, None] - 0.5 * t) + log_ndtr(((high - r * low)[:, None] + r[:, None] * t) / root[:, None])
    top = exponent.max(axis=1)
    total = np.exp(exponent - top[:, None]) @ _WEIGHTS
    return np.asarray(np.log(0.5 * reach * total) + top - 0.5 * low * low - _HALF_LOG_TWO_PI)


def slopes(k1: Array, k2: Array, r: Array) -> Slopes:
    """Return log Phi2, P1/Phi2 and P2/Phi2; arguments as in `log_phi2`."""
    k1, k2, r = (np.asarray(a, np.float64) for a in np.broadcast_arrays(k1, k2, r))
    log_z = log_phi2(k1, k2, r)
    root = np.sqrt(1 - r * r)

    def ratio(k: Array, other: Array) -> Array:
        return np.asarray(np.exp(log_ndtr((other - r * k) / root) - 0.5 * k * k - _HALF_LOG_TWO_PI - log_z))

    return Slopes(log_z, ratio(k1, k2), ratio(k2, k1))
