"""Adam on batches of examples, the usual first choice for a layer of attention."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ..learning.rules import Adam
from .batch import Batch
from .refine import Descent

__all__ = ["adam"]


def adam(
    X: ArrayLike,
    Y: ArrayLike,
    theta: ArrayLike,
    w: ArrayLike,
    *,
    steps: int = 3000,
    batch: int = 256,
    rate: float = 0.02,
    rng: np.random.Generator | int | None = None,
) -> Descent:
    """Descend the square loss over Theta_i and W_i by Adam, with a rate that falls to zero as half a cosine.

    Parameters
    ----------
    X, Y : array_like, shape (n, k, d)
    theta, w : array_like, shape (m, d, d)
        The start.
    steps, batch : int
        Batches, and examples in each, drawn with replacement.
    rate : float
        Of the first step.
    rng : Generator, int or None

    Returns
    -------
    Descent
        With the loss on all examples.
    """
    tokens, outputs = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    at = np.stack([np.asarray(theta, dtype=np.float64), np.asarray(w, dtype=np.float64)])
    generator, rule = np.random.default_rng(rng), Adam(1.0, 0.0)
    origin = np.zeros_like(at)
    for step in range(steps):
        chosen = generator.integers(len(tokens), size=batch)
        _, d_theta, d_w = Batch(tokens[chosen], outputs[chosen]).loss(at[0], at[1])
        # From the origin at rate 1 the rule returns its direction, which the schedule scales.
        direction = rule(origin, np.stack([d_theta, d_w]))
        at += 0.5 * rate * (1 + math.cos(math.pi * step / steps)) * direction
    return Descent(at[0], at[1], Batch(tokens, outputs).error(at[0], at[1]), steps, f"{steps} steps")
