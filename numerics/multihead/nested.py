"""Layers of one head more, and of one head less, from a layer that was fitted."""

import numpy as np

from ..learning.blocks import Array
from .holdout import Split
from .refine import Descent
from .restarts import best_optimiser, descended, polished, sample_count, unknowns
from .watch import Watch

__all__ = ["one_less", "one_more"]


def one_more(split: Split, theta: Array, *, rng: np.random.Generator, watch: Watch) -> Descent:
    """The best layer found of one head more: each of the largest heads in two, and new heads at random.

    Parameters
    ----------
    split : Split
    theta : ndarray, shape (m, d, d)
        Of the best layer of m heads; none at random is as good as these with a head added.
    rng : Generator
    watch : Watch

    Returns
    -------
    Descent
        Of the least loss on the examples that it has seen, which are all but those held out; W is fitted with Theta.
    """
    heads, dim, _ = theta.shape
    size = unknowns(heads + 1, dim)
    chosen = best_optimiser(size)
    count = sample_count(split, size, noisy=True, optimiser=chosen)
    norms = np.linalg.norm(theta, axis=(1, 2))
    # Steps of the descents that look for a further head.
    steps = 40
    # Heads that are split in two.
    split_up = 3
    # Norms that are equal to six digits are in the order of the heads, not in that of their rounding.
    largest = np.argsort(-np.round(norms / max(float(norms.max()), np.finfo(float).tiny), 6), kind="stable")[:split_up]
    begun = [_in_two(theta, int(head), rng) for head in largest]
    # Logits of new heads at random.
    spreads = (1.0, 3.0)
    begun += [
        np.concatenate([theta, rng.standard_normal((1, dim, dim)) * spread / (np.sqrt(2) * dim)]) for spread in spreads
    ]
    best: Descent | None = None
    for start in begun:
        end = descended(split.X[:count], split.Y[:count], start, chosen, noisy=True, steps=steps)
        watch.done()
        if best is None or end.loss < best.loss:
            best = end
    assert best is not None
    return polished(split, best, chosen, noisy=True) if count < len(split.X) else best


def _in_two(theta: Array, head: int, rng: np.random.Generator) -> Array:
    own = theta[head]
    # Distance of the two heads of a split one from it, of its norm.
    apart = 0.3
    step = rng.standard_normal(own.shape) * apart * float(np.linalg.norm(own)) / own.shape[0]
    return np.concatenate([np.delete(theta, head, axis=0), [own + step, own - step]])


def one_less(theta: Array) -> list[Array]:
    """Starts for a layer of one head less: each head left out in turn, and the two nearest ones merged."""
    heads = len(theta)
    if heads == 1:
        return []
    begun = [np.delete(theta, head, axis=0) for head in range(heads)]
    apart = np.linalg.norm(theta[:, None] - theta, axis=(2, 3)) + np.diag(np.full(heads, np.inf))
    first, second = np.unravel_index(int(np.argmin(apart)), apart.shape)
    merged = np.delete(theta, [first, second], axis=0)
    return [*begun, np.concatenate([merged, [(theta[first] + theta[second]) / 2]])]
