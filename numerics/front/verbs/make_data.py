"""Weights of a teacher, and samples of it."""

from typing import Any

from numpy.typing import ArrayLike

from attnlimits.numerics.core.typing import Array, Numbers
from attnlimits.numerics.learning.data import make_data as make_samples
from attnlimits.numerics.learning.data import teacher as drawn_weights
from attnlimits.numerics.model.described import Model, kernel_or_network

__all__ = ["make_data", "teacher"]


def teacher(model: Model, dimension: int, **settings: Any) -> Array:
    """Weights from the prior: standard Gaussian, shape (P, D), of several heads (rows, D/H); `rng` is the seed."""
    return drawn_weights(kernel_or_network(model), dimension, **settings)


def make_data(model: Model, weights: ArrayLike, alpha: float, **settings: Any) -> tuple[Numbers, Array]:
    """Gaussian samples X of shape (N, M, D), N = round(alpha D), and their outputs Y by a teacher of these weights."""
    return make_samples(kernel_or_network(model), weights, alpha, **settings)
