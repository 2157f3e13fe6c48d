"""Fibres of one attention layer: the indices that give an output, and rules for integrals over them.

The fibre is an orbit of rotations O(r) if the layer is tied, a scale of keys against queries if it is not, and a common
shift of all tokens where a softmax does not see it, which is Gaussian and integrated in closed form (`completed`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import UnreachableOutputError
from ..core.validation import softmax_rows
from ..model.network import Network
from ..quadrature.rules import gauss_legendre

__all__ = ["Nodes", "Prior", "check_link", "completed", "edge", "in_range", "tied_rule", "untied_rule"]

Array = NDArray[np.float64]

# Most nodes of one rule: about 100 MB of moments.
_MOST_NODES = 300_000


class Nodes(NamedTuple):
    """Nodes of an integral: indices (nodes, P, M), directions of the shift (nodes, P, f), log-weights (nodes)."""

    base: Array
    shift: Array
    log_weight: Array


class Prior(NamedTuple):
    """Mean (P, M) of the indices, the inverse of their covariance V, and log det V."""

    omega: Array
    precision: Array
    log_det: float


def completed(nodes: Nodes, prior: Prior) -> tuple[Array, Array, Array]:
    """Integrate N(h; omega, V) over the shift n in h = base + shift n 1^T.

    Logarithms of the integrals times the weights, and the mean and covariance of the indices given each node.
    """
    base, shift, log_weight = nodes
    p, m = prior.omega.shape
    deviation = base - prior.omega
    pulled = prior.precision @ deviation
    exponent = log_weight - 0.5 * (deviation * pulled).sum(axis=(1, 2))
    exponent = exponent - 0.5 * m * (prior.log_det + p * np.log(2 * np.pi))
    free = shift.shape[-1]
    if not free:
        return exponent, base, np.zeros((1, p, p))
    # Exponent -n^T A n/2 - g^T n, A = M S^T V^{-1} S.
    curvature = m * (np.swapaxes(shift, 1, 2) @ prior.precision @ shift)
    slope = (np.swapaxes(shift, 1, 2) @ pulled.sum(axis=2)[:, :, None])[:, :, 0]
    inverse = np.linalg.inv(curvature)
    best = -(inverse @ slope[:, :, None])[:, :, 0]
    exponent = exponent - 0.5 * (slope * best).sum(axis=1) - 0.5 * np.linalg.slogdet(curvature)[1]
    exponent = exponent + 0.5 * free * np.log(2 * np.pi)
    return exponent, base + (shift @ best[:, :, None]), shift @ inverse @ np.swapaxes(shift, 1, 2)


def in_range(layer: Network, y: Array) -> Array:
    """Outputs as they are, or softmax rows that sum to one exactly; raise where one is not finite or no softmax."""
    if not np.isfinite(y).all():
        raise UnreachableOutputError("y must be finite, got NaN or infinity; see troiani2025 (6)")
    return softmax_rows(y) if layer.activation == "softmax" else y


def check_link(layer: Network, h: Array, y: Array) -> None:
    """Raise where the output of indices h is not y."""
    off = float(np.abs(layer.link(h) - y).max() / np.abs(y).max())
    # y is accepted if the link at the recovered indices reproduces it to this (relative to its scale).
    consistent = 1e-6
    if not off <= consistent:
        raise UnreachableOutputError(
            f"no indices of rank {layer.rank} give this y: y = sigma(beta k^T q) is violated by {off:.3g} "
            "(troiani2025 (6), (177)); check the activation, beta, the rank and whether the layer is tied"
        )


def edge(layer: Network) -> UnreachableOutputError:
    """Refusal of an output on the edge of the range, for the caller to raise."""
    return UnreachableOutputError(
        f"y lies on the edge of the link's range: its indices span fewer than the {layer.rank} dimension(s) of a rank-"
        f"{layer.rank} layer with {layer.tokens} tokens, or no indices give it (troiani2025 (177)); such outputs have "
        "probability zero"
    )


def tied_rule(layer: Network, y: Array, _: Prior) -> tuple[Callable[[int], Nodes | None], float]:
    """One point v of the fibre, and the rule that rotates it."""
    r, m, softmax = layer.indices, layer.tokens, layer.activation == "softmax"
    size = min(r, m - 1 if softmax else m)
    scores = (np.log(y) if softmax else y) / layer.beta
    centred = scores - scores.mean(axis=1, keepdims=True) if softmax else scores
    gram = centred - centred.mean(axis=0) if softmax else centred
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    values, vectors = values[::-1][:size], vectors[:, ::-1][:, :size]
    # Rounding of the logarithms: below this an eigenvalue is noise.
    if values[-1] <= 8 * np.finfo(float).eps * np.abs(scores).max():
        raise edge(layer)
    point = np.zeros((r, m))
    point[:size] = np.sqrt(values)[:, None] * vectors.T
    free = r - size if softmax else 0
    if softmax:
        # The mean token inside the span of the differences: its products with them are the means of the columns.
        point[:size] += (vectors.T @ centred.mean(axis=0) / np.sqrt(values))[:, None]
    check_link(layer, point, y)
    pivots = point[:size, :size] - (point[:size, -1:] if softmax else 0.0)
    count = size * (size + 1) // 2 + size * (m - size)
    log_factor = -size * np.log(2) + (r - m - 1) * np.linalg.slogdet(pivots)[1] - count * np.log(layer.beta)
    if softmax and m == 2:
        log_factor -= np.log(y).sum()

    def rule(level: int) -> Nodes | None:
        frames = _frames(r, size, 8 << level)
        if frames is None:
            return None
        turns, log_weight = frames
        return Nodes(turns @ point, turns[:, :, size : size + free], log_weight)

    return rule, float(log_factor)


def _sphere(dimension: int, n: int) -> tuple[Array, Array]:
    """Rotations whose first column runs over the sphere, and weights that sum to its area."""
    if dimension == 1:
        return np.array([[[1.0]], [[-1.0]]]), np.ones(2)
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(n, 2, 2)
    if dimension == 2:
        return circle, np.full(n, 2 * np.pi / n)
    height, weight = gauss_legendre(n // 2)
    side = np.sqrt(1 - height**2)
    tilt = np.zeros((n // 2, 3, 3))
    tilt[:, 0, 0], tilt[:, 0, 1], tilt[:, 1, 0], tilt[:, 1, 1], tilt[:, 2, 2] = height, -side, side, height, 1.0
    around = np.zeros((n, 3, 3))
    around[:, 0, 0] = 1.0
    around[:, 1:, 1:] = circle
    both = around[:, None] @ tilt[None]
    return both.reshape(-1, 3, 3), np.tile(weight * 2 * np.pi / n, n)


def _frames(rank: int, columns: int, n: int) -> tuple[Array, Array] | None:
    """Rule on `columns` orthonormal vectors of R^rank, n nodes around each circle; None where it is too large."""
    count = 1
    for column in range(columns):
        count *= {1: 2, 2: n, 3: n * n // 2}[rank - column]
    if count > _MOST_NODES:
        return None
    turns, weights = np.eye(rank)[None], np.ones(1)
    for column in range(columns):
        inner, more = _sphere(rank - column, n)
        block = np.tile(np.eye(rank), (len(inner), 1, 1))
        block[:, column:, column:] = inner
        turns = (turns[:, None] @ block[None]).reshape(-1, rank, rank)
        weights = (weights[:, None] * more).ravel()
    return turns, np.log(weights)


def untied_rule(layer: Network, y: Array, prior: Prior) -> tuple[Callable[[int], Nodes | None], float]:
    """Keys t a and queries s b/t (plus a shift for softmax): the rule in log|t| and the sign of t."""
    m, softmax = layer.tokens, layer.activation == "softmax"
    scores = (np.log(y) if softmax else y) / layer.beta
    centred = scores - scores.mean(axis=1, keepdims=True) if softmax else scores
    left, values, right = np.linalg.svd(centred)
    strength, a, b = float(values[0]), left[:, 0], right[0]
    if strength <= 8 * np.finfo(float).eps * np.abs(scores).max():
        raise edge(layer)
    check_link(layer, np.stack([a, strength * b]), y)
    corner = strength * a[0] * (b[0] - b[-1] if softmax else b[0])
    if corner == 0.0:
        raise edge(layer)
    # dk_1 = |a_1| dt for softmax and dk_1/|k_1| = dt/|t| for linear outputs.
    log_factor = (np.log(abs(a[0])) if softmax else 0.0) - (m - 1) * np.log(abs(corner))
    log_factor -= (2 * m - 2 if softmax else 2 * m - 1) * np.log(layer.beta)
    if softmax and m == 2:
        log_factor -= np.log(y).sum()

    def nodes(x: Array, step: float) -> Nodes:
        scale = np.exp(x)
        t = np.concatenate([scale, -scale])[:, None]
        base = np.stack([t * a, strength * b / t], axis=1)
        shift = np.zeros((len(t), 2, 1 if softmax else 0))
        shift[:, 1] = 1.0
        return Nodes(base, shift, np.tile((x if softmax else 0.0 * x) + np.log(step), 2))

    # Outside, exp(-t^2/2) or exp(-(strength/t)^2/2), doubly exponential in x, or for small strengths the measure
    # itself, leaves less than 1e-17.
    wide = np.arange(-60.0, 20.0 + np.log1p(strength), 0.1)
    exponent = completed(nodes(wide, 1.0), prior)[0].reshape(2, -1).max(axis=0)
    inside = wide[exponent > exponent.max() - 45]
    lower, upper = inside[0] - 0.2, inside[-1] + 0.2

    def rule(level: int) -> Nodes | None:
        count = 40 << level
        if 2 * count > _MOST_NODES:
            return None
        step = (upper - lower) / count
        return nodes(lower + step * (np.arange(count) + 0.5), step)

    return rule, float(log_factor)
