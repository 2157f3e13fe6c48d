"""Posterior means of one attention layer: tied of rank 1 to 3, and untied of rank 1, for many outputs at once.

The output fixes the indices up to a fibre (`fibre_nodes`), over which the posterior is summed exactly: rotations have a
closed form or an integral over an interval (`rotations`), the scale of keys against queries is one integral, a shift of
all tokens one more.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..model.network import Network
from ..quadrature.rotations import mean_rotation
from ..quadrature.rules import gauss_legendre

__all__ = ["ratio_nodes", "tied_mean", "untied_mean"]

Array = NDArray[np.float64]

# Nodes that are held at a time.
_CHUNK = 1 << 15
# Keys against queries: step and half-width of the rule in asinh(log-ratio / its posterior width).
_RATIO_STEP, _RATIO_RANGE = 0.08, 25.0


def tied_mean(layer: Network, h: Array, omega: Array, variance: float) -> Array:
    """Posterior mean of the indices of a tied layer with prior N(omega, V I), given the output of indices h.

    Parameters
    ----------
    layer : Network
        Tied.
    h, omega : ndarray, shape (n, r, M)
    variance : float
        V > 0.

    Returns
    -------
    ndarray, shape (n, r, M)

    Notes
    -----
    The fibre of h is O(r) h, and a softmax that sees fewer directions than there are adds a shift t of all tokens
    along one of the others: h = R (p + t e 1^T), e orthogonal to p, t > 0 with density t^{f-1} exp(-M t^2/(2 V)), f the
    number of directions left. R has the density exp(tr(R^T omega (p + t e 1^T)^T)/V).

    References
    ----------
    troiani2025, (163)-(170).
    """
    m, r = layer.tokens, layer.indices
    if layer.activation != "softmax" or r < m:
        return _rotated(h, omega, variance)[1]
    # The span of the token differences, e, and the directions left.
    left, _, _ = np.linalg.svd(h - h.mean(axis=2, keepdims=True))
    inside = left[:, :, : m - 1]
    point = inside @ (np.swapaxes(inside, 1, 2) @ h)
    shift = (h - point).mean(axis=2)
    free = r - m + 1
    length = np.linalg.norm(shift, axis=1)
    direction = shift / length[:, None]
    out = np.empty_like(h)
    width = math.sqrt(variance / m)
    # Given R the shift is Gaussian about the prior's mean token, which turns by no more than the posterior of R does.
    mean_token = np.linalg.norm(omega.mean(axis=2), axis=1)
    # Standard deviations to which a Gaussian integral goes, and its step in them.
    reach, step = 9.0, 0.4
    slack = reach * width * (1 + mean_token * math.sqrt(m) / np.linalg.svd(point)[1][:, m - 2])
    lower = np.maximum(0.0, np.minimum(length, mean_token) - slack)
    upper = np.minimum(np.maximum(length, mean_token + reach * width), length + slack)
    counts = 2 ** np.ceil(np.log2(np.maximum(16, (upper - lower) / (step * width)))).astype(int)
    for count in np.unique(counts):
        nodes, weights = gauss_legendre(int(count))
        chosen = np.flatnonzero(counts == count)
        for part in np.array_split(chosen, max(1, len(chosen) * int(count) // _CHUNK)):
            middle, half = 0.5 * (lower + upper)[part, None], 0.5 * (upper - lower)[part, None]
            t = middle + half * nodes
            moved = point[part, None] + (t[..., None] * direction[part, None])[..., None]
            log_c, mean = _rotated(moved, omega[part, None], variance)
            exponent = log_c - 0.5 * m * t**2 / variance + np.log(half * weights * t ** (free - 1))
            weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
            out[part] = np.einsum("nk,nkrm->nrm", weight / weight.sum(axis=1, keepdims=True), mean)
    return out


def _rotated(h: Array, omega: Array, variance: float) -> tuple[Array, Array]:
    """Log of the integral over O(r) of exp(tr(R h omega^T)/V), and the mean of R h."""
    log_c, rotation = mean_rotation(omega @ np.swapaxes(h, -1, -2) / variance)
    return log_c, rotation @ h


def untied_mean(layer: Network, h: Array, omega: Array, precision: Array, count: int | None = None) -> Array:
    """Posterior mean of key and query of an untied layer of rank 1, given the output of indices h.

    Parameters
    ----------
    layer : Network
        Untied, rank 1.
    h, omega : ndarray, shape (n, 2, M)
        Keys, then queries.
    precision : ndarray, shape (2, 2)
        V^{-1}.
    count : int, optional
        Nodes of log t on each side of zero; by default those of `ratio_nodes` for these outputs.

    Returns
    -------
    ndarray, shape (n, 2, M)

    Notes
    -----
    The fibre of (k, q) is (t k, q/t), with the Haar measure dt/t; a softmax does not see the mean of q, so that
    it is (t k, (q - mean)/t + n), with dt dn, n Gaussian and integrated in closed form.
    """
    softmax = layer.activation == "softmax"
    m = layer.tokens
    point, curvature = _ratio(layer, h, precision)
    count = _count(curvature) if count is None else count
    z = _RATIO_STEP * np.arange(-count, count + 1)
    out = np.empty_like(h)
    for part in np.array_split(np.arange(len(h)), max(1, len(h) * z.size // (8 * _CHUNK))):
        width = 1 / np.sqrt(curvature[part, None])
        x = np.clip(width * np.sinh(z), -2 * _RATIO_RANGE, 2 * _RATIO_RANGE)
        x = np.concatenate([x, x], axis=1)
        log_measure = np.tile(np.log(width * np.cosh(z)), 2) + (x if softmax else 0.0)
        sign = np.repeat([1.0, -1.0], z.size)
        t = sign * np.exp(x)
        key, query = point[part, 0], point[part, 1]
        # Token by token: sums over a few last axes would take most of the time.
        exponent, slope = log_measure, np.zeros(t.shape)
        for token in range(m):
            first = t * key[:, token, None] - omega[part, 0, token, None]
            second = query[:, token, None] / t - omega[part, 1, token, None]
            pulled = precision[1, 0] * first + precision[1, 1] * second
            exponent -= 0.5 * (first * (precision[0, 0] * first + precision[0, 1] * second) + second * pulled)
            slope += pulled
        shift = slope / (m * precision[1, 1]) if softmax else np.zeros(t.shape)
        exponent += 0.5 * slope * shift
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        out[part, 0] = (weight * t).sum(axis=1)[:, None] * key
        out[part, 1] = (weight / t).sum(axis=1)[:, None] * query - (weight * shift).sum(axis=1)[:, None]
    return out


def ratio_nodes(layer: Network, h: Array, precision: Array) -> int:
    """Nodes of log t on each side of zero that the narrowest of some posteriors asks for, see `untied_mean`.

    Parameters
    ----------
    layer : Network
        Untied, rank 1.
    h : ndarray, shape (n, 2, M)
    precision : ndarray, shape (2, 2)
    """
    return _count(_ratio(layer, h, precision)[1])


def _ratio(layer: Network, h: Array, precision: Array) -> tuple[Array, Array]:
    """The point at which fibres are entered, and the curvature of the exponent in log t at the truth."""
    point = h.copy()
    if layer.activation == "softmax":
        point[:, 1] -= point[:, 1].mean(axis=1, keepdims=True)
    speed = point * np.array([1.0, -1.0])[:, None]
    # Plus what the measure adds.
    return point, 1.0 + np.einsum("npm,pq,nqm->n", speed, precision, speed)


def _count(curvature: Array) -> int:
    return math.ceil(math.asinh(_RATIO_RANGE * math.sqrt(float(curvature.max()))) / _RATIO_STEP)
