"""What the noise of sampled averages leaves of an imbalance: whether a search goes on, and which way."""

import numpy as np
from numpy.typing import NDArray

from .stopping import Evaluation, noise_of

__all__ = ["is_within_noise", "resolved_imbalance"]

Array = NDArray[np.float64]


def is_within_noise(here: Evaluation, chosen: list[int]) -> bool:
    """Whether a search has nothing more to find: what is left is a part of the averages' error.

    Where sampled averages jump, as their numbers of nodes change, there may be no point at which less is left.
    """
    # The largest imbalance in log alpha at which a search ends: a third of its averages' error.
    found = 3e-3
    return bool((np.abs(here.imbalance) <= np.maximum(found, _noise(here, chosen))).all())


def resolved_imbalance(here: Evaluation, chosen: list[int]) -> Array:
    """Imbalance of these layers; of those whose averages are hardly known, what noise does not explain."""
    noise = _noise(here, chosen)
    beyond = np.sign(here.imbalance) * np.maximum(np.abs(here.imbalance) - noise, 0.0)
    # Relative noise of an average from which on only the imbalance beyond it is followed: at small overlaps it would
    # take a layer that grows by less to zero (three layers at alpha = 1.138, where the second grows by 1 %, known to 4
    # %).
    return np.where(noise > 0.05, beyond, here.imbalance)


def _noise(here: Evaluation, chosen: list[int]) -> Array:
    """Of the imbalance; zero where the averages are not sampled."""
    size = len(chosen)
    return noise_of(here.averages, chosen, np.eye(size)) if here.averages.sampled else np.zeros(size)
