"""All layers of a network of extensive width learned together by gradient descent: an experiment, without a limit.

No state evolution of layers that are unknown together is known (`layers`). What is known bounds their errors from
below: that of the last layer where the others are known (`last_layer`), which is less than it is where they are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.shown import few_lines
from ..learning.blocks import Array, Floats, stream
from ..learning.rules import Adam
from .channels import Softmax
from .checks import CITE, above_zero, count, from_zero
from .data import check_matrix, check_samples, indices, matrix_of
from .gd import fitted, status_of, unfinished

__all__ = ["LayersDescent", "deep_loss", "descend_layers"]


@few_lines
class LayersDescent(NamedTuple):
    """A network learned by gradient descent.

    Attributes
    ----------
    estimates : ndarray, shape (L, d, d)
        S of every layer.
    errors : ndarray, shape (L,), or None
        ||S_l - Shat_l||^2/d of every layer, if the teachers are known.
    loss, first_loss : float
        sum ||y - yhat||^2/d at the end and at the start.
    n_iter : int
    converged : bool
        The data are fitted, or the loss no longer moves and is below that of S = 0.
    status : str
    """

    estimates: Array
    errors: Array | None
    loss: float
    first_loss: float
    n_iter: int
    converged: bool
    status: str


def descend_layers(
    x: ArrayLike,
    y: ArrayLike,
    rho: Sequence[float],
    skip: float,
    *,
    beta: float = 1.0,
    rate: float = 0.1,
    steps: int = 1000,
    teachers: Sequence[ArrayLike] | None = None,
    rng: np.random.Generator | int | None = 0,
) -> LayersDescent:
    """Full-batch Adam on sum ||y - yhat||^2/d over W_1..W_L of y = `layers.deep_outputs`, from standard Gaussian ones.

    Parameters
    ----------
    x : array_like, shape (n, T, d)
    y : array_like, shape (n, T, T)
    rho : sequence of float
        Width of each layer; their number is that of the layers.
    skip, beta : float
        Of the network.
    rate, steps
        As in `descend`.
    teachers : sequence of array_like of shape (d, d), keyword-only, optional
        S of every layer.
    rng : Generator, int or None, keyword-only

    Returns
    -------
    LayersDescent

    References
    ----------
    boncoraglio2025, L layers and gradient descent.
    """
    if not len(rho):
        raise ValueError(f"rho must name at least one layer ({CITE}, L layers)")
    array = np.asarray(y)
    tokens = check_samples(x, array.shape[-1] if array.ndim == 3 else 2)
    network = _Network(tokens, Softmax(tokens.shape[1], beta), from_zero("skip", skip, "L layers"))
    labels = network.output.check(array)
    if len(labels) != len(tokens):
        raise ValueError(f"x and y must have as many samples, got {len(tokens)} and {len(labels)} ({CITE}, model)")
    d, steps, rate = tokens.shape[2], count("steps", steps, 1, "Adam"), above_zero("rate", rate, "Adam")
    widths = [max(1, round(above_zero(f"rho[{i}]", float(r), "L layers") * d)) for i, r in enumerate(rho)]
    truth = None if teachers is None else np.stack([check_matrix("teachers", S, d) for S in teachers])
    if truth is not None and len(truth) != len(widths):
        raise ValueError(f"teachers must be as many as layers, got {len(truth)} and {len(widths)} ({CITE}, L layers)")
    # All columns in one array, for one rule of steps.
    ends = np.cumsum(widths)[:-1]
    W = stream(rng, 2).standard_normal((d, sum(widths)))
    rule, losses = Adam(rate, 0.0), []
    for _ in range(steps + 1):
        value, slope = network.loss(labels, np.split(W, ends, axis=1))
        losses.append(value)
        if fitted(losses) or len(losses) > steps:
            break
        W = rule(W, np.concatenate(slope, axis=1))
    estimates = np.stack([matrix_of(part) for part in np.split(W, ends, axis=1)])
    why = unfinished(losses, steps, network.loss(labels, np.split(np.zeros_like(W), ends, axis=1))[0])
    taken = len(losses) - 1
    errors = None if truth is None else ((estimates - truth) ** 2).sum(axis=(1, 2)) / d
    return LayersDescent(estimates, errors, losses[-1], losses[0], taken, not why, status_of(why, taken))


def deep_loss(
    x: Floats, y: Array, weights: Sequence[Array], skip: float, beta: float = 1.0
) -> tuple[float, list[Array]]:
    """Return sum ||y - yhat||^2/d of a network and its gradient in W_1..W_L.

    Parameters
    ----------
    x : ndarray, shape (n, T, d)
    y : ndarray, shape (n, T, T)
    weights : sequence of ndarray, shape (d, r_l)
    skip, beta : float
    """
    return _Network(x, Softmax(x.shape[1], beta), skip).loss(y, weights)


class _Network(NamedTuple):
    """Tokens, softmax and skip of a network."""

    x: Floats
    output: Softmax
    skip: float

    def loss(self, y: Array, weights: Sequence[Array]) -> tuple[float, list[Array]]:
        """Forward through the layers, and back."""
        tokens, d = self.x.shape[1:]
        h = [indices(self.x, matrix_of(W)) for W in weights]
        mixed = [np.broadcast_to(np.eye(tokens), h[0].shape)]
        seen: list[Array] = []
        for layer in h:
            here = mixed[-1]
            seen.append(self.output.observe(here @ layer @ here.swapaxes(1, 2)))
            mixed.append(self.skip * here + seen[-1] @ here)
        rest = seen[-1] - y
        # Of the attention of the last layer; nothing follows its network matrix.
        of_attention, of_mixed = 2 / d * rest, np.zeros_like(rest)
        slopes: list[Array] = []
        for number in reversed(range(len(h))):
            here, attention = mixed[number], seen[number]
            if number < len(h) - 1:
                of_attention = of_mixed @ here.swapaxes(1, 2)
                of_mixed = self.skip * of_mixed + attention.swapaxes(1, 2) @ of_mixed
            shared = (of_attention * attention).sum(axis=2, keepdims=True)
            of_scores = self.output.beta * attention * (of_attention - shared)
            both = of_scores + of_scores.swapaxes(1, 2)
            of_mixed = of_mixed + both @ here @ h[number]
            slopes.append(self._pull(0.5 * here.swapaxes(1, 2) @ both @ here, weights[number]))
        return float((rest**2).sum()) / d, slopes[::-1]

    def _pull(self, G: Array, W: Array) -> Array:
        """From the gradient in h, symmetric, to that in W."""
        n, tokens, d = self.x.shape
        flat = self.x.reshape(n * tokens, d)
        pull = flat.T @ (G @ self.x).reshape(n * tokens, d)
        pull = (pull - np.trace(G, axis1=1, axis2=2).sum() * np.eye(d)) / math.sqrt(d)
        return np.asarray((pull + pull.T) @ W / math.sqrt(W.size))
