"""One attention layer, tied of rank 2 and 3 or untied of rank 1: the posterior mean on the fibre of each output."""

import numpy as np

from ...core.results import How
from ...core.typing import Array
from ...model.network import Network
from ..fibre_means import tied_mean, untied_mean
from ..fibre_nodes import check_link, edge, in_range
from ..protocol import Settings
from .outputs import named_rows

__all__ = ["TiedPosterior", "UntiedPosterior"]

# Log-ratios of keys to queries among which the peak of the posterior is looked for.
_RATIOS = np.linspace(-5.0, 5.0, 41)
_NEGLIGIBLE = 8 * np.finfo(float).eps


def _scores(layer: Network, y: Array) -> Array:
    """k^T q, and for softmax its part that does not depend on the mean of the queries' tokens."""
    y = in_range(layer, y)
    scores = (np.log(y) if layer.activation == "softmax" else y) / layer.beta
    return scores - scores.mean(axis=2, keepdims=True) if layer.activation == "softmax" else scores


def _tied_points(layer: Network, y: Array) -> Array:
    """Indices that give the outputs, one point of each fibre, shape (n, r, M); the rest of the rows is zero."""
    softmax = layer.activation == "softmax"
    size = min(layer.indices, layer.tokens - 1 if softmax else layer.tokens)
    centred = _scores(layer, y)
    gram = centred - centred.mean(axis=1, keepdims=True) if softmax else centred
    values, vectors = np.linalg.eigh(0.5 * (gram + np.swapaxes(gram, 1, 2)))
    values, vectors = values[:, ::-1][:, :size], vectors[:, :, ::-1][:, :, :size]
    if (values[:, -1] <= _NEGLIGIBLE * np.abs(centred).max(axis=(1, 2))).any():
        raise edge(layer)
    roots = np.sqrt(values)
    rows = np.swapaxes(vectors, 1, 2)
    points = np.zeros((len(y), layer.indices, layer.tokens))
    points[:, :size] = roots[:, :, None] * rows
    if softmax:
        # The mean token inside the span of the differences: its products with them are the means of the columns.
        points[:, :size] += ((rows @ centred.mean(axis=1)[:, :, None])[:, :, 0] / roots)[:, :, None]
    return _consistent(layer, points, y)


def _consistent(layer: Network, points: Array, y: Array) -> Array:
    """Return the points, or raise where their outputs are not y."""
    off = np.abs(layer.link(points) - y).max(axis=(1, 2)) / np.abs(y).max(axis=(1, 2))
    worst = int(off.argmax())
    check_link(layer, points[worst], y[worst])
    return points


class TiedPosterior:
    """A tied layer of rank 2 or 3.

    Its output does not see rotations of the indices, so that V is a multiple of the identity at every fixed point: the
    scores are those at V = (tr V / r) I, for which the integral over rotations is known.

    Parameters
    ----------
    layer : Network
        Tied.
    y : ndarray, shape (n, M, M)

    Attributes
    ----------
    points : ndarray, shape (n, r, M)
        A point of the fibre of each output.
    shifted : bool
        Whether a shift of all tokens, orthogonal to their differences, comes on top.
    """

    how: How = "estimated"

    def __init__(self, layer: Network, y: Array, _: Settings) -> None:
        self.rows = len(y)
        self.layer = layer
        self.points: Array = named_rows(lambda part: _tied_points(layer, part), y)
        self.shifted = layer.activation == "softmax" and layer.indices >= layer.tokens

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        rank = self.layer.indices
        variance = float(np.trace(V)) / rank
        points = self.points[part]
        if self.shifted:
            # A shift that the output does not see, of a typical length, centres the integral over it.
            points = points.copy()
            token = (omega.mean(axis=2) ** 2).sum(axis=1)
            points[:, -1] = np.sqrt(token + variance / self.layer.tokens)[:, None]
        return (tied_mean(self.layer, points, omega, variance) - omega) / variance, None


def _untied_points(layer: Network, y: Array) -> Array:
    """Keys and queries of equal norm that give the outputs, shape (n, 2, M)."""
    centred = _scores(layer, y)
    left, values, right = np.linalg.svd(centred)
    if (values[:, 0] <= _NEGLIGIBLE * np.abs(centred).max(axis=(1, 2))).any():
        raise edge(layer)
    points = np.stack([left[:, :, 0], right[:, 0]], axis=1) * np.sqrt(values[:, 0])[:, None, None]
    return _consistent(layer, points, y)


class UntiedPosterior:
    """An untied layer of rank 1.

    Parameters
    ----------
    layer : Network
        Untied, rank 1.
    y : ndarray, shape (n, M, M)

    Attributes
    ----------
    points : ndarray, shape (n, 2, M)
        Keys and queries of equal norm that give each output.
    """

    how: How = "estimated"

    def __init__(self, layer: Network, y: Array, _: Settings) -> None:
        self.rows = len(y)
        self.layer = layer
        self.points: Array = named_rows(lambda part: _untied_points(layer, part), y)

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        precision = np.asarray(np.linalg.inv(V), np.float64)
        near = self._near_peak(self.points[part], omega, precision)
        return precision @ (untied_mean(self.layer, near, omega, precision) - omega), None

    def _near_peak(self, points: Array, omega: Array, precision: Array) -> Array:
        """The points of the fibres where the posterior is largest among some: rules are dense around them."""
        scale = np.concatenate([np.exp(_RATIOS), -np.exp(_RATIOS)])
        # exponent -(t k, q/t; deviation)^2/2 in powers of t: t^2, t, 1/t, 1/t^2
        key, query = points[:, 0], points[:, 1]
        pulled = precision @ omega
        square = 0.5 * precision[0, 0] * (key**2).sum(axis=1), 0.5 * precision[1, 1] * (query**2).sum(axis=1)
        line = (key * pulled[:, 0]).sum(axis=1), (query * pulled[:, 1]).sum(axis=1)
        exponent = np.multiply.outer(line[0], scale) - np.multiply.outer(square[0], scale**2)
        exponent += np.multiply.outer(line[1], 1 / scale) - np.multiply.outer(square[1], scale**-2)
        if self.layer.activation == "softmax":
            # The mean of the queries' tokens is free: the best one given the rest.
            m = self.layer.tokens
            slope = precision[1, 0] * np.multiply.outer(key.sum(axis=1), scale) - pulled[:, 1].sum(axis=1)[:, None]
            exponent += 0.5 * slope**2 / (m * precision[1, 1]) + np.tile(_RATIOS, 2)
        best = scale[exponent.argmax(axis=1)][:, None]
        return np.stack([key * best, query / best], axis=1)
